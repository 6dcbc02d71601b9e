"""Builds the source archive in `dist/` and checks that its files are those that a build needs.

`tools/sdist.py` compares names and bytes with the working tree. With `--build`, the archive is also
unpacked into an empty folder outside of the tree and a wheel is built there: minutes. The
invariant: the archive has every tracked file of the folders and names below, and no other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
NAMES = {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"}
FOLDERS = ("crates/", "proto/", "python/neargraph/")
# What maturin writes: the metadata, and the manifest without comments.
WRITTEN = {"PKG-INFO", "Cargo.toml"}
BYTES_MAX = 5_000_000


def needed() -> set[str]:
    """Tracked and new files that belong into the archive."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {
        name
        for name in said.splitlines()
        if (name in NAMES or name.startswith(FOLDERS)) and (ROOT / name).exists()
    }


def problems(archive: Path, wanted: set[str]) -> Iterator[str]:
    """Where an archive differs from the files that are wanted in it."""
    top = archive.name.removesuffix(".tar.gz") + "/"
    found: set[str] = set()
    with tarfile.open(archive) as files:
        for member in files:
            name = member.name.removeprefix(top)
            found.add(name)
            file = files.extractfile(member) if member.isfile() else None
            if file is None or not member.name.startswith(top):
                yield f"{member.name}: not a plain file below {top}"
            elif name in wanted - WRITTEN and file.read() != (ROOT / name).read_bytes():
                yield f"{name}: differs from the working tree"
    yield from (f"{name}: missing" for name in sorted(wanted - found))
    yield from (f"{name}: does not belong there" for name in sorted(found - wanted - WRITTEN))
    if archive.stat().st_size > BYTES_MAX:
        yield f"{archive.stat().st_size:,} bytes, at most {BYTES_MAX:,}"


def make() -> Path:
    """Writes the archive."""
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("neargraph-*.tar.gz"):
        old.unlink()
    maturin = shutil.which("maturin", path=Path(sys.executable).parent) or "maturin"
    command = [maturin, "sdist", "--out", str(DIST)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sdist: maturin failed\n{done.stderr}")
    (archive,) = DIST.glob("neargraph-*.tar.gz")
    return archive


def build(archive: Path) -> None:
    """Builds a wheel from the unpacked archive as an installer would, from nothing else."""
    with tempfile.TemporaryDirectory(prefix="neargraph-sdist-") as folder:
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        source = Path(folder, archive.name.removesuffix(".tar.gz"))
        given = {key: value for key, value in os.environ.items() if "PYTHON" not in key}
        given |= {"CARGO_TARGET_DIR": f"{folder}/target", "MATURIN_PEP517_ARGS": "--locked"}
        command = [sys.executable, "-I", "-m", "pip", "wheel", "--no-deps", "--wheel-dir"]
        subprocess.run([*command, f"{folder}/wheel", str(source)], env=given, check=True)
        (wheel,) = Path(folder, "wheel").glob("neargraph-*.whl")
        size = wheel.stat().st_size
        print(f"sdist: the unpacked archive builds {wheel.name}, {size:,} bytes")


def main() -> int:
    """Prints what is wrong."""
    archive = make()
    wanted = needed()
    found = list(problems(archive, wanted))
    print("\n".join(f"sdist: {problem}" for problem in found), end="\n" if found else "")
    if found:
        return 1
    print(f"sdist: {archive.name}, {len(wanted)} files, {archive.stat().st_size:,} bytes")
    if "--build" in sys.argv[1:]:
        build(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
