"""The Kronecker expansion of a store: its product with a small seed graph.

SmartSAGE (section V) enlarges data sets this way. The product keeps the shape of the degree
distribution; the mean degree grows by the mean degree of the seed. Node v of copy a becomes node
v * factor + a. The edge u -> v and the seed's edge a -> b give u * factor + a -> v * factor + b. So
there are E_seed * E edges, and the in-degree of a node is that of v times that of a. Everything
streams: memory is that of the open store, the import and the seed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neargraph._lists import lists_of
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers.arrays import open_npy
from neargraph.importers.chunks import CHUNK_EDGES, chunk_rows, spans
from neargraph.importers.memory import allowed, hold
from neargraph.importers.notes import Note, in_words
from neargraph.importers.npy import pair_layout
from neargraph.importers.options import ImportOptions
from neargraph.importers.plan import EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan
from neargraph.importers.run import Progress, run_import
from neargraph.reader import Neighbors
from neargraph.remedies import in_python, remedy
from neargraph.schema import EdgeType, NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.store import Store
from neargraph.units import parse_bytes

Array = NDArray[Any]

FACTOR_MAX = 1 << 12
_NAMES_AT_ONCE = 1 << 14
# Bytes for each pair of groups while edges between groups are counted and sorted.
_BYTES_PER_PAIR = 64


@dataclass(frozen=True)
class Seed:
    """The seed graph of an expansion: edge i goes from ``sources[i]`` to ``destinations[i]``.

    Raises:
        UnsupportedArgument: An end is not below ``num_nodes``, or there is no edge.

    Example:
        >>> Seed(2, [0, 1, 0], [0, 1, 1]).num_edges
        3
    """

    num_nodes: int
    sources: Array
    destinations: Array

    def __init__(self, num_nodes: int, sources: ArrayLike, destinations: ArrayLike) -> None:
        ends = [np.asarray(end) for end in (sources, destinations)]
        if not 1 <= num_nodes <= FACTOR_MAX:
            raise UnsupportedArgument(
                f"num_nodes={num_nodes} is out of range for a seed graph: use 1 to {FACTOR_MAX}"
            )
        if any(end.ndim != 1 or end.dtype.kind not in "iu" for end in ends):
            found = " and ".join(f"{end.dtype} {list(end.shape)}" for end in ends)
            raise UnsupportedArgument(
                f"sources and destinations of a seed graph are {found}, expected two lists of "
                "integers"
            )
        if len(ends[0]) != len(ends[1]) or not len(ends[0]):
            raise UnsupportedArgument(
                f"sources and destinations of a seed graph have lengths {len(ends[0])} and "
                f"{len(ends[1])}, expected equal lengths of at least 1"
            )
        both = np.concatenate(ends)
        outside = both[(both < 0) | (both >= num_nodes)]
        if outside.size:
            raise UnsupportedArgument(
                f"an edge of the seed graph names the node {outside[0]}, expected 0 to "
                f"{num_nodes - 1}"
            )
        object.__setattr__(self, "num_nodes", num_nodes)
        for name, end in zip(("sources", "destinations"), ends, strict=True):
            object.__setattr__(self, name, end.astype(np.int64))

    @property
    def num_edges(self) -> int:
        """Edges of the seed: the number of edges that each edge becomes in an expansion."""
        return len(self.sources)

    @staticmethod
    def shrunk(store: Store | Snapshot, factor: int, density: float = 3.0) -> "Seed":
        """Returns the graph shrunk to ``factor`` nodes; with it, an expansion is fractal.

        Nodes are grouped into ranges of ids. The pairs of groups with the most edges are joined in
        both directions, until a node has about ``density`` edges, its loop included. Edge types
        between different node types are not counted.

        Raises:
            UnsupportedArgument: ``factor`` or ``density`` is out of range.
        """
        if not 1 <= factor <= FACTOR_MAX or not 1 <= density <= factor:
            raise UnsupportedArgument(
                f"factor={factor} with density={density:g} is not valid: expected a factor from 1 "
                f"to {FACTOR_MAX}, and a density from 1 to the factor"
            )
        snap, weight = store.snapshot(), np.zeros((factor, factor), dtype=np.int64)
        for edge in snap.schema.edge_types:
            if edge.source != edge.destination:
                continue
            count = snap.schema.node_type(edge.source).num_nodes
            for sources, destinations, _ in _entries(snap, edge, CHUNK_EDGES):
                places = (sources * factor // count) * factor + destinations * factor // count
                np.add.at(weight.reshape(-1), places, 1)
        return Seed.of_marks(marks_of(weight, density))

    @staticmethod
    def read(path: Path | str) -> "Seed":
        """Reads a seed from a .npy file of edges, [2, E] or [E, 2]. Its nodes are 0 to the last id.

        Raises:
            ImportFailed: The file is missing or damaged, or has another shape.
            UnsupportedArgument: The file has too many edges.
        """
        array = open_npy(path)
        rows = array if pair_layout(array, str(path)) == "rows" else array.T
        if rows.shape[1] > FACTOR_MAX**2:
            raise UnsupportedArgument(
                f"{path}: {rows.shape[1]} edges are too many for a seed graph, expected at most "
                f"{FACTOR_MAX**2}"
            )
        most = int(rows.max(initial=-1))
        return Seed(most + 1, np.array(rows[0]), np.array(rows[1]))

    @staticmethod
    def of_marks(marks: Array) -> "Seed":
        """Returns the seed of a bool adjacency matrix [n, n], whose rows are sources."""
        sources, destinations = np.nonzero(marks)
        return Seed(len(marks), sources, destinations)


def marks_of(weight: Array, density: float) -> Array:
    """Returns a symmetric bool [n, n] with its diagonal and about ``density`` marks in a row.

    ``weight`` [n, n] counts the edges between groups. The heaviest pairs are marked, in both
    directions.
    """
    factor = len(weight)
    marks = np.eye(factor, dtype=bool)
    above = np.argwhere(np.triu(np.ones((factor, factor), dtype=bool), 1))
    both = weight + weight.T
    heavy = np.argsort(-both[above[:, 0], above[:, 1]], kind="stable")
    for a, b in above[heavy[: int((density - 1) * factor / 2)]]:
        marks[a, b] = marks[b, a] = True
    return marks


def expand(
    store: Store | Snapshot,
    out: Path | str,
    factor: int | None = None,
    *,
    density: float | None = None,
    seed: Seed | None = None,
    progress: Progress | None = None,
    memory: str | int | None = None,
    words: Callable[[dict[str, Any]], str] = in_python,
    **options: Any,
) -> dict[str, Any]:
    """Writes the Kronecker product of a store with a seed graph as the store ``out``.

    In each node type, node v of copy a is ``v * factor + a``. Features, labels, splits, and times
    and weights of edges are repeated. String ids get the suffix "/a". Edges get new ids, and edge
    tensors one row for each. The report's notes list the differences: an undirected type becomes a
    directed one with both directions, and deleted nodes become nodes without edges or split.

    Args:
        store: The store, or one version of it.
        out: The new store.
        factor: Copies of each node. Default: the number of nodes of ``seed``.
        density: Mean degree of the seed that `Seed.shrunk` makes from the graph; the number of
            edges grows by ``factor * density``. Default: 3, or the factor if that is less.
        seed: The seed graph. Default: `Seed.shrunk`.
        progress: Called with (phase, done, total).
        memory: The most memory that the import adds to the process. Default: a quarter of RAM.
        words: Turns the remedy of a note into text. Default: in terms of Python.
        **options: Fields of `ImportOptions`, such as ``threads`` and ``overwrite``.

    Returns:
        The report of an import.

    Raises:
        UnsupportedArgument: ``factor``, ``density`` and ``seed`` contradict each other.
        BudgetTooSmall: ``memory`` is too small for the edge counts that a seed is made from.
        ImportFailed: ``out`` exists.

    Example:
        >>> expand(store, "cora_8.ng", factor=8)                     # doctest: +SKIP
    """
    snap = store.snapshot()
    budget = None if memory is None else parse_bytes(memory)
    if seed is None:
        if factor is None:
            raise UnsupportedArgument("expand needs factor= or seed=; give one of them")
        where = f"{snap.path}: counts of edges between {factor} groups of nodes"
        with allowed(budget, where=where):
            hold(where, _BYTES_PER_PAIR * min(factor, FACTOR_MAX) ** 2)
            seed = Seed.shrunk(snap, factor, min(3.0, factor) if density is None else density)
    elif density is not None:
        raise UnsupportedArgument(
            "density= has no effect on a given seed graph; leave out density="
        )
    elif factor not in (None, seed.num_nodes):
        raise UnsupportedArgument(
            f"factor={factor} does not match the {seed.num_nodes} nodes of the seed graph; "
            "leave out factor="
        )
    settings = ImportOptions(memory=budget, **options)
    plan = plan_expansion(snap, seed)
    if snap.schema.reverse_types and not settings.reverse:
        count, advice = len(snap.schema.reverse_types), remedy("BuildReverse")
        message = f"the stored reverses of {count} edge types are not copied"
        plan.notes.append(Note("reverse-dropped", count, snap.path, message, remedy=advice))
    report = run_import(plan, out, settings, progress)
    return {**report, "notes": in_words(report["notes"], words)}


def plan_expansion(snap: Snapshot, seed: Seed) -> GraphPlan:
    """Returns the plan of a product, for an import; see `expand`."""
    notes = [note for node in snap.schema.node_types for note in _node_losses(snap, node)]
    notes += [note for edge in snap.schema.edge_types for note in _edge_losses(snap, edge)]
    nodes = [_node_plan(snap, node, seed) for node in snap.schema.node_types]
    edges = [_edge_plan(snap, edge, seed) for edge in snap.schema.edge_types]
    facts = [
        f"the store is the product with a seed graph of {seed.num_nodes:,} nodes and "
        f"{seed.num_edges:,} edges"
    ]
    return GraphPlan(snap.path, "Kronecker expansion", nodes, edges, notes, facts)


def _node_losses(snap: Snapshot, node: NodeType) -> Iterator[Note]:
    if dead := node.num_nodes - node.num_nodes_live:
        message = f"{dead} deleted nodes of type {node.name!r} become nodes without edges or split"
        yield Note("nodes-deleted", dead, snap.path, message)


def _edge_losses(snap: Snapshot, edge: EdgeType) -> Iterator[Note]:
    kind = f"edge type {edge.triple}"
    if edge.undirected:
        message = f"{kind} is undirected; its edges become pairs of directed edges"
        yield Note("undirected-dropped", edge.num_edges, snap.path, message)
    if snap.schema.raw["edge_types"][edge.index].get("unique"):
        message = f"{kind} loses its property 'unique'"
        yield Note("unique-dropped", edge.num_edges, snap.path, message)
    if edge.has_edge_ids:
        message = f"{kind}: edges get new ids, in the order of the neighbour lists"
        yield Note("edge-ids-renumbered", edge.num_edges, snap.path, message)


def _node_plan(snap: Snapshot, node: NodeType, seed: Seed) -> NodePlan:
    factor = seed.num_nodes
    plan = NodePlan(node.name, node.num_nodes * factor, strings=node.has_dictionary)
    if node.has_dictionary:
        plan.keys = lambda: _names(snap, node, factor)
    for tensor in node.tensors:
        wide = tensor.scaled
        width = np.dtype(np.float32).itemsize if wide else tensor.numpy_dtype.itemsize
        step = max(1, chunk_rows(width * tensor.num_columns) // factor)
        plan.tensors.append(
            TensorPlan(
                tensor.name,
                "f32" if wide else tensor.dtype,
                tensor.shape,
                _repeated(snap, node, tensor, factor, step),
                node.num_nodes * factor,
                mask_width=tensor.mask_width,
                stored="i8" if wide else None,
                class_names=list(tensor.class_names) or None,
            )
        )
    return plan


def _repeated(
    snap: Snapshot, node: NodeType, tensor: TensorMeta, factor: int, step: int
) -> Callable[[], Iterator[Array]]:
    dead = snap.dead_nodes(node.name)

    def chunks() -> Iterator[Array]:
        for span in spans(node.num_nodes, step):
            ids = np.arange(span.start, span.stop)
            dtype = "f32" if tensor.scaled else "stored"
            rows = snap.features(node.name, ids, tensor.name, dtype)
            if tensor.is_split:
                # Copies of deleted nodes are not deleted; in a split, they would be trained on.
                rows = np.where(np.isin(ids, dead), 0, rows).astype(rows.dtype)
            yield np.repeat(rows, factor, axis=0)

    return chunks


def _names(snap: Snapshot, node: NodeType, factor: int) -> Iterator[list[str]]:
    for span in spans(node.num_nodes, max(1, _NAMES_AT_ONCE // factor)):
        names = snap.names(np.arange(span.start, span.stop), node.name)
        yield [f"{name}/{a}" for name in names for a in range(factor)]


def _edge_plan(snap: Snapshot, edge: EdgeType, seed: Seed) -> EdgePlan:
    factor, step = seed.num_nodes, max(1, CHUNK_EDGES // seed.num_edges)
    named = [snap.schema.node_type(end).has_dictionary for end in (edge.source, edge.destination)]

    def ends(owner: str, ids: Array, copies: Array, is_named: bool) -> Any:
        if not is_named:
            return (ids[:, None] * factor + copies).reshape(-1)
        return [f"{name}/{a}" for name in snap.names(ids, owner) for a in copies]

    def chunks() -> Iterator[EdgeChunk]:
        for sources, destinations, found in _entries(snap, edge, step):
            yield EdgeChunk(
                ends(edge.source, sources, seed.sources, named[0]),
                ends(edge.destination, destinations, seed.destinations, named[1]),
                times=None if found.times is None else np.repeat(found.times, seed.num_edges),
                weights=None if found.weights is None else np.repeat(found.weights, seed.num_edges),
            )

    return EdgePlan(
        *edge.triple,
        chunks=chunks,
        num_edges=edge.num_edges * seed.num_edges,
        has_edge_ids=edge.has_edge_ids,
        has_time=edge.has_time,
        has_weight=edge.has_weight,
        tensors=[_edge_tensor(snap, edge, tensor, seed) for tensor in edge.tensors],
    )


def _edge_tensor(snap: Snapshot, edge: EdgeType, tensor: TensorMeta, seed: Seed) -> TensorPlan:
    """Returns the plan of an edge tensor, with rows in the order of `_edge_plan`."""
    most = chunk_rows(tensor.numpy_dtype.itemsize * tensor.num_columns)
    step = max(1, min(CHUNK_EDGES, most) // seed.num_edges)

    def chunks() -> Iterator[Array]:
        for *_, found in _entries(snap, edge, step):
            assert found.edge_ids is not None
            rows = snap.edge_features(edge.triple, found.edge_ids, tensor.name)
            yield np.repeat(rows, seed.num_edges, axis=0)

    total = edge.num_edges * seed.num_edges
    return TensorPlan(tensor.name, tensor.dtype, tensor.shape, chunks, total)


def _entries(snap: Snapshot, edge: EdgeType, step: int) -> Iterator[tuple[Array, Array, Neighbors]]:
    """Yields (sources, destinations, columns) of all entries, ``step`` destinations at a time."""
    for ids, found in lists_of(snap, edge):
        destinations = np.repeat(ids, np.diff(found.indptr))
        for span in spans(len(destinations), step):
            part = Neighbors(
                found.indptr,
                found.indices[span],
                None if found.edge_ids is None else found.edge_ids[span],
                None if found.times is None else found.times[span],
                None if found.weights is None else found.weights[span],
            )
            yield part.indices, destinations[span], part
