"""Batches of neighbours by importance, as PinSAGE has them (Ying et al., KDD 2018)."""

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
    """Edges that no walk takes: `percent` of them, by a hash of their ends and `seed`.

    Which ones they are is the rule by which `neargraph.train` holds links out; `symmetric` makes an
    edge and its reverse one.

    Raises:
        ValueError: `percent` is not a number from 0 to 100.
    """

    seed: int
    percent: float
    symmetric: bool

    def __post_init__(self) -> None:
        if not is_number(self.percent) or not 0 <= self.percent <= 100:
            raise ValueError(f"percent must be a number from 0 to 100, got {self.percent!r}")


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
    """The same around links."""

    graph = _Collator.graph
    node_type: str


class PinSAGELoader(SamplingLoader):
    """Mini-batches in which the neighbours of a node are those that short walks visit most.

    From each node `num_walks` walks begin. Each goes along the path `walk_length` times and begins
    again at the node with the chance `restart` in between. The `num_neighbors` nodes of its own
    type that are visited most often are its neighbours (more visits first, then smaller ids; the
    node itself does not count).

    Each batch is a `Data` of nodes of one type: ``x`` and the other tensors [n, ...],
    ``edge_index`` [2, e] from a visited node to where the walk began, ``edge_weight`` [e] (the
    share of the visits among the neighbours that are kept; they add up to 1 for each node),
    ``n_id``, ``input_id``, ``batch_size`` and ``num_sampled_nodes`` per hop.

    Args:
        data: The open store, or a snapshot.
        num_neighbors: Neighbours of each node, by hop.
        input_nodes: The seeds, as of `NeighborLoader`.
        path: The edge types of a walk that ends at the type where it begins, such as
            ``[("user", "views", "item"), ("item", "rev_views", "user")]`` for items: a step leads
            from a node to a source of its list. None where there is one edge type.
        num_walks: Walks from each node.
        walk_length: How often the path is walked in each of them.
        restart: The chance to begin again before the path is walked once more.
        edge_label_index: Make batches around links instead of nodes, where there is one node type:
            links in all forms of `LinkNeighborLoader`. Batches have its attributes beside
            ``edge_weight``.
        edge_label: A label for each link.
        neg_sampling: Negative links, as of `LinkNeighborLoader`.
        input_id: What ``batch.input_id`` says of each seed, int64.
        held_out: Edges that no walk takes, so that links can be held out of training. A walker at a
            node all of whose edges are held out begins again, as at one without edges; so does one
            that draws 64 held-out edges in turn.
        **options: As of `NeighborLoader`: `batch_size`, `shuffle`, `seed`, `attrs`, `transform`,
            `reading`, `ranks`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: No such type.
        UnsupportedArgument: Steps do not follow each other, or seeds are of another type; or
            `attrs` names tensors of other types than that of the seeds.

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
        if edge_label_index is None and neg_sampling is None:
            if edge_label is not None:
                raise UnsupportedArgument("edge_label is for links; give edge_label_index")
            inputs = with_given(resolve_input_nodes(snapshot, input_nodes), input_id=input_id)
            _check_start(inputs.node_type.name, types[0].destination)
            sampler = SpreadSampler(snapshot, **how)
            of_type = [t for t in sampler.tensors if t[:2] == ("node", inputs.node_type.index)]
            _check_attrs(snapshot.schema, inputs.node_type, given.attrs, sampler.tensors)
            collator = _Collator(sampler.schema, of_type, x_cast)
            collator.node_type = inputs.node_type.name
            self._start(sampler, inputs, collator, given)
            return
        if input_nodes is not None:
            raise UnsupportedArgument("give input_nodes or links, not both")
        only_edge_type(snapshot.schema, "a graph whose links are scored by visits")
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


def _check_walks(num_neighbors: Any, num_walks: int, walk_length: int, restart: float) -> list[int]:
    """The neighbours of each hop, if all numbers are valid."""
    for name, value in (("num_walks", num_walks), ("walk_length", walk_length)):
        check_count(name, value, 1, LARGEST_DRAWS)
    if not isinstance(num_neighbors, list | tuple):
        raise ValueError(f"num_neighbors is a list, one count by hop; got {num_neighbors!r}")
    neighbors = list(num_neighbors)
    for count in neighbors:
        check_count("num_neighbors", count, 1, LARGEST_DRAWS)
    if not is_number(restart) or not 0 <= restart < 1:
        raise ValueError(f"restart is a chance from 0 to below 1, got {restart!r}")
    return neighbors


def _check_attrs(
    schema: Schema, seeds: NodeType, attrs: Attrs, tensors: list[tuple[Kind, int, str]]
) -> None:
    """Refuses tensors of other types than that of the nodes of a batch, where they are named."""
    if attrs is None:
        return
    own = {name for kind, index, name in tensors if (kind, index) == ("node", seeds.index)}
    by_type = isinstance(attrs, Mapping)
    for kind, index, name in tensors:
        if (kind, index) == ("node", seeds.index) or (name in own and not by_type):
            continue
        of = schema.node_types[index].name if kind == "node" else schema.edge_type_at(index).triple
        raise UnsupportedArgument(
            f"attrs names {name!r}, a tensor of {of!r}, and batches have nodes of type "
            f"{seeds.name!r} alone; leave it out of attrs"
        )


def _check_start(seeds: str, start: str) -> None:
    if seeds != start:
        raise UnsupportedArgument(
            f"walks along this path begin at nodes of type {start!r}, and the seeds are of type "
            f"{seeds!r}"
        )
