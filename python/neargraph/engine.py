"""`ng.Engine`: a trained model that answers from a store, without torch.

Sampling, reading and computing happen in the compiled core with the GIL released; this module finds
the store's types in what the model file says. The invariant: equal ids, seed and snapshot give
equal bytes, whatever is in memory and however many threads ask.
"""

import json
import operator
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import computing
from neargraph._process import ProcessLocal
from neargraph._threads import checked_threads
from neargraph.dfg import DEVICES, Dfg
from neargraph.exceptions import InvalidModel, StoreClosed, UnsupportedArgument
from neargraph.loader.fanouts import resolve_fanouts
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
    """A model on a store: what it gives for nodes, pairs of nodes and graphs, as NumPy arrays.

    Inputs of the model are found by name, as batches in PyG have them: a node tensor such as ``x``,
    ``edge_index``, ``edge_attr``, ``edge_weight``, ``n_id``; of several types, such as
    ``x_dict.paper``. Many threads may ask at once. A child process opens its own engine.

    Args:
        store: The open store, or the path of one, which the engine then opens and closes.
        model: The path of a model file that `neargraph.export` wrote, or a `Dfg`.
        devices: What computes. Names, the preferred one first: ``"cpu"``, or ``"cpu-scalar"``, the
            exact and slow reference, which also does what no other can. A `neargraph.Devices`: its
            plug-ins and bundles may change while requests go on. ``["onnxruntime"]``: the whole
            model, untrimmed, in the ONNX Runtime that is installed, as a second opinion.
        prepare: What is brought into memory. ``"metadata"``: page tables and indexes, before the
            engine is open. ``"hot"``: also the neighbour lists, if they fit, and the rows that
            requests want most often, as many as fit. ``"all"``: all lists, and all rows that the
            model takes. Lists and rows come in the background; requests are answered meanwhile.
        memory: A memory budget of the engine's own, such as ``"2GB"``: the store is opened once
            more for it. None shares the budget of the open store.
        threads: Threads of a request; None is one per core, at most 4.
        fanouts: Neighbours per node and hop, in place of those that the file names.
        output: The output that answers, such as ``"out.1"``, where the model has several.
        batch_nodes: Nodes of a request that are sampled together. It shapes the draws of longer
            requests.

    Raises:
        FileNotFoundError: There is no model file.
        InvalidModel: The model takes what the store does not have, or was exported from a store
            with other types; the message names it.
        UnsupportedArgument: A device, an output or a way to prepare that there is not.
        MissingDependency: ONNX Runtime is wanted and not installed.
        BudgetTooSmall: ``prepare="all"`` does not fit.

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
                "the model file does not say how many neighbours to sample: give fanouts=[25, 10]"
            )
        lists = resolve_fanouts(snapshot.schema, fanouts)
        # Each process has its own: ONNX Runtime's threads do not survive a fork.
        devices = computing(self._devices, self.model, self._settings["threads"])
        core = self.model.core
        return _core.Engine(snapshot.version, core, lists, devices=devices, **self._settings)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the model file says of the model, such as ``fanouts``."""
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
            raise StoreClosed("the engine was closed; open another one")
        return self._local.get()

    @property
    def snapshot(self) -> Snapshot:
        """The commit that answers come from."""
        return Snapshot(self._store, self.core.snapshot())

    @property
    def node_type(self) -> str:
        """The type of the nodes that `run` is asked for."""
        return self._store.schema.node_types[self.core.node_type].name

    def run(self, node_ids: Any, seed: int = 0) -> NDArray[Any]:
        """What the model gives for nodes.

        Args:
            node_ids: Ids in the store, [n]; they may repeat.
            seed: Of the draws of neighbours.

        Returns:
            [n, ...]: a row for each node, in the order of `node_ids`.

        Raises:
            NodeOutOfRange: Some ids are not in the store; names the first ones.
            BudgetTooSmall: A batch does not fit the memory budget.
            UnsupportedArgument: The model answers for pairs or graphs.
        """
        return _shaped(self.core.run(_flat(node_ids), _seed(seed)))

    def scores(self, edges: Any, seed: int = 0) -> NDArray[Any]:
        """A score for each pair of nodes.

        A model with an input ``edge_label_index`` is a decoder, and gives them. Otherwise they are
        dot products of what the model gives for both nodes.

        Args:
            edges: Ids in the store, [2, n]: row 0 the sources, row 1 the destinations.
            seed: Of the draws of neighbours.

        Returns:
            [n, ...]: in the order of `edges`.

        Raises:
            NodeOutOfRange: Some ids are not in the store; names the first ones.
            UnsupportedArgument: The model gives nothing that scores pairs.
        """
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise UnsupportedArgument(f"edges have shape [2, n], got {list(pairs.shape)}")
        return _shaped(self.core.scores(as_ids(pairs[0]), as_ids(pairs[1]), _seed(seed)))

    def graphs(self, graph_ids: Any) -> NDArray[Any]:
        """What the model gives for whole graphs, where a store holds many.

        The node tensor ``graph_id`` says which nodes make a graph, as imports of TUDatasets write
        it. All edges between the nodes of a graph are taken.

        Args:
            graph_ids: Numbers of graphs, [n]; they may repeat.

        Returns:
            [n, ...]: a row for each graph.

        Raises:
            NodeOutOfRange: There are no such graphs; names the first ones.
            UnsupportedArgument: The model takes no ``batch``, so it is none of graphs.
        """
        return _shaped(self.core.graphs(_flat(graph_ids)))

    def explain(self) -> str:
        """What gives each input, what computes each operation, and what is in memory, as text."""
        return self.core.explain()

    def stats(self) -> dict[str, Any]:
        """Counters of this process since the engine was opened.

        ``batches`` that were answered, nodes and graphs that were asked for (``seeds``), the same
        without those that a request repeats (``distinct_seeds``), neighbour ``lists`` that batches
        drew from, ``rows`` that they took, how many of these were prepared (``rows_prepared``) and
        of those read where they lie (``rows_in_place``), and the seconds of threads that asked:
        ``sample_seconds``, ``gather_seconds``, ``run_seconds``.
        """
        return self.core.stats()

    @property
    def ready(self) -> float:
        """The share of what shall be in memory that is there, 0 to 1."""
        return self.core.ready

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Waits until nothing more will be brought into memory.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            Whether all is there that shall be. `explain` says why if not.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self.core.prepared()[0]:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL_SECONDS)
        return self.core.prepared()[1] is None

    def refresh(self) -> bool:
        """Answers from the newest commit from now on; requests under way finish on the old one.

        Rows in memory that no commit has changed stay there. An engine with a budget of its own
        sees checkpoints, see `Store.checkpoint`, and reads what it prepares again.

        Returns:
            Whether the content is another one.
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
        """Gives memory back, and closes the store if the engine has opened it."""
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
        raise UnsupportedArgument(f"prepare is {prepare!r}; use one of {', '.join(_PREPARE)}")
    if threads is not None:
        checked_threads(threads)
    if not 1 <= batch_nodes < 2**63:
        raise UnsupportedArgument(f"batch_nodes is {batch_nodes}; it has to be at least 1")


def _seed(seed: int) -> int:
    number = operator.index(seed)
    if not 0 <= number < 2**64:
        raise ValueError(f"seed must be in 0 ... 2^64 - 1, got {number}")
    return number


def _flat(ids: Any) -> NDArray[np.int64]:
    """Ids of one dimension; answers have a row for each."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise UnsupportedArgument(f"ids have shape [n], got {list(array.shape)}")
    return as_ids(array)


def _shaped(found: tuple[Sequence[int], NDArray[Any]]) -> NDArray[Any]:
    dims, flat = found
    return flat.reshape(dims)
