"""`neargraph doctor`: what this machine offers, and what would help."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .machine import (
    block_device,
    interpreter,
    measured,
    nvidia_driver,
    packages,
    torch_build,
)
from .options import complete_stores
from .settings import Json
from .show import console, pairs_table, print_json, size

# No rotational disk is as quick, and hardly an SSD is slower.
_SLOW_READS_PER_S = 1000
# Facts whose names are not words.
_LABELS = {
    "open_files": "limit of open files",
    "dax": "DAX",
    "direct_io": "O_DIRECT",
    "io_uring": "io_uring",
    "memlock_bytes": "limit of locked memory (memlock)",
    "memlock_exempt": "exempt from memlock",
    "memlock_bytes_per_queue": "locked memory per queue",
    "ram_bytes": "RAM",
    "memory_limit_bytes": "memory limit",
    "backend": "back end",
    "why": "reason",
}
# Virtual disks say that they are rotational, whatever is below.
_VIRTUAL = ("vd", "xvd")
_NETWORKS = ("nfs", "nfs4", "cifs", "smb2", "ceph", "fuse", "fuseblk", "9p", "lustre")


def doctor(
    path: Annotated[
        Path,
        typer.Argument(
            help="Store, or any folder on the disk to check.",
            metavar="PATH",
            autocompletion=complete_stores,
        ),
    ] = Path("."),
    disk: Annotated[
        bool,
        typer.Option(
            "--disk",
            help="Measure the read rates of the disk. If PATH is a store: read its files, and keep "
            "the rates for a day. If PATH is a folder: write a file of 64 MiB, read it and "
            "remove it.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the disk, packages and GPUs of this machine, and suggest changes.

    The command tries the I/O back ends on the disk that holds PATH. It reports resource limits,
    packages, torch and GPUs.
    """
    from neargraph import _core

    facts: dict[str, Any] = {
        "machine": interpreter(),
        "packages": packages(),
        "torch": torch_build(),
        "nvidia_driver": nvidia_driver(),
        "probe": json.loads(_core.probe(str(path))),
        "device": block_device(path),
    }
    if disk:
        facts["measured"] = measured(path)
    facts["advice"] = advice(facts)
    if as_json:
        print_json(facts)
        return
    out = console()
    out.print(pairs_table("Machine", _shown(facts["machine"])))
    versions = [(name, found or "not installed") for name, found in facts["packages"].items()]
    out.print(pairs_table("Packages", versions))
    out.print(pairs_table("torch and GPU", _torch_rows(facts)))
    out.print(pairs_table(f"Disk under {path}", _shown(facts["device"] | facts["probe"])))
    if disk:
        out.print(pairs_table("Measured rates", _rates(facts["measured"])))
    for line in facts["advice"]:
        out.print(f"- {line}", markup=False)


def advice(facts: dict[str, Any]) -> list[str]:
    """What the user could change, most useful first."""
    lines = [*_of_torch(facts)]
    if not facts["packages"]["pyarrow"]:
        lines.append(
            "Parquet and Arrow files need pyarrow; install it with: pip install "
            "'neargraph[parquet]'"
        )
    lines.extend(_of_disk(facts))
    system = str(facts["probe"].get("file_system", ""))
    if system in _NETWORKS or system.startswith("fuse"):
        lines.append(f"{system} is a network or FUSE file system; keep stores on a local SSD")
    lines.extend(str(line) for line in facts["probe"].get("advice", []))
    return lines or ["nothing to change"]


def _of_disk(facts: dict[str, Any]) -> list[str]:
    """What is said of a slow disk: by its rate, or by what the system says of real disks."""
    measured = facts.get("measured")
    if measured:
        rate = measured["reads_per_s"]
        if rate >= _SLOW_READS_PER_S:
            return []
        return [f"the disk serves only {rate:,.0f} random reads per second; keep stores on an SSD"]
    device = facts["device"]
    if not device["rotational"] or device["device"].startswith(_VIRTUAL):
        return []
    name = device["device"]
    return [f"{name} is a rotational disk, slow at random reads; keep stores on an SSD"]


def _of_torch(facts: dict[str, Any]) -> list[str]:
    torch, driver = facts["torch"], facts["nvidia_driver"]
    if torch is None or not facts["packages"]["torch_geometric"]:
        return ["training needs torch and PyG; install them with: pip install 'neargraph[torch]'"]
    if "error" in torch:
        return [f"torch is installed, but fails to import ({torch['error']}); install it again"]
    if driver and torch["build"] == "CPU":
        return [
            f"this machine has an NVIDIA driver ({driver}), but torch is a CPU build; install a "
            "CUDA build from https://pytorch.org to train on the GPU"
        ]
    if "gpu_error" in torch:
        return [f"torch cannot use the GPU: {torch['gpu_error']}"]
    if driver and not torch["gpus"]:
        return [
            "torch sees no GPU although the NVIDIA driver is loaded; check CUDA_VISIBLE_DEVICES"
        ]
    return []


def _torch_rows(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    torch = facts["torch"]
    if torch is None:
        return [("torch", "not installed"), ("NVIDIA driver", facts["nvidia_driver"])]
    if "error" in torch:
        return [("torch", f"fails to import: {torch['error']}")]
    rows = [
        ("torch", f"{torch['version']} ({torch['build']} build)"),
        ("threads", f"{torch['threads']} in operations, {torch['interop_threads']} between them"),
        ("NVIDIA driver", facts["nvidia_driver"]),
    ]
    for at, gpu in enumerate(torch["gpus"]):
        memory = f"{size(gpu['memory_bytes'])}, {size(gpu['free_bytes'])} free"
        rows.append((f"GPU {at}", f"{gpu['name']}, {memory}, capability {gpu['capability']}"))
    if not torch["gpus"]:
        rows.append(("GPU", "none"))
    return rows


def _shown(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in facts.items():
        if key == "advice" or (key in ("device", "model", "size_bytes") and value is None):
            continue
        if key == "rotational" and value is None:
            value = "unknown"
        elif key.endswith("_bytes") or key == "memlock_bytes_per_queue":
            value = "unlimited" if value is None else size(value)
        elif isinstance(value, list | dict):
            value = _flat(value)
        label = key.removesuffix("_bytes").replace("_", " ")
        rows.append((_LABELS.get(key, label), value))
    return rows


def _rates(found: dict[str, Any] | None) -> list[tuple[str, Any]]:
    if found is None:
        return [("not measured", "the store has no file of 64 MiB or more")]
    rows = [("random 4 KiB reads per second", f"{found['reads_per_s']:,.0f}")]
    if "reads_per_s_one_by_one" in found:
        alone = f"{found['reads_per_s_one_by_one']:,.0f}"
        rows.append(("  at queue depth 1", alone))
    rows.append(("sequential reads", f"{size(int(found['bytes_per_s']))} per second"))
    return rows


def _flat(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"works", "reason"}:
        return "works" if value["works"] else f"no: {value['reason']}"
    items = value.items() if isinstance(value, dict) else enumerate(value)
    lines = []
    for key, item in items:
        text = (
            ", ".join(f"{k} {v}" for k, v in item.items()) if isinstance(item, dict) else str(item)
        )
        lines.append(f"{key}: {text}" if isinstance(value, dict) else text)
    return "\n".join(lines)
