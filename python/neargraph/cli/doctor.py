"""`neargraph doctor`: what this machine offers, and what would help."""

import json
import os
import platform
import resource
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from .show import console, pairs_table, print_json, size

_PACKAGES = ("numpy", "torch", "torch_geometric", "pyarrow", "matplotlib", "scikit-learn")


def doctor(
    path: Annotated[Path, typer.Argument(help="A folder on the disk to look at.")] = Path("."),
    disk: Annotated[
        bool, typer.Option("--disk", help="Measure the disk of the store PATH, and keep it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tries the back ends and limits of this machine, and gives advice."""
    import neargraph
    from neargraph import _core

    facts: dict[str, Any] = {
        "machine": machine(),
        "packages": {name: version(name) for name in _PACKAGES},
        "probe": json.loads(_core.probe(str(path))),
    }
    if disk:
        with neargraph.open(path) as store:
            facts["disk"] = store.measure_disk()
    facts["advice"] = advice(facts)
    if as_json:
        print_json(facts)
        return
    out = console()
    out.print(pairs_table("Machine", _shown(facts["machine"])))
    packages = [(name, found or "not installed") for name, found in facts["packages"].items()]
    out.print(pairs_table("Packages", packages))
    out.print(pairs_table(f"Disk under {path}", _shown(facts["probe"])))
    if disk:
        out.print(pairs_table("Measured, kept for a day", _rates(facts["disk"])))
    for line in facts["advice"]:
        out.print(f"- {line}", markup=False)


def machine() -> dict[str, Any]:
    """What Python itself can tell: versions, cores, open files; the rest is the core's probe."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "open_files": files,
    }


def version(package: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def advice(facts: dict[str, Any]) -> list[str]:
    """What the user could change, most useful first."""
    lines = []
    if not facts["packages"]["torch"] or not facts["packages"]["torch_geometric"]:
        lines.append("training needs torch and PyG: pip install torch torch_geometric")
    if not facts["packages"]["pyarrow"]:
        lines.append("Parquet and Arrow input needs pyarrow: pip install pyarrow")
    lines.extend(str(line) for line in facts["probe"].get("advice", []))
    return lines or ["nothing to change"]


def _shown(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in facts.items():
        if key == "advice":
            continue
        if key.endswith("_bytes"):
            value = "unlimited" if value is None else size(value)
        elif isinstance(value, list | dict):
            value = _flat(value)
        rows.append((key.removesuffix("_bytes").replace("_", " "), value))
    return rows


def _rates(found: dict[str, float] | None) -> list[tuple[str, Any]]:
    if found is None:
        return [("nothing", "no file of the store has 64 MiB")]
    return [
        ("random 4 KiB reads a second", f"{found['reads_per_s']:,.0f}"),
        ("sequential reading", f"{size(int(found['bytes_per_s']))} a second"),
    ]


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
