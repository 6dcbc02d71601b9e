"""Installs a wheel of `dist/` into environments without anything else, and uses it there.

    tools/wheel_test.py [NAME ...]        # base, torch, parquet, ...; all of them if none is given

`base` is what `pip install neargraph` gives: pip downloads the packages that requirements.lock has
for it. The environment of an extra holds the packages that the metadata of the wheel ask for, and
theirs in turn: their files are hard links to those of the environment that runs this tool, so that
torch is there once. Either way pip itself installs the wheel, without an index, and checks that
nothing is missing. Then `tools/wheel_uses.py` runs with the Python of that environment. The
invariant: no environment sees a package that its extra does not name.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
USES = ROOT / "tools" / "wheel_uses.py"
PLACE = ROOT / ".bench" / "wheel-test"
LOCK = ROOT / "requirements.lock"
BASE = "base"


@dataclass(frozen=True)
class Wheel:
    """A wheel and what its metadata say."""

    path: Path
    requires: tuple[Requirement, ...] = field(repr=False)
    extras: tuple[str, ...]

    @staticmethod
    def built() -> Wheel:
        """The wheel in `dist/` of this version for this machine."""
        (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)
        found = list((ROOT / "dist").glob(f"neargraph-{version}-*_{platform.machine()}.whl"))
        if len(found) != 1:
            raise SystemExit(f"wheel_test: dist has {len(found)} wheels of {version}: make wheel")
        with zipfile.ZipFile(found[0]) as files:
            text = files.read(f"neargraph-{version}.dist-info/METADATA").decode()
        said = HeaderParser().parsestr(text)
        requires = tuple(map(Requirement, said.get_all("Requires-Dist", [])))
        return Wheel(found[0], requires, tuple(said.get_all("Provides-Extra", [])))


def holds(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether a requirement is one of this machine, with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


def closure(wheel: Wheel, extras: frozenset[str]) -> list[str]:
    """The packages that the wheel asks for with its extras, and what these ask for, by name."""
    seen: dict[str, frozenset[str]] = {}
    waiting = [Requirement(f"neargraph[{','.join(extras)}]")]
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        before = seen.get(name)
        wanted = (before or frozenset()) | asked.extras
        if wanted == before:
            continue
        seen[name] = wanted
        if name == "neargraph":
            waiting += [needs for needs in wheel.requires if holds(needs, wanted)]
        else:
            needed = map(Requirement, installed(name).requires or ())
            waiting += [needs for needs in needed if holds(needs, wanted)]
    return sorted(seen.keys() - {"neargraph"})


def installed(name: str) -> metadata.Distribution:
    """A package of the environment that runs this tool."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise SystemExit(f"wheel_test: {name} is missing: add it to {LOCK.name}") from None


def link(name: str, site: Path) -> None:
    """Links the files that a package installed into another `site-packages`."""
    found = installed(name)
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." not in file.parts and source.is_file():
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            # Packages of one namespace share files.
            if not target.exists():
                os.link(source, target)


def locked(names: Iterable[str]) -> str:
    """The lines of requirements.lock for some packages, with their hashes."""
    lines = LOCK.read_text().replace("\\\n", " ").splitlines()
    wanted = set(names)
    return "\n".join(
        line
        for line in lines
        if not line.startswith("#") and canonicalize_name(line.partition("==")[0]) in wanted
    )


def environment(name: str, wheel: Wheel) -> Path:
    """Makes an environment with the wheel, and gives its Python."""
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    extras = frozenset({name} - {BASE})
    packages = closure(wheel, extras)
    if name == BASE:
        (place / "base.lock").write_text(locked(packages))
        hashed = ("--require-hashes", "--only-binary", ":all:", "-r", str(place / "base.lock"))
        pip(python, "install", "--no-deps", *hashed)
    else:
        (site,) = place.glob("lib/python*/site-packages")
        for package in packages:
            link(package, site)
    wanted = f"{wheel.path}[{name}]" if extras else str(wheel.path)
    pip(python, "install", "--no-index", wanted)
    pip(python, "check")
    return python


def pip(python: Path, *arguments: str) -> None:
    """Runs pip of this environment for another one."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    if done.returncode:
        what = " ".join(arguments)
        raise SystemExit(f"wheel_test: pip {what}\n{done.stdout}{done.stderr}")


def use(name: str, python: Path) -> None:
    """Runs the uses of an environment in a folder of its own."""
    folder = PLACE / f"{name}-files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    given |= {"MPLCONFIGDIR": str(folder / "matplotlib"), "NO_COLOR": "1"}
    command = [str(python), "-I", str(USES), name]
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"wheel_test: {name}\n{done.stdout}{done.stderr}")
    print(done.stdout, end="", flush=True)


def main() -> None:
    wheel = Wheel.built()
    names = sys.argv[1:] or [BASE, *wheel.extras]
    unknown = set(names) - {BASE, *wheel.extras}
    if unknown:
        raise SystemExit(f"wheel_test: {wheel.path.name} has no extra {sorted(unknown)}")
    for name in names:
        began = time.monotonic()
        use(name, environment(name, wheel))
        print(f"wheel_test: {name} works, {time.monotonic() - began:.0f} s", flush=True)
    shutil.rmtree(PLACE)
    print(f"wheel_test: {len(names)} passed, 0 failed")


if __name__ == "__main__":
    main()
