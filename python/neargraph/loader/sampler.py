"""Neighbour sampling into NumPy mini-batches, without torch.

Sampling and reading run in Rust threads ahead of the consumer. This module passes seeds, fanouts
and tensors to them. The invariant: a batch is a pure function of (store, fanouts, replace, seed,
stream, seeds), and does not depend on threads, prefetch or process.
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
    """Neighbour sampling over a store, into NumPy arrays.

    Args:
        store: The open store or a snapshot. The sampler is pinned to the commit that is current
            when it is created.
        fanouts: Neighbours per node and hop, such as ``[15, 10]``, or a dictionary of such lists by
            edge type; -1 takes all. A list applies to the edge types of the graph. To sample a
            reverse that the store keeps, such as ``rev_buys``, give a dictionary with it and all
            other edge types.
        seed: Random seed of all draws, from 0 to 2^64 - 1. Equal seeds give equal batches.
        replace: Draw with replacement. Not supported by ``"labor"``.
        method: How neighbours are chosen.

            - ``"uniform"``: each node draws its neighbours independently.
            - ``"weighted"``: draws are in proportion to the weights of edges, which the store must
              have.
            - ``"labor"``: nodes choose the same neighbours where possible (LABOR-0), so that a
              batch has fewer nodes. A fanout is then the average number of neighbours.
        dependent_batches: With ``"labor"``: number of consecutive batches that share random
            numbers, and so have rows in common.
        attrs: Names of the tensors to read, for all types, or a dictionary of names by type.
            ``"train_mask"``, ``"val_mask"`` and ``"test_mask"`` stand for the splits. None reads
            all tensors, an empty list none.
        x_dtype: The dtype of ``x``: ``"f32"``, ``"f16"``, ``"bf16"`` (as uint16), or a dtype of
            NumPy or torch. Rows are converted when they are gathered. ``"stored"``: the dtype on
            disk. None: float32 for f16, bf16 and scaled int8, and else the dtype on disk.
        x_format: ``"sparse"`` returns rows that are stored sparse as float32 `SparseRows` from
            `MiniBatch.features`. ``"dense"`` returns all rows dense.
        check_rows: Read every row of every batch a second time, through other caches, and raise
            `WrongRow` if the two differ. Batches take several times as long, and the check uses
            32 MB outside the store's budget.
        layout: ``"direct"`` reads batches from the direct layout of this version
            (`neargraph compile --layout direct`), without look-ahead. The path of such a file names
            one. Tensors that it does not contain are read from the store. The batches are the
            same.
        disjoint: Give each seed its own subgraph (`MiniBatch.subgraphs`). A node that two seeds
            reach occurs twice. Two subgraphs that reach a node in the same hop, and with the same
            time, draw the same neighbours of it.
        time_attr: Sample nothing that is later than its seed. It is the name of an int64 node
            tensor, or ``"edge_time"`` or ``"time"`` for the times of edges. Implies `disjoint`.
        temporal_strategy: With `time_attr`: draw ``"uniform"`` from the neighbours that are not
            later than the seed, or take the ``"last"`` of them.
        subgraph_type: The edges of a batch. ``"directional"``: the drawn edges.
            ``"bidirectional"``: the drawn edges in both directions. ``"induced"``: all edges
            between the nodes.

    Raises:
        CompiledMismatch: This version has no direct layout.
        NameNotFound: A name in `fanouts`, `attrs` or `time_attr` does not exist in the store.
        UnsupportedArgument: The store or another argument does not support a setting, such as
            `x_dtype` or `method`.
        ValueError: `seed`, a fanout or another value is not valid.

    Example:
        >>> sampler = ng.NumpySampler(store, [15, 10], seed=7)
        >>> for batch in sampler.batches("train", 1024):
        ...     x, edge_index = batch.features("x"), batch.edge_index()
    """

    _carries_columns = True
    """Whether batches have times and weights of edges."""

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
            raise ValueError(f"seed={seed} is not valid: expected 0 to 2^64 - 1")
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
                "layout='direct' does not support disjoint=, time_attr= and subgraph_type=; use "
                "layout='paged'"
            )
        if self.layout == "direct" and self.schema.edge_types != schema.edge_types:
            known = {t.index for t in schema.edge_types}
            added = [t.triple for t in self.schema.edge_types if t.index not in known]
            reverse = ", ".join(map(repr, added))
            raise UnsupportedArgument(
                "layout='direct' does not support fanouts for stored reverse edges, but the "
                f"fanouts name {reverse}; leave out these fanouts, or use layout='paged'"
            )
        # Raises an error at once for settings that the store does not support.
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
        """Returns how batches grow from their seeds, if not by hops."""
        return None

    def _roots(self) -> _core.Roots | None:
        """Returns the rule by which the seeds of each batch are drawn."""
        return None

    def _links(self) -> _core.Links | None:
        """Returns the links that are seeds."""
        return None

    def check_seed_times(self, inputs: InputNodes) -> None:
        """Checks that seeds have times if sampling is by time.

        Raises:
            UnsupportedArgument: They have none.
        """
        times = self.shape.node_times
        if self.shape.times is None or inputs.times is not None:
            return
        if times is None or times[inputs.node_type.index] is None:
            raise UnsupportedArgument(
                f"nodes of type {inputs.node_type.name!r} have no times; give the times of the "
                "seeds as input_time="
            )

    def _check_turned(self) -> None:
        """Rejects tensors of edges whose reverse has another type, where their ids are not valid.

        Raises:
            UnsupportedArgument: There is such a tensor.
        """
        if self.shape.subgraph != "bidirectional":
            return
        for kind, index, name in self.tensors:
            if kind == "edge" and (owner := self.schema.edge_type_at(index)) is not turned_round(
                self.schema, owner
            ):
                raise UnsupportedArgument(
                    f"subgraph_type='bidirectional' joins {owner.triple!r} with another edge "
                    f"type, so the edge tensor {name!r} of {owner.triple!r} cannot be read; "
                    f"leave {name!r} out of attrs="
                )

    def _method(self) -> _core.Method:
        options = {"replace": self.replace, "dependent_batches": self.dependent_batches}
        return core_method(self.method, **options)

    @property
    def is_compilable(self) -> bool:
        """Whether epochs of these batches can be compiled."""
        return self.shape.is_plain

    @property
    def core(self) -> _core.Sampler:
        """The compiled sampler of this process."""
        # Using the snapshot first raises StoreClosed after a close.
        _ = self.snapshot.version
        return self._local.get()

    @property
    def key(self) -> dict[str, str]:
        """The settings that affect a batch, in words, for the key of compiled epochs."""
        dependent = f", {self.dependent_batches} dependent" if self.method == "labor" else ""
        # Only plain batches are compiled, and their key has no shape.
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
        """Samples one batch.

        Args:
            ids: The seeds: ids [n], or (node type, ids).
            stream: Number that, with the seed, determines the draws.

        Raises:
            NodeOutOfRange: An id is out of range.
            BudgetTooSmall: The batch does not fit into the memory budget.
        """
        inputs = resolve_input_nodes(self.snapshot, ids)
        self.check_seed_times(inputs)
        return self.make(inputs, stream)

    def sample_many(self, seeds: Mapping[str, Any], *, stream: int = 0) -> MiniBatch:
        """Samples one batch around seeds of several node types.

        Args:
            seeds: The seeds by node type, {node type: ids [n]}.
            stream: Number that, with the seed, determines the draws.

        Raises:
            NodeOutOfRange: An id is out of range.
            UnsupportedArgument: The sampler has `disjoint`, `time_attr` or another `subgraph_type`
                than ``"directional"``.
            BudgetTooSmall: The batch does not fit into the memory budget.
        """
        if not self.shape.is_plain:
            raise UnsupportedArgument(
                "sample_many() does not support a sampler with disjoint=, time_attr= or "
                "subgraph_type=; call sample() once for each node type"
            )
        schema = self.schema
        given = [(schema.node_type(name), as_ids(ids)) for name, ids in seeds.items()]
        core = self.core.sample([(t.index, ids) for t, ids in given], stream)
        self._check_rows(core, f"the batch of stream {stream}", BY_ITSELF)
        first = given[0][0] if given else schema.node_types[0]
        places = np.arange(sum(len(ids) for _, ids in given), dtype=np.int64)
        return MiniBatch(core, schema, first, places)

    def make(self, inputs: InputNodes, stream: int) -> MiniBatch:
        """Samples one batch around all of `inputs`, with their times."""
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
        """Samples the batches of an epoch in order, ahead of the consumer in background threads.

        Args:
            ids: The seeds: ``"train"`` / ``"val"`` / ``"test"``, ids [n], a mask, a node type, or
                (node type, any of these). None: all nodes.
            batch_size: Seeds per batch.
            shuffle: Permute the seeds. The order depends on the seed and on `epoch`.
            drop_last: Drop a last batch that is smaller than the others.
            epoch: Number of the epoch. Each epoch has different draws.
            reading: How batches are read, as in `NeighborLoader`.

        Returns:
            An iterator over the batches.
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
        """Samples a single batch in this thread, with the bytes that a `Pipeline` returns."""
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
        """Wraps batch (epoch, batch) of a plan; `describe` returns in words how it was read."""
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
    """Returns the (kind, type id, tensor) triples of `attrs`.

    Raises:
        NameNotFound: A type or tensor does not exist.
        TypeError: A text is given instead of a list of names.
    """
    for names in attrs.values() if isinstance(attrs, Mapping) else (attrs,):
        if isinstance(names, str):
            raise TypeError(
                f"attrs= must be a list of names, got the string {names!r}; use [{names!r}]"
            )
    if isinstance(attrs, Mapping):
        return [t for key, names in attrs.items() for t in _of_named_owner(schema, key, names)]
    owners: list[NodeType | EdgeType] = [*schema.node_types, *schema.edge_types]
    found = [t for owner in owners for t in _of_owner(owner, attrs)]
    for name in attrs or ():
        if not any(_stored_names(owner, name) for owner in owners):
            known = sorted({t.name for owner in owners for t in owner.tensors})
            raise NameNotFound(
                f"no tensor {name!r} in this store; the tensors of the store are {known}"
            )
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
    """Checks `x_dtype` and `x_format` against the tensors of batches.

    Raises:
        UnsupportedArgument: A setting is not valid, has no effect, or does not fit the stored rows.
    """
    if x_format not in ("dense", "sparse"):
        raise UnsupportedArgument(
            f"x_format={x_format!r} is not valid: expected 'dense' or 'sparse'"
        )
    owners = [schema.node_types[i] for kind, i, name in tensors if (kind, name) == ("node", "x")]
    if x_dtype is not None and not owners:
        raise UnsupportedArgument(
            f"x_dtype={x_dtype!r} has no effect, as batches have no tensor 'x'; leave out "
            "x_dtype=, or name 'x' in attrs="
        )
    if x_format == "dense":
        return
    if not any(schema.tensor(owner, "x").sparse for owner in owners):
        raise UnsupportedArgument(
            "x_format='sparse' has no effect: the batches have no tensor 'x' that is stored "
            "with sparse rows; leave out x_format="
        )
    if x_dtype is not None and dtype_name(x_dtype) not in ("f32", "stored"):
        raise UnsupportedArgument(
            f"x_dtype={x_dtype!r} is not supported with x_format='sparse', which returns rows of "
            "float32; leave out x_dtype="
        )


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
    """Returns the stored tensors of an attribute; those of ``train_mask`` are all splits."""
    if name.endswith("_mask") and name.removesuffix("_mask") in SPLITS:
        return split_columns(owner) if isinstance(owner, NodeType) else []
    return [t.name for t in owner.tensors if t.name == name]
