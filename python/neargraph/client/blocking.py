"""`ng.Client`: calls that wait for their answers, with the GIL released."""

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
    """A client of a server. Many threads may ask at once, over one connection.

    It connects when it is first used, and again when the server comes back. A child process that
    was forked has a connection of its own.

    Args:
        address: "HOST:PORT", or "unix:PATH".
        token: Says who the client is, where the server asks for it.
        timeout: Seconds that a call waits, all tries together, and a stream of mini-batches for
            each of them; None waits as long as it takes.
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
        """A job by its id, which this or another client has started."""
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


class Job(JobMethods, Blocking["Job"]):
    """A job on the server, also after this client has ended: `Client.job` finds it by `id`."""

    def _do(self, steps: Steps[T]) -> T:
        answer: T = self._client._do(steps)
        return answer
