"""PyG's ShaDowKHopSampler over a store on disk (Zeng et al., NeurIPS 2021)."""

from typing import Any

from neargraph._optional import torch_for
from neargraph.loader.methods import WEIGHT_ATTR
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import check_count
from neargraph.loader.seeds import resolve_input_nodes
from neargraph.loader.spreading import only_edge_type
from neargraph.reader import Reader

with torch_for("ShaDowKHopSampler"):
    import torch
    from torch_geometric.data import Batch

from neargraph.loader.collate import take_rows
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.sampling import LoaderOptions, SamplingLoader
from neargraph.loader.shape import EDGE_TIME
from neargraph.loader.whole import WholeCollator


class _Collator(WholeCollator):
    """A `Batch` of one subgraph for each root, root after root."""

    @property
    def _of_edges(self) -> set[str]:
        """The names of edge attributes; all other tensors belong to nodes."""
        columns = [meta.name for found in self._edge_columns.values() for meta in found]
        return {*columns, EDGE_TIME, WEIGHT_ATTR, "e_id"}

    def __call__(self, batch: MiniBatch) -> Any:
        data, seeds = super().__call__(batch), batch.num_seeds
        order = torch.argsort(data.batch, stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(len(order))
        ends = number[data.edge_index]
        # By destination, as neighbour lists are.
        by_end = torch.argsort(ends[1], stable=True)
        out = Batch(edge_index=ends[:, by_end])
        for name, value in data.items():
            if name in ("edge_index", "batch"):
                continue
            if name in self._of_edges:
                out[name] = value[by_end]
            else:
                out[name] = take_rows(value, order) if torch.is_tensor(value) else value
        out.batch = data.batch[order]
        out.ptr = torch.searchsorted(out.batch, torch.arange(seeds + 1))
        # A root is the first node of its subgraph.
        out.root_n_id = number[:seeds]
        if "y" in out:
            out.y = out.y[out.root_n_id]
        return out


class ShaDowKHopSampler(SamplingLoader):
    """Small subgraphs around roots, each with all edges between its nodes, as a `Batch` of graphs.

    Each batch has:

    - ``x`` and the other node tensors [n, ...], and ``y`` [r, ...] of the roots only
    - ``edge_index`` [2, e], edge tensors [e, ...] and ``n_id`` [n]
    - ``batch`` [n], the root of each node, and ``ptr`` [r + 1], the first node of each root
    - ``root_n_id`` [r], the place of each root among the nodes
    - ``num_padding``, if several ranks repeat roots at the end of the last batch

    Args:
        data: The open store or a snapshot, with one node type and one edge type.
        depth: Hops of a subgraph.
        num_neighbors: Neighbours per node and hop; -1 takes all.
        node_idx: The roots, as `input_nodes` of `NeighborLoader`. None: all nodes.
        replace: Draw neighbours with replacement.
        **options: As in `NeighborLoader`: `batch_size` (roots per batch), `shuffle`, `seed`,
            `attrs`, `transform`, `reading`, `ranks`, `num_workers`, `device` and the others.

    Raises:
        UnsupportedArgument: The store has several types.

    Example:
        >>> loader = ng.ShaDowKHopSampler(store, depth=2, num_neighbors=5, node_idx="train",
        ...                               batch_size=128, shuffle=True)
    """

    def __init__(
        self,
        data: Reader,
        depth: int,
        num_neighbors: int,
        node_idx: Any = None,
        replace: bool = False,
        **options: Any,
    ) -> None:
        given = LoaderOptions.take(type(self).__name__, options)
        super().__init__(data, given)
        check_count("depth", depth, 1)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, type(self).__name__)
        rows, x_cast = given.rows(snapshot.schema)
        sampler = NumpySampler(
            snapshot,
            [num_neighbors] * depth,
            seed=given.seed,
            replace=replace,
            disjoint=True,
            subgraph_type="induced",
            **rows,
        )
        inputs = resolve_input_nodes(snapshot, node_idx)
        collator = _Collator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        self._start(sampler, inputs, collator, given)

    def __repr__(self) -> str:
        source = self._source
        return (
            f"ShaDowKHopSampler({self.snapshot.path!r}, depth={len(source.sampler.fanouts[0])}, "
            f"roots={len(source.inputs):,}, batch_size={self.batch_size})"
        )
