"""`ng.serve`: a server in this process, for tests and notebooks.

Requests never need the interpreter, because the server runs in threads of the compiled core.
Invariant: no server outlives the interpreter.
"""

import atexit
import json
import os
import weakref
from collections.abc import Sequence
from typing import Any

from neargraph import _core
from neargraph.plugins import probe_command
from neargraph.units import parse_bytes

_running: "weakref.WeakSet[Server]" = weakref.WeakSet()


class Server:
    """A running server. It ends when it is closed, or when the interpreter exits."""

    def __init__(self, core: _core.Server) -> None:
        self._core = core
        self._process = os.getpid()
        _running.add(self)

    @property
    def address(self) -> str:
        """The first of `addresses`."""
        return self._core.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """The addresses that the server listens on."""
        return self._core.addresses

    @property
    def side_address(self) -> str:
        """The HTTP address of metrics, health checks and the REST interface."""
        return self._core.side_address

    def close(self) -> None:
        """Stops the server after it has answered the requests in progress."""
        # Threads do not survive a fork, so a child has no server to wait for.
        if os.getpid() == self._process:
            self._core.end()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Server({', '.join(self.addresses)})"


def serve(
    folder: str | os.PathLike[str],
    *,
    listen: str | Sequence[str] = "127.0.0.1:0",
    memory: str | int | None = None,
    **settings: Any,
) -> Server:
    """Serves the stores of a directory from this process.

    Args:
        folder: The directory. Each of its stores, NAME.ng, is served as the graph NAME.
        listen: "IP:PORT" or "unix:PATH", or a list of these. Port 0 takes a free port.
        memory: Memory budget of each graph, such as "2GB". None: a quarter of the machine's memory.
        **settings: Other settings, by their names in the server's settings file.

    Returns:
        The running server; use it in a ``with`` block.

    Raises:
        ServeFailed: The server cannot listen on an address, the directory cannot be read, or a
            setting is not known.

    Example:
        >>> with ng.serve("/srv/graphs") as server:  # doctest: +SKIP
        ...     client = ng.Client(server.address)
    """
    config: dict[str, Any] = {"folder": os.fspath(folder), **settings}
    config["listen"] = [listen] if isinstance(listen, str) else list(listen)
    if "plugins" in config:
        config.setdefault("plugin_trial", probe_command())
    if memory is not None:
        config["memory"] = parse_bytes(memory)
    return Server(_core.Server(json.dumps(config)))


@atexit.register
def _end_all() -> None:
    # A thread that outlives the interpreter would run code of an unloaded library.
    for server in list(_running):
        server.close()
