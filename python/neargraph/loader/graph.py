"""Batches of whole graphs, of a store that holds many small ones (PyG's DataLoader).

The node tensor ``graph_id`` says which nodes make a graph; their numbers stand side by side.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import NameNotFound, NodeOutOfRange, UnsupportedArgument
from neargraph.loader.methods import WEIGHT_ATTR
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.sampler import resolve_attrs
from neargraph.loader.seeds import InputNodes, digest_of
from neargraph.loader.shape import EDGE_TIME
from neargraph.loader.spreading import SpreadSampler, only_edge_type
from neargraph.reader import Reader, as_ids
from neargraph.schema import Schema
from neargraph.splits import SPLITS, split_columns

with torch_for("GraphLoader"):
    import torch
    from torch_geometric.data import Batch

from neargraph.loader.collate import take_rows
from neargraph.loader.sampling import LoaderOptions, SamplingLoader
from neargraph.loader.whole import WholeCollator

GRAPH_ID = "graph_id"
"""The node tensor that says which graph a node belongs to."""
GRAPH_TENSORS = "graph_"
"""Node tensors of this prefix repeat what belongs to a graph for each of its nodes."""
_NOT_SEPARATED = ("batch", "ptr", "num_nodes", "num_padding")
_OF_BATCHES = ("batch", "ptr", "edge_index", "n_id", "e_id", "num_nodes", "num_padding")


@dataclass(frozen=True, kw_only=True)
class _Graphs(InputNodes):
    """Graphs by place: `graphs` [n], or all of them.

    `ends` says which nodes each has, counted without the deleted ones.
    """

    ends: NDArray[np.int64] = field(repr=False)
    graphs: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ends) - 1 if self.graphs is None else len(self.graphs)

    def core(self) -> _core.Inputs:
        if self.graphs is None and self.dead is None:
            return _core.Inputs.groups(self.node_type.index, self.ends, None)
        places = np.arange(len(self))
        ends = np.concatenate([[0], np.cumsum(self.sizes(places))])
        return _core.Inputs.groups(self.node_type.index, ends, self.nodes(places))

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        return _core.Inputs(self.node_type.index, self.nodes(places), None, None)

    def sizes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many nodes the graphs at `places` have."""
        sizes: NDArray[np.int64] = np.diff(self.ends)[self.input_id(places)]
        return sizes

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        starts, sizes = self.ends[self.input_id(places)], self.sizes(places)
        before = np.cumsum(sizes) - sizes
        return super().nodes(np.arange(sizes.sum()) + np.repeat(starts - before, sizes))

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places if self.graphs is None else self.graphs[places]

    def digest(self) -> str:
        which = "all" if self.graphs is None else digest_of(self.graphs)
        return f"{self.node_type.name}:graphs:{len(self)}:{which}"


class _Collator(WholeCollator):
    """A `Batch` of graphs, with what belongs to a graph once for each.

    Args:
        inputs: The graphs.
        schema: Types of the store.
        tensors: The (kind, type id, name) triples that batches carry.
        x_dtype: As of `Collator`.
        followed: The attributes of which batches say the graph of each row.
        excluded: The attributes that batches do not have.
    """

    def __init__(
        self,
        inputs: _Graphs,
        schema: Schema,
        tensors: list[Any],
        x_dtype: torch.dtype | None,
        *,
        followed: list[str],
        excluded: list[str],
    ) -> None:
        super().__init__(schema, tensors, x_dtype, by_hop=False)
        self._inputs, self._followed, self._excluded = inputs, followed, excluded
        columns = self._node_columns[0]
        plain = [meta.name for meta in columns if not meta.is_split and meta.name != GRAPH_ID]
        masks = [f"{name}_mask" for name in SPLITS] if any(m.is_split for m in columns) else []
        self._of_graphs = {name: name for name in masks}
        self._of_graphs |= {name: _in_batch(name) for name in plain if _in_batch(name) != name}
        edges = [meta.name for found in self._edge_columns.values() for meta in found]
        edges += [EDGE_TIME for owner in schema.edge_types if owner.has_time]
        edges += [WEIGHT_ATTR for owner in schema.edge_types if owner.has_weight]
        self._of_each = {GRAPH_ID, *self._of_graphs.values()}
        self._of_edges = {"edge_index", "e_id", *edges}
        named = [*(self._of_graphs.get(name, name) for name in [*plain, *masks]), *edges]
        added = [f"{name}_{what}" for name in followed for what in ("batch", "ptr")]
        counts = Counter([*named, GRAPH_ID, *_OF_BATCHES, *added])
        for name, of_batch in [*self._of_graphs.items(), *((name, name) for name in named)]:
            if counts[of_batch] > 1:
                raise UnsupportedArgument(
                    f"tensor {name!r} is {of_batch!r} of a batch, which has something else of that "
                    "name; leave one of them out of attrs"
                )
        always = [GRAPH_ID, "edge_index", "n_id"]
        always += ["e_id" for owner in schema.edge_types if owner.has_edge_ids]
        _check_known("follow_batch", followed, {*named, *always} - {*excluded})

    def __call__(self, batch: MiniBatch) -> Any:
        data, graphs = super().__call__(batch), batch.input_id
        sizes = torch.from_numpy(self._inputs.sizes(batch.places))
        ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        out = Batch()
        for name, value in data.items():
            if name in self._of_graphs:
                out[self._of_graphs[name]] = take_rows(value, ptr[:-1])
            elif name != GRAPH_ID:
                out[name] = value
        out.batch = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        out.ptr, out.graph_id = ptr, torch.from_numpy(graphs)
        if len(np.unique(graphs)) < len(graphs):
            out.edge_index = _within_copies(out)
        # What PyG's Batch takes the number of its graphs from.
        out._num_graphs = len(sizes)
        ends = self._ends(out)
        self._separable(out, sizes, ends)
        for name in self._followed:
            counts = ends[name].diff()
            out[f"{name}_batch"] = torch.repeat_interleave(torch.arange(len(sizes)), counts)
            out[f"{name}_ptr"] = ends[name]
        for name in self._excluded:
            if name in out:
                del out[name]
        return out

    def _ends(self, out: Any) -> dict[str, torch.Tensor]:
        """By attribute: where the rows of each graph begin, and where those of the last one end,
        [g + 1]. Edges belong to the graph of their destination. They come list by list, so those
        of a graph stand side by side."""
        count = len(out.graph_id)
        edges = torch.bincount(out.batch[out.edge_index[1]], minlength=count).cumsum(0)
        edges = torch.cat([edges.new_zeros(1), edges])
        ends = {}
        for name, _ in out:
            if name in self._of_edges:
                ends[name] = edges
            elif name in self._of_each:
                ends[name] = torch.arange(count + 1)
            elif name not in _NOT_SEPARATED:
                ends[name] = out.ptr
        return ends

    def _separable(self, out: Any, sizes: torch.Tensor, ends: dict[str, torch.Tensor]) -> None:
        """Keeps what PyG's `to_data_list` takes a batch apart by: where each graph begins, and by
        how much its node numbers were raised. Edges between graphs belong to none, and torch does
        not slice sparse CSR tensors: then there is nothing to keep."""
        source, destination = (out.batch[nodes] for nodes in out.edge_index)
        sparse = any(torch.is_tensor(v) and v.layout != torch.strided for _, v in out)
        if sparse or not torch.equal(source, destination):
            return
        raised = dict.fromkeys(ends, torch.zeros_like(sizes)) | {"edge_index": out.ptr[:-1]}
        out._slice_dict, out._inc_dict = ends, raised
        if "num_nodes" in out:
            out._num_nodes = sizes.tolist()


def _in_batch(name: str) -> str:
    """What batches call a node tensor."""
    is_own = name != GRAPH_ID and name.startswith(GRAPH_TENSORS)
    return name.removeprefix(GRAPH_TENSORS) if is_own else name


def _tensors_but(schema: Schema, attrs: Any, excluded: list[str]) -> dict[Any, list[str]]:
    """The tensors to read, by type: those of `attrs` that no batch would leave out.

    Raises:
        NameNotFound: No batch has an attribute of a name that is excluded.
    """
    read: dict[Any, list[str]] = {}
    known = {GRAPH_ID, "edge_index", "n_id", "e_id", EDGE_TIME, WEIGHT_ATTR}
    for kind, index, name in resolve_attrs(schema, attrs):
        is_node = kind == "node"
        key = schema.node_types[index].name if is_node else schema.edge_type_at(index).triple
        of_batch = _in_batch(name) if is_node else name
        is_split = is_node and name in split_columns(schema.node_types[index])
        known |= {f"{split}_mask" for split in SPLITS} if is_split else {of_batch}
        if of_batch not in excluded:
            read.setdefault(key, []).append(name)
    _check_known("exclude_keys", excluded, known)
    return read


def _check_known(argument: str, names: list[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise NameNotFound(
                f"{argument}: batches have no attribute {name!r} of graphs; they have "
                f"{sorted(known)}"
            )


def _names(argument: str, given: Any) -> list[str]:
    """PyG's list of names, or None."""
    if isinstance(given, str):
        raise TypeError(f"{argument} is a list of names, got the text {given!r}; use [{given!r}]")
    return list(given or ())


def _within_copies(batch: Any) -> torch.Tensor:
    """The edges of a batch that has some graph more than once. Each destination has its list, and
    sources are numbered in one copy of their graph: they go to that of the destination."""
    source, destination = (batch.batch[ends] for ends in batch.edge_index)
    inside = batch.graph_id[source] == batch.graph_id[destination]
    moved = torch.where(inside, batch.ptr[destination] - batch.ptr[source], 0)
    return torch.stack([batch.edge_index[0] + moved, batch.edge_index[1]])


class GraphLoader(SamplingLoader):
    """Batches of whole graphs, as `torch_geometric.data.Batch`.

    Each batch has ``x`` and the other node tensors [n, ...], ``edge_index`` [2, e], edge tensors,
    ``batch`` [n] and ``ptr`` [g + 1], ``graph_id`` [g], and for each graph what node tensors named
    ``graph_...`` repeat for each of its nodes, without that prefix: ``y`` [g, ...] of ``graph_y``.
    Several ranks repeat graphs to fill the last batch, and ``num_padding`` counts those at its end.
    ``batch[i]`` and ``batch.to_data_list()`` give the graphs one by one, as of PyG's `DataLoader`,
    unless the batch has edges between two graphs, or sparse rows.

    The arguments up to `exclude_keys` are those of PyG's `DataLoader`, in its order.

    Args:
        data: The open store, or a snapshot, with the node tensor ``graph_id``.
        batch_size: Graphs of a batch.
        shuffle: Permute the graphs anew in every epoch, keyed by `seed`.
        follow_batch: Attributes such as ``["edge_attr"]`` of which batches say the graph of each
            row: ``edge_attr_batch`` and where each graph begins, ``edge_attr_ptr`` [g + 1]. Edges
            belong to the graph of their destination.
        exclude_keys: Attributes that batches do not have; tensors among them are not read.
        graphs: Which graphs: None for all that have nodes, ``"train"`` / ``"val"`` / ``"test"`` for
            those whose nodes are in that split, numbers [n] or a boolean mask [number of graphs].
        **options: As of `NeighborLoader`: `seed`, `attrs`, `x_dtype`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: The store has no ``graph_id``, or no such split, or batches have no attribute
            that `follow_batch` or `exclude_keys` name.
        UnsupportedArgument: Graphs are not numbered in the order of their nodes; or one that is
            named has no nodes left; or two tensors would have one name in a batch.

    Example:
        >>> loader = ng.GraphLoader(store, batch_size=128, graphs="train", shuffle=True)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index, batch.batch)
    """

    def __init__(
        self,
        data: Reader,
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        *,
        graphs: Any = None,
        **options: Any,
    ) -> None:
        if not isinstance(shuffle, bool):
            raise ValueError(
                f"shuffle={shuffle!r} is not True or False; name the graphs to load in graphs="
            )
        options |= {"batch_size": batch_size, "shuffle": shuffle}
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, "a store of many graphs")
        ends = graph_ends(snapshot)
        owner = snapshot.schema.node_types[0]
        chosen = _chosen(snapshot, ends, graphs)
        dead = snapshot.dead_nodes(owner.name)
        ends = ends - np.searchsorted(dead, ends)
        inputs = _Graphs(
            owner,
            None,
            False,
            dead if len(dead) else None,
            ends=ends,
            graphs=_with_nodes(np.diff(ends), chosen),
        )
        rows, x_cast = given.rows(snapshot.schema)
        excluded = _names("exclude_keys", exclude_keys)
        if excluded:
            rows["attrs"] = _tensors_but(snapshot.schema, given.attrs, excluded)
        sampler = SpreadSampler(snapshot, seed=given.seed, **rows)
        followed = _names("follow_batch", follow_batch)
        collator = _Collator(
            inputs, sampler.schema, sampler.tensors, x_cast, followed=followed, excluded=excluded
        )
        self._start(sampler, inputs, collator, given)

    @property
    def num_graphs(self) -> int:
        """Graphs of an epoch."""
        return len(self._source.inputs)

    def __repr__(self) -> str:
        return (
            f"GraphLoader({self.snapshot.path!r}, graphs={self.num_graphs:,}, "
            f"batch_size={self.batch_size})"
        )


def graph_ends(store: Reader) -> NDArray[np.int64]:
    """The first node of each graph, and the end of the last one, [graphs + 1].

    Raises:
        NameNotFound: The store has no ``graph_id``.
        UnsupportedArgument: Graphs are not numbered from 0 in the order of their nodes.
    """
    snapshot = store.snapshot()
    owner = snapshot.schema.node_types[0]
    if all(t.name != GRAPH_ID for t in owner.tensors):
        raise NameNotFound(
            f"{snapshot.path}: no node tensor {GRAPH_ID!r}, which says the graph of each node; "
            "import a data set of many graphs"
        )
    meta = snapshot.schema.tensor(owner, GRAPH_ID)
    if meta.dtype != "i64" or meta.num_columns != 1:
        raise UnsupportedArgument(
            f"{snapshot.path}: {GRAPH_ID!r} holds one int64 for each node, and this tensor has "
            f"dtype {meta.dtype} and rows of shape {list(meta.shape)}"
        )
    # Behind a graph -1 that is not there the first step leads to graph 0.
    last = np.int64(-1)
    starts = [np.zeros(0, np.int64)]
    for first, rows in snapshot.scan(owner, meta.name):
        ids = rows.reshape(-1)
        steps = np.diff(ids, prepend=last)
        good = (steps == 1) | ((steps == 0) & (ids >= 0))
        if len(bad := np.flatnonzero(~good)):
            raise UnsupportedArgument(
                f"{snapshot.path}: node {first + int(bad[0])} belongs to graph "
                f"{int(ids[bad[0]])}; graphs have to be numbered from 0 in the order of their nodes"
            )
        starts.append(first + np.flatnonzero(steps))
        last = ids[-1]
    return np.concatenate([*starts, [owner.num_nodes]]).astype(np.int64)


def _with_nodes(
    sizes: NDArray[np.int64], chosen: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """The graphs to load: those chosen, all of which need nodes; else all that have nodes, where
    None stands for all."""
    if chosen is None:
        return None if (sizes > 0).all() else np.flatnonzero(sizes)
    if len(empty := chosen[sizes[chosen] == 0]):
        raise UnsupportedArgument(
            f"graphs: all nodes of graph {int(empty[0])} were deleted; leave it out of graphs="
        )
    return chosen


def _chosen(store: Reader, ends: NDArray[np.int64], given: Any) -> NDArray[np.int64] | None:
    count = len(ends) - 1
    if given is None:
        return None
    if isinstance(given, str):
        nodes = store.snapshot().split(given)
        return np.unique(np.searchsorted(ends, nodes, side="right") - 1)
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise ValueError(f"a mask over graphs has shape [{count}], got {list(array.shape)}")
        return np.flatnonzero(array)
    ids = as_ids(array)
    if len(bad := ids[(ids < 0) | (ids >= count)]):
        raise NodeOutOfRange(f"graphs: number {int(bad[0])} is not in 0 ... {count - 1}")
    return ids
