"""Scripts that are hostile below the calls: connections, preface, TLS, rings."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time

from .. import wire
from .scripts import NEED_TLS, RUN, Place, lost, opened, raw, script, sent


@script
def slow_headers(place: Place) -> None:
    """300 connections that send the headers of a call, or of HTTP, a byte at a time."""
    half = wire.preface() + wire.headers(1, place.block(RUN))
    plain = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-slow: " + b"a" * 4096
    open_now: list[tuple[socket.socket, bytes, int]] = []
    while place.goes_on():
        while len(open_now) < 300 and place.goes_on():
            is_side = len(open_now) % 3 == 2
            made = raw(place, place.side if is_side else place.address)
            if made is None:
                break
            place.count("connections")
            open_now.append((made, plain if is_side else half, 0))
        going = []
        for made, data, at in open_now:
            if at < len(data) and not sent(place, made, data[at : at + 1]):
                made.close()
                continue
            going.append((made, data, at + 1))
        open_now = going
        time.sleep(0.2)
    for made, _, _ in open_now:
        made.close()


@script
def silent_connections(place: Place) -> None:
    """Connections that say nothing at all, as many as the server takes."""
    held = []
    while place.goes_on():
        made = raw(place, place.address)
        if made is None:
            continue
        place.count("connections")
        held.append(made)
        if len(held) >= 3000:
            held.pop(0).close()
        if len(held) > 900:
            time.sleep(0.005)
    for made in held:
        made.close()


@script
def garbage(place: Place) -> None:
    """Random bytes before the preface, in its place, and in frames after it."""
    draws = random.Random(1)
    while place.goes_on():
        made = raw(place, place.address)
        if made is None:
            continue
        noise = draws.randbytes(draws.randrange(1, 4096))
        kind = draws.randrange(4)
        if kind == 1:
            noise = wire.PREFACE[: draws.randrange(24)] + noise
        elif kind == 2:
            noise = wire.preface() + noise
        elif kind == 3:
            stream = draws.randrange(1 << 31)
            noise = wire.preface() + wire.frame(
                draws.randrange(12), draws.randrange(256), stream, noise
            )
        sent(place, made, noise)
        lost(made)
        made.close()
        place.count("connections")


@script
def connect_storms(place: Place) -> None:
    """Connections that are closed, or reset, as soon as they are there."""
    reset = b"\x01\0\0\0\0\0\0\0"
    while place.goes_on():
        for at in range(50):
            made = raw(place, place.side if at % 5 == 0 else place.address)
            if made is None:
                continue
            if at % 2:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            made.close()
            place.count("connections")
        time.sleep(0.005)


@script
def half_open_tls(place: Place) -> None:
    """Connections that stop in the middle of the handshake of TLS, or send garbage in it."""
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))
    draws = random.Random(2)
    held: list[socket.socket] = []
    while place.goes_on():
        made = raw(place, place.address)
        if made is None:
            continue
        sent(place, made, hello[: draws.randrange(len(hello))])
        held.append(made)
        place.count("connections")
        if len(held) >= 500:
            held.pop(0).close()
            time.sleep(0.002)
    for made in held:
        made.close()


NEED_TLS.add("half_open_tls")


@script
def settings_and_pings(place: Place) -> None:
    """Frames that have to be answered, without end, and answers that are never read."""
    ping = wire.frame(wire.PING, 0, 0, bytes(8)) * 500
    settings = wire.frame(wire.SETTINGS, 0, 0) * 500
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        made.socket.settimeout(0.5)
        while place.goes_on() and made.send(ping + settings):
            place.count("frames", 1000)
        made.close()


_DIES = """
import os, sys
import neargraph as ng
client = ng.Client("shm:" + sys.argv[1], token=sys.argv[2], timeout=5.0, retry=0.0)
for at in range(1000):
    client.run("m", [at, at + 1], graph="g")
    if at == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
"""


@script
def dying_rings(place: Place) -> None:
    """Clients over shared memory that are killed, go away in silence, or write garbage."""
    draws = random.Random(3)
    killed: list[subprocess.Popen[bytes]] = []
    while place.goes_on():
        killed = [child for child in killed if child.poll() is None]
        if not killed:
            command = [sys.executable, "-c", _DIES, place.ring, place.token, "20"]
            killed.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            place.count("killed clients")
        try:
            ring = wire.Ring(place.ring_path())
        except OSError:
            place.count("refused connections")
            time.sleep(0.01)
            continue
        place.count("rings")
        for _ in range(draws.randrange(4)):
            size = draws.randrange(1, 4096)
            ring.put(4096 + draws.randrange(ring.bytes - size), draws.randbytes(size))
            ring.put(128 * draws.randrange(4), draws.randbytes(4))
        ring.close()
    for child in killed:
        child.kill()
        child.wait()
