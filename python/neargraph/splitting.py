"""Splits that a store gets after its import: at random, by class, by time or by degree.

The codes of all nodes pass through a file, so memory is that of some pieces. The invariant: with
the same content and arguments the split is the same; at random, without deleted nodes, it is the
one that an import with the same seed makes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from neargraph._room import scratch_folder
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers.chunks import spans
from neargraph.importers.options import parse_split
from neargraph.importers.split import split_chunks, split_counts
from neargraph.ranked import Boundary, boundaries, sortable
from neargraph.schema import NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.splits import SPLITS, split_columns
from neargraph.store import Store
from neargraph.update.tensor import add_parts

By = Literal["random", "time", "degree"]
Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 20
# Rows of a split that one call of a transaction changes.
_ROWS_AT_ONCE = 1 << 18
_PART_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """How a split is made.

    ``sizes`` are train, val and test in percent, as of an import. ``by`` orders nodes: ``"time"``
    puts the earliest into train and the latest into test, by the node tensor ``time_attr``;
    ``"degree"`` puts those with most in-edges into train. ``stratify`` gives each class of ``y``
    the same shares. ``index`` numbers the splits of a type.
    """

    sizes: tuple[float, float, float] | str = (60.0, 20.0, 20.0)
    by: By = "random"
    seed: int = 0
    stratify: bool = False
    time_attr: str = "time"
    index: int = 0
    overwrite: bool = False


class SplitReport(TypedDict):
    """What a split did: nodes in each part, and the number of the commit."""

    node_type: str
    tensor: str
    unit: Literal["node", "graph"]
    lsn: int
    train: int
    val: int
    test: int
    none: int


def add_split(
    store: Store,
    options: SplitOptions,
    node_type: str | None = None,
    *,
    progress: Progress | None = None,
) -> SplitReport:
    """Assigns the nodes of a type to train, val and test: one commit.

    Deleted nodes are in no part, and with `stratify` neither are unlabelled ones. Nodes of a store
    of many graphs (tensor ``graph_id``) are assigned graph by graph.

    Args:
        store: The store to change.
        options: How.
        node_type: Default: the type with labels, or the only one.
        progress: Called with (phase, nodes done, nodes in all).

    Returns:
        What was assigned; ``none`` counts live nodes alone.

    Raises:
        UnsupportedArgument: The split exists and `overwrite` is false; the labels or times that are
            needed do not exist.
        StoreBusy: Another process writes.

    Example:
        >>> add_split(store, SplitOptions(sizes="60,20,20", stratify=True))   # doctest: +SKIP
    """
    snap = store.snapshot()
    owner = _owner(snap, node_type)
    tensor = f"split_{options.index}"
    exists = any(known.name == tensor for known in owner.tensors)
    _check(snap, owner, options, tensor, exists)
    tell = progress or (lambda *_: None)
    with scratch_folder(store.path) as folder:
        codes = np.memmap(Path(folder) / "codes", np.uint8, "w+", shape=(max(1, owner.num_nodes),))
        units = _Units(snap, owner, options)
        units.fill(codes, tell)
        counts = np.zeros(4, np.int64)
        for span in spans(owner.num_nodes, _CHUNK):
            counts += np.bincount(codes[span], minlength=4)
        if exists:
            lsn = _replace(store, snap, owner, tensor, codes)
        else:
            rows = codes[: owner.num_nodes]
            parts = (np.asarray(rows[span]) for span in spans(len(rows), _PART_BYTES))
            lsn = add_parts(store, owner, tensor, "u8", [], len(rows), parts, snap)
    return {
        "node_type": owner.name,
        "tensor": tensor,
        "unit": "graph" if units.has_graphs else "node",
        "lsn": lsn,
        "train": int(counts[SPLITS["train"]]),
        "val": int(counts[SPLITS["val"]]),
        "test": int(counts[SPLITS["test"]]),
        "none": int(counts[0]) - (owner.num_nodes - owner.num_nodes_live),
    }


def _owner(snap: Snapshot, node_type: str | None) -> NodeType:
    """The type that is named, the labelled one, or the only one."""
    types = snap.schema.node_types
    labelled = [t for t in types if any(m.name in ("y", "graph_y") for m in t.tensors)]
    if node_type is None and len(labelled) == 1:
        return labelled[0]
    return snap.schema.node_type(node_type)


def _check(
    snap: Snapshot, owner: NodeType, options: SplitOptions, tensor: str, exists: bool
) -> None:
    if exists and not options.overwrite:
        raise UnsupportedArgument(
            f"{snap.path}: node type {owner.name!r} already has the split {tensor}; give "
            "overwrite=True to replace this split, or index= for another split"
        )
    count = len(split_columns(owner))
    if not exists and options.index != count:
        raise UnsupportedArgument(
            f"{snap.path}: index={options.index} is not the next split, because node type "
            f"{owner.name!r} has {count} splits; use index={count}"
        )
    if options.stratify and options.by != "random":
        raise UnsupportedArgument(
            f"stratify=True cannot be combined with by={options.by!r}; leave one of them out"
        )
    if options.by not in ("random", "time", "degree"):
        raise UnsupportedArgument(
            f"by={options.by!r} is not valid: expected 'random', 'time' or 'degree'"
        )
    if options.by != "random" and any(t.name == "graph_id" for t in owner.tensors):
        raise UnsupportedArgument(
            f"by={options.by!r} splits nodes, but node type {owner.name!r} holds many graphs, "
            "which are split as wholes; use by='random'"
        )


class _Units:
    """What is assigned: nodes, or graphs with all of their nodes."""

    def __init__(self, snap: Snapshot, owner: NodeType, options: SplitOptions) -> None:
        self._snap, self._owner, self._options = snap, owner, options
        percent = parse_split(options.sizes)
        assert percent is not None
        self._percent = percent
        self.has_graphs = any(tensor.name == "graph_id" for tensor in owner.tensors)
        self._dead = snap.dead_nodes(owner.name)

    def fill(self, codes: Array, tell: Progress) -> None:
        """Writes the code of each node: 0 none, 1 train, 2 val, 3 test."""
        if self.has_graphs:
            self._fill_graphs(codes, tell)
            return
        total = self._owner.num_nodes
        for first, part in self._assigned():
            codes[first : first + len(part)] = part
            tell("split", first + len(part), total)

    def _assigned(self) -> Iterator[tuple[int, Array]]:
        if self._options.by != "random":
            return self._ranked()
        if self._options.stratify:
            labels = _labels(self._owner, "y")
            return _stratified(lambda: self._classes(labels), self._percent, self._options.seed)
        return self._random()

    def _live(self, first: int, count: int) -> Array:
        """Which of some nodes are not deleted."""
        live = np.ones(count, bool)
        low, high = np.searchsorted(self._dead, (first, first + count))
        live[self._dead[low:high] - first] = False
        return live

    def _random(self) -> Iterator[tuple[int, Array]]:
        drawn = _Stream(split_chunks(self._owner.num_nodes_live, self._percent, self._options.seed))
        for span in spans(self._owner.num_nodes, _CHUNK):
            live = self._live(span.start, span.stop - span.start)
            codes = np.zeros(len(live), np.uint8)
            codes[live] = drawn.take(int(live.sum()))
            yield span.start, codes

    def _classes(self, labels: TensorMeta) -> Iterator[tuple[int, Array]]:
        """The class of each node; -1 for deleted and unlabelled ones."""
        for first, values in self._snap.scan(self._owner, labels.name):
            yield first, np.where(self._live(first, len(values)), values, -1)

    def _keys(self) -> Iterator[tuple[int, Array, Array]]:
        """(first node, keys that sort as nodes do, which nodes have one)."""
        if self._options.by == "time":
            tensor = _times(self._snap, self._owner, self._options.time_attr)
            for first, values in self._snap.scan(self._owner, tensor):
                known = self._live(first, len(values))
                if values.dtype.kind == "f":
                    known &= ~np.isnan(values)
                yield first, sortable(values), known
            return
        into = [e for e in self._snap.schema.edge_types if e.destination == self._owner.name]
        for span in spans(self._owner.num_nodes, _CHUNK):
            ids = np.arange(span.start, span.stop)
            degrees = sum((self._snap.degrees(e.triple, ids) for e in into), np.zeros_like(ids))
            yield span.start, sortable(-degrees), self._live(span.start, len(ids))

    def _ranked(self) -> Iterator[tuple[int, Array]]:
        known = sum(int(known.sum()) for _, _, known in self._keys())
        parts = split_counts(known, self._percent)
        ranks = [parts[1], parts[1] + parts[2], parts[1] + parts[2] + parts[3]]
        found: list[Boundary] = boundaries(
            lambda: (keys[known] for _, keys, known in self._keys()), ranks
        )
        for first, keys, has_key in self._keys():
            codes = np.zeros(len(keys), np.uint8)
            train, val, test = (boundary.below(keys[has_key]) for boundary in found)
            codes[has_key] = np.select([train, val, test], [1, 2, 3], 0)
            yield first, codes

    def _fill_graphs(self, codes: Array, tell: Progress) -> None:
        snap, owner = self._snap, self._owner
        ids = snap.scan(owner, "graph_id")
        count = 1 + max((int(part.max(initial=-1)) for _, part in ids), default=-1)
        if self._options.stratify:
            labels = _labels(owner, "graph_y").name
            of_graph = np.full(count, -1, np.int64)
            pieces = zip(snap.scan(owner, "graph_id"), snap.scan(owner, labels), strict=True)
            for (_, graphs), (_, values) in pieces:
                of_graph[graphs] = values
            parts = _stratified(lambda: iter([(0, of_graph)]), self._percent, self._options.seed)
        else:
            parts = ((0, part) for part in split_chunks(count, self._percent, self._options.seed))
        by_graph = np.concatenate([np.empty(0, np.uint8), *(part for _, part in parts)])
        for first, graphs in snap.scan(owner, "graph_id"):
            live = self._live(first, len(graphs))
            codes[first : first + len(graphs)] = np.where(live, by_graph[graphs], 0)
            tell("split", first + len(graphs), owner.num_nodes)


class _Stream:
    """Takes as many elements at once as are wanted, from arrays of any length."""

    def __init__(self, pieces: Iterator[Array]) -> None:
        self._pieces, self._rest = pieces, np.empty(0, np.uint8)

    def take(self, count: int) -> Array:
        """The next elements."""
        taken = [self._rest[:count]]
        self._rest = self._rest[count:]
        while (missing := count - sum(map(len, taken))) > 0:
            piece = next(self._pieces)
            taken.append(piece[:missing])
            self._rest = piece[missing:]
        return np.concatenate(taken)


def _stratified(
    classes: Callable[[], Iterator[tuple[int, Array]]],
    percent: tuple[float, float, float],
    seed: int,
) -> Iterator[tuple[int, Array]]:
    """Codes by which each class has the same shares; those of class -1 are 0."""
    counts: dict[int, int] = {}
    for _, values in classes():
        known, found = np.unique(values, return_counts=True)
        for kind, count in zip(known.tolist(), found.tolist(), strict=True):
            counts[kind] = counts.get(kind, 0) + count
    drawn = {
        kind: _Stream(split_chunks(count, percent, (seed << 64) + kind + 1))
        for kind, count in counts.items()
        if kind >= 0
    }
    for first, values in classes():
        codes = np.zeros(len(values), np.uint8)
        for kind in np.unique(values[values >= 0]).tolist():
            places = np.flatnonzero(values == kind)
            codes[places] = drawn[kind].take(len(places))
        yield first, codes


def _labels(owner: NodeType, name: str) -> TensorMeta:
    for tensor in owner.tensors:
        if tensor.name == name and tensor.dtype == "i64" and not tensor.shape:
            return tensor
    raise UnsupportedArgument(
        f"stratify=True needs one class for each node, but node type {owner.name!r} has no tensor "
        f"{name!r} of int64; leave out stratify=True"
    )


def _times(snap: Snapshot, owner: NodeType, name: str) -> str:
    tensor = snap.schema.tensor(owner, name)
    if tensor.shape or tensor.dtype in ("bf16", "bool"):
        raise UnsupportedArgument(
            f"tensor {name!r} of node type {owner.name!r} has dtype {tensor.dtype} and rows of "
            f"shape {list(tensor.shape)}, not one time for each node; name another tensor with "
            "time_attr="
        )
    return name


def _replace(store: Store, snap: Snapshot, owner: NodeType, tensor: str, codes: Array) -> int:
    """Changes a split that exists, in one transaction."""
    dead = snap.dead_nodes(owner.name)
    with store.write() as transaction:
        for span in spans(owner.num_nodes, _ROWS_AT_ONCE):
            ids = np.setdiff1d(np.arange(span.start, span.stop), dead, assume_unique=True)
            if len(ids):
                transaction.update_features(owner.name, ids, tensor, np.asarray(codes[ids]))
    assert transaction.lsn is not None
    return transaction.lsn
