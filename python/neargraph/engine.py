"""`ng.Engine`: answers requests from a trained model and a store, without torch.

The compiled core samples, reads and computes with the GIL released. This module resolves the
settings of the model file with the store's schema. The invariant: equal ids, seed and snapshot give
equal bytes, for any content of the memory and any number of threads.
"""

import json
import operator
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import computing
from neargraph._process import ProcessLocal
from neargraph._threads import checked_threads
from neargraph.dfg import DEVICES, Dfg
from neargraph.exceptions import InvalidModel, StoreClosed, UnsupportedArgument
from neargraph.loader.fanouts import resolve_fanouts
from neargraph.model_reports import EngineStats
from neargraph.reader import as_ids
from neargraph.snapshot import Snapshot
from neargraph.store import Store

if TYPE_CHECKING:
    from neargraph.plugins import Devices

Prepare = Literal["metadata", "hot", "all"]

_PREPARE = ("metadata", "hot", "all")
_THREADS_MAX = 4
_POLL_SECONDS = 0.01


class Engine:
    """Computes a model's output for nodes, pairs of nodes and graphs of a store, as NumPy arrays.

    The inputs of the model are matched by name with the parts of a PyG batch: node tensors such as
    ``x``, ``edge_index``, ``edge_attr``, ``edge_weight``, ``n_id``. With several types, the names
    are such as ``x_dict.paper``. Threads can share an engine. A child process opens its own engine.

    Args:
        store: An open store, or the path of a store, which the engine opens and closes.
        model: The path of a model file from `neargraph.export`, or a `Dfg`.
        devices: The devices that compute:

            - Names, the preferred one first: ``"cpu"``, or ``"cpu-scalar"``, the exact and slow
              reference, which has a kernel for every operation.
            - A `neargraph.Devices`. Its plug-ins and bundles may change while requests run.
            - ``["onnxruntime"]``: the whole model, untrimmed, in the installed ONNX Runtime, to
              compare results.
        prepare: The data to load into memory:

            - ``"metadata"``: page tables and indexes, before the engine is open.
            - ``"hot"``: also the neighbour lists, if they fit, and as many of the most frequently
              used rows as fit.
            - ``"all"``: all lists, and all rows of the model's inputs.

            Lists and rows are loaded in the background. Requests are answered meanwhile.
        memory: A separate memory budget for the engine, such as ``"2GB"``. The engine then opens
            the store again. None: the budget of the open store.
        threads: Threads per request. None: one per core, at most 4.
        fanouts: Neighbours per node and hop. None: those of the model file.
        output: Name of the output to return, such as ``"out.1"``, if the model has several.
        batch_nodes: Number of nodes of a request that are sampled together. It affects the draws
            of longer requests.

    Raises:
        FileNotFoundError: The model file does not exist.
        InvalidModel: The store lacks an input of the model, or the model was exported from a store
            with other types. The message names the difference.
        UnsupportedArgument: A device, output or value of `prepare` does not exist.
        MissingDependency: ONNX Runtime is required but not installed.
        BudgetTooSmall: The data of ``prepare="all"`` does not fit into the budget.

    Example:
        >>> with ng.Engine(store, "sage.ngm", prepare="hot") as engine:  # doctest: +SKIP
        ...     engine.run([17, 4, 17]).argmax(axis=1)
        array([3, 0, 3])
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        model: Dfg | str | os.PathLike[str],
        *,
        devices: "Sequence[str] | Devices" = DEVICES,
        prepare: Prepare = "metadata",
        memory: str | int | None = None,
        threads: int | None = None,
        fanouts: Any = None,
        output: str | None = None,
        batch_nodes: int = 1024,
    ) -> None:
        _check(prepare, threads, batch_nodes)
        self.model = model if isinstance(model, Dfg) else Dfg.open(model)
        self._settings: dict[str, Any] = {
            "output": output,
            "prepare": prepare,
            "threads": threads or min(os.cpu_count() or 1, _THREADS_MAX),
            "batch_nodes": batch_nodes,
        }
        self._devices = devices
        self._given_fanouts = fanouts
        self._memory = memory
        self._shares = isinstance(store, Store) and memory is None
        self._path = store.path if isinstance(store, Store) else os.fspath(store)
        shared = store if isinstance(store, Store) and memory is None else None
        self._store: Store = self._open() if shared is None else shared
        self._closed = False
        try:
            self._local: ProcessLocal[_core.Engine] = ProcessLocal(self._build)
            self._local.get()
        except BaseException:
            self.close()
            raise

    def _open(self) -> Store:
        return Store(self._path, self._memory)

    def _build(self) -> _core.Engine:
        snapshot = self._store.snapshot()
        fanouts = self._given_fanouts
        if fanouts is None:
            fanouts = self.metadata.get("fanouts")
        if fanouts is None:
            raise InvalidModel(
                "the model file has no fanouts: give the neighbours per hop, such as "
                "fanouts=[25, 10]"
            )
        lists = resolve_fanouts(snapshot.schema, fanouts)
        # Each process creates its own devices: ONNX Runtime's threads do not survive a fork.
        devices = computing(self._devices, self.model, self._settings["threads"])
        core = self.model.core
        return _core.Engine(snapshot.version, core, lists, devices=devices, **self._settings)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the model file, such as ``fanouts``."""
        said = {}
        for key, text in self.model.core.metadata():
            name = key.removeprefix("neargraph.")
            try:
                said[name] = json.loads(text)
            except ValueError:
                said[name] = text
        return said

    @property
    def core(self) -> _core.Engine:
        """The compiled engine of this process."""
        if self._closed:
            raise StoreClosed("the engine is closed; open a new one")
        return self._local.get()

    @property
    def snapshot(self) -> Snapshot:
        """The version of the store from which the engine answers."""
        return Snapshot(self._store, self.core.snapshot())

    @property
    def node_type(self) -> str:
        """The node type of the ids for `run`."""
        return self._store.schema.node_types[self.core.node_type].name

    def run(self, node_ids: Any, seed: int = 0) -> NDArray[Any]:
        """Returns the model's output for nodes.

        Args:
            node_ids: Node ids, [n]. Ids may repeat.
            seed: Random seed of the sampling.

        Returns:
            An array [n, ...] with one row for each node, in the order of `node_ids`.

        Raises:
            NodeOutOfRange: An id is not in the store. The message lists the first ones.
            BudgetTooSmall: A batch does not fit into the memory budget.
            UnsupportedArgument: The model is for pairs of nodes or graphs.
        """
        return _shaped(self.core.run(_flat(node_ids), _seed(seed)))

    def scores(self, edges: Any, seed: int = 0) -> NDArray[Any]:
        """Returns a score for each pair of nodes.

        If the model has an input ``edge_label_index``, its output is the scores. Otherwise a score
        is the dot product of the outputs for both nodes.

        Args:
            edges: Node ids, [2, n]: sources in row 0, destinations in row 1.
            seed: Random seed of the sampling.

        Returns:
            An array [n, ...], in the order of `edges`.

        Raises:
            NodeOutOfRange: An id is not in the store. The message lists the first ones.
            UnsupportedArgument: The model has no output that scores pairs.
        """
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise UnsupportedArgument(f"edges= has shape {list(pairs.shape)}: expected [2, n]")
        return _shaped(self.core.scores(as_ids(pairs[0]), as_ids(pairs[1]), _seed(seed)))

    def graphs(self, graph_ids: Any) -> NDArray[Any]:
        """Returns the model's output for whole graphs of a store with many graphs.

        The node tensor ``graph_id`` assigns nodes to graphs, as in imports of TUDatasets. A graph
        has all edges between its nodes.

        Args:
            graph_ids: Numbers of graphs, [n]. They may repeat.

        Returns:
            An array [n, ...] with one row for each graph.

        Raises:
            NodeOutOfRange: A graph does not exist. The message lists the first ones.
            UnsupportedArgument: The model has no input ``batch``, so it is not for graphs.
        """
        return _shaped(self.core.graphs(_flat(graph_ids)))

    def explain(self) -> str:
        """Returns the source of each input, the device of each operation, and the content of the
        memory, as text."""
        return self.core.explain()

    def stats(self) -> EngineStats:
        """Returns the counters of this process since the engine was opened."""
        return cast(EngineStats, self.core.stats())

    @property
    def ready(self) -> float:
        """The part of the data to prepare that is in memory, 0 to 1."""
        return self.core.ready

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Waits until the preparation has ended.

        Args:
            timeout: Maximum time in seconds. None: no limit.

        Returns:
            Whether all data is in memory. If not, `explain` returns the reason.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self.core.prepared()[0]:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL_SECONDS)
        return self.core.prepared()[1] is None

    def refresh(self) -> bool:
        """Switches to the newest commit. Requests in progress finish on the old one.

        Rows in memory that did not change stay there. An engine with a separate budget sees only
        checkpoints (see `Store.checkpoint`), and reloads all prepared data.

        Returns:
            Whether the content has changed.
        """
        if self._shares:
            return self.core.refresh(self._store.snapshot().version)
        newer = self._open()
        try:
            changed = self.core.refresh(newer.snapshot().version)
        except BaseException:
            newer.close()
            raise
        older, self._store = (self._store, newer) if changed else (newer, self._store)
        older.close()
        return changed

    def close(self) -> None:
        """Releases the memory, and closes the store if the engine opened it."""
        if self._closed:
            return
        self._closed = True
        if hasattr(self, "_local"):
            self._local.take()
        if not self._shares:
            self._store.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"ready={self.ready:.2f}"
        return f"Engine({self._path!r}, prepare={self._settings['prepare']!r}, {state})"


def _check(prepare: str, threads: int | None, batch_nodes: int) -> None:
    if prepare not in _PREPARE:
        known = ", ".join(_PREPARE)
        raise UnsupportedArgument(f"prepare={prepare!r} is not valid: expected one of {known}")
    if threads is not None:
        checked_threads(threads)
    if not 1 <= batch_nodes < 2**63:
        raise UnsupportedArgument(f"batch_nodes={batch_nodes} is not valid: expected 1 or more")


def _seed(seed: int) -> int:
    number = operator.index(seed)
    if not 0 <= number < 2**64:
        raise ValueError(f"seed={number} is not valid: expected 0 to 2^64 - 1")
    return number


def _flat(ids: Any) -> NDArray[np.int64]:
    """Returns ids of one dimension."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise UnsupportedArgument(f"the ids have shape {list(array.shape)}: expected [n]")
    return as_ids(array)


def _shaped(found: tuple[Sequence[int], NDArray[Any]]) -> NDArray[Any]:
    dims, flat = found
    return flat.reshape(dims)
