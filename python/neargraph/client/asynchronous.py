"""`ng.AsyncClient`: the client for asyncio.

One wake-up of the event loop takes all answers that have arrived. Network threads never need the
interpreter.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from neargraph.client.asking import Asking
from neargraph.client.changing import Changing
from neargraph.client.connection import Tls, core
from neargraph.client.jobs import JobMethods
from neargraph.client.modes import Asynchronous, Request, Steps
from neargraph.client.registering import Registering

T = TypeVar("T")


class AsyncClient(Asking, Changing, Registering, Asynchronous["AsyncJob"]):
    """A client of a server for asyncio. It belongs to the event loop that first uses it.

    Args:
        address: "HOST:PORT" or "unix:PATH".
        token: Token that authenticates the client, if the server requires one.
        timeout: Maximum time of a call in seconds, including retries. For a stream of mini-batches,
            the maximum time per batch. None: no limit.
        retry: Time in seconds for which a call is retried while the server is unreachable or
            overloaded. Only reads, and updates with a key, are retried: they cannot take effect
            twice.
        tls: Certificates: `Tls`, or a dictionary with its fields. None: no encryption.

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
        self._core = core(address, token, timeout, retry, tls)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = 0

    async def _do(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                try:
                    answer = await self._ask(request)
                except BaseException as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as ended:
            result: T = ended.value
        return result

    async def _ask(self, request: Request) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._core.fileno(), self._take)
        elif self._loop is not loop:
            raise RuntimeError(
                "this client belongs to another event loop; create one client per event loop"
            )
        self._tickets += 1
        ticket = self._tickets
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting[ticket] = future
        try:
            getattr(self._core, request.method)(*request.arguments, ticket)
            return await future
        finally:
            # A cancelled call is cancelled on the server, too.
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

    def job(self, job: str) -> "AsyncJob":
        """Returns a job by its id. Another client may have started it."""
        return AsyncJob(self, job)

    async def close(self) -> None:
        """Closes the connection and cancels calls in progress."""
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


class AsyncJob(JobMethods, Asynchronous["AsyncJob"]):
    """A job on the server. It outlives the client: `AsyncClient.job` finds it by `id`."""

    async def _do(self, steps: Steps[T]) -> T:
        answer: T = await self._client._do(steps)
        return answer
