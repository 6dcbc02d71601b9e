"""Typed OGB folders, such as ogbn-mag: triplet-type-list, relations/, node-feat/ and node-label/.

Node types and their numbers are the columns of num-node-dict; each triplet is an edge type, with
its files in relations/A___rel___B. Files are named as in untyped folders (`ogb.py`).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .check import fail, need_file, node_ids, part_beside
from .lines import text_lines
from .notes import Note, left_out
from .number_csv import NumberCsv
from .ogb import (
    INVERSE_FACT,
    csv_labels,
    csv_pairs,
    edge_table,
    mapping_note,
    need_csv,
    pointers,
)
from .ogb_splits import is_link_set, link_note, node_splits
from .plan import EdgeChunk, EdgePlan, GraphPlan, NodePlan

_AGAIN = "download the data set again"
_TYPES_MAX = 1 << 12

Triple = tuple[str, str, str]


def plan_ogb_typed(root: Path) -> GraphPlan:
    """The plan of a folder with node and edge types, one graph."""
    raw, notes, facts = root / "raw", list[Note](), [INVERSE_FACT]
    nodes = _node_types(raw)
    edges = [_edge_type(raw, triple, nodes, notes) for triple in _triplets(raw, nodes)]
    links = is_link_set(root)
    for node in nodes.values():
        _add_columns(raw, node, notes)
        if not links:
            tensors, named = node_splits(root, node.num_nodes or 0, node.name)
            node.tensors += tensors
            facts += [
                f"the tensor split_{k} of {node.name} is the split {name!r} of the data set"
                for k, name in enumerate(named)
            ]
    if links:
        notes.append(link_note(root))
    notes += mapping_note(root)
    return GraphPlan(str(root), "ogb typed", list(nodes.values()), edges, notes, facts)


def _rows(folder: Path, name: str) -> tuple[Path, list[list[str]]]:
    """A small table of text, its rows as fields."""
    file = need_file(part_beside(folder / f"{name}.csv") or folder / f"{name}.csv.gz")
    rows = list[list[str]]()
    for _, line in text_lines(file):
        if len(rows) > _TYPES_MAX:
            fail(file, f"has more than {_TYPES_MAX} rows", "check the file")
        if line.strip():
            rows.append([field.strip().strip('"') for field in line.split(",")])
    return file, rows


def _node_types(raw: Path) -> dict[str, NodePlan]:
    file, rows = _rows(raw, "num-node-dict")
    if len(rows) != 2:
        what = f"lists {max(0, len(rows) - 1)} graphs, expected 1"
        fail(file, what, "import a data set of one graph")
    names, counts = rows
    plain = len(names) == len(counts) == len(set(names)) and all(map(str.isdigit, counts))
    if not plain or any(len(count) > 18 for count in counts):
        fail(file, "does not have one number of nodes for each node type", _AGAIN)
    return {name: NodePlan(name, int(count)) for name, count in zip(names, counts, strict=True)}


def _triplets(raw: Path, nodes: dict[str, NodePlan]) -> list[Triple]:
    file, rows = _rows(raw, "triplet-type-list")
    found = []
    for row in rows:
        if len(row) != 3 or row[0] not in nodes or row[2] not in nodes or tuple(row) in found:
            what = "does not name two node types of the data set, or is listed twice"
            fail(file, f"{','.join(row)[:80]!r} {what}", _AGAIN)
        # The name becomes the name of a folder.
        if any("/" in part or part in ("", ".", "..") for part in row):
            fail(file, f"{','.join(row)[:80]!r} is not a valid name of a folder", _AGAIN)
        found.append((row[0], row[1], row[2]))
    if not found:
        fail(file, "lists no edge types", _AGAIN)
    return found


def _edge_type(
    raw: Path, triple: Triple, nodes: dict[str, NodePlan], notes: list[Note]
) -> EdgePlan:
    folder = raw / "relations" / "___".join(triple)
    counts = need_csv(folder, "num-edge-list")
    num_edges = int(pointers(counts.column(), str(counts.path))[-1])
    table = edge_table(folder, num_edges)
    edge = EdgePlan(*triple, num_edges=num_edges)
    edge.chunks = partial(_edges, table, nodes[triple[0]].num_nodes, nodes[triple[2]].num_nodes)
    rest = []
    for name in sorted(_stems(folder) - {"edge", "num-edge-list"}):
        if name == "edge-feat" or name.startswith("edge_"):
            better = "edge_attr" if name == "edge-feat" else name
            edge.tensors.append(need_csv(folder, name).tensor(better, num_edges))
        else:
            rest.append(f"{name}.csv")
    edge.has_edge_ids = bool(edge.tensors)
    notes += left_out("files-unused", rest, str(folder), "the format has no files with these names")
    return edge


def _edges(
    table: NumberCsv, num_sources: int | None, num_destinations: int | None
) -> Iterator[EdgeChunk]:
    where = str(table.path)
    for row, left, right in csv_pairs(table):
        yield EdgeChunk(
            node_ids(left, where, row, num_sources), node_ids(right, where, row, num_destinations)
        )


def _stems(folder: Path) -> set[str]:
    return {f.name.removesuffix(".gz").removesuffix(".csv") for f in folder.glob("*.csv*")}


def _add_columns(raw: Path, node: NodePlan, notes: list[Note]) -> None:
    count, folder = node.num_nodes or 0, raw / "node-feat" / node.name
    for name in sorted(_stems(folder)):
        node.tensors.append(
            need_csv(folder, name).tensor("x" if name == "node-feat" else name, count)
        )
    labels = raw / "node-label" / node.name
    if part_beside(labels / "node-label.csv"):
        node.tensors.append(csv_labels(need_csv(labels, "node-label"), "y", count, notes))
