"""Requests that read: rows, scores, neighbours, jobs, mini-batches, and lists of what is served."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from neargraph._modelfiles import MODEL, WEIGHTS, read_with_manifest
from neargraph.client import results
from neargraph.client.batches import Batches, ReceivedBatch
from neargraph.client.calls import call, listed
from neargraph.client.modes import Opening, Request, Steps, job_method, method, stream
from neargraph.client.reports import DeviceList, ServedGraph, ServedModel, ServerInfo
from neargraph.client.results import Answer, JobState, NeighborLists, job_state
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.ranks import Ranks, RanksLike


def ids_of(given: Any) -> NDArray[np.int64]:
    """Returns ids as the core takes them."""
    array = np.asarray(given)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise UnsupportedArgument(
            f"ids have dtype {array.dtype} and shape {list(array.shape)}: expected integers of "
            "shape [n]"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _targets(nodes: Any, edges: Any, graph_ids: Any) -> tuple[str, Any, Any]:
    """Returns the kind of the targets, their ids, and for pairs the ids of the second ends."""
    given = {"nodes": nodes, "edges": edges, "graphs": graph_ids}
    named = [kind for kind, ids in given.items() if ids is not None]
    if len(named) != 1:
        got = " and ".join("graph_ids=" if kind == "graphs" else f"{kind}=" for kind in named)
        raise UnsupportedArgument(
            f"give exactly one of nodes=, edges= and graph_ids=, got {got or 'none of them'}"
        )
    kind = named[0]
    if kind != "edges":
        return kind, ids_of(given[kind]), np.empty(0, np.int64)
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise UnsupportedArgument(f"edges= has shape {list(pairs.shape)}: expected [2, n]")
    return kind, ids_of(pairs[0]), ids_of(pairs[1])


def files_of(path: str | os.PathLike[str]) -> tuple[bytes, bytes, bytes]:
    """Returns the contents of the files of a model."""
    parts, manifest = read_with_manifest(Path(path))
    return parts[MODEL], parts[WEIGHTS], manifest


def _model(
    model: str | os.PathLike[str], fanouts: Sequence[int] | None, output: str
) -> tuple[str, tuple[bytes, bytes, bytes] | None, list[int], str]:
    """Returns a registered model by name, or the files and settings of a model to send."""
    if not isinstance(model, str):
        return "", files_of(model), list(fanouts or []), output
    if fanouts or output:
        raise UnsupportedArgument(
            "fanouts= and output= of a registered model cannot be changed in a request; leave "
            "fanouts= and output= out, or give the Path of a model file to send with the request"
        )
    return model, None, [], ""


class Asking:
    """Methods that read from the server."""

    @method
    def answer(
        self,
        model: str | os.PathLike[str],
        nodes: Any = None,
        *,
        edges: Any = None,
        graph_ids: Any = None,
        graph: str = "",
        target_type: str = "",
        seed: int = 0,
        at_snapshot: int | None = None,
        max_lag_commits: int = 0,
        fanouts: Sequence[int] | None = None,
        output: str = "",
    ) -> Steps[Answer]:
        """Returns the rows of `run` with their snapshot, the model's version and the times.

        Example:
            >>> client.answer("sage", [17]).snapshot.commit  # doctest: +SKIP
            12
        """
        kind, first, second = _targets(nodes, edges, graph_ids)
        rest = (seed, at_snapshot, max_lag_commits)
        run = (graph, _model(model, fanouts, output), kind, target_type, first, second, *rest)
        return results.answer((yield Request("run", (run,))))

    run = answer.then(
        lambda answer: answer.rows,
        """Computes the output of a model for nodes, pairs of nodes, or graphs.

        Give exactly one of `nodes`, `edges` and `graph_ids`.

        Args:
            model: A name, an alias, or "name@version". Or the `Path` of a local model file, which
                is sent with the request and not registered; this needs the right "write".
            nodes: Node ids, [n]. Ids may repeat.
            edges: Node ids, [2, n]: sources in row 0, destinations in row 1.
            graph_ids: Numbers of graphs, [n].
            graph: Name of the graph. May be empty if the server has one graph.
            target_type: Node type or edge type of the targets. May be empty if there is one.
            seed: Random seed of the sampling. Equal seeds give equal bytes.
            at_snapshot: Number of a pinned commit. None: the newest commit.
            max_lag_commits: Maximum number of commits by which the rows may be out of date.
            fanouts: For a model file that is sent: neighbours per hop. None: those of the file.
            output: For a model file that is sent: name of the output. May be empty if there is one.

        Returns:
            A new array [n, ...] with one row for each target.

        Raises:
            NodeOutOfRange: An id is not in the graph.
            NotFound: The graph or model does not exist; the message lists those that do.
            RequestFailed: Any other error; see `code`, `reason`, `field` and `remedy`.

        Example:
            >>> client.run("sage", [17, 4, 17]).argmax(axis=1)  # doctest: +SKIP
            array([3, 0, 3])
        """,
        NDArray[Any],
    )

    @job_method
    def analyze(
        self,
        model: str | os.PathLike[str],
        nodes: Any = None,
        *,
        edges: Any = None,
        graph_ids: Any = None,
        graph: str = "",
        target_type: str = "",
        seed: int = 0,
        at_snapshot: int | None = None,
        max_lag_commits: int = 0,
        fanouts: Sequence[int] | None = None,
        output: str = "",
        keep_seconds: int = 0,
    ) -> Steps[str]:
        """Starts a job, which the server computes when it has capacity.

        The other arguments are those of `run`.

        Args:
            keep_seconds: Time for which the server keeps the result. 0: the server's default.

        Returns:
            The job. It has methods for progress, result and cancelling.

        Raises:
            ServerBusy: The queue of jobs is full; `retry_after` is the time until the next try.

        Example:
            >>> client.analyze("sage", range(1_000_000)).result(timeout=600)  # doctest: +SKIP
        """
        kind, first, second = _targets(nodes, edges, graph_ids)
        rest = (seed, at_snapshot, max_lag_commits)
        run = (graph, _model(model, fanouts, output), kind, target_type, first, second, *rest)
        return str((yield Request("analyze", (run, keep_seconds))))

    @method
    def features(
        self,
        nodes: Any,
        tensor: str = "",
        *,
        graph: str = "",
        node_type: str = "",
        at_snapshot: int | None = None,
    ) -> Steps[NDArray[Any]]:
        """Returns rows of a node tensor.

        Args:
            nodes: Node ids, [n]. Ids may repeat.
            tensor: Name of the tensor. May be empty if the node type has one tensor.
            graph: Name of the graph. May be empty if the server has one graph.
            node_type: Name of the node type. May be empty if the graph has one.
            at_snapshot: Number of a pinned commit. None: the newest commit.

        Returns:
            A new array [n, ...] with one row for each node.

        Raises:
            NodeOutOfRange: An id is not in the graph.
            NotFound: The graph, node type, tensor or commit does not exist.

        Example:
            >>> client.features([17, 4], "x").shape  # doctest: +SKIP
            (2, 1433)
        """
        arguments = (graph, node_type, ids_of(nodes), tensor, at_snapshot)
        return results.rows_alone((yield Request("features", arguments)))

    @method
    def neighbors(
        self,
        nodes: Any,
        limit: int | None = None,
        *,
        graph: str = "",
        edge_type: str = "",
        at_snapshot: int | None = None,
    ) -> Steps[NeighborLists]:
        """Returns the in-neighbours of nodes.

        Args:
            nodes: Node ids, [n]. Ids may repeat.
            limit: Maximum number of neighbours per node, from the start of its list. None: all.
            graph: Name of the graph. May be empty if the server has one graph.
            edge_type: "writes" or "author,writes,paper". May be empty if the graph has one.
            at_snapshot: Number of a pinned commit. None: the newest commit.

        Raises:
            NodeOutOfRange: An id is not in the graph.
            NotFound: The graph, edge type or commit does not exist.

        Example:
            >>> client.neighbors([17], limit=3).lists()  # doctest: +SKIP
            [array([ 24, 927, 1315])]
        """
        arguments = (graph, edge_type, ids_of(nodes), limit, at_snapshot)
        return results.neighbor_lists((yield Request("neighbors", arguments)))

    @stream
    def sample(
        self,
        seeds: Any,
        fanouts: Sequence[int],
        batch_size: int,
        *,
        attrs: Sequence[str] = (),
        graph: str = "",
        node_type: str = "",
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        seed: int = 0,
        epoch: int = 0,
        first_batch: int = 0,
        ranks: RanksLike = None,
        at_snapshot: int | None = None,
    ) -> Opening[ReceivedBatch]:
        """Streams the mini-batches of an epoch in order.

        The bytes are equal to those of a loader on the server's machine. The server works a few
        batches ahead of the caller.

        Args:
            seeds: Node ids [n], the name of a split such as "train", or None for all nodes.
            fanouts: Neighbours per node and hop, such as ``[15, 10]``. -1 takes all.
            batch_size: Number of seeds per batch, over all ranks.
            attrs: Names of the node tensors in the batches, such as ``["x", "y"]``.
            graph: Name of the graph. May be empty if the server has one graph.
            node_type: Node type of the seeds. May be empty if the graph has one.
            shuffle: Whether to permute the seeds, by `seed` and `epoch`.
            drop_last: Whether to omit the last batch if it is smaller.
            replace: Whether to sample with replacement.
            seed: Random seed. Equal seeds give equal bytes.
            epoch: Number of the epoch. Each epoch has its own draws.
            first_batch: Number of the first batch to send, to resume an epoch.
            ranks: The part of each batch that this process takes: ``"auto"`` under torchrun,
                ``(rank, world_size)``, or `Ranks`. None: all of it.
            at_snapshot: Number of a pinned commit. None: the newest commit.

        Returns:
            A stream of `ReceivedBatch`.

        Raises:
            NodeOutOfRange: A seed is not in the graph.
            ServerBusy: Too many streams are open; `retry_after` is the time until the next try.

        Example:
            >>> for batch in client.sample("train", [10, 5], 1024, attrs=["x"]):  # doctest: +SKIP
            ...     x, edge_index = batch.features("x"), batch.edge_index()
        """
        peers = _padded(ranks)
        message = {
            "graph": graph,
            "fanouts": list(fanouts),
            "batch_size": batch_size,
            "seed": seed,
            "epoch": epoch,
            "shuffle": shuffle,
            "tensors": list(attrs),
            "first_batch": first_batch,
            "at_snapshot": at_snapshot,
            "drop_last": drop_last,
            "rank": peers.rank,
            "world_size": peers.world_size,
            "replace": replace,
        }
        return _sampled(message, seeds, node_type)

    @stream
    def watch(self, job: Any) -> Opening[JobState]:
        """Streams the state of a job each time it changes, until the job has ended.

        Args:
            job: A job, or its id.

        Raises:
            NotFound: The job does not exist, or the server has removed it.

        Example:
            >>> for state in client.watch(job):  # doctest: +SKIP
            ...     print(state.targets_done, state.targets)
        """
        return watch(job if isinstance(job, str) else job.id)

    @method
    def graphs(self) -> Steps[list[ServedGraph]]:
        """Returns the graphs of the server, with types, counts, snapshot and bytes on disk."""
        return cast(list[ServedGraph], (yield from listed("ListGraphs", "graphs")))

    @method
    def models(self) -> Steps[list[ServedModel]]:
        """Returns all versions of all models, and how much of each is in memory."""
        return cast(list[ServedModel], (yield from listed("ListModels", "models")))

    @method
    def jobs(self) -> Steps[list[JobState]]:
        """Returns the states of this caller's jobs on the server."""
        return [job_state(job) for job in (yield from listed("ListAnalyses", "jobs"))]

    @method
    def devices(self) -> Steps[DeviceList]:
        """Returns the devices that compute models, the preferred one first."""
        return cast(DeviceList, (yield from call("ListDevices")))

    @method
    def server_info(self) -> Steps[ServerInfo]:
        """Returns the server's version, addresses and limits, and the rights of this client."""
        return cast(ServerInfo, (yield from call("ServerInfo")))


def _padded(ranks: RanksLike) -> Ranks:
    """Returns the ranks of a stream, whose last batch is filled."""
    peers = Ranks.of(ranks)
    if peers.pad is False:
        raise UnsupportedArgument(
            "servers do not support pad=False; leave out pad=, or use drop_last=True"
        )
    return peers


def _sampled(message: dict[str, Any], seeds: Any, node_type: str) -> Opening[ReceivedBatch]:
    """Opens a stream of batches around seeds: ids, a split, or all nodes."""
    split = seeds if isinstance(seeds, str) else ""
    ids = None if seeds is None or split else ids_of(seeds)
    if ids is not None and not ids.size:
        raise UnsupportedArgument("seeds= is empty; give at least one seed, or None for all nodes")
    text = json.dumps({**message, "split": split})
    sent = np.empty(0, np.int64) if ids is None else ids
    return Opening(Request("sample", (text, node_type, sent)), Batches(message, ids).received)


def watch(job: str) -> Opening[JobState]:
    """Opens a stream of the states of a job."""
    return Opening(Request("watch", (job,)), job_state)
