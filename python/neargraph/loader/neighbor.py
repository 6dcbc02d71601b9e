"""PyG's NeighborLoader over a store on disk.

Sampling and reading run in Rust threads ahead of the training loop. The invariant: the batches of a
loader depend on its arguments alone, not on threads, workers, prefetch or memory. So its state is
two numbers, and a resumed epoch continues with the next batch.
"""

from collections.abc import Callable
from typing import Any

from neargraph._optional import torch_for
from neargraph.dtypes import XFormat
from neargraph.exceptions import UnsupportedArgument

with torch_for("NeighborLoader", "; NumpySampler needs neither"):
    import torch

from neargraph.loader.collate import Collator
from neargraph.loader.methods import MethodName, method_by_attr
from neargraph.loader.ranks import RanksLike
from neargraph.loader.reading import ReadingLike
from neargraph.loader.sampler import Attrs, NumpySampler
from neargraph.loader.sampling import LoaderOptions, SamplingLoader
from neargraph.loader.seeds import resolve_input_nodes, with_given
from neargraph.loader.shape import SubgraphName, TemporalStrategy
from neargraph.reader import Reader


class NeighborLoader(SamplingLoader):
    """Mini-batches of sampled neighbourhoods, as `torch_geometric.data.Data` or `HeteroData`.

    Each batch has:

    - ``x``, ``y`` and all other node tensors [n, ...], and the masks. The first ``batch_size``
      nodes are the seeds.
    - ``edge_index`` [2, e], edge tensors [e, ...], and ``edge_weight`` [e] and ``edge_time`` [e]
      where the edge type has them. With ``time_attr="time"``, ``time`` is also ``edge_time``.
    - ``n_id`` [n], the node ids, and ``e_id`` [e], the edge ids, if the store keeps them
    - ``input_id`` [s], ``num_sampled_nodes`` [hops + 1] and ``num_sampled_edges`` [hops]

    The arguments up to `directed` are those of PyG, in its order.

    Args:
        data: The open store or a snapshot. The loader is pinned to the commit that is current when
            it is created. Writers can continue.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all. A list
            applies to the edge types of the graph. To sample a reverse that the store keeps
            (`neargraph import --reverse`), give a dictionary with ``rev_...`` and all other edge
            types.
        input_nodes: The seeds: ``"train"`` / ``"val"`` / ``"test"``, ids [n], a boolean mask
            [num_nodes], a node type, or (node type, any of these). None: all nodes.
        input_time: Times of the seeds, int64 [number of seeds]. None: the times of their nodes, if
            `time_attr` is a node tensor.
        replace: Draw neighbours with replacement.
        subgraph_type: The edges of a batch. ``"directional"``: the drawn edges.
            ``"bidirectional"``: the drawn edges in both directions. ``"induced"``: all edges
            between the nodes. The last two have no ``num_sampled_edges``, as in PyG.
        disjoint: Give each seed its own subgraph, with number ``batch.batch`` [n]. A node that two
            seeds reach occurs twice.
        temporal_strategy: With `time_attr`: draw ``"uniform"`` from the neighbours that are not
            later than the seed, or take the ``"last"`` of them.
        time_attr: Sample nothing that is later than its seed (``batch.seed_time``). It is the name
            of an int64 node tensor, or ``"edge_time"`` or ``"time"`` for the times of edges.
            Implies `disjoint`.
        weight_attr: ``"edge_weight"`` is PyG's spelling of ``method="weighted"``.
        transform: Function that is applied to each batch.
        transform_sampler_output: Not supported; use `transform`.
        is_sorted: Has no effect, as lists are sorted in the store.
        filter_per_worker: Has no effect. False is not supported with `num_workers`, because each
            process reads the rows of its batches.
        neighbor_sampler: Not supported; use the sampler of a store with PyG's `NeighborLoader`.
        directed: PyG's former spelling: False is ``subgraph_type="induced"``.
        input_id: Values of ``batch.input_id``, int64 [number of seeds]. None: the node id for masks
            and splits, and else the place in `input_nodes`.
        batch_size: Seeds of a global batch. Each of the `ranks` takes an equal part.
        shuffle: Permute the seeds, with a new order in every epoch. It depends on `seed`.
        seed: Random seed of the order and of all draws, from 0 to 2^64 - 1.
        method: How neighbours are chosen: ``"uniform"``, ``"labor"`` (nodes choose the same
            neighbours where possible, so batches have fewer nodes) or ``"weighted"`` (by the
            weights of edges). See `NumpySampler`.
        dependent_batches: With ``"labor"``: number of consecutive batches that share random
            numbers.
        drop_last: Drop a last batch that is smaller than the others.
        ranks: The part of each global batch that this process takes: ``"auto"`` under torchrun,
            ``(rank, world_size)``, or `Ranks`. None: all of it.
        attrs: Names of the tensors to read, such as ``["x", "y"]``, or a dictionary of names by
            type. None: all tensors.
        x_dtype: The dtype of ``x``, such as `torch.float16`; rows are converted when they are
            gathered. ``"stored"``: the dtype on disk; scaled int8 is not multiplied by its scales.
            None: float32 for f16, bf16 and scaled int8, and else the dtype on disk.
        x_format: ``"sparse"`` returns ``x`` as a sparse CSR tensor, if it is stored sparse.
        reading: How batches are read: ``"auto"``, ``"on_demand"``, ``"window"``, ``"scan"``,
            ``"distribute"``, ``"compiled"``, ``"direct_layout"``, the path of compiled epochs or of
            a direct layout, or `Reading` with more settings. It does not change the batches.
            Look-ahead continues into the next epoch and keeps its memory between epochs, until
            `close`, or until something else is read from the store.
        num_workers: Number of processes that make batches, instead of threads. Processes open the
            last checkpoint, so a checkpoint is written if there are later commits.
        pin_memory: Copy batches to page-locked memory, in a separate thread. Without CUDA, batches
            are in plain memory, with a warning, as in torch.
        device: CUDA device to copy batches to. A thread copies them through two pinned buffers on
            its own CUDA stream. The consumer's stream waits only for the batch that it uses.
        **kwargs: With `num_workers`: ``multiprocessing_context``, ``persistent_workers``,
            ``prefetch_factor``, ``worker_init_fn`` and ``timeout`` of torch's `DataLoader`. Other
            arguments of PyG's loader are accepted if their value changes nothing.

    Raises:
        UnsupportedArgument: An argument is not supported, or has no effect; the message says what
            to do.
        NameNotFound: A split, type or tensor does not exist.
        NodeOutOfRange: A seed is out of range.
        MissingDependency: torch or PyG is not installed.

    Example:
        >>> loader = ng.NeighborLoader(store, num_neighbors=[15, 10], batch_size=1024,
        ...                            input_nodes="train", shuffle=True, seed=7)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[:batch.batch_size]
    """

    def __init__(
        self,
        data: Reader,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: SubgraphName | Any = "directional",
        disjoint: bool = False,
        temporal_strategy: TemporalStrategy = "uniform",
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
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        method: MethodName = "uniform",
        dependent_batches: int = 1,
        drop_last: bool = False,
        ranks: RanksLike = None,
        attrs: Attrs = None,
        x_dtype: torch.dtype | str | None = None,
        x_format: XFormat = "dense",
        reading: ReadingLike = "auto",
        num_workers: int = 0,
        pin_memory: bool = False,
        device: torch.device | str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        kwargs |= {"seed": seed, "ranks": ranks, "reading": reading, "num_workers": num_workers}
        kwargs |= {"attrs": attrs, "x_dtype": x_dtype, "x_format": x_format}
        kwargs |= {"pin_memory": pin_memory, "device": device, "transform": transform}
        kwargs |= {"transform_sampler_output": transform_sampler_output, "is_sorted": is_sorted}
        kwargs |= {"filter_per_worker": filter_per_worker, "neighbor_sampler": neighbor_sampler}
        options = LoaderOptions.take(type(self).__name__, kwargs)
        super().__init__(data, options)
        _check_time(input_time, time_attr)
        snapshot = data.snapshot()
        how, x_cast = options.rows(snapshot.schema)
        how |= {"time_attr": time_attr, "subgraph_type": subgraph_type if directed else "induced"}
        how |= {"method": method_by_attr(method, weight_attr), "replace": replace}
        how |= {"dependent_batches": dependent_batches, "temporal_strategy": temporal_strategy}
        sampler = NumpySampler(snapshot, num_neighbors, seed=seed, disjoint=disjoint, **how)
        inputs = resolve_input_nodes(snapshot, input_nodes)
        inputs = with_given(inputs, times=input_time, input_id=input_id)
        sampler.check_seed_times(inputs)
        tells: Any = {"by_hop": sampler.shape.subgraph == "directional", "time_attr": time_attr}
        collator = Collator(sampler.schema, sampler.tensors, x_cast, **tells)
        self._start(sampler, inputs, collator, options)

    def __repr__(self) -> str:
        source = self._source
        return (
            f"NeighborLoader({self.snapshot.path!r}, num_neighbors={source.sampler.fanouts}, "
            f"seeds={len(source.inputs):,}, batch_size={self.batch_size})"
        )


def _check_time(input_time: Any, time_attr: str | None) -> None:
    if input_time is not None and time_attr is None:
        raise UnsupportedArgument(
            "input_time= has no effect without time_attr=; give the attribute with the times of "
            "the graph as time_attr=, or leave out input_time="
        )
