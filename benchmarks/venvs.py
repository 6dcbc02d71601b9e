"""Makes the virtual environments of the baselines under `.bench/venvs/`, one command for all.

    python -m benchmarks.venvs [pyg] [peer] [graphbolt]

The packages are pinned in `requirements/NAME.txt`. `pyg` and `peer` borrow the packages of the
interpreter that runs this (torch alone takes 5 GB). `pyg` compiles PyG's sampler against them, a
quarter of an hour on two idle cores; `peer` adds grpcio. `graphbolt` needs an older torch and NumPy
and shares nothing. It wants a CPython that the wheels of dgl 2.1.0 were made for, 3.8 to 3.11.
Nothing is done where the pins have not changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from .places import VENVS

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
# What proves that an environment works: the part that is compiled.
WORKS = {
    "pyg": "import torch_sparse, torch; torch.ops.torch_sparse.neighbor_sample",
    "peer": "import torch, grpc; from google.protobuf import message_factory",
    "graphbolt": "import dgl.graphbolt",
}


def python_of(name: str) -> Path:
    """The interpreter of an environment that was made before."""
    python = VENVS / name / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{python} is missing; make it with: python -m benchmarks.venvs {name}")
    return python


def make(name: str) -> None:
    """Makes the environment, or leaves it where it is as wanted."""
    wanted = REQUIREMENTS / f"{name}.txt"
    home = VENVS / name
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    mark = home / ".made"
    if mark.exists() and mark.read_text() == digest:
        print(f"{name}: already there")
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    python = home / "bin" / "python"
    if name in ("pyg", "peer"):
        lend(python)
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation"] if name == "pyg" else ["--only-binary", ":all:"]
    # Debug information would double the time that compiling takes.
    cores = str(os.cpu_count() or 1)
    environment = os.environ | {"FORCE_CUDA": "0", "MAX_JOBS": cores, "CFLAGS": "-g0"}
    # One after the other: the second is built against the first.
    if name == "pyg":
        for line in wanted.read_text().splitlines():
            if line and not line.startswith("#"):
                subprocess.run([*command, line], env=environment, check=True)
    else:
        subprocess.run([*command, "-r", str(wanted)], env=environment, check=True)
    subprocess.run([str(python), "-c", WORKS[name]], cwd=home, check=True)
    mark.write_text(digest)
    print(f"{name}: made")


def lend(python: Path) -> None:
    """Lets an environment see the packages of the interpreter that runs this."""
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    lender = sysconfig.get_path("purelib")
    # `addsitedir` also follows the lender's own .pth files, which editable installs are.
    (Path(own) / "lender.pth").write_text(f"import site; site.addsitedir({lender!r})\n")


def main() -> None:
    for name in sys.argv[1:] or WORKS:
        if name not in WORKS:
            raise SystemExit(f"no environment {name!r}; there are {', '.join(WORKS)}")
        make(name)


if __name__ == "__main__":
    main()
