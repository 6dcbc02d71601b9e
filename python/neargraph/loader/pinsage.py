"""Batches of neighbours by importance, as in PinSAGE (Ying et al., KDD 2018)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neargraph._optional import torch_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import LARGEST_DRAWS, check_count, is_number
from neargraph.loader.sampler import Attrs
from neargraph.loader.seeds import one_for_each, resolve_input_nodes, with_given
from neargraph.loader.spreading import SpreadSampler, only_edge_type, path_of
from neargraph.reader import Reader
from neargraph.schema import Kind, NodeType, Schema

with torch_for("PinSAGELoader"):
    import torch
    from torch_geometric.data import Data

from neargraph.loader.collate import Collator
from neargraph.loader.link import (
    InputLinks,
    LinkCollator,
    resolve_labels,
    resolve_links,
    resolve_negatives,
)
from neargraph.loader.sampling import LoaderOptions, SamplingLoader


@dataclass(frozen=True)
class HeldOutEdges:
    """A rule that selects the edges held out of training. Walks do not take these edges.

    `neargraph.train` holds out links by the same rule. A hash of `seed` and of the ends of an edge
    decides.

    Attributes:
        seed: Seed of the hash.
        percent: Share of the edges, from 0 to 100.
        symmetric: An edge and its reverse are both held out, or neither.

    Raises:
        ValueError: `percent` is not a number from 0 to 100.
    """

    seed: int
    percent: float
    symmetric: bool

    def __post_init__(self) -> None:
        if not is_number(self.percent) or not 0 <= self.percent <= 100:
            raise ValueError(
                f"percent={self.percent!r} is not valid: expected a number from 0 to 100"
            )


class _Collator(Collator):
    """Nodes of one type, and visits as their edges."""

    node_type: str

    def __call__(self, batch: MiniBatch) -> Any:
        data = self.graph(batch)
        self._seeds(batch, data)
        return data

    def graph(self, batch: MiniBatch) -> Any:
        data = Data()
        self._nodes(batch, self._schema.node_type(self.node_type), data)
        visits = batch.visits
        if visits is None:
            visits = np.zeros((2, 0), np.int64), np.zeros(0, np.float32)
        data.edge_index, data.edge_weight = map(torch.from_numpy, visits)
        return data


class _LinkCollator(LinkCollator):
    """A `LinkCollator` of nodes of one type, with visits as their edges."""

    graph = _Collator.graph
    node_type: str


class PinSAGELoader(SamplingLoader):
    """Mini-batches in which the neighbours of a node are the nodes that short walks visit most.

    `num_walks` walks start at each node. A walk follows the path `walk_length` times, and restarts
    at the node with probability `restart` in between. The neighbours are the `num_neighbors` most
    visited nodes of the same type, without the node itself. Nodes with equal visits are ordered by
    id.

    Each batch is a `Data` of nodes of one type with:

    - ``x`` and the other tensors [n, ...]
    - ``edge_index`` [2, e], from a visited node to the start of the walk
    - ``edge_weight`` [e], the share of visits among the neighbours of a node, which sum to 1
    - ``n_id`` [n], ``input_id`` [s], ``batch_size`` and ``num_sampled_nodes`` per hop

    Args:
        data: The open store or a snapshot.
        num_neighbors: Neighbours per node, as a list with one count per hop.
        input_nodes: The seeds, as in `NeighborLoader`.
        path: The edge types of the steps, which end at the node type where they begin, such as
            ``[("user", "views", "item"), ("item", "rev_views", "user")]`` for items. A step goes
            from a node to a source in its list. None: the only edge type.
        num_walks: Number of walks from each node.
        walk_length: Number of times that a walk follows the path.
        restart: Probability of a restart each time before the path is followed again.
        edge_label_index: Links as seeds, instead of nodes, in all forms of `LinkNeighborLoader`.
            Needs a store with one node type. Batches then also have the attributes of links.
        edge_label: Labels of the links.
        neg_sampling: Negative links, as in `LinkNeighborLoader`.
        input_id: Values of ``batch.input_id``, int64 [number of seeds].
        held_out: Edges that walks do not take. A walk restarts at a node whose edges are all held
            out, as at a node without edges, and after it has drawn 64 held-out edges in a row.
        **options: As in `NeighborLoader`: `batch_size`, `shuffle`, `seed`, `attrs`, `transform`,
            `reading`, `ranks`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: A type does not exist.
        UnsupportedArgument: The steps of `path` are not consecutive, seeds have another type than
            the path begins at, or `attrs` names tensors of another type than that of the seeds.
        ValueError: A count or `restart` is not valid.

    Example:
        >>> loader = ng.PinSAGELoader(store, [10, 5], "item", path=["views", "rev_views"],
        ...                           batch_size=256)
    """

    def __init__(
        self,
        data: Reader,
        num_neighbors: Any,
        input_nodes: Any = None,
        *,
        path: Any = None,
        num_walks: int = 10,
        walk_length: int = 2,
        restart: float = 0.5,
        edge_label_index: Any = None,
        edge_label: Any = None,
        neg_sampling: Any = None,
        input_id: Any = None,
        held_out: HeldOutEdges | None = None,
        **options: Any,
    ) -> None:
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        neighbors = _check_walks(num_neighbors, num_walks, walk_length, restart)
        snapshot = data.snapshot()
        types = path_of(snapshot.schema, path)
        steps = [t.index for t in types]
        rule = None
        if held_out is not None:
            rule = (held_out.seed % 2**64, float(held_out.percent), held_out.symmetric)
        spread = ("visits", steps, num_walks, walk_length, restart, neighbors, rule)
        rows, x_cast = given.rows(snapshot.schema)
        how = {"spread": spread, "induced": False, "seed": given.seed, **rows}
        self._words = f"{steps}:{num_walks}:{walk_length}:{restart}:{neighbors}:{rule}"
        has_links = edge_label_index is not None or neg_sampling is not None
        _check_seeds(has_links, input_nodes, edge_label)
        if not has_links:
            inputs = with_given(resolve_input_nodes(snapshot, input_nodes), input_id=input_id)
            _check_start(inputs.node_type.name, types[0].destination)
            sampler = SpreadSampler(snapshot, **how)
            of_type = [t for t in sampler.tensors if t[:2] == ("node", inputs.node_type.index)]
            _check_attrs(snapshot.schema, inputs.node_type, given.attrs, sampler.tensors)
            collator = _Collator(sampler.schema, of_type, x_cast)
            collator.node_type = inputs.node_type.name
            self._start(sampler, inputs, collator, given)
            return
        only_edge_type(snapshot.schema, f"{type(self).__name__} with links")
        edge_type, ends = resolve_links(snapshot.schema, edge_label_index)
        negatives = resolve_negatives(neg_sampling, None)
        joined = (edge_type.index, negatives, ends is None)
        sampler = SpreadSampler(snapshot, links=joined, **how)
        count = sampler.num_edges if ends is None else ends.shape[1]
        named = None if input_id is None else one_for_each("input_id", input_id, count)
        owner = snapshot.schema.node_types[0]
        _check_attrs(snapshot.schema, owner, given.attrs, sampler.tensors)
        links = InputLinks(
            owner, None, False, edge_type=edge_type, ends=ends, count=count, named=named
        )
        of_links = _LinkCollator(
            sampler.schema,
            [t for t in sampler.tensors if t[0] == "node"],
            x_cast,
            links=links,
            labels=resolve_labels(edge_label, count, negatives),
            negatives=negatives,
            by_hop=True,
        )
        of_links.node_type = owner.name
        self._words += f":{negatives}"
        self._start(sampler, links, of_links, given)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "visits": self._words}

    def __repr__(self) -> str:
        return (
            f"PinSAGELoader({self.snapshot.path!r}, seeds={len(self._source.inputs):,}, "
            f"batch_size={self.batch_size})"
        )


def _check_seeds(has_links: bool, input_nodes: Any, edge_label: Any) -> None:
    """Rejects the arguments of the other kind of seeds.

    Raises:
        UnsupportedArgument: Seeds are links and `input_nodes` is given, or nodes and `edge_label`.
    """
    if has_links and input_nodes is not None:
        raise UnsupportedArgument(
            "input_nodes= has no effect with links (edge_label_index= or neg_sampling=); leave "
            "out input_nodes="
        )
    if not has_links and edge_label is not None:
        raise UnsupportedArgument(
            "edge_label= has no effect without edge_label_index=; give both, or neither"
        )


def _check_walks(num_neighbors: Any, num_walks: int, walk_length: int, restart: float) -> list[int]:
    """Returns the number of neighbours by hop.

    Raises:
        ValueError: A number is not valid.
    """
    for name, value in (("num_walks", num_walks), ("walk_length", walk_length)):
        check_count(name, value, 1, LARGEST_DRAWS)
    if not isinstance(num_neighbors, list | tuple):
        raise ValueError(
            f"num_neighbors= must be a list with one count per hop, got {num_neighbors!r}"
        )
    neighbors = list(num_neighbors)
    for count in neighbors:
        check_count("num_neighbors", count, 1, LARGEST_DRAWS)
    if not is_number(restart) or not 0 <= restart < 1:
        raise ValueError(
            f"restart={restart!r} is not valid: expected a probability of at least 0 and below 1"
        )
    return neighbors


def _check_attrs(
    schema: Schema, seeds: NodeType, attrs: Attrs, tensors: list[tuple[Kind, int, str]]
) -> None:
    """Rejects named tensors of other types than that of the nodes of a batch.

    Raises:
        UnsupportedArgument: `attrs` names such a tensor.
    """
    if attrs is None:
        return
    own = {name for kind, index, name in tensors if (kind, index) == ("node", seeds.index)}
    by_type = isinstance(attrs, Mapping)
    for kind, index, name in tensors:
        if (kind, index) == ("node", seeds.index) or (name in own and not by_type):
            continue
        of = schema.node_types[index].name if kind == "node" else schema.edge_type_at(index).triple
        raise UnsupportedArgument(
            f"attrs= names {name!r}, a tensor of {of!r}, but these batches only have tensors of "
            f"node type {seeds.name!r}; leave {name!r} out of attrs="
        )


def _check_start(seeds: str, start: str) -> None:
    if seeds != start:
        raise UnsupportedArgument(
            f"walks along path= begin at nodes of type {start!r}, but the seeds are nodes of "
            f"type {seeds!r}; give seeds of type {start!r}, or another path="
        )
