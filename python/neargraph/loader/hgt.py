"""PyG's HGTLoader over a store on disk (Hu et al., WWW 2020, algorithms 1 and 2)."""

from collections.abc import Callable
from typing import Any

from neargraph._optional import torch_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.seeds import resolve_input_nodes, with_given
from neargraph.loader.spreading import SpreadSampler, counts_by_type
from neargraph.reader import Reader

with torch_for("HGTLoader"):
    import torch  # noqa: F401

from neargraph.loader.collate import Collator
from neargraph.loader.sampling import LoaderOptions, SamplingLoader


class HGTLoader(SamplingLoader):
    """Batches with about equally many nodes of each type per layer, as `HeteroData`.

    A layer draws nodes without replacement from the entries of the batch's neighbour lists. Each
    list distributes a weight of 1 equally over its entries; of a list longer than 50, 50 drawn
    entries share it, as in PyG. The weight of a node is the sum over all lists, and it is drawn in
    proportion to the square of this weight.

    Batches have all edges between their nodes. Otherwise they have the attributes of
    `NeighborLoader`, except the number of edges per hop.

    The arguments up to `filter_per_worker` are those of PyG, in its order.

    Args:
        data: The open store or a snapshot.
        num_samples: Nodes per layer: a list for all node types, or a dictionary of lists by type.
        input_nodes: The seeds: a node type, or (node type, ids, a mask or the name of a split).
        is_sorted: Has no effect.
        transform: Function that is applied to each batch.
        transform_sampler_output: Not supported; use `transform`.
        filter_per_worker: Has no effect. False is not supported with `num_workers`.
        input_id: Values of ``batch.input_id``, int64 [number of seeds].
        **options: As in `NeighborLoader`: `batch_size`, `shuffle`, `seed`, `attrs`, `reading`,
            `ranks`, `num_workers`, `device` and the others.

    Raises:
        UnsupportedArgument: The store has only one node type and one edge type.
        NameNotFound: A node type does not exist.

    Example:
        >>> loader = ng.HGTLoader(store, [1024] * 4, ("paper", "train"), batch_size=128)
    """

    def __init__(
        self,
        data: Reader,
        num_samples: Any,
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Any = None,
        filter_per_worker: bool | None = None,
        *,
        input_id: Any = None,
        **options: Any,
    ) -> None:
        options |= {"transform": transform, "transform_sampler_output": transform_sampler_output}
        options |= {"is_sorted": is_sorted, "filter_per_worker": filter_per_worker}
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        snapshot = data.snapshot()
        schema = snapshot.schema
        if schema.is_homogeneous:
            raise UnsupportedArgument(
                "HGTLoader needs a store with several types, but this store has one node type "
                "and one edge type; use NeighborLoader"
            )
        self._budgets = counts_by_type(schema, num_samples)
        count = 1 + max(t.index for t in (*schema.edge_types, *schema.reverse_types))
        known = {t.index for t in schema.edge_types}
        spread = ("budgets", self._budgets, [index in known for index in range(count)])
        rows, x_cast = given.rows(schema)
        sampler = SpreadSampler(snapshot, spread=spread, seed=given.seed, **rows)
        inputs = with_given(resolve_input_nodes(snapshot, input_nodes), input_id=input_id)
        collator = Collator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        self._start(sampler, inputs, collator, given)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "num_samples": self._budgets}

    def __repr__(self) -> str:
        return (
            f"HGTLoader({self.snapshot.path!r}, num_samples={self._budgets}, "
            f"seeds={len(self._source.inputs):,}, batch_size={self.batch_size})"
        )
