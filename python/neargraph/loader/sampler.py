"""Neighbour sampling into NumPy mini-batches, with no torch anywhere.

Sampling and reading run in Rust threads that work ahead of the caller; this module only says which
seeds, which fanouts, which tensors. The invariant: a batch is a pure function of (store, fanouts,
replace, seed, stream, seeds), whatever the threads, the prefetch or the process.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph._room import with_room
from neargraph.dtypes import DtypeLike, XFormat, dtype_name, read_as
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.check import RowCheck
from neargraph.loader.direct import check_layout, find_direct
from neargraph.loader.fanouts import resolve_fanouts
from neargraph.loader.methods import MethodName, core_method
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.pipeline import BY_ITSELF, Pipeline
from neargraph.loader.reading import Reading, ReadingLike
from neargraph.loader.seeds import InputNodes, SeedPlan, resolve_input_nodes
from neargraph.loader.shape import SubgraphName, TemporalStrategy, resolve_shape, turned_round
from neargraph.reader import Reader, as_ids
from neargraph.schema import EdgeType, Kind, NodeType, Schema
from neargraph.splits import SPLITS, split_columns

Attrs = Sequence[str] | Mapping[Any, Sequence[str]] | None


class NumpySampler:
    """Neighbour sampling over a store.

    Args:
        store: The open store, or a snapshot. The sampler stays at the commit that is the newest
            when it is made.
        fanouts: Neighbours per node and hop, such as ``[15, 10]``; -1 takes all. A dictionary by
            edge type gives each type its own list. A list is for the edge types of the graph: a
            reverse that the store keeps, such as ``rev_buys``, is drawn from if a dictionary names
            it beside all others.
        seed: Seed of all draws; equal seeds give equal batches.
        replace: Draw with replacement; not with ``"labor"``.
        method: ``"uniform"``: each node draws its neighbours by itself. ``"weighted"``: in
            proportion to the weights of the edges, which the store must have. ``"labor"``: nodes
            choose the same neighbours where they can (LABOR-0), so that a batch has fewer nodes; a
            fanout is then the number of neighbours on average. See ``docs/explanation/reading.md``.
        dependent_batches: With ``"labor"``, so many batches in a row choose alike and have rows in
            common.
        attrs: Names of the tensors to read with each batch, for all types or as a dictionary by
            type. ``"train_mask"`` and the like stand for the splits. None reads all of them, an
            empty list none.
        x_dtype: What ``x`` is in a batch: None gives float32 where f16, bf16 or scaled int8 is
            stored; ``"stored"`` what is stored; ``"f32"``, ``"f16"``, ``"bf16"`` (as uint16) or a
            dtype of NumPy or torch the same converted, while it is gathered.
        x_format: ``"dense"``, or ``"sparse"`` for rows without their zeros where they are stored so
            (`MiniBatch.features` then gives `SparseRows`, as float32).
        check_rows: Read every row of every batch once more, by itself and through other caches,
            and raise `WrongRow` if it differs. For tests and doubts: it takes several times as
            long, and 32 MB beside the store's memory.
        layout: ``"direct"`` reads batches from the direct layout of this version of the store (see
            `neargraph compile --layout direct`), or the path of such a file, each by itself:
            `reading` is ``"on_demand"``, too. Tensors that it does not have come from the store.
            The batches are the same.
        disjoint: Give each seed a subgraph of its own (`MiniBatch.subgraphs`); a node that two
            seeds reach is there twice. Subgraphs that reach a node in the same hop, and with the
            same time, draw the same neighbours of it.
        time_attr: Sample nothing that is later than its seed: the name of an int64 node tensor, or
            ``"edge_time"`` (or ``"time"``) for the times of edges. Implies `disjoint`.
        temporal_strategy: With `time_attr`, draw ``"uniform"`` among the neighbours that are not
            later, or take the ``"last"`` ones.
        subgraph_type: ``"directional"`` gives the edges that were drawn, ``"bidirectional"`` each
            of them in both directions, ``"induced"`` all edges between the nodes.

    Raises:
        CompiledMismatch: There is no direct layout of this version.
        NameNotFound: `fanouts`, `attrs` or `time_attr` name something the store does not have.
        UnsupportedArgument: ``x`` cannot be read as `x_dtype`, or neighbours not be drawn by
            `method`.
        ValueError: Bad fanouts.

    Example:
        >>> sampler = ng.NumpySampler(store, [15, 10], seed=7)
        >>> for batch in sampler.batches("train", 1024):
        ...     x, edge_index = batch.features("x"), batch.edge_index()
    """

    _carries_columns = True
    """Whether batches carry times and weights of edges."""

    def __init__(
        self,
        store: Reader,
        fanouts: Any,
        *,
        seed: int = 0,
        replace: bool = False,
        method: MethodName = "uniform",
        dependent_batches: int = 1,
        attrs: Attrs = None,
        x_dtype: DtypeLike = None,
        x_format: XFormat = "dense",
        check_rows: bool = False,
        layout: str = "paged",
        disjoint: bool = False,
        time_attr: str | None = None,
        temporal_strategy: TemporalStrategy = "uniform",
        subgraph_type: SubgraphName | Any = "directional",
    ) -> None:
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must be in 0 ... 2^64 - 1, got {seed}")
        self.snapshot = store.snapshot()
        schema = self.snapshot.schema
        self.fanouts = resolve_fanouts(schema, fanouts)
        self.schema = schema.with_reverse([i for i, hops in enumerate(self.fanouts) if any(hops)])
        self.seed = seed
        self.replace = replace
        self.method = method
        self.dependent_batches = dependent_batches
        self.shape = resolve_shape(
            self.schema,
            disjoint=disjoint,
            time_attr=time_attr,
            temporal_strategy=temporal_strategy,
            subgraph_type=subgraph_type,
            columns=self._carries_columns,
        )
        self.layout = check_layout(layout, method)
        if self.layout == "direct" and not self.shape.is_plain:
            raise UnsupportedArgument(
                "layout='direct' serves batches in which all seeds share one subgraph; use "
                "layout='paged' for disjoint, temporal, bidirectional and induced ones"
            )
        if self.layout == "direct" and self.schema.edge_types != schema.edge_types:
            raise UnsupportedArgument(
                f"fanouts name a kept reverse, of {self.schema.names}, and the direct layout does "
                "not have it; use layout='paged'"
            )
        # Says at once what the store cannot be sampled by.
        self._make([])
        self.tensors = resolve_attrs(self.schema, attrs)
        self._check_turned()
        check_x(self.schema, self.tensors, x_dtype, x_format)
        self._columns = [
            (*tensor, _column(self.schema, tensor, x_dtype, x_format)) for tensor in self.tensors
        ]
        self._check = RowCheck(self.snapshot) if check_rows else None
        names = [name for kind, _, name in self.tensors if kind == "node"]
        self._direct: tuple[str, str] | None = None
        if self.layout == "direct":
            self._direct = find_direct(self.snapshot, names, layout)
        self._local: ProcessLocal[_core.Sampler] = ProcessLocal(self._build)

    def _build(self) -> _core.Sampler:
        core = self._make(self._columns)
        return core if self._direct is None else core.with_direct(*self._direct)

    def _make(self, columns: list[Any]) -> _core.Sampler:
        version = self.snapshot.version
        settings = (self.fanouts, self._method(), self.seed, columns)
        shape = self.shape.core(self.schema, version, self._spread())
        return _core.Sampler(version, *settings, shape, self._links(), self._roots())

    def _spread(self) -> _core.Spread | None:
        """How batches grow from their seeds, if not by hops."""
        return None

    def _roots(self) -> _core.Roots | None:
        """The seeds that are drawn for each batch."""
        return None

    def _links(self) -> _core.Links | None:
        """The links that batches are made around."""
        return None

    def check_seed_times(self, inputs: InputNodes) -> None:
        """Refuses seeds without a time where sampling looks at times."""
        times = self.shape.node_times
        if self.shape.times is None or inputs.times is not None:
            return
        if times is None or times[inputs.node_type.index] is None:
            raise UnsupportedArgument(
                f"seeds of type {inputs.node_type.name!r} have no times of their own; give a time "
                "for each of them in input_time"
            )

    def _check_turned(self) -> None:
        """Refuses tensors of edges that are turned round into another type, where their ids mean
        nothing."""
        if self.shape.subgraph != "bidirectional":
            return
        for kind, index, name in self.tensors:
            if kind == "edge" and (owner := self.schema.edge_type_at(index)) is not turned_round(
                self.schema, owner
            ):
                raise UnsupportedArgument(
                    f"subgraph_type='bidirectional' joins {owner.triple!r} with another edge type, "
                    f"so {name!r} of its edges cannot be read; leave it out of attrs"
                )

    def _method(self) -> _core.Method:
        options = {"replace": self.replace, "dependent_batches": self.dependent_batches}
        return core_method(self.method, **options)

    @property
    def is_compilable(self) -> bool:
        """Whether epochs of its batches can be compiled."""
        return self.shape.is_plain

    @property
    def core(self) -> _core.Sampler:
        """The compiled sampler of this process."""
        # Asking the snapshot first turns a use after close into StoreClosed.
        _ = self.snapshot.version
        return self._local.get()

    @property
    def key(self) -> dict[str, str]:
        """What of the sampler shapes a batch, in words; the key of compiled epochs has it."""
        dependent = f", {self.dependent_batches} dependent" if self.method == "labor" else ""
        # Epochs are compiled of plain batches alone, whose key says nothing of their shape.
        shape = {} if self.shape.is_plain else {"shape": self.shape.words}
        return {
            "method": self.method + dependent,
            "store": self.snapshot.fingerprint,
            "fanouts": json.dumps(self.fanouts),
            "replace": str(self.replace),
            "seed": str(self.seed),
            **shape,
        }

    def sample(self, ids: Any, *, stream: int = 0) -> MiniBatch:
        """Samples one batch around `ids` (ids [n], or (node type, ids)) under a random stream.

        Raises:
            NodeOutOfRange: An id is out of range.
            BudgetTooSmall: The batch does not fit the memory budget.
        """
        inputs = resolve_input_nodes(self.snapshot, ids)
        self.check_seed_times(inputs)
        return self.make(inputs, stream)

    def sample_many(self, seeds: Mapping[str, Any], *, stream: int = 0) -> MiniBatch:
        """Samples one batch around seeds of several node types, {node type: ids [n]}.

        Raises:
            UnsupportedArgument: The sampler has a shape, such as `disjoint` or `time_attr`.
        """
        if not self.shape.is_plain:
            raise UnsupportedArgument(
                "sample_many makes plain batches, and this sampler makes disjoint ones, looks at "
                "times, or has other edges than those that it draws; use sample"
            )
        schema = self.schema
        given = [(schema.node_type(name), as_ids(ids)) for name, ids in seeds.items()]
        core = self.core.sample([(t.index, ids) for t, ids in given], stream)
        self._check_rows(core, f"the batch of stream {stream}", BY_ITSELF)
        first = given[0][0] if given else schema.node_types[0]
        places = np.arange(sum(len(ids) for _, ids in given), dtype=np.int64)
        return MiniBatch(core, schema, first, places)

    def make(self, inputs: InputNodes, stream: int) -> MiniBatch:
        """Samples one batch around all of `inputs`, with the times that are given for them."""
        places = np.arange(len(inputs), dtype=np.int64)
        core = self.core.make(inputs.at(places), stream, 0, 1)
        self._check_rows(core, f"the batch of stream {stream}", BY_ITSELF)
        return MiniBatch(core, self.schema, inputs.node_type, inputs.input_id(places))

    def batches(
        self,
        ids: Any,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        epoch: int = 0,
        reading: ReadingLike = "auto",
    ) -> Iterator[MiniBatch]:
        """Samples batches around all of `ids`, in order, working ahead in background threads.

        Args:
            ids: None for all nodes, ``"train"``, ids [n], a mask, or (node type, any of these).
            batch_size: Seeds per batch.
            shuffle: Permute the seeds, keyed by the seed and `epoch`.
            drop_last: Leave a smaller last batch out.
            epoch: Which pass this is; another one has other draws.
            reading: How rows are read that memory does not hold, by name or as a `Reading`.
        """
        how = Reading.of(reading)
        if how.check_rows and self._check is None:
            self._check = RowCheck(self.snapshot)
        inputs = resolve_input_nodes(self.snapshot, ids)
        plan = SeedPlan(
            num_seeds=len(inputs),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=self.seed,
            drop_last=drop_last,
        )
        return Pipeline(self, inputs, plan, how, goes_on=False).run(epoch)

    def fetch(self, inputs: InputNodes, plan: SeedPlan, epoch: int, batch: int) -> MiniBatch:
        """Batch `batch` alone, in this thread; the same bytes as a `Pipeline` gives."""
        places, stream = plan.places(epoch, batch, batch + 1), plan.stream(epoch, batch)
        seeds = inputs.at(places)
        part = (stream, plan.first(batch), plan.batch_size)
        core = with_room(self.snapshot.version, lambda: self.core.make(seeds, *part))
        return self.wrap(core, inputs, plan, (epoch, batch), lambda: BY_ITSELF)

    def wrap(
        self,
        core: _core.MiniBatch,
        inputs: InputNodes,
        plan: SeedPlan,
        number: tuple[int, int],
        describe: Callable[[], str],
    ) -> MiniBatch:
        """The batch of a plan by (epoch, batch); `describe` says how it was read."""
        epoch, batch = number
        if self._check is not None:
            self._check_rows(core, f"batch {batch} of epoch {epoch}", describe())
        places = plan.places(epoch, batch, batch + 1)
        made = MiniBatch(core, self.schema, inputs.node_type, inputs.input_id(places))
        made.places, made.num_padding = places, plan.padding(batch)
        return made

    def _check_rows(self, core: _core.MiniBatch, name: str, how: str) -> None:
        if self._check is not None:
            self._check.check(core, self._columns, name, how)


def resolve_attrs(schema: Schema, attrs: Attrs) -> list[tuple[Kind, int, str]]:
    """The (kind, type id, tensor) triples that `attrs` stands for.

    Raises:
        NameNotFound: The store has no such type or tensor.
        TypeError: A text in place of a list of names.
    """
    for names in attrs.values() if isinstance(attrs, Mapping) else (attrs,):
        if isinstance(names, str):
            raise TypeError(f"attrs is a list of names, got the text {names!r}; use [{names!r}]")
    if isinstance(attrs, Mapping):
        return [t for key, names in attrs.items() for t in _of_named_owner(schema, key, names)]
    owners: list[NodeType | EdgeType] = [*schema.node_types, *schema.edge_types]
    found = [t for owner in owners for t in _of_owner(owner, attrs)]
    for name in attrs or ():
        if not any(_stored_names(owner, name) for owner in owners):
            known = sorted({t.name for owner in owners for t in owner.tensors})
            raise NameNotFound(f"no tensor {name!r} in this store; it has {known}")
    return found


def _column(
    schema: Schema, tensor: tuple[Kind, int, str], x_dtype: DtypeLike, x_format: XFormat
) -> str | None:
    kind, type_id, name = tensor
    if kind != "node" or name != "x":
        return None
    meta = schema.tensor(schema.node_types[type_id], name)
    wanted = read_as(meta, x_dtype)
    return "sparse" if meta.sparse and x_format == "sparse" else wanted


def check_x(
    schema: Schema,
    tensors: Sequence[tuple[Kind, int, str]],
    x_dtype: Any,
    x_format: XFormat = "dense",
) -> None:
    """Refuses what is said of ``x`` where it cannot be, or where no ``x`` is read.

    Raises:
        UnsupportedArgument: It has no effect, or rows are not stored so.
    """
    if x_format not in ("dense", "sparse"):
        raise UnsupportedArgument(f"x_format is {x_format!r}; use 'dense' or 'sparse'")
    owners = [schema.node_types[i] for kind, i, name in tensors if (kind, name) == ("node", "x")]
    if x_dtype is not None and not owners:
        raise UnsupportedArgument(
            f"x_dtype={x_dtype!r} has no effect, as batches have no x; leave it out, or name x in "
            "attrs"
        )
    if x_format == "dense":
        return
    if not any(schema.tensor(owner, "x").sparse for owner in owners):
        raise UnsupportedArgument(
            "the x of these batches has no sparse rows in the store; leave x_format='sparse' out"
        )
    if x_dtype is not None and dtype_name(x_dtype) not in ("f32", "stored"):
        raise UnsupportedArgument("sparse rows are of float32; leave x_dtype out")


def _of_named_owner(schema: Schema, key: Any, names: Sequence[str]) -> list[tuple[Kind, int, str]]:
    owner: NodeType | EdgeType
    if isinstance(key, str) and any(t.name == key for t in schema.node_types):
        owner = schema.node_type(key)
    else:
        owner = schema.edge_type(key)
    for name in names:
        if not _stored_names(owner, name):
            schema.tensor(owner, name)
    return _of_owner(owner, names)


def _of_owner(
    owner: NodeType | EdgeType, names: Sequence[str] | None
) -> list[tuple[Kind, int, str]]:
    if names is None:
        wanted = [t.name for t in owner.tensors]
    else:
        wanted = [n for name in names for n in _stored_names(owner, name)]
    return [(owner.kind, owner.index, name) for name in dict.fromkeys(wanted)]


def _stored_names(owner: NodeType | EdgeType, name: str) -> list[str]:
    """The tensors behind an attribute: itself, or all splits behind ``train_mask``."""
    if name.endswith("_mask") and name.removesuffix("_mask") in SPLITS:
        return split_columns(owner) if isinstance(owner, NodeType) else []
    return [t.name for t in owner.tensors if t.name == name]
