"""Batches of neighbours by importance, as PinSAGE has them (Ying et al., KDD 2018)."""

from typing import Any

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import check_count
from neargraph.loader.seeds import resolve_input_nodes, with_given
from neargraph.loader.spreading import SpreadSampler, path_of
from neargraph.reader import Reader

with torch_for("PinSAGELoader"):
    import torch
    from torch_geometric.data import Data

from neargraph.loader.collate import Collator
from neargraph.loader.sampling import LoaderOptions, SamplingLoader


class _Collator(Collator):
    """Nodes of one type, and visits as their edges."""

    node_type: str

    def __call__(self, batch: MiniBatch) -> Any:
        owner = self._schema.node_type(self.node_type)
        data = Data()
        self._nodes(batch, owner, data)
        self._seeds(batch, data)
        visits = batch.visits
        if visits is None:
            data.edge_index = torch.zeros((2, 0), dtype=torch.int64)
            data.edge_weight = torch.zeros(0)
        else:
            data.edge_index, data.edge_weight = map(torch.from_numpy, visits)
        return data


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
        input_id: What ``batch.input_id`` says of each seed, int64.
        **options: As of `NeighborLoader`: `batch_size`, `shuffle`, `seed`, `attrs`, `transform`,
            `reading`, `rank`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: No such type.
        UnsupportedArgument: Steps do not follow each other, or seeds are of another type.

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
        input_id: Any = None,
        **options: Any,
    ) -> None:
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        for name, value in (("num_walks", num_walks), ("walk_length", walk_length)):
            check_count(name, value, 1)
        neighbors = [int(count) for count in num_neighbors]
        for count in neighbors:
            check_count("num_neighbors", count, 1)
        if not 0 <= restart < 1:
            raise ValueError(f"restart is a chance from 0 to below 1, got {restart}")
        snapshot = data.snapshot()
        types = path_of(snapshot.schema, path)
        inputs = with_given(resolve_input_nodes(snapshot, input_nodes), input_id=input_id)
        if inputs.node_type.name != types[0].destination:
            raise UnsupportedArgument(
                f"walks along this path begin at nodes of type {types[0].destination!r}, and the "
                f"seeds are of type {inputs.node_type.name!r}"
            )
        steps = [t.index for t in types]
        spread = _core.Spread.visits(steps, num_walks, walk_length, restart, neighbors)
        rows, x_cast = given.rows(snapshot.schema)
        sampler = SpreadSampler(snapshot, spread=spread, induced=False, seed=given.seed, **rows)
        of_type = [t for t in sampler.tensors if t[:2] == ("node", inputs.node_type.index)]
        collator = _Collator(sampler.schema, of_type, x_cast)
        collator.node_type = inputs.node_type.name
        self._words = f"{steps}:{num_walks}:{walk_length}:{restart}:{neighbors}"
        self._start(sampler, inputs, collator, given)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "visits": self._words}

    def __repr__(self) -> str:
        return (
            f"PinSAGELoader({self.snapshot.path!r}, seeds={len(self._source.inputs):,}, "
            f"batch_size={self.batch_size})"
        )
