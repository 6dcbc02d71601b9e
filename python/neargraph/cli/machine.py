"""Facts about this machine: interpreter, packages, torch, GPUs, and the disk under a folder.

What must not live here: advice and printing (`doctor.py`). The invariant: torch is imported only if
it is installed, and a package that fails to import is a fact, not an error.
"""

import json
import os
import platform
import resource
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from neargraph.exceptions import UnsupportedArgument

_PACKAGES = (
    "numpy",
    "torch",
    "torch_geometric",
    "pyg-lib",
    "torch-sparse",
    "pyarrow",
    "onnx",
    "onnxruntime",
    "matplotlib",
    "scikit-learn",
)
_NVIDIA = Path("/proc/driver/nvidia/version")
_MEASURED_BYTES = 64 << 20
_CHUNK_BYTES = 8 << 20
_DEPTHS = [1, 64]


def interpreter() -> dict[str, Any]:
    """What Python itself can tell: versions, cores, open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "open_files": files,
    }


def packages() -> dict[str, str | None]:
    """Versions of the packages that neargraph can use, without importing them."""
    return {name: version(name) for name in _PACKAGES}


def version(package: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def torch_build() -> dict[str, Any] | None:
    """Version, build and threads of torch, and its GPUs; None if it is not installed."""
    if version("torch") is None:
        return None
    try:
        import torch
    except (ImportError, OSError) as error:
        return {"error": " ".join(str(error).split())}
    cuda, rocm = torch.version.cuda, getattr(torch.version, "hip", None)
    build = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else "CPU"
    found: dict[str, Any] = {
        "version": torch.__version__,
        "build": build,
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
    }
    try:
        found["gpus"] = [_gpu(at) for at in range(torch.cuda.device_count())]
    except RuntimeError as error:
        found |= {"gpus": [], "gpu_error": " ".join(str(error).split())}
    return found


def _gpu(at: int) -> dict[str, Any]:
    import torch

    about = torch.cuda.get_device_properties(at)
    free, total = torch.cuda.mem_get_info(at)
    return {
        "name": about.name,
        "memory_bytes": total,
        "free_bytes": free,
        "capability": f"{about.major}.{about.minor}",
    }


def nvidia_driver() -> str | None:
    """The version of the NVIDIA driver, which is loaded where there is such a GPU."""
    try:
        words = _NVIDIA.read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), "unknown")


def block_device(path: Path) -> dict[str, Any]:
    """The block device below a folder; fields are None where the system does not say."""
    number = path.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    facts: dict[str, Any] = {"device": None, "model": None, "rotational": None, "size_bytes": None}
    if not place.exists():
        return facts
    device = place.resolve()
    facts["device"] = device.name
    # The queue belongs to the whole disk.
    disk = device if (device / "queue").is_dir() else device.parent
    facts["model"] = _read(disk / "device" / "model")
    rotational = _read(disk / "queue" / "rotational")
    facts["rotational"] = None if rotational is None else rotational == "1"
    sectors = _read(device / "size")
    facts["size_bytes"] = None if sectors is None else 512 * int(sectors)
    return facts


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def measured(path: Path) -> dict[str, Any] | None:
    """What reads cost on the disk of a store, which is kept for a day, or of a folder.

    In a folder, a file of 64 MiB is written, read for about a second, and removed.

    Raises:
        UnsupportedArgument: The file cannot be written.
    """
    import neargraph

    if (path / "root.a").exists():
        with neargraph.open(path) as store:
            found = store.measure_disk()
            return None if found is None else {**found, "kept": True}
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".measure-", suffix=".dat") as file:
            for _ in range(_MEASURED_BYTES // _CHUNK_BYTES):
                file.write(os.urandom(_CHUNK_BYTES))
            file.flush()
            os.fsync(file.fileno())
            return _measured(Path(file.name))
    except OSError as error:
        raise UnsupportedArgument(
            f"{path}: cannot write a file of 64 MiB to measure the disk ({error}); name "
            "another folder"
        ) from error


def _measured(file: Path) -> dict[str, Any]:
    from neargraph import _core

    found = json.loads(_core.measure_host(str(file.parent), file.name, _DEPTHS))
    one, many = found["reads_per_s"]
    return {
        "reads_per_s": many,
        "reads_per_s_one_by_one": one,
        "bytes_per_s": found["bytes_per_s"],
        "kept": False,
    }
