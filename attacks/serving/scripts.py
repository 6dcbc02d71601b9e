"""What scripts share: where the server is, how long to go on, and the table of all scripts."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .. import wire

RUN = "/neargraph.v1.InferenceService/Run"
ANALYSIS = "/neargraph.v1.InferenceService/GraphAnalysis"
EMBED = "/neargraph.v1.GraphStoreService/GetEmbed"
NEIGHBORS = "/neargraph.v1.GraphStoreService/GetNeighbors"
SAMPLE = "/neargraph.v1.SamplingService/Sample"
BIG = 1 << 16


@dataclass
class Place:
    """Where the server is, what it has, and until when the script goes on."""

    address: str
    side: str
    ring: str
    nodes: int
    token: str
    end: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def goes_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self.end

    def count(self, what: str, by: int = 1) -> None:
        """Counts what was done."""
        self.counts[what] = self.counts.get(what, 0) + by

    def block(self, path: str, *extra: tuple[str, str]) -> bytes:
        """Headers of a call with the token of the hostile client."""
        return wire.block(path, self.token, extra)

    def ring_path(self) -> Path:
        """Where rings are given out."""
        return Path(self.ring)


Script = Callable[[Place], None]
SCRIPTS: dict[str, Script] = {}
# Those for which the server speaks TLS over TCP.
NEED_TLS: set[str] = set()


def script(does: Script) -> Script:
    """Puts a script into the table."""
    SCRIPTS[does.__name__] = does
    return does


class Http2:
    """A connection of HTTP/2 whose answers are thrown away."""

    def __init__(self, place: Place, window: int = 65_535) -> None:
        self._place = place
        self.socket = wire.connect(place.address)
        self.stream = -1
        self.received = 0
        self.send(wire.preface(window))

    def send(self, data: bytes) -> bool:
        """Whether the server takes it."""
        try:
            self.socket.sendall(data)
        except OSError:
            self._place.count("closed by the server")
            return False
        return True

    def open(self, block: bytes, body: bytes | None, last: bool = True) -> bool:
        """A call; without a body it is never finished."""
        self.stream += 2
        sent = wire.headers(self.stream, block)
        if body is not None:
            for at in range(0, max(len(body), 1), 16_384):
                part = body[at : at + 16_384]
                sent += wire.data(self.stream, part, last and at + 16_384 >= len(body))
        return self.send(sent)

    def drain(self, seconds: float = 0.0) -> bool:
        """Throws away what came; whether the connection is still there."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            while data := self.socket.recv(1 << 16):
                self.received += len(data)
                self.socket.settimeout(0.001)
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self.socket.settimeout(5.0)
        return False

    def close(self) -> None:
        """Ends it."""
        self.socket.close()


def opened(place: Place, window: int = 65_535) -> Http2 | None:
    """A connection, if the server takes one."""
    try:
        return Http2(place, window)
    except OSError:
        place.count("refused connections")
        time.sleep(0.02)
        return None


def raw(place: Place, address: str) -> socket.socket | None:
    """A plain connection, if the server takes one."""
    try:
        return wire.connect(address)
    except OSError:
        place.count("refused connections")
        time.sleep(0.02)
        return None


def sent(place: Place, to: socket.socket, data: bytes) -> bool:
    """Whether the server takes it."""
    try:
        to.sendall(data)
    except OSError:
        place.count("closed by the server")
        return False
    return True


def lost(to: socket.socket) -> bool:
    """Whether the server has closed a connection."""
    to.settimeout(0.001)
    try:
        while to.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
