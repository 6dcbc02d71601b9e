"""Bytes of HTTP/2, gRPC, protobuf and rings, as a client writes them who keeps to no rule.

What must not live here: which of them are sent when.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
from collections.abc import Iterable
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = 8
WINDOW_SETTING = 4


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def run_request(model: str, ids: Iterable[int], graph: str = "g") -> bytes:
    """`RunRequest` of nodes."""
    nodes = field(1, field(2, b"".join(map(varint, ids))))
    return field(1, graph) + field(2, model) + field(4, nodes)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def preface(window: int = 65_535) -> bytes:
    """The begin of a connection; with a window of 0 nothing may be answered."""
    setting = WINDOW_SETTING.to_bytes(2, "big") + window.to_bytes(4, "big")
    return PREFACE + frame(SETTINGS, 0, 0, setting)


def block(path: str, token: str, extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """The headers of a call as HPACK without a table."""
    pairs = [
        *((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")),
        *(("content-type", "application/grpc"), ("te", "trailers")),
        *(("authorization", f"Bearer {token}"), *extra),
    ]
    return b"".join(b"\0" + text(name) + text(value) for name, value in pairs)


def text(value: str) -> bytes:
    """A text of HPACK, not compressed."""
    data = value.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, head = len(data) - 127, bytearray([127])
    while rest > 0x7F:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*head, rest]) + data


def headers(stream: int, block: bytes, flags: int = END_HEADERS) -> bytes:
    """A frame of headers."""
    return frame(HEADERS, flags, stream, block)


def message(payload: bytes) -> bytes:
    """A message of gRPC."""
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def data(stream: int, payload: bytes, last: bool = True) -> bytes:
    """A frame with bytes of a body."""
    return frame(DATA, END_STREAM if last else 0, stream, payload)


def connect(address: str, seconds: float = 5.0) -> socket.socket:
    """A connection to HOST:PORT."""
    host, port = address.rsplit(":", 1)
    made = socket.create_connection((host, int(port)), seconds)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Ring:
    """A ring in shared memory (docs/reference/shm.md), set up by the rules."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(5.0)
        self.socket.connect(str(path))
        versions = (1).to_bytes(2, "little") * 2
        self.socket.send((b"nearshm\0" + versions).ljust(32, b"\0"))
        answer, ancillary, _, _ = self.socket.recvmsg(32, socket.CMSG_SPACE(4))
        status = int.from_bytes(answer[8:12], "little")
        if status != 0:
            raise ConnectionRefusedError(f"status {status}")
        found = array.array("i")
        found.frombytes(ancillary[0][2][:4])
        self.bytes = int.from_bytes(answer[16:20], "little")
        self.memory = mmap.mmap(found[0], 4096 + 2 * self.bytes)
        self._descriptor = found[0]

    def put(self, at: int, data: bytes) -> None:
        """Writes into the memory."""
        self.memory[at : at + len(data)] = data

    def close(self) -> None:
        """Goes away without a word."""
        self.memory.close()
        os.close(self._descriptor)
        self.socket.close()


def messages_of(address: str, path: str, payload: bytes, seconds: float = 120.0) -> list[bytes]:
    """Messages that a method answers, over a connection of its own; few and small ones."""
    with connect(address, seconds) as made:
        made.sendall(preface() + headers(1, block(path, "none")) + data(1, message(payload)))
        got, body = bytearray(), bytearray()
        while True:
            part = made.recv(1 << 16)
            got += part
            while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], "big"):
                size, kind, flags = int.from_bytes(got[:3], "big"), got[3], got[4]
                content, got = bytes(got[9 : 9 + size]), got[9 + size :]
                if kind == DATA:
                    body += content
                elif kind == PING and not flags & 1:
                    made.sendall(frame(PING, 1, 0, content))
                elif kind == SETTINGS and not flags & 1:
                    made.sendall(frame(SETTINGS, 1, 0))
                if kind in (DATA, HEADERS) and flags & END_STREAM:
                    return _parted(bytes(body))
            if not part:
                raise ConnectionError(f"{path}: the connection ended before the answer")


def _parted(body: bytes) -> list[bytes]:
    found = []
    while body:
        end = 5 + int.from_bytes(body[1:5], "big")
        found.append(body[5:end])
        body = body[end:]
    return found
