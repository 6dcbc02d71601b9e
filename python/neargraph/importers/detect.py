"""Which parser reads an input: by its name, its members and its first bytes."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from neargraph.exceptions import ImportFailed
from neargraph.remedies import remedy

from .check import fail, need_file
from .graphbolt import METADATA, graphbolt_file, plan_graphbolt
from .hints import TextHints
from .igb import igb_root, plan_igb
from .inputs import Input, Source, expanded, listed, opened, stream_name
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
from .table_file import TABLE_ENDINGS, TABLE_MAGIC, part_files
from .tables import Tables, plan_table, plan_tables, table_folder
from .temporal import labels_beside, plan_temporal
from .text import plan_text
from .text_head import data_lines, read_head
from .tudataset import plan_tudataset, tu_name

# SNAP's files of ground-truth communities, whose lines look like adjacency lists.
_COMMUNITIES = re.compile(r"\.cmty\.txt(\.gz)?$")
_TEXT = re.compile(r"\.(txt|csv|tsv)(\.gz)?$")
_MAGIC_BYTES = 8

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
# The planners of these formats take hints, and several files.
_HINTS_OF = {
    "text": ("delimiter", "header", "columns", "strings", "time_scale", "encoding", "bipartite"),
    "table": ("delimiter", "columns", "strings", "encoding", "bipartite"),
}
_MANY = tuple(_HINTS_OF)


def plan_source(
    source: Source | Sequence[Source] | Tables,
    format: str | None = None,
    hints: TextHints | None = None,
    memory: int | None = None,
    folder: Path | None = None,
) -> GraphPlan:
    """The plan of any input this package reads.

    Args:
        source: A file, a folder of files, a pattern such as "part-*.csv", a stream of bytes, or
            several of them; or `Tables`.
        format: One of `FORMATS`; None looks at the input.
        hints: Delimiter, header, columns, string ids, encoding, ... of text and tables.
        memory: Bound of the import in bytes, for what the plan keeps of the input.
        folder: Where the temporary copy of a stream lies; None is the current folder.

    Raises:
        ImportFailed: The input is missing, damaged, or of no known format.
        BudgetTooSmall: ``memory`` is too small for what has to be kept of the input.
        IoFailed: The copy of a stream could not be written.

    Example:
        >>> plan_source("cora.npz").format        # doctest: +SKIP
        'npz adj/attr'
    """
    with allowed(memory) as allowance:
        plan = _planned(source, format, hints, folder)
        plan.held_bytes = allowance.held
    return plan


def _planned(
    source: Source | Sequence[Source] | Tables,
    format: str | None,
    hints: TextHints | None,
    folder: Path | None,
) -> GraphPlan:
    if isinstance(source, Tables):
        if format not in (None, "table"):
            what = f"node and edge tables cannot be read in the format {format!r}"
            fail("tables", what, remedy("LeaveOut", option="format"))
        _check_hints("tables", "table", hints)
        return plan_tables(source, hints)
    many = isinstance(source, Sequence) and not isinstance(source, str)
    encoding = hints.encoding if hints else None
    sources = expanded(source if many else [source])  # type: ignore[list-item, arg-type]
    if len(sources) == 1 and isinstance(sources[0], Path):
        path = _inside(sources[0]) if format is None else sources[0]
        return _plan(path, format or detect_format(path, encoding), hints)
    if not sources:
        fail("import", "no input is given", "name a file, a folder or a pattern")
    sources = [part for one in sources for part in _parts(one)]
    chosen = format or _common_format(sources, encoding)
    if chosen is not None and chosen not in _MANY:
        _refuse_many(sources, chosen)
    inputs = opened(sources, folder, encoding)
    chosen = chosen or _stream_format(inputs)
    where = listed(inputs)
    _check_hints(where, chosen, hints)
    plan = plan_text(inputs, hints) if chosen == "text" else plan_table(inputs, hints)
    spools = [one.spool for one in inputs if one.spool is not None]
    plan.kept += spools
    plan.spooled_bytes += sum(spool.size for spool in spools)
    return plan


def _parts(source: Path | IO[bytes]) -> list[Path | IO[bytes]]:
    """The part files of a folder that stands among several inputs; else the input itself."""
    if not isinstance(source, Path):
        return [source]
    return [*part_files(source)] if source.is_dir() else [need_file(source)]


def _refuse_many(sources: Sequence[Path | IO[bytes]], chosen: str) -> NoReturn:
    if chosen not in FORMATS:
        fail("import", f"{chosen!r} is not a valid format", f"use one of {', '.join(FORMATS)}")
    only = "only the formats text and table"
    if len(sources) > 1:
        fail(
            listed(sources),
            f"the format {chosen} takes only one input; {only} take several",
            "give one input",
        )
    what = f"the format {chosen} cannot be read from a stream; {only} can"
    fail(stream_name(sources[0]), what, "write the stream to a file first")


def _common_format(sources: Sequence[Path | IO[bytes]], encoding: str | None) -> str | None:
    """The format of several inputs; None where there are only streams."""
    paths = [one for one in sources if isinstance(one, Path)]
    found = {path: detect_format(path, encoding) for path in paths}
    if len(set(found.values())) > 1:
        first, chosen = next(iter(found.items()))
        other = next(path for path, format in found.items() if format != chosen)
        what = f"{first} has the format {chosen}, but {other} has the format {found[other]}"
        fail("import", what, remedy("OneFormat"))
    return next(iter(found.values()), None)


def _stream_format(inputs: Sequence[Input]) -> str:
    """The format of a stream, as far as its first bytes tell."""
    with inputs[0].path.open("rb") as stream:
        head = stream.read(_MAGIC_BYTES)
    if head.startswith(TABLE_MAGIC):
        return "table"
    if not head:
        fail(inputs[0].shown, "is empty", "check the command that writes to it")
    if any(b"\0" in line.encode() for line in read_head(inputs[0], is_text=False)):
        fail(inputs[0].shown, "is binary data of unknown format", remedy("NameStreamFormat"))
    return "text"


def _plan(path: Path, chosen: str, hints: TextHints | None) -> GraphPlan:
    _check_hints(path, chosen, hints)
    taken = chosen in _HINTS_OF
    return _PLANNERS[chosen](path, hints) if taken else _PLANNERS[chosen](path)


def _check_hints(where: Path | str, chosen: str, hints: TextHints | None) -> None:
    """Refuses an unknown format, and hints that the format has no use for."""
    if chosen not in _PLANNERS:
        fail(where, f"{chosen!r} is not a valid format", f"use one of {', '.join(FORMATS)}")
    for name in hints.given() if hints else ():
        if name not in _HINTS_OF.get(chosen, ()):
            todo = remedy("LeaveOutOrText" if chosen == "temporal" else "LeaveOut", option=name)
            fail(where, f"{name}= has no effect on the format {chosen}", todo)


def detect_format(path: Path, encoding: str | None = None) -> str:
    """The name of the format of ``path``, one of `FORMATS`; ImportFailed where it is unclear.

    ``encoding`` is that of text, as in `TextHints`.
    """
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
        fail(path, "is a list of communities, not of edges", "give the .ungraph.txt file beside it")
    refuse_links(path)
    if planetoid_name(path):
        return "planetoid"
    if musae_parts(path):
        return "musae"
    return _detect_text(path, encoding)


def _detect_folder(path: Path) -> str:
    if known := _folder_format(path):
        return known
    if (path / "root.a").exists():
        fail(path, "is already a neargraph store", "open it with ng.open, or import its source")
    refuse_links(path)
    todo: str | dict[str, Any] = remedy("NameLayout")
    # What is there is only told; an entry that cannot be looked at is not the user's error.
    with suppress(OSError, ImportFailed):
        if inside := _candidates(path):
            todo = f"give {'one of its entries ' if len(inside) > 1 else ''}{shown(inside)}"
    return fail(path, "is not a folder of a known layout", todo)


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


def _detect_text(path: Path, encoding: str | None) -> str:
    rows = [line.split() for line in data_lines(read_head(Input.of(path, encoding)))[:50]]
    widths = {len(row) for row in rows}
    numbers = all(field.lstrip("-").isdigit() for row in rows for field in row)
    if numbers and len(widths) > 2 and max(widths) > 4:
        return "lists"
    if widths == {3} and labels_beside(path):
        return "temporal"
    return "text"
