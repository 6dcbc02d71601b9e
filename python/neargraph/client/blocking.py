"""`ng.Client`: calls that wait for their answers, with the GIL released."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from neargraph.client import requests
from neargraph.client.requests import Request, Tls
from neargraph.client.results import Answer, JobState, NeighborLists, Snapshot, job_state
from neargraph.client.updates import Updates
from neargraph.exceptions import request_failed

T = TypeVar("T")
# A job is waited for in calls of this length, so that none outlives the timeout of the client.
WAIT_SECONDS = 5.0


class Client:
    """A client of a server. Many threads may ask at once, over one connection.

    It connects when it is first used, and again when the server comes back. A child process that
    was forked has a connection of its own.

    Args:
        address: "HOST:PORT", or "unix:PATH".
        token: Says who the client is, where the server asks for it.
        timeout: Seconds that a call waits, all tries together; None waits as long as it takes.
        retry: Seconds for which a call is tried again while the server cannot be reached or sheds
            load: reads, and updates, which have a key. Never what could be done twice.
        tls: Certificates (`Tls`, or a dictionary with its names); None does not encrypt.

    Example:
        >>> with ng.Client("127.0.0.1:7400") as client:  # doctest: +SKIP
        ...     client.run("sage", [17, 4, 17]).argmax(axis=1)
        array([3, 0, 3])
    """

    def __init__(
        self,
        address: str = "127.0.0.1:7400",
        *,
        token: str | None = None,
        timeout: float | None = 60.0,
        retry: float = 5.0,
        tls: Tls | Mapping[str, Any] | None = None,
    ) -> None:
        self.address = address
        self._core = requests.core(address, token, timeout, retry, tls)

    def _do(self, request: Request[T]) -> T:
        method = getattr(self._core, request.method)
        return request.then(method(*request.arguments, None))

    def run(
        self,
        model: str,
        nodes: Any = None,
        *,
        edges: Any = None,
        graph_ids: Any = None,
        graph: str = "",
        target_type: str = "",
        seed: int = 0,
        at_snapshot: int | None = None,
        max_lag_commits: int = 0,
    ) -> NDArray[Any]:
        """What a model gives for nodes, pairs of nodes, or graphs.

        Args:
            model: A name, an alias, or "name@version".
            nodes: Ids, [n]; they may repeat.
            edges: Ids, [2, n]: row 0 the sources, row 1 the destinations.
            graph_ids: Numbers of graphs, [n].
            graph: The only graph of the server if empty.
            target_type: Type of the nodes or edges; the only one if empty.
            seed: Of the draws of neighbours. Equal seeds give equal bytes.
            at_snapshot: A commit that is pinned; None is the newest.
            max_lag_commits: Rows may be of a snapshot that is this many commits older.

        Returns:
            [n, ...]: a row for each target, in an array of its own.

        Raises:
            NodeOutOfRange: Some ids are not in the graph.
            NotFound: There is no such graph or model; the message names those that there are.
            RequestFailed: Any other error; `code`, `reason`, `field` and `remedy` say more.

        Example:
            >>> client.run("sage", [17, 4, 17]).argmax(axis=1)  # doctest: +SKIP
            array([3, 0, 3])
        """
        targets = (
            model,
            nodes,
            edges,
            graph_ids,
            graph,
            target_type,
            seed,
            at_snapshot,
            max_lag_commits,
        )
        answer = self._do(requests.run(*targets))
        return answer.rows

    def answer(
        self,
        model: str,
        nodes: Any = None,
        *,
        edges: Any = None,
        graph_ids: Any = None,
        graph: str = "",
        target_type: str = "",
        seed: int = 0,
        at_snapshot: int | None = None,
        max_lag_commits: int = 0,
    ) -> Answer:
        """As `run`, with the snapshot that the rows are of, the version, and times."""
        targets = (
            model,
            nodes,
            edges,
            graph_ids,
            graph,
            target_type,
            seed,
            at_snapshot,
            max_lag_commits,
        )
        return self._do(requests.run(*targets))

    def analyze(
        self,
        model: str,
        nodes: Any = None,
        *,
        edges: Any = None,
        graph_ids: Any = None,
        graph: str = "",
        target_type: str = "",
        seed: int = 0,
        at_snapshot: int | None = None,
        max_lag_commits: int = 0,
        keep_seconds: int = 0,
    ) -> "Job":
        """Takes a job with the arguments of `run`, which is done when there is room for it.

        Args:
            keep_seconds: How long the result is kept; 0 is the default of the server.
        """
        targets = (
            model,
            nodes,
            edges,
            graph_ids,
            graph,
            target_type,
            seed,
            at_snapshot,
            max_lag_commits,
        )
        return Job(self, self._do(requests.analyze(keep_seconds, *targets)))

    def features(
        self,
        nodes: Any,
        tensor: str = "",
        *,
        graph: str = "",
        node_type: str = "",
        at_snapshot: int | None = None,
    ) -> NDArray[Any]:
        """Rows of nodes, [n, ...], of a tensor; of the only tensor if it is empty."""
        return self._do(requests.features(nodes, tensor, graph, node_type, at_snapshot))

    def neighbors(
        self,
        nodes: Any,
        limit: int | None = None,
        *,
        graph: str = "",
        edge_type: str = "",
        at_snapshot: int | None = None,
    ) -> NeighborLists:
        """Neighbours of nodes: at most `limit` of each, from the start of its list."""
        return self._do(requests.neighbors(nodes, limit, graph, edge_type, at_snapshot))

    def apply(
        self, updates: Updates, *, graph: str = "", key: bytes | None = None
    ) -> dict[str, Any]:
        """Applies changes as one commit; they are durable when it is answered.

        Args:
            updates: What to change.
            key: A batch with a key that was applied already is not applied again: its answer is
                repeated. None makes a key, so that the client may try again.

        Returns:
            ``snapshot``; ``results``, one for each change, with the ids of what was added; and
            whether the answer was ``repeated``.
        """
        return self._do(requests.apply(updates, graph, key))

    def add_node(
        self, rows: Mapping[str, Any] | None = None, *, graph: str = "", node_type: str = ""
    ) -> int:
        """Adds a node with rows by name of the tensor; gives its id."""
        updates = Updates()
        updates.add_node(rows, node_type=node_type)
        applied = self.apply(updates, graph=graph)
        return int(applied["results"][0]["node"])

    def delete_node(self, node: int, *, graph: str = "", node_type: str = "") -> None:
        """Deletes a node and its edges."""
        updates = Updates()
        updates.delete_node(node, node_type=node_type)
        self.apply(updates, graph=graph)

    def add_edge(
        self,
        source: int,
        destination: int,
        *,
        graph: str = "",
        edge_type: str = "",
        time: int | None = None,
        weight: float | None = None,
    ) -> int | None:
        """Adds an edge; gives its id, where edges have ids."""
        updates = Updates()
        updates.add_edge(source, destination, edge_type=edge_type, time=time, weight=weight)
        applied = self.apply(updates, graph=graph)
        edge: int | None = applied["results"][0]["edge"]
        return edge

    def delete_edge(
        self,
        source: int,
        destination: int,
        *,
        graph: str = "",
        edge_type: str = "",
        edge_id: int | None = None,
    ) -> int:
        """Deletes all edges between two nodes, or one of them; gives how many."""
        updates = Updates()
        updates.delete_edge(source, destination, edge_type=edge_type, edge_id=edge_id)
        applied = self.apply(updates, graph=graph)
        return int(applied["results"][0]["deleted"] or 0)

    def update_rows(
        self, nodes: Any, rows: Any, *, tensor: str = "", graph: str = "", node_type: str = ""
    ) -> None:
        """Puts other rows, [n, ...], in place for nodes, [n]."""
        updates = Updates()
        updates.update_rows(nodes, rows, tensor=tensor, node_type=node_type)
        self.apply(updates, graph=graph)

    def register_graph(
        self, graph: str, path: str = "", *, narrow: str | None = None, reorganize: bool = False
    ) -> dict[str, Any]:
        """Serves a store of the server's folder.

        Args:
            graph: The name that it gets.
            path: Relative to the served folder; "NAME.ng" if empty.
            narrow: Rewrites rows on the way in: "f16", "bf16" or "int8".
            reorganize: Puts rows that are read together next to each other.
        """
        request = requests.register_graph(graph, path, narrow, reorganize)
        return dict(self._do(request))

    def unregister_graph(self, graph: str) -> None:
        """Serves a graph no longer. Its files stay."""
        self._do(requests.call("GraphUnregister", graph=graph))

    def register_model(
        self,
        model: str,
        files: str | os.PathLike[str] | None = None,
        *,
        path: str | None = None,
        graph: str = "",
        prepare: str = "",
        fanouts: Sequence[int] | None = None,
        output: str = "",
        devices: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Serves a model on a graph; a name that there is gets a new version.

        Args:
            model: The name that it gets.
            files: A model file of this machine, which is sent.
            path: A model file of the server's folder, relative to it, in place of `files`.
            graph: The only graph of the server if empty.
            prepare: What is brought into memory: "metadata" (default), "hot" or "all".
            fanouts: Neighbours by hop in place of those of the file.
            output: The output that answers, where the model has several.
            devices: What computes, the preferred one first.
        """
        request = requests.register_model(
            model, files, path, graph, prepare, fanouts, output, devices
        )
        return self._do(request)

    def unregister_model(self, model: str, *, graph: str = "") -> None:
        """Serves a model no longer: "name", or one version, "name@3"."""
        self._do(requests.call("ModelUnregister", model=model, graph=graph))

    def set_alias(self, alias: str, model: str, *, graph: str = "") -> None:
        """Lets a name stand for a version, "sage@3"; an empty one removes the name."""
        self._do(requests.call("SetAlias", alias=alias, model=model, graph=graph))

    def pin_snapshot(self, *, graph: str = "", seconds: int = 0) -> Snapshot:
        """Keeps the newest commit readable while newer ones come; 0 is the server's default."""
        made = self._do(requests.field_of("PinSnapshot", "snapshot", graph=graph, seconds=seconds))
        return Snapshot(**made)

    def unpin_snapshot(self, commit: int, *, graph: str = "") -> None:
        """Keeps a commit readable no longer."""
        self._do(requests.call("UnpinSnapshot", graph=graph, commit=commit))

    def graphs(self) -> list[dict[str, Any]]:
        """What is served: types, counts, snapshot, size."""
        return self._do(requests.listed("ListGraphs", "graphs"))

    def models(self) -> list[dict[str, Any]]:
        """All versions of all models, and how ready they are."""
        return self._do(requests.listed("ListModels", "models"))

    def jobs(self) -> list[JobState]:
        """All jobs that the server knows."""
        return [job_state(job) for job in self._do(requests.listed("ListAnalyses", "jobs"))]

    def devices(self) -> dict[str, Any]:
        """What computes, by preference."""
        return self._do(requests.call("ListDevices"))

    def server_info(self) -> dict[str, Any]:
        """The server itself: version, addresses, what this caller may do, limits."""
        return self._do(requests.call("ServerInfo"))

    def job(self, job: str) -> "Job":
        """A job by its id."""
        return Job(self, job)

    def close(self) -> None:
        """Ends the connection, once calls of other threads have ended."""
        self._core.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address!r})"


class Job:
    """A job on the server, also after this client has ended: `Client.job` finds it by `id`."""

    def __init__(self, client: "Client", job: str) -> None:
        self._client = client
        self.id = job

    def progress(self) -> JobState:
        """How far it is."""
        return (self._client._do(requests.job_result(self.id, 0.0)))[0]

    def answer(self, timeout: float | None = None) -> Answer:
        """Waits for the end: rows, snapshot and model.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            TimeoutError: It has not ended in time; it goes on.
            RequestFailed: It failed or was cancelled.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if end is None else min(WAIT_SECONDS, end - time.monotonic())
            state, found = self._client._do(requests.job_result(self.id, max(left, 0.0)))
            if found is not None:
                return found
            if state.has_ended:
                raise request_failed(
                    "Aborted", f"JOB_{state.state.upper()}", state.problem or f"job {state.state}"
                )
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s")

    def result(self, timeout: float | None = None) -> NDArray[Any]:
        """As `answer`: the rows alone."""
        return (self.answer(timeout)).rows

    def cancel(self) -> JobState:
        """Gives it up."""
        request = requests.field_of("CancelAnalysis", "job", job=self.id)
        return job_state(self._client._do(request))
