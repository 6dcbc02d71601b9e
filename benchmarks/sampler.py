"""PyG's compiled sampler without the rest of torch-sparse: two of its files, compiled in a minute.

    python -m benchmarks.sampler        # once; then `load()` in any process with the same torch

All of torch-sparse and torch-scatter take a quarter of an hour on two idle cores. What
`NeighborLoader` calls is one function of theirs, `torch.ops.torch_sparse.neighbor_sample`, and its
source is compiled here as the package compiles it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from .places import BENCH

PACKAGE = "torch-sparse==0.6.18"
HOME = BENCH / "sampler"
FILES = ["csrc/neighbor_sample.cpp", "csrc/cpu/neighbor_sample_cpu.cpp"]


def library() -> Path:
    """The compiled sampler for the torch that runs this."""
    import torch

    return HOME / f"torch_{torch.__version__}" / "neighbor_sample.so"


def make() -> None:
    """Fetches the sources with pip, and compiles what is wanted of them."""
    from torch.utils import cpp_extension

    if library().exists():
        print(f"{library()}: already there")
        return
    HOME.mkdir(parents=True, exist_ok=True)
    fetch = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", *fetch, "--dest", str(HOME), PACKAGE]
    subprocess.run(command, check=True)
    (archive,) = HOME.glob("torch_sparse-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(HOME, filter="data")
    source = HOME / archive.name.removesuffix(".tar.gz")
    library().parent.mkdir(exist_ok=True)
    cpp_extension.load(
        "neighbor_sample",
        [str(source / file) for file in FILES],
        extra_cflags=["-O3", "-g0", "-Wno-sign-compare"],
        extra_include_paths=[str(source / "csrc"), str(source / "third_party/parallel-hashmap")],
        build_directory=str(library().parent),
        is_python_module=False,
    )
    print(f"{library()}: made")


def load() -> None:
    """Makes `torch.ops.torch_sparse.neighbor_sample` known."""
    import torch

    if not library().exists():
        raise SystemExit(f"{library()} is missing; make it with: python -m benchmarks.sampler")
    torch.ops.load_library(library())


if __name__ == "__main__":
    make()
