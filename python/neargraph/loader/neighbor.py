"""PyG's NeighborLoader over a store on disk.

Sampling and reading run in Rust threads ahead of the training loop. The invariant: which batches a
loader yields depends on its arguments alone, not on threads, workers, prefetch or memory; so its
state is two numbers, and a resumed epoch goes on with the batches that were missing.
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

    Each batch has ``x``, ``y`` and all other node tensors [n, ...], ``edge_index`` [2, e], edge
    tensors [e, ...], ``n_id`` [n], ``e_id`` [e] where the store keeps edge ids, ``input_id`` [s],
    ``batch_size``, ``num_sampled_nodes`` and ``num_sampled_edges`` per hop, and the masks. The
    first ``batch_size`` nodes are the seeds. The weight and the time of edges are ``edge_weight``
    [e] and ``edge_time`` [e]; with ``time_attr="time"`` the time is ``time`` as well.

    The arguments up to `directed` are those of PyG, in its order.

    Args:
        data: The open store, or a snapshot. The loader stays at the commit that is the newest when
            it is made; writers go on.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all. A list
            is for the edge types of the graph, and draws nothing from a reverse that the store
            keeps; a dictionary that names ``rev_...`` does, beside all others.
        input_nodes: ``"train"`` / ``"val"`` / ``"test"``, ids [n], a boolean mask [num_nodes],
            None for all nodes, a node type, or (node type, any of these).
        input_time: The time of each seed, int64 [number of seeds]; None takes the times of the
            seeds, where `time_attr` names times of nodes.
        replace: Draw neighbours with replacement.
        subgraph_type: ``"directional"`` gives the edges that were drawn, ``"bidirectional"`` each
            of them in both directions, ``"induced"`` all edges between the nodes; the last two
            without counts per hop of edges, as in PyG.
        disjoint: Give each seed a subgraph of its own: ``batch.batch`` [n] says which. A node that
            two seeds reach is there twice.
        temporal_strategy: With `time_attr`, draw ``"uniform"`` among the neighbours that are not
            later, or take the ``"last"`` ones.
        time_attr: Sample nothing that is later than its seed (``batch.seed_time``): the name of an
            int64 node tensor, or ``"edge_time"`` or ``"time"`` for the times of edges. Implies
            `disjoint`.
        weight_attr: PyG's word for ``method="weighted"``: ``"edge_weight"``, the weight that the
            store keeps with each edge.
        transform: Called with each batch.
        transform_sampler_output: Refused; use `transform`.
        is_sorted: Changes nothing, as lists are sorted in the store.
        filter_per_worker: Changes nothing, but for False with `num_workers`, which is refused: each
            process reads the rows of its batches.
        neighbor_sampler: Refused; PyG's `NeighborLoader` takes the sampler of a store.
        directed: PyG's older word: False asks for ``subgraph_type="induced"``.
        input_id: What ``batch.input_id`` says of each seed, int64 [number of seeds]; None gives
            the node id for masks and splits, and else the place in `input_nodes`.
        batch_size: Seeds of a global batch; each of the `ranks` gets an equal part.
        shuffle: Permute the seeds anew in every epoch, keyed by `seed`.
        seed: Seed of the order and of all draws.
        method: ``"labor"`` lets nodes choose the same neighbours where they can, so that a batch
            has fewer nodes; ``"weighted"`` draws by the weights of edges; see `NumpySampler`.
        dependent_batches: With ``"labor"``, so many batches in a row choose alike.
        drop_last: Leave a smaller last batch out.
        ranks: Which part of each global batch this process takes: ``"auto"`` under torchrun,
            ``(rank, world_size)``, or `Ranks`. None: all of it.
        attrs: Tensors to read, such as ``["x", "y"]``; None reads all. A dictionary names them
            by type.
        x_dtype: What ``x`` is in a batch. None gives float32 where the disk has f16, bf16 or scaled
            int8; ``"stored"`` leaves it as it is on disk (int8 as steps of the scales); to a dtype
            such as `torch.float16` rows are converted while they are gathered.
        x_format: ``"sparse"`` gives ``x`` as a sparse CSR tensor where it is stored sparse.
        reading: How batches are read: ``"auto"``, ``"on_demand"``, ``"window"``, ``"scan"``,
            ``"distribute"``, ``"compiled"``, ``"direct_layout"``, the path of compiled epochs or of
            a direct layout, or `Reading` with more settings. The batches are the same. Reading
            ahead goes on from one epoch to the next and keeps its memory meanwhile; reading
            something else from the same store between epochs, or `close`, gives it back.
        num_workers: Make batches in this many processes instead of threads. Processes open the
            last checkpoint, so one is written if there are commits since.
        pin_memory: Copy batches to page-locked memory, in a thread of its own. Without CUDA this
            gives a warning and plain memory, as in torch.
        device: A CUDA device to bring batches to: a thread copies them through two pinned buffers,
            on a stream of its own, and the consumer's stream waits for its own batch alone.
        **kwargs: DataLoader's ``multiprocessing_context``, ``persistent_workers``,
            ``prefetch_factor``, ``worker_init_fn`` and ``timeout`` for `num_workers` > 0. Other
            arguments of PyG's loader are accepted where they ask for what happens anyway.

    Raises:
        UnsupportedArgument: An argument asks for something that is not built; says what to do.
        NameNotFound: No such split, type or tensor.
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
            "input_time has no effect without time_attr; name the attribute that holds the times "
            "of the graph, or leave input_time out"
        )
