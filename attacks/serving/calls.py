"""Scripts that are hostile by what they ask for, and by how they take the answer."""

from __future__ import annotations

import contextlib
import itertools
import random
import time

from .. import wire
from .scripts import ANALYSIS, EMBED, NEIGHBORS, RUN, SAMPLE, Http2, Place, opened, script


def _pound(place: Place, block: bytes, bodies: list[bytes], in_turn: int = 20) -> None:
    """Calls one after the other, `in_turn` of them under way, on connections that are replaced."""
    at = 0
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        while place.goes_on() and made.stream < 20_000:
            going = all(
                made.open(block, bodies[(at + step) % len(bodies)]) for step in range(in_turn)
            )
            at += in_turn
            place.count("calls", in_turn)
            if not going or not made.drain(0.01):
                break
        made.close()


@script
def oversize_messages(place: Place) -> None:
    """Messages past the limit: those that say so, and those that are sent nevertheless."""
    for size in itertools.cycle([0xFFFFFFFF, 65 << 20, 1 << 31]):
        if not place.goes_on():
            return
        made = opened(place)
        if made is None:
            continue
        made.open(place.block(RUN), b"\0" + size.to_bytes(4, "big"), last=False)
        part = wire.data(made.stream, bytes(16_384), last=False) * 4
        for _ in range(size // (4 * 16_384) + 1):
            if not place.goes_on() or not made.send(part) or not made.drain():
                break
        place.count("messages")
        made.close()


@script
def many_streams(place: Place) -> None:
    """5,000 calls of one connection that never end, on several connections."""
    held: list[Http2] = []
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        held.append(made)
        for _ in range(5000):
            if not place.goes_on() or not made.open(place.block(RUN), b"\0\0\0\0\x09", last=False):
                break
            place.count("streams")
        made.drain()
        if len(held) > 4:
            held.pop(0).close()
    for made in held:
        made.close()


@script
def reset_floods(place: Place) -> None:
    """Calls that are taken back at once, thousands in a row."""
    body = wire.message(wire.run_request("m", range(50)))
    cancel = wire.CANCEL.to_bytes(4, "big")
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        block = place.block(RUN)
        while place.goes_on() and made.stream < 100_000:
            batch = b""
            for _ in range(100):
                made.stream += 2
                batch += wire.headers(made.stream, block) + wire.data(made.stream, body)
                batch += wire.frame(wire.RST, 0, made.stream, cancel)
            if not made.send(batch) or not made.drain():
                break
            place.count("resets", 100)
        made.close()


@script
def slow_readers(place: Place) -> None:
    """Large answers that are asked for and not read."""
    ids = [at % place.nodes for at in range(4000)]
    nodes = wire.field(2, wire.field(2, b"".join(map(wire.varint, ids))))
    body = wire.message(wire.field(1, "g") + nodes + wire.field(3, "x"))
    held: list[Http2] = []
    while place.goes_on():
        made = opened(place, window=0)
        if made is None:
            continue
        for _ in range(20):
            if made.open(place.block(EMBED), body):
                place.count("calls")
        held.append(made)
        if len(held) > 60:
            held.pop(0).close()
        time.sleep(0.02)
    for made in held:
        made.close()


@script
def past_deadlines(place: Place) -> None:
    """Calls whose deadline is over when they come, or that name none that can be read."""
    body = wire.message(wire.run_request("m", range(100)))
    timeouts = ["1n", "0m", "1u", "100u", "999999999S", "soon", "-1S", ""]
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        while place.goes_on() and made.stream < 20_000:
            for timeout in timeouts:
                made.open(place.block(RUN, ("grpc-timeout", timeout)), body)
                place.count("calls")
            if not made.drain(0.005):
                break
        made.close()


@script
def huge_fanouts(place: Place) -> None:
    """Requests of a model that takes a million neighbours of a million."""
    sizes = (1, 100, 60_000)
    bodies = [wire.message(wire.run_request("huge", range(size))) for size in sizes]
    _pound(place, place.block(RUN), bodies, in_turn=4)


@script
def strange_ids(place: Place) -> None:
    """Ids that are huge, negative or no numbers, names that are no text, messages cut short."""
    draws = random.Random(4)
    good = wire.run_request("m", [1, 2, 3])
    nan = wire.field(1, b"\x00\x00\xc0\x7f" * 4)
    bodies = [
        wire.run_request("m", [2**64 - 1, 2**63, -1]),
        wire.run_request("m", [place.nodes]),
        wire.run_request("m" * 100_000, [1]),
        wire.run_request("m", [1], graph="../../etc"),
        wire.field(1, b"\xff\xfe\xfd") + wire.field(2, b"\x80" * 40),
        wire.field(1, "g") + wire.field(2, "m") + wire.field(4, nan),
        wire.field(1, "g") + wire.field(2, "m") + wire.field(4, wire.field(2, wire.field(2, nan))),
        wire.field(4, b"\xff" * 200),
        b"\x0b" * 5000,
    ]
    bodies += [good[: draws.randrange(len(good))] for _ in range(20)]
    bodies += [draws.randbytes(draws.randrange(1, 400)) for _ in range(50)]
    _pound(place, place.block(RUN), [wire.message(body) for body in bodies])


@script
def ids_at_the_limit(place: Place) -> None:
    """As many ids as a request may have, and one more, of each method that takes a list."""
    draws = random.Random(5)
    ids = [draws.randrange(place.nodes) for _ in range(65_537)]
    packed = b"".join(map(wire.varint, ids))
    nodes = wire.field(2, wire.field(2, packed))
    asked = [
        (EMBED, wire.field(1, "g") + nodes + wire.field(3, "x")),
        (NEIGHBORS, wire.field(1, "g") + wire.field(3, packed) + wire.field(4, 10)),
        (RUN, wire.run_request("m", ids)),
        (RUN, wire.run_request("m", ids[:65_536])),
    ]
    while place.goes_on():
        made = opened(place, window=(1 << 31) - 1)
        if made is None:
            continue
        for path, body in asked:
            made.open(place.block(path), wire.message(body))
            place.count("calls")
        while place.goes_on() and made.drain(0.5) and made.received < (4 << 20):
            pass
        made.close()


@script
def unread_samples(place: Place) -> None:
    """Streams of mini-batches that nobody reads, until there is no place for another."""
    fanouts = wire.field(4, b"".join(map(wire.varint, [25, 10])))
    size, tensor = wire.field(5, 1024), wire.field(9, "x")
    body = wire.message(wire.field(1, "g") + fanouts + size + tensor)
    held: list[Http2] = []
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        made.open(place.block(SAMPLE), body)
        place.count("streams")
        held.append(made)
        if len(held) > 40:
            held.pop(0).close()
        time.sleep(0.05)
    for made in held:
        made.close()


@script
def cancelled_runs(place: Place) -> None:
    """Large requests that are given up once they have begun."""
    body = wire.message(wire.run_request("m", range(1000)))
    cancel = wire.CANCEL.to_bytes(4, "big")
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        while place.goes_on() and made.stream < 2000:
            if not made.open(place.block(RUN), body):
                break
            time.sleep(0.002)
            made.send(wire.frame(wire.RST, 0, made.stream, cancel))
            place.count("calls")
            if not made.drain():
                break
        made.close()


@script
def bad_tokens(place: Place) -> None:
    """Calls with tokens that are guessed, too long, or none."""
    draws = random.Random(6)
    body = wire.message(wire.run_request("m", [1]))
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        while place.goes_on() and made.stream < 20_000:
            for length in (0, 16, 32, 64, 8000):
                token = draws.randbytes((length + 1) // 2).hex()[:length]
                if not made.open(wire.block(RUN, token), body):
                    break
                place.count("calls")
            if not made.drain(0.002):
                break
        made.close()


@script
def full_job_queue(place: Place) -> None:
    """Jobs over many targets, far more than are taken."""
    ids = list(range(min(place.nodes, 30_000)))
    body = wire.message(wire.field(1, wire.run_request("m", ids)))
    _pound(place, place.block(ANALYSIS), [body], in_turn=2)


@script
def metadata_bombs(place: Place) -> None:
    """Hundreds of headers, headers of megabytes, and small ones that unpack to megabytes."""
    many = [(f"x-{at}", "a" * 20) for at in range(1000)]
    long = [("x-long", "a" * 1_000_000)]
    # An entry of the table that is then named by one byte, thousands of times.
    packed = b"\x40" + wire.text("x-bomb") + wire.text("b" * 4000) + b"\xbe" * 16_000
    while place.goes_on():
        for kind in (0, 1, 2):
            made = opened(place)
            if made is None:
                continue
            block = place.block(RUN, *(many if kind == 0 else long if kind == 1 else ()))
            block += packed if kind == 2 else b""
            made.stream += 2
            first, rest = block[:16_000], block[16_000:]
            made.send(wire.headers(made.stream, first, flags=0))
            parts = [rest[at : at + 16_000] for at in range(0, len(rest), 16_000)] or [b""]
            for at, part in enumerate(parts):
                flags = wire.END_HEADERS if at + 1 == len(parts) else 0
                if not made.send(wire.frame(wire.CONTINUATION, flags, made.stream, part)):
                    break
            place.count("blocks")
            made.drain(0.005)
            made.close()


@script
def endless_continuations(place: Place) -> None:
    """A block of headers that never ends."""
    part = b"\0" + wire.text("x-more") + wire.text("c" * 1000)
    while place.goes_on():
        made = opened(place)
        if made is None:
            continue
        made.stream += 2
        made.send(wire.headers(made.stream, place.block(RUN), flags=0))
        more = wire.frame(wire.CONTINUATION, 0, made.stream, part * 10) * 10
        with contextlib.suppress(OSError):
            while place.goes_on() and made.send(more):
                place.count("frames", 10)
        made.close()
