"""Batches of whole graphs from a store of many small graphs (PyG's DataLoader).

The node tensor ``graph_id`` holds the graph of each node. The nodes of a graph have consecutive
ids.
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
"""The node tensor that holds the graph of each node."""
GRAPH_TENSORS = "graph_"
"""The prefix of node tensors that repeat a value of the graph for each of its nodes."""
_NOT_SEPARATED = ("batch", "ptr", "num_nodes", "num_padding")
_OF_BATCHES = ("batch", "ptr", "edge_index", "n_id", "e_id", "num_nodes", "num_padding")


@dataclass(frozen=True, kw_only=True)
class _Graphs(InputNodes):
    """Graphs by place: `graphs` [n], or all of them.

    `ends` has the first node of each graph and the end of the last, without deleted nodes.
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
        """Returns the number of nodes of the graphs at `places`."""
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
    """A `Batch` of graphs, with each value of a graph once.

    Args:
        inputs: The graphs.
        schema: Types of the store.
        tensors: The (kind, type id, name) triples of the tensors in batches.
        x_dtype: As in `Collator`.
        followed: The attributes for whose rows batches hold the graph.
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
                    f"tensor {name!r} becomes the attribute {of_batch!r} of a batch, but batches "
                    f"already have another attribute {of_batch!r}; leave the tensor out of attrs="
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
        # PyG's Batch reads the number of its graphs from it.
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
        """Returns by attribute the first row of each graph and the end of the last one, [g + 1].

        Edges belong to the graph of their destination. They come list by list, so those of a graph
        are consecutive.
        """
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
        """Adds the fields by which PyG's `to_data_list` splits a batch into graphs.

        These are the start of each graph and the offset of its node numbers. A batch with edges
        between graphs, or with sparse CSR tensors, which torch cannot slice, has no such fields.
        """
        source, destination = (out.batch[nodes] for nodes in out.edge_index)
        sparse = any(torch.is_tensor(v) and v.layout != torch.strided for _, v in out)
        if sparse or not torch.equal(source, destination):
            return
        raised = dict.fromkeys(ends, torch.zeros_like(sizes)) | {"edge_index": out.ptr[:-1]}
        out._slice_dict, out._inc_dict = ends, raised
        if "num_nodes" in out:
            out._num_nodes = sizes.tolist()


def _in_batch(name: str) -> str:
    """Returns the name of a node tensor in batches."""
    is_own = name != GRAPH_ID and name.startswith(GRAPH_TENSORS)
    return name.removeprefix(GRAPH_TENSORS) if is_own else name


def _tensors_but(schema: Schema, attrs: Any, excluded: list[str]) -> dict[Any, list[str]]:
    """Returns the tensors to read by type: those of `attrs` without the excluded ones.

    Raises:
        NameNotFound: An excluded name is not an attribute of batches.
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
                f"{argument}= names {name!r}, which is not an attribute of the batches; their "
                f"attributes are {sorted(known)}"
            )


def _names(argument: str, given: Any) -> list[str]:
    """Returns a list of names that may be None.

    Raises:
        TypeError: It is a single text.
    """
    if isinstance(given, str):
        raise TypeError(
            f"{argument}= must be a list of names, got the string {given!r}; use [{given!r}]"
        )
    return list(given or ())


def _within_copies(batch: Any) -> torch.Tensor:
    """Returns the edges of a batch that contains some graph more than once.

    Each copy of a destination has its list, but sources are numbered in one copy of their graph.
    They are moved to the copy of the destination.
    """
    source, destination = (batch.batch[ends] for ends in batch.edge_index)
    inside = batch.graph_id[source] == batch.graph_id[destination]
    moved = torch.where(inside, batch.ptr[destination] - batch.ptr[source], 0)
    return torch.stack([batch.edge_index[0] + moved, batch.edge_index[1]])


class GraphLoader(SamplingLoader):
    """Batches of whole graphs, as `torch_geometric.data.Batch`.

    Each batch has:

    - ``x`` and the other node tensors [n, ...]
    - ``edge_index`` [2, e], and the edge tensors [e, ...]
    - ``batch`` [n], the graph of each node, and ``ptr`` [g + 1], the first node of each graph
    - ``graph_id`` [g], the numbers of the graphs
    - the values of node tensors named ``graph_...`` once per graph, without the prefix: ``graph_y``
      becomes ``y`` [g, ...]
    - ``num_padding``, if several ranks repeat graphs at the end of the last batch

    ``batch[i]`` and ``batch.to_data_list()`` return single graphs, as with PyG's `DataLoader`,
    unless the batch has edges between two graphs, or sparse rows.

    The arguments up to `exclude_keys` are those of PyG's `DataLoader`, in its order.

    Args:
        data: The open store or a snapshot, with the node tensor ``graph_id``.
        batch_size: Graphs per batch.
        shuffle: Permute the graphs, with a new order in every epoch. It depends on `seed`.
        follow_batch: Attributes, such as ``["edge_attr"]``, for which batches have the graph of
            each row, ``edge_attr_batch`` [e], and the first row of each graph, ``edge_attr_ptr``
            [g + 1]. Edges belong to the graph of their destination.
        exclude_keys: Attributes to leave out of batches. Their tensors are not read.
        graphs: The graphs of an epoch: numbers [n], a boolean mask [number of graphs], or
            ``"train"`` / ``"val"`` / ``"test"`` for the graphs whose nodes are in that split.
            None: all graphs that have nodes.
        **options: As in `NeighborLoader`: `seed`, `attrs`, `x_dtype`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: The store has no ``graph_id`` or no such split, or a name in `follow_batch` or
            `exclude_keys` is not an attribute of batches.
        NodeOutOfRange: A number in `graphs` is out of range.
        UnsupportedArgument: Graphs are not numbered in the order of their nodes, all nodes of a
            graph in `graphs` are deleted, or two tensors have the same name in a batch.

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
                f"shuffle={shuffle!r} is not valid: expected True or False; to choose graphs, "
                "give graphs="
            )
        options |= {"batch_size": batch_size, "shuffle": shuffle}
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, type(self).__name__)
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
        """Number of graphs in an epoch."""
        return len(self._source.inputs)

    def __repr__(self) -> str:
        return (
            f"GraphLoader({self.snapshot.path!r}, graphs={self.num_graphs:,}, "
            f"batch_size={self.batch_size})"
        )


def graph_ends(store: Reader) -> NDArray[np.int64]:
    """Returns the first node of each graph and the end of the last one, int64 [graphs + 1].

    Raises:
        NameNotFound: The store has no ``graph_id``.
        UnsupportedArgument: ``graph_id`` is not one int64 per node, or graphs are not numbered from
            0 in the order of their nodes.
    """
    snapshot = store.snapshot()
    owner = snapshot.schema.node_types[0]
    if all(t.name != GRAPH_ID for t in owner.tensors):
        raise NameNotFound(
            f"{snapshot.path}: the store has no node tensor {GRAPH_ID!r} with the number of each "
            "node's graph; import a data set of many graphs"
        )
    meta = snapshot.schema.tensor(owner, GRAPH_ID)
    if meta.dtype != "i64" or meta.num_columns != 1:
        raise UnsupportedArgument(
            f"{snapshot.path}: the node tensor {GRAPH_ID!r} must hold one int64 per node, got "
            f"dtype {meta.dtype} and rows of shape {list(meta.shape)}"
        )
    # Starting from -1, the first step leads to graph 0.
    last = np.int64(-1)
    starts = [np.zeros(0, np.int64)]
    for first, rows in snapshot.scan(owner, meta.name):
        ids = rows.reshape(-1)
        steps = np.diff(ids, prepend=last)
        good = (steps == 1) | ((steps == 0) & (ids >= 0))
        if len(bad := np.flatnonzero(~good)):
            raise UnsupportedArgument(
                f"{snapshot.path}: {GRAPH_ID!r} of node {first + int(bad[0])} is "
                f"{int(ids[bad[0]])}, but graphs must be numbered from 0 in the order of their "
                "nodes"
            )
        starts.append(first + np.flatnonzero(steps))
        last = ids[-1]
    return np.concatenate([*starts, [owner.num_nodes]]).astype(np.int64)


def _with_nodes(
    sizes: NDArray[np.int64], chosen: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """Returns the graphs to load: those chosen, or all that have nodes; None stands for all.

    Raises:
        UnsupportedArgument: A chosen graph has no nodes.
    """
    if chosen is None:
        return None if (sizes > 0).all() else np.flatnonzero(sizes)
    if len(empty := chosen[sizes[chosen] == 0]):
        raise UnsupportedArgument(
            f"graphs= contains graph {int(empty[0])}, but all nodes of graph {int(empty[0])} "
            "were deleted; leave this graph out"
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
            raise ValueError(
                f"a mask over graphs must have shape [{count}], got {list(array.shape)}"
            )
        return np.flatnonzero(array)
    ids = as_ids(array)
    if len(bad := ids[(ids < 0) | (ids >= count)]):
        raise NodeOutOfRange(
            f"graphs= contains {int(bad[0])}, which is not the number of a graph: expected 0 to "
            f"{count - 1}"
        )
    return ids
