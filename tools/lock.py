"""Writes the hashes of requirements.lock anew, or of another lock, for the versions that it has.

Asks the package index that pip uses for the files of each release and keeps those that can be
installed on the platforms of neargraph: CPython 3.10 to 3.15 on Linux, x86-64 and aarch64. Run it
with `.venv/bin/python tools/lock.py [FILE]` after a change of a version; nothing is downloaded but
the pages of the index. The invariant: each line of the lock has a hash for each platform that its
marker allows, or the tool fails and names both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.markers import Marker
from pip._vendor.packaging.utils import (
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pip._vendor.packaging.version import Version

LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
MINORS = range(10, 16)
MACHINES = ("x86_64", "aarch64")
_LINE = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?")


def platforms() -> Iterator[tuple[int, str, dict[str, str]]]:
    """(minor version of Python, machine, what markers are evaluated with)."""
    for minor in MINORS:
        for machine in MACHINES:
            yield (
                minor,
                machine,
                {
                    "python_version": f"3.{minor}",
                    "python_full_version": f"3.{minor}.0",
                    "platform_machine": machine,
                    "sys_platform": "linux",
                    "platform_system": "Linux",
                    "os_name": "posix",
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                },
            )


def fits(tag: Any, minor: int, machine: str) -> bool:
    """Whether a wheel of this tag can be installed there."""
    if tag.platform != "any" and not re.fullmatch(rf"(many)?linux.*_{machine}", tag.platform):
        return False
    if tag.interpreter in ("py3", f"py3{minor}"):
        return tag.abi == "none"
    at = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    if at is None:
        return False
    if tag.abi == "abi3":
        return int(at[1]) <= minor
    return int(at[1]) == minor and tag.abi in (f"cp3{minor}", "none")


class Index:
    """The files of releases, as the index of pip lists them."""

    def __init__(self) -> None:
        command: Any = create_command("download")
        options, _ = command.parse_args([])
        self._address = options.index_url.rstrip("/")
        session = command._build_session(options)
        self._collector = LinkCollector.create(session, options)

    def files(self, name: str, version: Version) -> Iterator[tuple[str, Any, str]]:
        """(file name, tags or None for a source archive, SHA-256) of a release."""
        page = self._collector.fetch_response(Link(f"{self._address}/{name}/"))
        if page is None:
            raise SystemExit(f"lock: the index has no page for {name}")
        for link in parse_links(page):
            try:
                if link.filename.endswith(".whl"):
                    _, found, _, tags = parse_wheel_filename(link.filename)
                else:
                    (_, found), tags = parse_sdist_filename(link.filename), None
            except ValueError:
                continue
            if found == version and not link.is_yanked:
                if link.hash_name != "sha256":
                    raise SystemExit(f"lock: the index has no SHA-256 of {link.filename}")
                yield link.filename, tags, link.hash


def hashes(index: Index, name: str, version: str, marker: str | None) -> list[str] | None:
    """The hashes of a line; None where no platform needs it."""
    wanted = [
        (minor, machine)
        for minor, machine, values in platforms()
        if marker is None or Marker(marker).evaluate(values)
    ]
    if not wanted:
        return None
    files = list(index.files(canonicalize_name(name), Version(version)))
    found: set[str] = set()
    for minor, machine in wanted:
        here = {
            sha
            for _, tags, sha in files
            if tags is not None and any(fits(tag, minor, machine) for tag in tags)
        }
        if not here:
            here = {sha for _, tags, sha in files if tags is None}
            where = f"{name} {version} on Python 3.{minor}, {machine}"
            if not here:
                raise SystemExit(f"lock: no file of {where}; change the version or the marker")
            print(f"lock: only a source archive of {where}", file=sys.stderr)
        found |= here
    return sorted(found)


def main() -> None:
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else LOCK
    index = Index()
    text = "\n".join(
        line
        for line in lock.read_text().splitlines()
        if line and not line.lstrip().startswith(("#", "--hash"))
    )
    lines = ["# Versions are chosen by hand, hashes by tools/lock.py."]
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"lock: cannot read the line {line!r}; write NAME==VERSION ; MARKER")
        name, version, marker = match.groups()
        found = hashes(index, name, version, marker)
        if found is None:
            print(f"lock: {line} is for no platform of neargraph, left out", file=sys.stderr)
            continue
        head = f"{name}=={version}" + (f" ; {marker}" if marker else "")
        lines += [" \\\n    ".join([head, *(f"--hash=sha256:{sha}" for sha in found)])]
    lock.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
