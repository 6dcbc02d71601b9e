"""`ng.Client`: the client whose calls block, with the GIL released."""

from collections.abc import Mapping
from typing import Any, TypeVar

from neargraph.client.asking import Asking
from neargraph.client.changing import Changing
from neargraph.client.connection import Tls, core
from neargraph.client.jobs import JobMethods
from neargraph.client.modes import Blocking, Steps
from neargraph.client.registering import Registering

T = TypeVar("T")


class Client(Asking, Changing, Registering, Blocking["Job"]):
    """A client of a server. Threads can share it; their calls use one connection.

    The client connects on first use, and reconnects after the server restarts. A forked child
    process gets its own connection.

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
        self._core = core(address, token, timeout, retry, tls)

    def _do(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                try:
                    answer = getattr(self._core, request.method)(*request.arguments, None)
                except BaseException as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as ended:
            result: T = ended.value
        return result

    def job(self, job: str) -> "Job":
        """Returns a job by its id. Another client may have started it."""
        return Job(self, job)

    def close(self) -> None:
        """Closes the connection after the calls of other threads have ended."""
        self._core.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address!r})"


class Job(JobMethods, Blocking["Job"]):
    """A job on the server. It outlives the client: `Client.job` finds it by `id`."""

    def _do(self, steps: Steps[T]) -> T:
        answer: T = self._client._do(steps)
        return answer
