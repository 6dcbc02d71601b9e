"""Which parser reads an input: by its name, its members and its first bytes."""

from collections.abc import Callable
from pathlib import Path

from .check import fail, need_file
from .lists import plan_lists
from .memory import allowed
from .musae import musae_parts, plan_musae
from .npy import plan_npy
from .npz import plan_npz
from .plan import GraphPlan
from .planetoid import plan_planetoid, planetoid_name
from .table import TABLE_ENDINGS, plan_table, table_folder
from .temporal import labels_beside, plan_temporal
from .text import TextHints, data_lines, plan_text, read_head
from .tudataset import plan_tudataset, tu_name

_PLANNERS: dict[str, Callable[..., GraphPlan]] = {
    "text": plan_text,
    "lists": plan_lists,
    "temporal": plan_temporal,
    "table": plan_table,
    "npy": plan_npy,
    "npz": plan_npz,
    "planetoid": plan_planetoid,
    "musae": plan_musae,
    "tudataset": plan_tudataset,
}
FORMATS = tuple(_PLANNERS)
# The planners of these formats take hints.
_HINTS_OF = {
    "text": ("delimiter", "header", "columns", "strings", "time_scale"),
    "table": ("columns",),
}


def plan_source(
    source: Path | str,
    format: str | None = None,
    hints: TextHints | None = None,
    memory: int | None = None,
) -> GraphPlan:
    """The plan of any input this package reads.

    Args:
        source: A file, or a folder of files.
        format: One of `FORMATS`; None looks at the input.
        hints: Delimiter, header, columns and string ids of text and tables.
        memory: Bound of the import in bytes, for what the plan keeps of the input.

    Raises:
        ImportFailed: The input is missing, damaged, or of no known format.
        BudgetTooSmall: ``memory`` is too small for what has to be kept of the input.

    Example:
        >>> plan_source("cora.npz").format        # doctest: +SKIP
        'npz adj/attr'
    """
    path = Path(source)
    with allowed(memory) as allowance:
        plan = _plan(path, format or detect_format(path), hints)
        plan.held_bytes = allowance.held
    return plan


def _plan(path: Path, chosen: str, hints: TextHints | None) -> GraphPlan:
    taken = _HINTS_OF.get(chosen, ())
    for name in hints.given() if hints else ():
        if name not in taken:
            option = "--" + name.replace("_", "-")
            fail(path, f"{option} means nothing for the format {chosen}", f"drop {option}")
    if chosen not in _PLANNERS:
        fail(path, f"unknown format {chosen!r}", f"use one of {', '.join(FORMATS)}")
    return _PLANNERS[chosen](path, hints) if taken else _PLANNERS[chosen](path)


def detect_format(path: Path) -> str:
    """The name of the format of ``path``, one of `FORMATS`; ImportFailed where it is unclear."""
    if path.is_dir():
        return _detect_folder(path)
    need_file(path)
    if path.suffix in (".npz", ".npy"):
        return path.suffix[1:]
    if path.suffix in TABLE_ENDINGS:
        return "table"
    if planetoid_name(path):
        return "planetoid"
    if musae_parts(path):
        return "musae"
    return _detect_text(path)


def _detect_folder(path: Path) -> str:
    if planetoid_name(path):
        return "planetoid"
    if tu_name(path):
        return "tudataset"
    if any(path.glob("*.npy")):
        return "npy"
    if table_folder(path):
        return "table"
    if (path / "root.a").exists():
        fail(path, "is already a neargraph store", "open it with ng.open, or import its source")
    return fail(path, "a folder of no known layout", "give one file of it, or --format")


def _detect_text(path: Path) -> str:
    rows = [line.split() for line in data_lines(read_head(path))[:50]]
    widths = {len(row) for row in rows}
    numbers = all(field.lstrip("-").isdigit() for row in rows for field in row)
    if numbers and len(widths) > 2 and max(widths) > 4:
        return "lists"
    if widths == {3} and labels_beside(path):
        return "temporal"
    return "text"
