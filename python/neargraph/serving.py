"""`ng.serve`: a server in this process, for tests and notebooks.

Requests never need the interpreter: the server's threads are those of the compiled core. The
invariant: no server outlives the interpreter.
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
    """A server that runs until it is closed, at the latest when the interpreter ends."""

    def __init__(self, core: _core.Server) -> None:
        self._core = core
        self._process = os.getpid()
        _running.add(self)

    @property
    def address(self) -> str:
        """Where it can be reached: the first of `addresses`."""
        return self._core.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """Where it can be reached."""
        return self._core.addresses

    @property
    def side_address(self) -> str:
        """Where metrics, health and REST are, over HTTP."""
        return self._core.side_address

    def close(self) -> None:
        """Answers requests under way, and ends."""
        # Threads do not survive a fork, so that a child has no server to wait for.
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
    """Serves the stores of a folder from this process.

    Args:
        folder: Its stores (NAME.ng) are served under their names.
        listen: "IP:PORT" or "unix:PATH", or several. Port 0 takes a free one.
        memory: Memory of each graph, such as "2GB"; None is a quarter of the machine's.
        **settings: Any other setting of the server's file of settings, by its name there.

    Raises:
        ServeFailed: It cannot listen there, the folder cannot be read, or a setting is not known.

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
    # A thread that outlives the interpreter would run code of a library that is being unloaded.
    for server in list(_running):
        server.close()
