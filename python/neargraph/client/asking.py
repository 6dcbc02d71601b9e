"""What is asked of models and graphs: rows, scores, neighbours, jobs, mini-batches."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._modelfiles import MODEL, WEIGHTS, read_with_manifest
from neargraph.client import results
from neargraph.client.batches import Batches, ReceivedBatch
from neargraph.client.calls import call, listed
from neargraph.client.modes import Opening, Request, Steps, job_method, method, stream
from neargraph.client.results import Answer, JobState, NeighborLists, job_state
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.ranks import Ranks, RanksLike


def ids_of(given: Any) -> NDArray[np.int64]:
    """Ids as the core takes them."""
    array = np.asarray(given)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise UnsupportedArgument(
            f"ids are integers of shape [n], got {array.dtype} of shape {list(array.shape)}"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _targets(nodes: Any, edges: Any, graph_ids: Any) -> tuple[str, Any, Any]:
    """The kind of targets, ids and other ids."""
    given = {"nodes": nodes, "edges": edges, "graphs": graph_ids}
    named = [kind for kind, ids in given.items() if ids is not None]
    if len(named) != 1:
        raise UnsupportedArgument("give nodes, edges= or graph_ids=: one of them")
    kind = named[0]
    if kind != "edges":
        return kind, ids_of(given[kind]), np.empty(0, np.int64)
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise UnsupportedArgument(f"edges have shape [2, n], got {list(pairs.shape)}")
    return kind, ids_of(pairs[0]), ids_of(pairs[1])


def files_of(path: str | os.PathLike[str]) -> tuple[bytes, bytes, bytes]:
    """The files of a model, as they are sent."""
    parts, manifest = read_with_manifest(Path(path))
    return parts[MODEL], parts[WEIGHTS], manifest


def _model(
    model: str | os.PathLike[str], fanouts: Sequence[int] | None, output: str
) -> tuple[str, tuple[bytes, bytes, bytes] | None, list[int], str]:
    """Which model is asked, and how: one that is registered, or one that is sent along."""
    if not isinstance(model, str):
        return "", files_of(model), list(fanouts or []), output
    if fanouts or output:
        raise UnsupportedArgument(
            "a registered model is asked as it was registered; leave fanouts= and output= out, or "
            "give the Path of a model file, which is sent along"
        )
    return model, None, [], ""


class Asking:
    """Methods that read."""

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
        """As `run`, with the snapshot that the rows are of, the version of the model, and times.

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
        """What a model gives for nodes, pairs of nodes, or graphs.

        Args:
            model: A name, an alias, or "name@version"; or the `Path` of a model file of this
                machine, which is sent along and not registered. That needs the right "write".
            nodes: Ids, [n]; they may repeat.
            edges: Ids, [2, n]: row 0 the sources, row 1 the destinations.
            graph_ids: Numbers of graphs, [n].
            graph: The only graph of the server if empty.
            target_type: Type of the nodes or edges; the only one if empty.
            seed: Of the draws of neighbours. Equal seeds give equal bytes.
            at_snapshot: A commit that is pinned; None is the newest.
            max_lag_commits: Rows may be of a snapshot that is this many commits older.
            fanouts: Of a model that is sent along: neighbours by hop in place of those of its file.
            output: Of a model that is sent along: the output that answers, where it has several.

        Returns:
            [n, ...]: a row for each target, in an array of its own.

        Raises:
            NodeOutOfRange: Some ids are not in the graph.
            NotFound: There is no such graph or model; the message names those that there are.
            RequestFailed: Any other error; `code`, `reason`, `field` and `remedy` say more.

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
        """Starts a job with the arguments of `run`. The server computes it when there is room.

        Args:
            keep_seconds: How long the result is kept; 0 is the default of the server.

        Returns:
            The job: its progress, its result, and how to cancel it.

        Raises:
            ServerBusy: As many jobs wait as may; `retry_after` says when to try again.

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
        """Rows of nodes.

        Args:
            nodes: Ids, [n]; they may repeat.
            tensor: The only tensor of the type if empty.
            graph: The only graph of the server if empty.
            node_type: The only type of the graph if empty.
            at_snapshot: A commit that is pinned; None is the newest.

        Returns:
            [n, ...]: a row for each node, in an array of its own.

        Raises:
            NodeOutOfRange: Some ids are not in the graph.
            NotFound: There is no such graph, type, tensor or commit.

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
        """Neighbours of nodes.

        Args:
            nodes: Ids, [n]; they may repeat.
            limit: Neighbours of each node at most, from the start of its list; None gives all.
            graph: The only graph of the server if empty.
            edge_type: The only type of the graph if empty: "writes", or "author,writes,paper".
            at_snapshot: A commit that is pinned; None is the newest.

        Raises:
            NodeOutOfRange: Some ids are not in the graph.
            NotFound: There is no such graph, type or commit.

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
        """Mini-batches of an epoch in order, byte for byte those that a loader on the server makes.

        The server makes a few batches ahead of the caller, and waits then.

        Args:
            seeds: Ids, [n], a split such as "train", or None for all nodes.
            fanouts: Neighbours per node and hop, such as ``[15, 10]``; -1 takes all.
            batch_size: Seeds of a batch, those of all ranks together.
            attrs: Names of the node tensors that come along, such as ``["x", "y"]``.
            graph: The only graph of the server if empty.
            node_type: Type of the seeds; the only one if empty.
            shuffle: Permute the seeds, keyed by `seed` and `epoch`.
            drop_last: Leave a smaller last batch out.
            replace: Draw with replacement.
            seed: Of all draws. Equal seeds give equal bytes.
            epoch: Which pass this is; another one has other draws.
            first_batch: Begin with this batch, as training does that was interrupted.
            ranks: Which part of each batch this caller takes: ``"auto"`` under torchrun,
                ``(rank, world_size)``, or `Ranks`. None: all of it.
            at_snapshot: A commit that is pinned; None is the newest.

        Returns:
            A stream of `MiniBatch`, with `number`, `num_batches`, `snapshot` and `pyg()` besides.

        Raises:
            NodeOutOfRange: Some seeds are not in the graph.
            ServerBusy: As many streams are open as may; `retry_after` says when to try again.

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
        """How far a job is, each time that this changes, until it has ended.

        Args:
            job: A job, or its id.

        Raises:
            NotFound: The server does not know the job, or keeps it no longer.

        Example:
            >>> for state in client.watch(job):  # doctest: +SKIP
            ...     print(state.targets_done, state.targets)
        """
        return watch(job if isinstance(job, str) else job.id)

    @method
    def graphs(self) -> Steps[list[dict[str, Any]]]:
        """What is served: of each graph its types, counts, snapshot and bytes on disk."""
        return list((yield from listed("ListGraphs", "graphs")))

    @method
    def models(self) -> Steps[list[dict[str, Any]]]:
        """All versions of all models, and how ready they are."""
        return list((yield from listed("ListModels", "models")))

    @method
    def jobs(self) -> Steps[list[JobState]]:
        """All jobs of this caller that the server knows."""
        return [job_state(job) for job in (yield from listed("ListAnalyses", "jobs"))]

    @method
    def devices(self) -> Steps[dict[str, Any]]:
        """What computes, the preferred one first."""
        return (yield from call("ListDevices"))

    @method
    def server_info(self) -> Steps[dict[str, Any]]:
        """The server itself: version, addresses, what this caller may do, limits."""
        return (yield from call("ServerInfo"))


def _padded(ranks: RanksLike) -> Ranks:
    """The ranks of a stream; their last batch is filled."""
    peers = Ranks.of(ranks)
    if peers.pad is False:
        raise UnsupportedArgument(
            "pad=False is not supported by servers; leave it out, or use drop_last=True"
        )
    return peers


def _sampled(message: dict[str, Any], seeds: Any, node_type: str) -> Opening[ReceivedBatch]:
    """The batches of a message around seeds: ids, a split, or all nodes."""
    split = seeds if isinstance(seeds, str) else ""
    ids = None if seeds is None or split else ids_of(seeds)
    if ids is not None and not ids.size:
        raise UnsupportedArgument("there are no seeds; give some, or None for all nodes")
    text = json.dumps({**message, "split": split})
    sent = np.empty(0, np.int64) if ids is None else ids
    return Opening(Request("sample", (text, node_type, sent)), Batches(message, ids).received)


def watch(job: str) -> Opening[JobState]:
    """How far a job is."""
    return Opening(Request("watch", (job,)), job_state)
