"""The base of loaders of sampled batches, and their common options.

A loader defines the seeds and the sampler; everything else is here. The invariant: in every loader
an option has an effect or raises an error.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from neargraph._optional import torch_for
from neargraph.dtypes import XFormat, dtype_name
from neargraph.exceptions import UnsupportedArgument

with torch_for("NeighborLoader", "; NumpySampler needs neither"):
    import torch
    import torch_geometric  # noqa: F401

from neargraph.loader.collate import Collator
from neargraph.loader.copying import copy_stage
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.inference import refuse_inference_in_memory
from neargraph.loader.options import check_count
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.ranks import Ranks, RanksLike
from neargraph.loader.reading import Reading, ReadingLike
from neargraph.loader.refused import refuse_unsupported
from neargraph.loader.results import ReadingPlan, ReplayPlan
from neargraph.loader.sampler import Attrs, NumpySampler, check_x
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.loader.workers import BatchSource, WorkerPool
from neargraph.reader import Reader
from neargraph.schema import Schema

refuse_inference_in_memory()

# The options of DataLoader for processes, and their defaults.
_WORKER_OPTIONS: dict[str, Any] = {
    "multiprocessing_context": None,
    "persistent_workers": False,
    "prefetch_factor": None,
    "worker_init_fn": None,
    "timeout": 0,
}


@dataclass(kw_only=True)
class LoaderOptions:
    """The options of all loaders of sampled batches, as described by `NeighborLoader`."""

    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    ranks: RanksLike = None
    attrs: Attrs = None
    x_dtype: torch.dtype | str | None = None
    x_format: XFormat = "dense"
    transform: Callable[[Any], Any] | None = None
    reading: ReadingLike = "auto"
    num_workers: int = 0
    pin_memory: bool = False
    device: torch.device | str | None = None
    workers: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def take(cls, loader: str, given: dict[str, Any]) -> "LoaderOptions":
        """Returns the options in `given`, the keyword arguments that `loader` does not have itself.

        Raises:
            TypeError: An argument does not exist.
            UnsupportedArgument: An argument is not supported.
        """
        names = {f.name for f in fields(cls)} - {"workers"}
        own = {name: given.pop(name) for name in names & given.keys()}
        return cls(**own, workers=_take_workers(own.get("num_workers", 0), given, loader))

    def __post_init__(self) -> None:
        self.reads = Reading.of(self.reading)
        self.peers = Ranks.of(self.ranks)
        if self.peers.pad and self.drop_last:
            raise UnsupportedArgument(
                "drop_last=True drops the batch that pad=True would fill; leave drop_last= or "
                "pad= out"
            )
        self.pads = self.peers.pad is not False

    def rows(self, schema: Schema) -> tuple[dict[str, Any], torch.dtype | None]:
        """Returns the sampler's arguments for rows, and the dtype that torch converts ``x`` to."""
        x_read, x_cast = _split_x_dtype(schema, self.x_dtype)
        rows = {"attrs": self.attrs, "x_dtype": x_read, "x_format": self.x_format}
        return {**rows, "check_rows": self.reads.check_rows, "layout": self.reads.layout}, x_cast

    def plan(self, num_seeds: int) -> SeedPlan:
        """Returns the order of `num_seeds` seeds."""
        return SeedPlan(
            num_seeds=num_seeds,
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            seed=self.seed,
            drop_last=self.drop_last,
            pad=self.pads and not self.drop_last and self.peers.world_size > 1,
            rank=self.peers.rank,
            world_size=self.peers.world_size,
        )


class SamplingLoader(EpochLoader):
    """The base of loaders whose batches are sampled around seeds."""

    def __init__(self, data: Reader, options: LoaderOptions) -> None:
        _check_data(data)
        options.reads.check_workers(options.num_workers)
        super().__init__(copy_stage(options.pin_memory, options.device))

    def _start(
        self,
        sampler: NumpySampler,
        inputs: InputNodes,
        collator: Collator,
        options: LoaderOptions,
    ) -> None:
        """Prepares the threads or processes that make the batches."""
        check_x(sampler.snapshot.schema, sampler.tensors, options.x_dtype)
        if options.num_workers:
            sampler.snapshot.share()
        plan = options.plan(len(inputs))
        self._source = BatchSource(sampler, inputs, plan, collator, options.transform)
        if options.num_workers:
            self._pool = WorkerPool(self._source, options.num_workers, options.workers)
        else:
            self._pipeline = Pipeline(sampler, inputs, plan, options.reads, goes_on=True)

    @property
    def data(self) -> NoReturn:
        """Not available. PyG's ZipLoader reads this attribute.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            f"{type(self).__name__} of neargraph has no attribute 'data', which PyG's ZipLoader "
            "needs; iterate over zip(first_loader, second_loader) instead"
        )

    @property
    def batch_size(self) -> int:
        """Number of seeds of a global batch."""
        return self._source.plan.batch_size

    @property
    def schema(self) -> Schema:
        """The schema of the batches: that of the store, with the stored reverses that are sampled.

        Example:
            >>> model = neargraph.nn.build("hetero-sage", loader.schema, 32)  # doctest: +SKIP
        """
        return self._source.sampler.schema

    def chosen(self) -> ReadingPlan | ReplayPlan | None:
        """Returns how batches are read, and the expected cost.

        It is a `ReadingPlan` with look-ahead and a `ReplayPlan` with compiled epochs, which differ
        in ``reading``. It is None before the first batch, without look-ahead, and with
        `num_workers`.
        """
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
            "shape": sampler.shape.words or None,
            "compiled": None if epochs is None else ",".join(map(str, epochs)),
        }


def _check_data(data: Any) -> None:
    if not isinstance(data, Reader):
        raise TypeError(
            "data must be a store from neargraph.open, or a snapshot of one, got "
            f"{type(data).__name__}; neargraph.from_pyg writes Data and HeteroData to a store"
        )


def _take_workers(num_workers: int, given: dict[str, Any], loader: str) -> dict[str, Any]:
    """Returns the options for processes, and rejects all others.

    Raises:
        TypeError: An argument does not exist.
        UnsupportedArgument: An argument is not supported, or has no effect without processes.
    """
    workers = {k: given.pop(k) for k in _WORKER_OPTIONS if k in given}
    refuse_unsupported(given, loader)
    check_count("num_workers", num_workers, 0)
    if num_workers and given.get("filter_per_worker") is False:
        raise UnsupportedArgument(
            "filter_per_worker=False is not supported with num_workers=, as each worker process "
            "reads the rows of its own batches; leave out filter_per_worker= or num_workers="
        )
    for name, value in workers.items():
        if not num_workers and value != _WORKER_OPTIONS[name]:
            raise UnsupportedArgument(
                f"{name}={value!r} has no effect with num_workers=0; leave it out, or give "
                "num_workers="
            )
    return workers


def _split_x_dtype(
    schema: Schema, x_dtype: torch.dtype | str | None
) -> tuple[str | None, torch.dtype | None]:
    """Returns the dtype that the store converts ``x`` to, and the one that torch converts it to."""
    if x_dtype is None:
        return None, None
    name = dtype_name(x_dtype)
    found = [t for owner in schema.node_types for t in owner.tensors if t.name == "x"]
    # torch converts dtypes that the store cannot convert, such as integers.
    if isinstance(x_dtype, torch.dtype) and not all(t.is_number for t in found):
        return None, x_dtype
    if isinstance(x_dtype, torch.dtype) and name not in ("f32", "f16", "bf16"):
        return None, x_dtype
    return name, None
