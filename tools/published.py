"""Rules for what is published: the README as PyPI shows it, addresses, extras, versions.

`tidy.py` prints what `findings` gives. The invariant: Cargo.toml has the address of the repository
and the version, and all other places agree with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# Inline links and pictures, reference definitions, HTML.
_LINK = re.compile(
    r'\]\(\s*<?([^)\s>]+)|^\s*\[[^\]]+\]:\s*<?([^\s>]+)|(?:src|href)="([^"]*)"', re.M
)
# Where the code has the version of each format that docs/how-to/release.md lists.
_FORMATS = {
    "store": ("crates/ng-store/src/version/root.rs", r"FORMAT_VERSION: u32 = (\d+);"),
    "backup": ("crates/ng-store/src/backup/manifest.rs", r"BACKUP_VERSION: u32 = (\d+);"),
    "model file": ("crates/ng-engine/src/model_file/files.rs", r"FORMAT_VERSION: i64 = (\d+);"),
    "compiled epoch": ("crates/ng-sample/src/compiled/format.rs", r"\bversion: (\d+),"),
    "direct layout": ("crates/ng-store/src/direct/head.rs", r"\bversion: (\d+),"),
    "training state": ("python/neargraph/train/state.py", r"^_FORMAT = (\d+)$"),
    "plug-in": ("crates/ng-plugin-abi/src/lib.rs", r"NG_API_VERSION: u32 = (\d+);"),
    "shared memory": ("crates/ng-io/src/shm/setup.rs", r"\bVERSION: u16 = (\d+);"),
}
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


def links(text: str) -> Iterator[str]:
    """Where a page of Markdown links to, or takes pictures from; code has no links."""
    for found in _LINK.finditer(_CODE.sub("", text)):
        yield next(filter(None, found.groups()))


def readme(root: Path, address: str) -> Iterator[str]:
    """Links of the README that lead nowhere on PyPI, and those to files that are not there."""
    ours = re.compile(re.escape(address) + r"/(?:blob|tree|raw)/main/([^#?]+)")
    for link in links((root / "README.md").read_text()):
        if not link.startswith(("https://", "#")):
            yield f"README.md: {link} is a relative link: write {address}/blob/main/{link}"
        elif (path := ours.match(link)) and not (root / path[1]).exists():
            yield f"README.md: {link}: there is no {path[1]}"


def one(pattern: str, text: str, where: str) -> str:
    """What a pattern finds in its only place."""
    found = re.findall(pattern, text, re.M | re.S)
    if len(found) != 1:
        raise SystemExit(f"{where}: {len(found)} places match {pattern!r}")
    return str(found[0])


def formats(root: Path) -> Iterator[str]:
    """Formats whose version in docs/how-to/release.md is not that of the code."""
    page = (root / "docs/how-to/release.md").read_text()
    said = dict(re.findall(r"^\| \[([\w -]+)\]\([\w./-]+\.md\) \| (\d+) \|", page, re.M))
    coded = {
        name: one(pattern, (root / file).read_text(), file)
        for name, (file, pattern) in _FORMATS.items()
    }
    for name in sorted(said.keys() | coded.keys()):
        if said.get(name) != coded.get(name):
            yield f"docs/how-to/release.md: {name} has {said.get(name)}, the code {coded.get(name)}"


def findings(root: Path) -> Iterator[str]:
    """All findings."""
    cargo, project = ((root / name).read_text() for name in ("Cargo.toml", "pyproject.toml"))
    address = one(r'^repository = "(.*?)"$', cargo, "Cargo.toml")
    yield from readme(root, address)
    yield from formats(root)
    urls = one(r"^\[project.urls\]\n(.*?)\n\n", project, "pyproject.toml")
    for url in re.findall(r'"(.*?)"', urls):
        if not url.startswith(address):
            yield f"pyproject.toml: {url} is not at {address}"
    version = one(r'^version = "(.*?)"$', cargo, "Cargo.toml")
    package = (root / "python/neargraph/__init__.py").read_text()
    if f'__version__ = "{version}"\n' not in package:
        yield f"python/neargraph/__init__.py: __version__ is not {version}"
    table = one(r"^\[project.optional-dependencies\]\n(.*?)\n\n", project, "pyproject.toml")
    extras = set(re.findall(r"^([\w-]+) = ", table, re.M))
    described = set(
        re.findall(r"^\| `neargraph\[([\w-]+)\]` \|", (root / "README.md").read_text(), re.M)
    )
    for extra in sorted(extras ^ described):
        where = "README.md has no line for" if extra in extras else "pyproject.toml has not"
        yield f"{where} the extra {extra}"
