"""Scripts against the side port: HTTP/1.1, where REST, metrics and the page are."""

from __future__ import annotations

import socket
import time

from .scripts import Place, lost, raw, script, sent


def _head(line: str, place: Place, *headers: str) -> bytes:
    lines = [line, "host: localhost", f"authorization: Bearer {place.token}", *headers, "", ""]
    return "\r\n".join(lines).encode()


@script
def endless_bodies(place: Place) -> None:
    """Bodies of REST that never end, and those that say they have a terabyte."""
    chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    at = 0
    while place.goes_on():
        at += 1
        made = raw(place, place.side)
        if made is None:
            continue
        path = "/v1/run" if at % 2 else "/v2/models/m/infer"
        kind = "transfer-encoding: chunked" if at % 3 else "content-length: 1000000000000"
        head = _head(f"POST {path} HTTP/1.1", place, "content-type: application/json", kind)
        going = sent(place, made, head)
        while going and place.goes_on() and not lost(made):
            going = sent(place, made, chunk)
            place.count("bytes", len(chunk))
        made.close()
        place.count("requests")


@script
def huge_headers(place: Place) -> None:
    """Headers of megabytes, thousands of them, and a path of megabytes, over HTTP/1.1."""
    long = "x-long: " + "a" * 10_000_000
    many = [f"x-{at}: b" for at in range(20_000)]
    while place.goes_on():
        for request in (
            _head("GET /metrics HTTP/1.1", place, long),
            _head("GET /metrics HTTP/1.1", place, *many),
            _head(f"GET /{'p' * 5_000_000} HTTP/1.1", place),
        ):
            made = raw(place, place.side)
            if made is None:
                continue
            sent(place, made, request)
            lost(made)
            made.close()
            place.count("requests")


@script
def upgrades(place: Place) -> None:
    """WebSockets and HTTP/2 asked for on the side port, and left open."""
    held: list[socket.socket] = []
    while place.goes_on():
        made = raw(place, place.side)
        if made is None:
            continue
        to = ("websocket", "h2c")[len(held) % 2]
        key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
        more = ["connection: Upgrade", f"upgrade: {to}", key, "sec-websocket-version: 13"]
        path = ("/", "/metrics", "/v1/run", "/api")[len(held) % 4]
        sent(place, made, _head(f"GET {path} HTTP/1.1", place, *more) + b"\x81\x85\0\0\0\0hello")
        held.append(made)
        place.count("requests")
        if len(held) > 300:
            held.pop(0).close()
        time.sleep(0.002)
    for made in held:
        made.close()


@script
def side_floods(place: Place) -> None:
    """Requests for the dearest pages as fast as they go, without waiting for the answers."""
    pages = ["/metrics", "/", "/v2/models/m", "/healthz"]
    body = b'{"model": "m", "graph": "g", "nodes": [' + b"1," * 5000 + b"1]}"
    post = _head("POST /v1/run HTTP/1.1", place, f"content-length: {len(body)}") + body
    while place.goes_on():
        made = raw(place, place.side)
        if made is None:
            continue
        batch = b"".join(_head(f"GET {page} HTTP/1.1", place) for page in pages) + post
        for _ in range(20):
            if not place.goes_on() or not sent(place, made, batch) or lost(made):
                break
            place.count("requests", len(pages) + 1)
        made.close()
