"""`ng.AsyncClient`: calls that are awaited.

One wake-up of the event loop takes all answers that are there, and no thread of the network needs
the interpreter.
"""

import asyncio
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


class AsyncClient:
    """A client of a server for asyncio; it belongs to the event loop that first uses it.

    Args:
        address: "HOST:PORT", or "unix:PATH".
        token: Says who the client is, where the server asks for it.
        timeout: Seconds that a call waits, all tries together; None waits as long as it takes.
        retry: Seconds for which a call is tried again while the server cannot be reached or sheds
            load: reads, and updates, which have a key. Never what could be done twice.
        tls: Certificates (`Tls`, or a dictionary with its names); None does not encrypt.

    Example:
        >>> async with ng.AsyncClient("127.0.0.1:7400") as client:  # doctest: +SKIP
        ...     rows = await asyncio.gather(*(client.run("sage", [id]) for id in ids))
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = 0

    async def _do(self, request: Request[T]) -> T:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._core.fileno(), self._take)
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop; make one for each")
        self._tickets += 1
        ticket = self._tickets
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting[ticket] = future
        try:
            getattr(self._core, request.method)(*request.arguments, ticket)
            return request.then(await future)
        finally:
            # What was cancelled is given up on the server, too.
            if self._waiting.pop(ticket, None) is not None:
                self._core.cancel(ticket)

    def _take(self) -> None:
        for ticket, error, answer in self._core.take():
            future = self._waiting.pop(ticket, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

    async def run(
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
            >>> (await client.run("sage", [17, 4, 17])).argmax(axis=1)  # doctest: +SKIP
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
        answer = await self._do(requests.run(*targets))
        return answer.rows

    async def answer(
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
        return await self._do(requests.run(*targets))

    async def analyze(
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
    ) -> "AsyncJob":
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
        return AsyncJob(self, await self._do(requests.analyze(keep_seconds, *targets)))

    async def features(
        self,
        nodes: Any,
        tensor: str = "",
        *,
        graph: str = "",
        node_type: str = "",
        at_snapshot: int | None = None,
    ) -> NDArray[Any]:
        """Rows of nodes, [n, ...], of a tensor; of the only tensor if it is empty."""
        return await self._do(requests.features(nodes, tensor, graph, node_type, at_snapshot))

    async def neighbors(
        self,
        nodes: Any,
        limit: int | None = None,
        *,
        graph: str = "",
        edge_type: str = "",
        at_snapshot: int | None = None,
    ) -> NeighborLists:
        """Neighbours of nodes: at most `limit` of each, from the start of its list."""
        return await self._do(requests.neighbors(nodes, limit, graph, edge_type, at_snapshot))

    async def apply(
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
        return await self._do(requests.apply(updates, graph, key))

    async def add_node(
        self, rows: Mapping[str, Any] | None = None, *, graph: str = "", node_type: str = ""
    ) -> int:
        """Adds a node with rows by name of the tensor; gives its id."""
        updates = Updates()
        updates.add_node(rows, node_type=node_type)
        applied = await self.apply(updates, graph=graph)
        return int(applied["results"][0]["node"])

    async def delete_node(self, node: int, *, graph: str = "", node_type: str = "") -> None:
        """Deletes a node and its edges."""
        updates = Updates()
        updates.delete_node(node, node_type=node_type)
        await self.apply(updates, graph=graph)

    async def add_edge(
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
        applied = await self.apply(updates, graph=graph)
        edge: int | None = applied["results"][0]["edge"]
        return edge

    async def delete_edge(
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
        applied = await self.apply(updates, graph=graph)
        return int(applied["results"][0]["deleted"] or 0)

    async def update_rows(
        self, nodes: Any, rows: Any, *, tensor: str = "", graph: str = "", node_type: str = ""
    ) -> None:
        """Puts other rows, [n, ...], in place for nodes, [n]."""
        updates = Updates()
        updates.update_rows(nodes, rows, tensor=tensor, node_type=node_type)
        await self.apply(updates, graph=graph)

    async def register_graph(
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
        return dict(await self._do(request))

    async def unregister_graph(self, graph: str) -> None:
        """Serves a graph no longer. Its files stay."""
        await self._do(requests.call("GraphUnregister", graph=graph))

    async def register_model(
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
        return await self._do(request)

    async def unregister_model(self, model: str, *, graph: str = "") -> None:
        """Serves a model no longer: "name", or one version, "name@3"."""
        await self._do(requests.call("ModelUnregister", model=model, graph=graph))

    async def set_alias(self, alias: str, model: str, *, graph: str = "") -> None:
        """Lets a name stand for a version, "sage@3"; an empty one removes the name."""
        await self._do(requests.call("SetAlias", alias=alias, model=model, graph=graph))

    async def pin_snapshot(self, *, graph: str = "", seconds: int = 0) -> Snapshot:
        """Keeps the newest commit readable while newer ones come; 0 is the server's default."""
        made = await self._do(
            requests.field_of("PinSnapshot", "snapshot", graph=graph, seconds=seconds)
        )
        return Snapshot(**made)

    async def unpin_snapshot(self, commit: int, *, graph: str = "") -> None:
        """Keeps a commit readable no longer."""
        await self._do(requests.call("UnpinSnapshot", graph=graph, commit=commit))

    async def graphs(self) -> list[dict[str, Any]]:
        """What is served: types, counts, snapshot, size."""
        return await self._do(requests.listed("ListGraphs", "graphs"))

    async def models(self) -> list[dict[str, Any]]:
        """All versions of all models, and how ready they are."""
        return await self._do(requests.listed("ListModels", "models"))

    async def jobs(self) -> list[JobState]:
        """All jobs that the server knows."""
        return [job_state(job) for job in await self._do(requests.listed("ListAnalyses", "jobs"))]

    async def devices(self) -> dict[str, Any]:
        """What computes, by preference."""
        return await self._do(requests.call("ListDevices"))

    async def server_info(self) -> dict[str, Any]:
        """The server itself: version, addresses, what this caller may do, limits."""
        return await self._do(requests.call("ServerInfo"))

    def job(self, job: str) -> "AsyncJob":
        """A job by its id."""
        return AsyncJob(self, job)

    async def close(self) -> None:
        """Ends the connection; calls under way are cancelled."""
        if self._loop is not None:
            self._loop.remove_reader(self._core.fileno())
            self._loop = None
        for future in self._waiting.values():
            future.cancel()
        self._core.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.address!r})"


class AsyncJob:
    """A job on the server, also after this client has ended: `AsyncClient.job` finds it by `id`."""

    def __init__(self, client: "AsyncClient", job: str) -> None:
        self._client = client
        self.id = job

    async def progress(self) -> JobState:
        """How far it is."""
        return (await self._client._do(requests.job_result(self.id, 0.0)))[0]

    async def answer(self, timeout: float | None = None) -> Answer:
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
            state, found = await self._client._do(requests.job_result(self.id, max(left, 0.0)))
            if found is not None:
                return found
            if state.has_ended:
                raise request_failed(
                    "Aborted", f"JOB_{state.state.upper()}", state.problem or f"job {state.state}"
                )
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s")

    async def result(self, timeout: float | None = None) -> NDArray[Any]:
        """As `answer`: the rows alone."""
        return (await self.answer(timeout)).rows

    async def cancel(self) -> JobState:
        """Gives it up."""
        request = requests.field_of("CancelAnalysis", "job", job=self.id)
        return job_state(await self._client._do(request))
