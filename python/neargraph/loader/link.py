"""PyG's LinkNeighborLoader over a store on disk.

Seeds are links: given ones, or all edges of a type. The latter are identified by their numbers, so
that no list of them is in memory. The core draws negative links and looks them up in the store. The
invariant: a batch depends on the arguments alone, and a negative link is not an edge of the store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import NodeOutOfRange, UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, digest_of, one_for_each
from neargraph.loader.shape import SubgraphName, TemporalStrategy, reverse_by_name
from neargraph.loader.spreading import LinkSampler
from neargraph.reader import Reader, as_ids
from neargraph.schema import EdgeType, NodeType, Schema

with torch_for("LinkNeighborLoader"):
    import torch
    from torch_geometric.sampler import NegativeSampling

from neargraph.loader.collate import Collator
from neargraph.loader.methods import MethodName, method_by_attr
from neargraph.loader.sampling import LoaderOptions, SamplingLoader


@dataclass(frozen=True, kw_only=True)
class InputLinks(InputNodes):
    """Links of an edge type: `ends` [2, n], or all `count` edges of it."""

    edge_type: EdgeType
    ends: NDArray[np.int64] | None = None
    count: int = 0

    def __len__(self) -> int:
        return self.count if self.ends is None else self.ends.shape[1]

    def core(self) -> _core.Inputs:
        """Returns the links for the compiled core."""
        if self.ends is None:
            return _core.Inputs.links(None, self.times)
        return _core.Inputs.links((self.ends[0], self.ends[1]), self.times)

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        """Returns the links at `places` for the compiled core."""
        times = None if self.times is None else self.times[places]
        if self.ends is None:
            return _core.Inputs.edges(places, times)
        return _core.Inputs.links((self.ends[0, places], self.ends[1, places]), times)

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns PyG's input_id at `places`."""
        return places if self.named is None else self.named[places]

    def digest(self) -> str:
        """Returns a short text that differs if links or their times differ."""
        which = f"all {self.count}" if self.ends is None else digest_of(self.ends)
        timed = "" if self.times is None else f":at:{digest_of(self.times)}"
        return f"{'__'.join(self.edge_type.triple)}:{which}{timed}"


class LinkCollator(Collator):
    """Adds PyG's attributes of links."""

    def __init__(
        self,
        schema: Schema,
        tensors: list[Any],
        x_dtype: torch.dtype | None,
        *,
        links: "InputLinks",
        labels: torch.Tensor | None,
        negatives: tuple[str, float] | None,
        by_hop: bool,
        time_attr: str | None = None,
    ) -> None:
        super().__init__(schema, tensors, x_dtype, by_hop=by_hop, time_attr=time_attr)
        self._links, self._labels = links, labels
        self._mode = None if negatives is None else negatives[0]

    def __call__(self, batch: MiniBatch) -> Any:
        """Returns the PyG object of `batch`."""
        data = self.graph(batch)
        edge_type = self._links.edge_type
        of_links = data[edge_type.triple] if self._hetero else data
        ends = [data[name] if self._hetero else data for name in edge_type.triple[::2]]
        of_links.input_id = torch.from_numpy(batch.input_id)
        if batch.num_padding:
            of_links.num_padding = batch.num_padding
        positives, targets = len(batch.input_id), torch.from_numpy(batch.targets)
        times = None if batch.seed_times is None else torch.from_numpy(batch.seed_times)
        if self._mode == "triplet":
            negative = targets[2 * positives :].view(-1, positives).t().contiguous()
            ends[0].src_index = targets[:positives]
            ends[1].dst_pos_index = targets[positives : 2 * positives]
            ends[1].dst_neg_index = negative.squeeze(-1) if negative.size(1) == 1 else negative
            if times is not None:
                for end in ends:
                    end.seed_time = times[:positives]
            return data
        of_links.edge_label_index = targets.view(2, -1)
        of_links.edge_label = self._label(batch, targets.numel() // 2)
        if times is not None:
            of_links.edge_label_time = times
        return data

    def _label(self, batch: MiniBatch, count: int) -> torch.Tensor | None:
        """Returns the labels of the links, 0 for negative ones."""
        known = None if self._labels is None else self._labels[torch.from_numpy(batch.places)]
        if self._mode is None:
            return known
        if known is None:
            known = torch.ones(len(batch.input_id))
        none = known.new_zeros((count - len(known), *known.shape[1:]))
        return torch.cat([known, none])


class LinkNeighborLoader(SamplingLoader):
    """Mini-batches of links and the sampled neighbourhoods of both ends.

    Each batch is a `Data` or `HeteroData` as in `NeighborLoader`, with these attributes of links:

    - ``edge_label_index`` [2, l], the local ids of both ends: first the links, then negative ones
    - ``edge_label`` [l], if there are labels or negative links, which have label 0
    - ``edge_label_time`` [l], if `time_attr` is set: the time up to which neighbours of the link
      are sampled. A negative link has the time of the link that it was drawn for.
    - ``input_id`` [s], the place of each link in `edge_label_index`

    With ``"triplet"`` the first three are replaced by ``src_index`` [s], ``dst_pos_index`` [s],
    ``dst_neg_index`` [s] or [s, amount], and ``seed_time`` [s] of both node types.

    The arguments up to `directed` are those of PyG, in its order. Those that are not described here
    are as in `NeighborLoader`.

    Args:
        data: The open store or a snapshot.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all. A list
            does not sample a reverse that the store keeps; see `NeighborLoader`.
        edge_label_index: The links: int64 [2, n], an edge type for all its edges, or (edge type,
            links). None: all edges, if there is only one edge type. All edges of a type are
            numbered in the order of neighbour lists: by destination, then by position.
        edge_label: Labels of the links, [n, ...].
        edge_label_time: Times of the links, int64 [n]. None is valid for all edges of a type with
            times of edges: the time of each edge is then its own time minus 1, so that it is not in
            its own sample.
        neg_sampling: Negative links. ``"binary"``: random pairs of nodes. ``"triplet"``: random
            destinations for each source. Also ``{"mode": ..., "amount": ...}`` or PyG's
            `NegativeSampling`. A negative link joins two different nodes and is not an edge of the
            store. With times of edges, it may be an edge that is later than the link.
        neg_sampling_ratio: PyG's former spelling of ``{"mode": "binary", "amount": ratio}``.
        **options: As in `NeighborLoader`: `batch_size` (links per batch), `shuffle`, `seed`,
            `attrs`, `reading`, `ranks` and the others.

    Raises:
        UnsupportedArgument: An argument is not supported, or has no effect; the message says what
            to do. With times of edges, this includes links whose other direction (by its name) is
            sampled and has no times, because each link would be in its own sample.
            Iteration raises it if no negative link is found, because nearly all nodes are joined.
        NameNotFound: An edge type or a tensor does not exist.
        NodeOutOfRange: An end of a link is out of range.

    Example:
        >>> fanouts = {"buys": [20, 10], "rev_buys": [20, 10]}
        >>> loader = ng.LinkNeighborLoader(store, fanouts, ("user", "buys", "item"),
        ...                                batch_size=512, neg_sampling="triplet", shuffle=True)
        >>> for batch in loader:
        ...     users = batch["user"].src_index
    """

    def __init__(
        self,
        data: Reader,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: SubgraphName | Any = "directional",
        disjoint: bool = False,
        temporal_strategy: TemporalStrategy = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        input_id: Any = None,
        method: MethodName = "uniform",
        dependent_batches: int = 1,
        **options: Any,
    ) -> None:
        options |= {"transform": transform, "transform_sampler_output": transform_sampler_output}
        options |= {"is_sorted": is_sorted, "filter_per_worker": filter_per_worker}
        options |= {"neighbor_sampler": neighbor_sampler}
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        self._negatives = resolve_negatives(neg_sampling, neg_sampling_ratio)
        snapshot = data.snapshot()
        edge_type, ends = resolve_links(snapshot.schema, edge_label_index)
        how, x_cast = given.rows(snapshot.schema)
        how |= {"disjoint": disjoint, "time_attr": time_attr, "replace": replace}
        how |= {"subgraph_type": subgraph_type if directed else "induced"}
        how |= {"method": method_by_attr(method, weight_attr)}
        how |= {"dependent_batches": dependent_batches, "temporal_strategy": temporal_strategy}
        joined = (edge_type.index, self._negatives, ends is None)
        sampler = LinkSampler(snapshot, num_neighbors, links=joined, seed=given.seed, **how)
        _check_own_edges(sampler, edge_type)
        count = sampler.num_edges if ends is None else ends.shape[1]
        links = InputLinks(
            node_type=snapshot.schema.node_type(edge_type.source),
            ids=None,
            by_node=False,
            edge_type=edge_type,
            ends=ends,
            count=count,
            times=_link_times(sampler, edge_type, edge_label_time, ends is None, count),
            named=None if input_id is None else one_for_each("input_id", input_id, count),
        )
        collator = LinkCollator(
            sampler.schema,
            sampler.tensors,
            x_cast,
            links=links,
            labels=resolve_labels(edge_label, count, self._negatives),
            negatives=self._negatives,
            by_hop=sampler.shape.subgraph == "directional",
            time_attr=time_attr,
        )
        self._start(sampler, links, collator, given)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "neg_sampling": str(self._negatives)}

    def __repr__(self) -> str:
        source = self._source
        return (
            f"LinkNeighborLoader({self.snapshot.path!r}, num_neighbors={source.sampler.fanouts}, "
            f"links={len(source.inputs):,}, batch_size={self.batch_size})"
        )


def resolve_labels(
    given: Any, count: int, negatives: tuple[str, float] | None
) -> torch.Tensor | None:
    """Returns the labels of `count` links, numbered as in PyG beside negative links.

    Raises:
        UnsupportedArgument: Negative links are triplets, which have no labels.
        ValueError: There is not one number per link.
    """
    if given is None:
        return None
    if negatives is not None and negatives[0] == "triplet":
        raise UnsupportedArgument(
            "edge_label= has no effect with neg_sampling='triplet': such batches have "
            "src_index, dst_pos_index and dst_neg_index instead; leave out edge_label="
        )
    try:
        labels = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"edge_label= must hold one number per link ({error})") from error
    if labels.dim() == 0 or len(labels) != count:
        raise ValueError(
            f"edge_label= must have one label for each of {count} links, got shape "
            f"{list(labels.shape)}"
        )
    # As in PyG, 0 is the label of negative links.
    if negatives is not None and labels.numel() and int(labels.min()) == 0:
        labels = labels + 1
    return labels


def resolve_links(schema: Schema, given: Any) -> tuple[EdgeType, NDArray[np.int64] | None]:
    """Returns edge type and ends [2, n] of PyG's `edge_label_index`; ends are None for all edges.

    Raises:
        NameNotFound: The edge type does not exist, or none of several is named.
        NodeOutOfRange: An end is out of range.
        ValueError: Links are not two rows of ids.
    """
    name: Any = None
    if given is not None and _is_name(given):
        name, given = given, None
    elif isinstance(given, tuple) and len(given) == 2 and (given[0] is None or _is_name(given[0])):
        name, given = given
    edge_type = schema.edge_type(name)
    if given is None:
        return edge_type, None
    shapes = [np.shape(part) for part in given] if np.iterable(given) else []
    if len(shapes) != 2 or len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise ValueError(
            "edge_label_index= must have shape [2, n], with sources in row 0 and destinations "
            f"in row 1, got {len(shapes)} rows of shapes {[list(shape) for shape in shapes[:3]]}"
        )
    sources, destinations = (as_ids(part) for part in given)
    types = (edge_type.source_index, edge_type.destination_index)
    for ids, index in zip((sources, destinations), types, strict=True):
        _check_ends(ids, schema.node_types[index])
    return edge_type, np.stack([sources, destinations])


def _is_name(given: Any) -> bool:
    is_parts = isinstance(given, tuple | list) and all(isinstance(part, str) for part in given)
    return isinstance(given, str) or (is_parts and len(given) in (2, 3))


def _check_ends(ids: NDArray[np.int64], owner: NodeType) -> None:
    bad = ids[(ids < 0) | (ids >= owner.num_nodes)]
    if len(bad):
        raise NodeOutOfRange(
            f"edge_label_index= contains {int(bad[0])}, which is not a node of type "
            f"{owner.name!r}: expected 0 to {owner.num_nodes - 1}"
        )


def _check_own_edges(sampler: NumpySampler, edge_type: EdgeType) -> None:
    """Checks that links by time are not visible at all times through their other direction.

    Raises:
        UnsupportedArgument: The other direction is sampled and has no times.
    """
    shape, schema = sampler.shape, sampler.schema
    if shape.times is None or shape.node_times is not None or not edge_type.has_time:
        return
    other = reverse_by_name(schema, edge_type)
    if other is not None and not other.has_time and any(sampler.fanouts[other.index]):
        raise UnsupportedArgument(
            f"edges of {other.triple!r}, the reverse of {edge_type.triple!r}, have no times, so "
            "the sample of each link would contain the link itself; import these reverse edges "
            "with times, or set their fanouts to 0"
        )


def _link_times(
    sampler: NumpySampler, edge_type: EdgeType, given: Any, are_edges: bool, count: int
) -> NDArray[np.int64] | None:
    shape = sampler.shape
    if given is not None and shape.times is None:
        raise UnsupportedArgument(
            "edge_label_time= has no effect without time_attr=; give the attribute with the "
            "times of the graph as time_attr=, or leave out edge_label_time="
        )
    if given is not None:
        return one_for_each("edge_label_time", given, count)
    if shape.times is None:
        return None
    if are_edges and shape.node_times is None and not edge_type.has_time:
        raise UnsupportedArgument(
            f"time_attr= needs the time of each link, but edges of {edge_type.triple!r} have no "
            "times; give the times of the links as edge_label_time="
        )
    if not are_edges or shape.node_times is not None:
        raise UnsupportedArgument(
            "time_attr= needs the time of each link; give the times of the links as "
            "edge_label_time=, or use all edges of a type as links, with time_attr='edge_time'"
        )
    return None


def resolve_negatives(given: Any, ratio: float | None) -> tuple[str, float] | None:
    """Returns (mode, amount) of PyG's arguments for negative sampling.

    Raises:
        UnsupportedArgument: Both arguments are given, or nodes have weights.
    """
    if ratio:
        if given is not None:
            raise UnsupportedArgument(
                "neg_sampling= and neg_sampling_ratio= cannot be combined; leave one of them out"
            )
        given = {"mode": "binary", "amount": ratio}
    if given is None:
        return None
    found = NegativeSampling.cast(given)
    if found.src_weight is not None or found.dst_weight is not None:
        raise UnsupportedArgument(
            "src_weight and dst_weight of neg_sampling= are not supported, as negative links "
            "are drawn uniformly; leave out src_weight and dst_weight"
        )
    return str(found.mode.value), float(found.amount)
