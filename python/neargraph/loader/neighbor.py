"""PyG's NeighborLoader over a store on disk.

Sampling and reading run in Rust threads ahead of the training loop. The invariant: which batches a
loader yields depends on its arguments alone, not on threads, workers, prefetch or memory; so its
state is two numbers, and a resumed epoch goes on with the batches that were missing.
"""

from collections.abc import Callable
from typing import Any

from neargraph._optional import torch_for
from neargraph.dtypes import XFormat, dtype_name
from neargraph.exceptions import UnsupportedArgument

with torch_for("NeighborLoader", "; NeighborSampler needs neither"):
    import torch
    import torch_geometric  # noqa: F401

from neargraph.loader.collate import Collator
from neargraph.loader.copying import copy_stage
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.methods import method_by_attr
from neargraph.loader.options import Compiled, ReadOptions, check_count
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.refused import refuse_unsupported
from neargraph.loader.sampler import Attrs, NeighborSampler, check_x
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes
from neargraph.loader.workers import BatchSource, WorkerPool
from neargraph.reader import Reader
from neargraph.schema import Schema

# What DataLoader has for its processes, and what it does without.
_WORKER_OPTIONS: dict[str, Any] = {
    "multiprocessing_context": None,
    "persistent_workers": False,
    "prefetch_factor": None,
    "worker_init_fn": None,
    "timeout": 0,
}


class NeighborLoader(EpochLoader):
    """Mini-batches of sampled neighbourhoods, as `torch_geometric.data.Data` or `HeteroData`.

    Each batch has ``x``, ``y`` and all other node tensors [n, ...], ``edge_index`` [2, e], edge
    tensors [e, ...], ``n_id`` [n], ``e_id`` [e] where the store keeps edge ids, ``input_id`` [s],
    ``batch_size``, ``num_sampled_nodes`` and ``num_sampled_edges`` per hop, and the masks. The
    first ``batch_size`` nodes are the seeds.

    Args:
        data: The open store, or a snapshot. The loader stays at the commit that is the newest when
            it is made; writers go on.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all.
        input_nodes: ``"train"`` / ``"val"`` / ``"test"``, ids [n], a boolean mask [num_nodes],
            None for all nodes, a node type, or (node type, any of these).
        batch_size: Seeds of a global batch; each of `world_size` ranks gets its equal part.
        shuffle: Permute the seeds anew in every epoch, keyed by `seed`.
        seed: Seed of the order and of all draws.
        replace: Draw neighbours with replacement.
        method: ``"labor"`` lets nodes choose the same neighbours where they can, so that a batch
            has fewer nodes; ``"weighted"`` draws by the weights of edges; see `NeighborSampler`.
        weight_attr: PyG's word for ``method="weighted"``: ``"edge_weight"``, the weight that the
            store keeps with each edge.
        dependent_batches: With ``"labor"``, so many batches in a row choose alike.
        drop_last: Leave a smaller last batch out.
        rank: Place of this process among `world_size`.
        world_size: Processes that share every batch, as under torchrun.
        pad: With several ranks, fill the last batch by repeated seeds, counted in
            ``num_padding``, instead of leaving it out.
        attrs: Tensors to read, such as ``["x", "y"]``; None reads all. A dictionary names them
            by type.
        x_dtype: What ``x`` is in a batch. None gives float32 where the disk has f16, bf16 or scaled
            int8; ``"stored"`` leaves it as it is on disk (int8 as steps of the scales); to a dtype
            such as `torch.float16` rows are converted while they are gathered.
        x_format: ``"sparse"`` gives ``x`` as a sparse CSR tensor where it is stored sparse.
        transform: Called with each batch.
        prefetch: Batches to work ahead at most, fewer where memory is short; None is 4. Like
            `threads`, `reading`, `window`, `two_phase` and `temporary_writes` it is refused where
            it has no effect.
        threads: Background threads; None is one per core, at most 4.
        reading: How rows that memory does not hold are read: ``"auto"``, ``"direct"``,
            ``"scan"``, ``"window"`` or ``"distribute"``; see `NeighborSampler.batches`. Looking
            ahead goes on from one epoch into the next and keeps its memory meanwhile; reading
            something else from the same store between epochs, or `close`, gives it back.
        window: Batches to look ahead, also where ``"auto"`` would not; None is as many as memory
            rewards.
        two_phase: Sample many batches ahead and keep them on disk, so that the topology's memory
            can hold rows; None does so where it pays. See `NeighborSampler.batches`.
        temporary_writes: How many bytes of rows an epoch may write to disk for a while:
            ``"auto"`` is at most the bytes of the tensors that are read, ``"never"`` is none, not
            even samples, ``"2x"`` is at most twice the bytes of the tensors.
        compiled: True replays compiled epochs of the store (see `neargraph compile`), or of the
            directory that is named: the first epochs are those that would be sampled, later ones
            take them in turn. ``"auto"`` does where there are some that fit, and memory for them;
            else, in processes and from the direct layout batches are sampled.
        check_rows: Read every row of every batch once more, by itself, and raise `WrongRow` if it
            differs; slow, for tests and doubts. See `NeighborSampler`.
        layout: ``"direct"`` reads batches from the direct layout of this version of the store,
            which `neargraph compile --layout direct` makes, or from the file that is named; the
            batches are the same.
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
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        replace: bool = False,
        method: str = "uniform",
        weight_attr: str | None = None,
        dependent_batches: int = 1,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        pad: bool = True,
        attrs: Attrs = None,
        x_dtype: torch.dtype | str | None = None,
        x_format: XFormat = "dense",
        transform: Callable[[Any], Any] | None = None,
        prefetch: int | None = None,
        threads: int | None = None,
        reading: str = "auto",
        window: int | None = None,
        two_phase: bool | None = None,
        temporary_writes: str = "auto",
        compiled: Compiled = False,
        check_rows: bool = False,
        layout: str = "paged",
        num_workers: int = 0,
        pin_memory: bool = False,
        device: torch.device | str | None = None,
        **kwargs: Any,
    ) -> None:
        _check_data(data)
        workers = _take_workers(num_workers, kwargs)
        ahead: dict[str, Any] = {"reading": reading, "window": window, "two_phase": two_phase}
        ahead |= {"prefetch": prefetch, "threads": threads, "temporary_writes": temporary_writes}
        options = ReadOptions(compiled=compiled, **ahead)
        options.check_workers(num_workers)
        super().__init__(copy_stage(pin_memory, device))
        snapshot = data.snapshot()
        x_read, x_cast = _split_x_dtype(snapshot.schema, x_dtype)
        how: dict[str, Any] = {"replace": replace, "dependent_batches": dependent_batches}
        how |= {"method": method_by_attr(method, weight_attr), "layout": layout}
        rows: dict[str, Any] = {"attrs": attrs, "x_dtype": x_read, "x_format": x_format}
        rows["check_rows"] = check_rows
        sampler = NeighborSampler(snapshot, num_neighbors, seed=seed, **how, **rows)
        check_x(snapshot.schema, sampler.tensors, x_dtype)
        if num_workers:
            snapshot.share()
        inputs = resolve_input_nodes(snapshot, input_nodes)
        plan = SeedPlan(
            num_seeds=len(inputs),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            pad=pad and not drop_last and world_size > 1,
            rank=rank,
            world_size=world_size,
        )
        collator = Collator(sampler.schema, sampler.tensors, x_cast)
        self._source = BatchSource(sampler, inputs, plan, collator, transform)
        if num_workers:
            self._pool = WorkerPool(self._source, num_workers, workers)
        else:
            self._pipeline = Pipeline(sampler, inputs, plan, options, goes_on=True)

    @property
    def batch_size(self) -> int:
        """Seeds of a global batch."""
        return self._source.plan.batch_size

    def chosen(self) -> dict[str, Any] | None:
        """How rows are read ahead: policy, window, phases, rows in memory, expected reads and
        bytes a batch; of compiled epochs how many take turns, and what of the memory is for what.
        None before the first batch, or where nothing is read ahead."""
        return self._pipeline.chosen() if self._pipeline is not None else None

    def _settings(self) -> dict[str, Any]:
        sampler = self._source.sampler
        epochs = None if self._pipeline is None else self._pipeline.epochs
        return {
            "fanouts": sampler.fanouts,
            "replace": sampler.replace,
            "method": sampler.method,
            "dependent_batches": sampler.dependent_batches,
            "input_nodes": self._source.inputs.digest(),
            "compiled": None if epochs is None else ",".join(map(str, epochs)),
        }

    def __repr__(self) -> str:
        source = self._source
        return (
            f"NeighborLoader({self.snapshot.path!r}, num_neighbors={source.sampler.fanouts}, "
            f"seeds={len(source.inputs):,}, batch_size={self.batch_size})"
        )


def _check_data(data: Any) -> None:
    if not isinstance(data, Reader):
        raise TypeError(
            "data must be what neargraph.open returns, or a snapshot of it, got "
            f"{type(data).__name__}; neargraph.from_pyg writes Data and HeteroData to a store"
        )


def _take_workers(num_workers: int, given: dict[str, Any]) -> dict[str, Any]:
    """What is given for processes; refuses it where there are none, and all that is not taken."""
    workers = {k: given.pop(k) for k in _WORKER_OPTIONS if k in given}
    refuse_unsupported(given)
    check_count("num_workers", num_workers, 0)
    if num_workers and given.get("filter_per_worker") is False:
        raise UnsupportedArgument(
            "filter_per_worker=False reads rows in the main process; with num_workers each "
            "process reads those of its batches; leave one of them out"
        )
    for name, value in workers.items():
        if not num_workers and value != _WORKER_OPTIONS[name]:
            raise UnsupportedArgument(
                f"{name}={value!r} is for processes, and num_workers is 0; leave it out, or give "
                "num_workers"
            )
    return workers


def _split_x_dtype(
    schema: Schema, x_dtype: torch.dtype | str | None
) -> tuple[str | None, torch.dtype | None]:
    """What the store reads ``x`` as, and what torch makes of it after that."""
    if x_dtype is None:
        return None, None
    name = dtype_name(x_dtype)
    found = [t for owner in schema.node_types for t in owner.tensors if t.name == "x"]
    # What the store cannot convert, such as integers, torch does.
    if isinstance(x_dtype, torch.dtype) and not all(t.is_number for t in found):
        return None, x_dtype
    if isinstance(x_dtype, torch.dtype) and name not in ("f32", "f16", "bf16"):
        return None, x_dtype
    return name, None
