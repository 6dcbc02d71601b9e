"""Which parser reads an input: by its name, its members and its first bytes."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from neargraph.exceptions import ImportFailed

from .check import fail, need_file
from .graphbolt import METADATA, graphbolt_file, plan_graphbolt
from .igb import igb_root, plan_igb
from .known_sets import refuse_links, refuse_name
from .lists import plan_lists, times_beside
from .memory import allowed
from .musae import musae_parts, plan_musae
from .notes import shown
from .npy import plan_npy
from .npz import plan_npz
from .ogb import ogb_root, plan_ogb
from .plan import GraphPlan
from .planetoid import plan_planetoid, planetoid_name
from .pyg_processed import plan_processed, processed_file
from .table import TABLE_ENDINGS, plan_table, table_folder
from .temporal import AS_TEXT, labels_beside, plan_temporal
from .text import TextHints, data_lines, plan_text, read_head
from .tudataset import plan_tudataset, tu_name

# SNAP's files of ground-truth communities, whose lines look like adjacency lists.
_COMMUNITIES = re.compile(r"\.cmty\.txt(\.gz)?$")
_TEXT = re.compile(r"\.(txt|csv|tsv)(\.gz)?$")

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
    "graphbolt": plan_graphbolt,
    "ogb": plan_ogb,
    "igb": plan_igb,
    "pyg": plan_processed,
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
    path = _inside(Path(source)) if format is None else Path(source)
    with allowed(memory) as allowance:
        plan = _plan(path, format or detect_format(path), hints)
        plan.held_bytes = allowance.held
    return plan


def _plan(path: Path, chosen: str, hints: TextHints | None) -> GraphPlan:
    taken = _HINTS_OF.get(chosen, ())
    for name in hints.given() if hints else ():
        if name not in taken:
            option = "--" + name.replace("_", "-")
            todo = f"drop {option}"
            if chosen == "temporal":
                todo += f", or {AS_TEXT}"
            fail(path, f"{option} means nothing for the format {chosen}", todo)
    if chosen not in _PLANNERS:
        fail(path, f"unknown format {chosen!r}", f"use one of {', '.join(FORMATS)}")
    return _PLANNERS[chosen](path, hints) if taken else _PLANNERS[chosen](path)


def detect_format(path: Path) -> str:
    """The name of the format of ``path``, one of `FORMATS`; ImportFailed where it is unclear."""
    path = _inside(path)
    if path.is_dir():
        return _detect_folder(path)
    if not path.exists():
        refuse_name(path)
    need_file(path)
    if path.name == METADATA:
        return "graphbolt"
    if path.suffix in (".npz", ".npy"):
        return path.suffix[1:]
    if path.suffix in TABLE_ENDINGS:
        return "table"
    if path.suffix == ".pt":
        return "pyg"
    if _COMMUNITIES.search(path.name):
        fail(path, "a list of communities, not of edges", "give the .ungraph.txt file beside it")
    refuse_links(path)
    if planetoid_name(path):
        return "planetoid"
    if musae_parts(path):
        return "musae"
    return _detect_text(path)


def _detect_folder(path: Path) -> str:
    if known := _folder_format(path):
        return known
    if (path / "root.a").exists():
        fail(path, "is already a neargraph store", "open it with ng.open, or import its source")
    refuse_links(path)
    todo = "give one file of it, or --format"
    # What is there is only told; an entry that cannot be looked at is not the user's error.
    with suppress(OSError, ImportFailed):
        if inside := _candidates(path):
            todo = f"give {'one of ' if len(inside) > 1 else ''}{shown(inside)}"
    return fail(path, "a folder of no known layout", todo)


def _candidates(folder: Path) -> list[str]:
    """What in a folder is an input by its name or layout, for messages; else its text files."""
    entries = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    known = [one.name for one in entries if _is_known(one)]
    text = [one for one in entries if one.is_file() and _TEXT.search(one.name)]
    beside = {part for one in text for part in (labels_beside(one), times_beside(one))}
    return known or [one.name for one in text if one not in beside]


def _is_known(path: Path) -> bool:
    if path.is_dir():
        inside = _inside(path)
        return inside != path or _folder_format(path) is not None
    known = {".npz", ".pt", *TABLE_ENDINGS}
    is_planetoid = planetoid_name(path) is not None and path.suffix == ".graph"
    return is_planetoid or path.suffix in known or musae_parts(path) is not None


def _folder_format(path: Path) -> str | None:
    """The format of a folder by its layout; None where it has none that is known."""
    if graphbolt_file(path):
        return "graphbolt"
    if ogb_root(path):
        return "ogb"
    if igb_root(path):
        return "igb"
    if processed_file(path):
        return "pyg"
    if planetoid_name(path):
        return "planetoid"
    if tu_name(path):
        return "tudataset"
    if any(path.glob("*.npy")):
        return "npy"
    return "table" if table_folder(path) else None


def _inside(path: Path) -> Path:
    """The raw/ of a data set that has nothing else, and the only .npz of a folder; else itself."""
    raw = path / "raw"
    if raw.is_dir() and ogb_root(path) is None and not graphbolt_file(path):
        return path if igb_root(path) or processed_file(path) else _inside(raw)
    if path.is_dir() and not (path / "root.a").exists() and not any(path.glob("*.npy")):
        files = [file for file in path.iterdir() if file.suffix == ".npz"]
        known = planetoid_name(path) or tu_name(path) or table_folder(path)
        return files[0] if len(files) == 1 and not known else path
    return path


def _detect_text(path: Path) -> str:
    rows = [line.split() for line in data_lines(read_head(path))[:50]]
    widths = {len(row) for row in rows}
    numbers = all(field.lstrip("-").isdigit() for row in rows for field in row)
    if numbers and len(widths) > 2 and max(widths) > 4:
        return "lists"
    if widths == {3} and labels_beside(path):
        return "temporal"
    return "text"
