"""Node and edge tables as one graph: named by the user, or by the names of files in a folder.

A folder holds `edges.parquet` and `nodes.parquet`, or `edges_SRC__REL__DST.parquet` and
`nodes_TYPE.parquet` (also .arrow, .feather, .csv, .tsv, .gz of both, and folders of part files).
`node_table.py` says what node columns become, `table.py` what edge columns do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neargraph.remedies import remedy

from .check import fail
from .hints import TextHints, Triple
from .inputs import Input
from .node_table import NodeColumns, has_keys, node_plan
from .notes import Note, unused_files
from .plan import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, GraphPlan, NodePlan
from .table import EdgeTable, plan_edge_table, table_delimiter
from .table_file import (
    TABLE_ENDINGS,
    Table,
    TableSource,
    hold_readers,
    is_table,
    need_pyarrow,
    table_inputs,
    table_stem,
    visible,
)


@dataclass(frozen=True, slots=True)
class Tables:
    """Node and edge tables of a graph: files, folders of part files, patterns, or lists of them.

    ``edges`` are tables by (source type, relation, destination type), ``nodes`` by type. A node
    type without a table has the nodes that edges name. By type, ``keys`` are the columns whose
    values edges name nodes by (default: id), ``features`` the columns that become ``x`` ("*": all
    numbers that nothing else is made of), and ``labels`` the columns that become ``y`` (default: y
    or label). ``columns`` names the columns of an edge table, as `TextHints.columns` does for all
    tables.
    """

    edges: Mapping[Triple, TableSource]
    nodes: Mapping[str, TableSource] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[Triple, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.edges:
            raise ValueError("edges= names no table, expected at least one")
        for what in ("keys", "features", "labels"):
            for name in getattr(self, what):
                if name not in self.nodes:
                    known = ", ".join(self.nodes) or "none"
                    raise ValueError(
                        f"node type {name!r} has no table to read its {what} from (node types with "
                        f"a table: {known})"
                    )
        for triple in self.columns:
            if triple not in self.edges:
                known = "; ".join(",".join(one) for one in self.edges)
                raise ValueError(
                    f"columns= names the edge type {triple!r}, which has no table (edge types with "
                    f"a table: {known})"
                )

    def columns_of(self, name: str) -> NodeColumns:
        """What is made of the columns of a node table."""
        features = self.features.get(name, ())
        listed = (features,) if isinstance(features, str) else tuple(features)
        return NodeColumns(self.keys.get(name, "id"), listed, self.labels.get(name))


def plan_tables(
    tables: Tables, hints: TextHints | None = None, origin: str = "tables"
) -> GraphPlan:
    """The plan of a graph in several tables."""
    hints = hints or TextHints()
    delimiter = table_delimiter(hints)
    if hints.bipartite is not None:
        what = "edge tables already name their node types"
        fail(origin, what, remedy("LeaveOut", option="bipartite"))

    edge_files = {key: table_inputs(one, hints.encoding) for key, one in tables.edges.items()}
    node_files = {key: table_inputs(one, hints.encoding) for key, one in tables.nodes.items()}
    need_pyarrow(origin)
    hold_readers([one for files in (edge_files, node_files) for f in files.values() for one in f])
    keys = {name: tables.columns_of(name).key for name in tables.nodes}
    # The larger tables first: what pyarrow keeps of one reader then serves the next.
    edges = [
        EdgeTable(
            Table.open(files, delimiter),
            triple,
            {**(hints.columns or {}), **tables.columns.get(triple, {})},
            keys,
        )
        for triple, files in edge_files.items()
    ]
    nodes = {name: Table.open(files, delimiter) for name, files in node_files.items()}
    notes = list[Note]()
    named = hints.strings or any(one.has_text_ends() for one in edges)
    named = named or any(has_keys(one, keys[name]) for name, one in nodes.items())
    plans = {
        name: node_plan(one, name, named, notes, tables.columns_of(name))
        for name, one in nodes.items()
    }
    edge_plans = []
    for one in edges:
        ends = [plans.setdefault(end, NodePlan(end, strings=named)) for end in one.names[::2]]
        bounds = (None, None) if named else (ends[0].num_nodes, ends[1].num_nodes)
        edge_plans.append(one.plan(bounds, named, notes))
    form = "tables" if origin == "tables" else "table folder"
    return GraphPlan(origin, form, list(plans.values()), edge_plans, notes)


def plan_table(given: Path | str | Sequence[Input], hints: TextHints | None = None) -> GraphPlan:
    """The plan of an edge table, in one file, several, or a folder of parts; or of a folder of
    node and edge tables."""
    folder = Path(given) if isinstance(given, Path | str) else None
    if folder is None or not folder.is_dir() or not _entries(folder):
        return plan_edge_table(given, hints)
    tables, used = _tables_of(folder)
    plan = plan_tables(tables, hints, str(folder))
    plan.notes += unused_files(folder, used)
    return plan


def table_folder(folder: Path) -> bool:
    """Whether a folder holds node and edge tables, or the part files of one edge table."""
    if any(table_stem(entry).startswith("edges") for entry in _entries(folder)):
        return True
    files = visible(folder)
    return bool(files) and all(is_table(f) and f.name.endswith(TABLE_ENDINGS) for f in files)


def _entries(folder: Path) -> list[Path]:
    """The node and edge tables of a folder, by name: files, and folders of part files."""
    return [
        entry
        for entry in visible(folder)
        if table_stem(entry).startswith(("nodes", "edges"))
        and (is_table(entry) or (entry.is_dir() and _are_parts(visible(entry))))
    ]


def _are_parts(files: Iterable[Path]) -> bool:
    listed = list(files)
    return bool(listed) and all(map(is_table, listed))


def _tables_of(folder: Path) -> tuple[Tables, list[Path]]:
    """The tables that the names in a folder tell, and what they are made of."""
    nodes: dict[str, Any] = {}
    edges: dict[Triple, Any] = {}
    for entry in (entries := _entries(folder)):
        stem = table_stem(entry)
        typed = stem.removeprefix("nodes").removeprefix("edges").lstrip("_")
        if stem.startswith("nodes"):
            known = nodes.setdefault(typed or HOMOGENEOUS_NODE, entry)
        else:
            parts = tuple(typed.split("__")) if typed else HOMOGENEOUS_EDGE
            if len(parts) != 3:
                todo = "rename it to edges_SOURCE__RELATION__DESTINATION"
                fail(entry, "the name of the file does not contain the edge type", todo)
            known = edges.setdefault((parts[0], parts[1], parts[2]), entry)
        if known != entry:
            fail(entry, f"holds the same node or edge type as {known.name}", "remove one of them")
    if not edges:
        todo = "add edges.parquet or edges_SOURCE__RELATION__DESTINATION.parquet"
        fail(folder, "holds node tables, but no edge table", todo)
    return Tables(edges, nodes), entries
