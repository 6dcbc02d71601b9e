"""The options of `neargraph import`, and how those that name tables are read.

What must not live here: what an import does. Invariant: an option with several parts is refused
with the form that it has and an example.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from neargraph.importers import FORMATS, ImportOptions, Tables, TextHints, parse_columns
from neargraph.importers.hints import Triple
from neargraph.importers.inputs import Source, standard_input
from neargraph.importers.memory import beside_interpreter
from neargraph.units import parse_bytes

from .progress import Bars

_TABLES = "Tables of several types"
_TEXT = "Text and tables"
_EDGES = "Edges"
_NODES = "Nodes"
_STORE = "Store"

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Files, folders or patterns ('part-*.csv') to read; '-' = standard input.",
        show_default=False,
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="NAME.ng", help="Store to create, NAME.ng.")
]
Format = Annotated[
    str | None,
    typer.Option(help=f"Input format: {', '.join(FORMATS)}. Default: detected from the input."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory budget of the whole process, e.g. 256MB. Default: a quarter of RAM.",
    ),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=FILE",
        help="Table of the nodes of one type (CSV, Parquet or Arrow), e.g. user=users.csv. May "
        "be repeated.",
        rich_help_panel=_TABLES,
    ),
]
Edges = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SRC,REL,DST=FILE",
        help="Table of the edges of one type, e.g. user,buys,item=buys.csv. May be repeated.",
        rich_help_panel=_TABLES,
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=COLUMN",
        help="Column of a node table that contains the node ids that edge tables use. May be "
        "repeated. Default: the column id.",
        rich_help_panel=_TABLES,
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=COLUMN,...",
        help="Columns of a node table that become the tensor x; '*' = all numeric columns "
        "except the key, the label and masks. May be repeated. Default: the columns x_0, x_1, ...",
        rich_help_panel=_TABLES,
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=COLUMN",
        help="Column of a node table that becomes the tensor y. May be repeated. Default: the "
        "column y or label.",
        rich_help_panel=_TABLES,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Column delimiter: one character, or tab, comma, semicolon, pipe, space (exactly one) "
        "or blank (any spaces and tabs). Default: detected from the first line.",
        rich_help_panel=_TEXT,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        help="Text files: the first line contains the column names. Default: detected from the "
        "first line.",
        rich_help_panel=_TEXT,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[REL:]src=..,dst=..",
        help="Columns that hold src, dst, time, weight and edge_id: a number (from 0) or a name "
        "for each, e.g. src=0,dst=2. With the prefix 'REL:', the option applies to one table "
        "of --edges. "
        "May be repeated.",
        rich_help_panel=_TEXT,
    ),
]
TimeScale = Annotated[
    float | None,
    typer.Option(
        help="Text files: multiply each time by this factor, then round it. E.g. 1000 keeps "
        "the milliseconds of times in seconds.",
        rich_help_panel=_TEXT,
    ),
]
Strings = Annotated[
    bool,
    typer.Option(
        help="Read node ids as strings, and keep the strings in the store.", rich_help_panel=_TEXT
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Character encoding of text files, e.g. latin-1, cp1252 or utf-16. Default: utf-8.",
        rich_help_panel=_TEXT,
    ),
]
Bipartite = Annotated[
    str | None,
    typer.Option(
        metavar="SRC,REL,DST",
        help="Read source and destination as ids of two node types. The value names both types and "
        "the relation, e.g. user,rates,item.",
        rich_help_panel=_TEXT,
    ),
]


Undirected = Annotated[
    bool, typer.Option(help="Store both directions of each edge.", rich_help_panel=_EDGES)
]
SelfLoops = Annotated[
    str, typer.Option(help="Treatment of self loops: keep, remove or add.", rich_help_panel=_EDGES)
]
Unique = Annotated[
    bool,
    typer.Option(
        help="Keep one edge for each pair of source and destination, even if the times of the "
        "edges differ.",
        rich_help_panel=_EDGES,
    ),
]
Reverse = Annotated[
    bool, typer.Option(help="Also store the reverse of each edge type.", rich_help_panel=_EDGES)
]
EdgeIds = Annotated[
    bool,
    typer.Option(
        help="Store the row number of each edge in the input as its edge id.",
        rich_help_panel=_EDGES,
    ),
]
Relabel = Annotated[
    bool,
    typer.Option(
        help="Replace the integer ids that occur in edges by numbers from 0, in ascending "
        "order. The store keeps the original ids as string ids.",
        rich_help_panel=_NODES,
    ),
]
NumNodes = Annotated[
    int | None,
    typer.Option(
        help="Total number of nodes. Needed if nodes without edges have ids above the largest id "
        "in an edge.",
        rich_help_panel=_NODES,
    ),
]
SplitSizes = Annotated[
    str | None,
    typer.Option(
        metavar="TRAIN,VAL,TEST",
        help="Assign nodes at random to train, val and test, in percent, e.g. 60,20,20.",
        rich_help_panel=_NODES,
    ),
]
SplitType = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Node type to split. Default: the node type with labels.",
        rich_help_panel=_NODES,
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of the split.", rich_help_panel=_NODES)]
XDtype = Annotated[
    str | None,
    typer.Option(
        help="Dtype of the tensor x on disk: f32, f16, bf16 or i8 (with a scale per column). "
        "Rows are read as f32. Default: the dtype in the input.",
        rich_help_panel=_NODES,
    ),
]
Dense = Annotated[
    bool,
    typer.Option(
        help="Store the tensor x densely, even if most values are zero.", rich_help_panel=_NODES
    ),
]
Fill = Annotated[
    float,
    typer.Option(
        help="Share of each page that the import fills with neighbour lists, 0.1 to 1.0; the "
        "rest is room for updates.",
        rich_help_panel=_STORE,
    ),
]
PageSize = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Size of the pages that hold neighbour lists, 4KiB to 64KiB.",
        rich_help_panel=_STORE,
    ),
]
ReuseIds = Annotated[
    bool, typer.Option(help="Give the ids of deleted nodes to new nodes.", rich_help_panel=_STORE)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        help="Replace an existing store, unless another process writes to it.",
        rich_help_panel=_STORE,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(help="Fail if the import would end with notes (warnings)."),
]
Threads = Annotated[
    int | None,
    typer.Option(help="Number of threads that parse and sort. Default: one for each core."),
]
DryRun = Annotated[
    bool,
    typer.Option(
        help="Print an estimate of size and time, and the first parsed rows; write nothing."
    ),
]


def settings_of(values: dict[str, Any]) -> ImportOptions:
    """The settings that options give; ``--memory`` is that of the whole process."""
    memory, known = values["memory"], {one.name for one in fields(ImportOptions)}
    rest = {name: value for name, value in values.items() if name in known}
    rest["memory"] = None if memory is None else beside_interpreter(parse_bytes(memory))
    return ImportOptions(page_bytes=parse_bytes(values["page_size"]), **rest)


def hints_of(values: dict[str, Any]) -> TextHints:
    """The hints that options give; columns of one table among several are `tables_of`'s."""
    shared = [text for text in values["columns"] or () if ":" not in text]
    known = {one.name for one in fields(TextHints)}
    rest = {name: value for name, value in values.items() if name in known}
    return TextHints(**{**rest, "columns": parse_columns(",".join(shared) or None)})


class CopiedInput:
    """Standard input, whose bytes are reported to ``progress`` as they are read.

    The importer copies a stream to a temporary file before it plans anything.
    """

    def __init__(self, stream: IO[bytes], progress: Bars) -> None:
        self._stream, self._progress, self._count = stream, progress, 0

    def read(self, count: int) -> bytes:
        """Reads up to ``count`` bytes."""
        piece = self._stream.read(count)
        self._count += len(piece)
        self._progress("bytes copied from standard input", self._count, None)
        return piece


def sources_of(
    sources: list[str] | None, tables: Tables | None, progress: Bars
) -> list[Source] | Tables:
    """Returns the files that are named, or the tables."""
    if tables is not None:
        if sources:
            raise ValueError("give either files or --edges (with --nodes), not both")
        return tables
    if not sources:
        raise ValueError("no input: name a file to read, or give tables with --edges")
    if sources.count("-") > 1:
        raise ValueError("- (standard input) is given twice; give it once")
    stream = CopiedInput(standard_input(), progress) if "-" in sources else None
    return [cast(IO[bytes], stream) if text == "-" else text for text in sources]


def tables_of(values: dict[str, Any]) -> Tables | None:
    """The tables of --nodes and --edges; None without them."""
    if not values["edges"]:
        given = [f"--{name}" for name in ("nodes", "key", "features", "label") if values[name]]
        if given:
            raise ValueError(f"{given[0]} needs a table of edges: --edges SRC,REL,DST=FILE")
        return None
    tables: dict[Triple, list[str]] = {}
    for text in values["edges"]:
        triple, file = _pair(text, "--edges", "user,buys,item=buys.csv")
        parts = [part.strip() for part in triple.split(",")]
        if len(parts) != 3 or not all(parts):
            raise ValueError(_form(triple, "edge type of --edges", "user,buys,item"))
        tables.setdefault((parts[0], parts[1], parts[2]), []).append(file)
    files: dict[str, list[str]] = {}
    for text in values["nodes"] or ():
        name, file = _pair(text, "--nodes", "user=users.csv")
        files.setdefault(name, []).append(file)
    keys, features, labels = (
        dict(_pair(text, f"--{option}", "user=COLUMN") for text in values[option] or ())
        for option in ("key", "features", "label")
    )
    split = {name: [part.strip() for part in text.split(",")] for name, text in features.items()}
    return Tables(tables, files, keys, split, labels, _columns_of(tables, values["columns"]))


def _columns_of(edges: Iterable[Triple], columns: list[str] | None) -> dict[Triple, dict[str, str]]:
    """The columns that are named for one edge table, as "buys:src=user,dst=item"."""
    found: dict[Triple, dict[str, str]] = {}
    for text in columns or ():
        name, sign, listed = text.partition(":")
        if not sign:
            continue
        parts = tuple(part.strip() for part in name.split(","))
        match = [triple for triple in edges if parts in (triple, (triple[1],))]
        if len(match) != 1:
            known = "; ".join(",".join(triple) for triple in edges)
            what = "no table" if not match else "several tables"
            raise ValueError(
                f"--columns {text}: {name!r} names {what} of --edges; expected one of {known}"
            )
        found[match[0]] = parse_columns(listed) or {}
    return found


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise ValueError(_form(text, f"value of {option}", example))
    return name.strip(), value.strip()


def _form(text: str, what: str, example: str) -> str:
    return f"{text!r} is not a valid {what}, expected e.g. {example}"
