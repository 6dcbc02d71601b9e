"""Small calls from Python: `ng.Client` and grpcio, a round for each line of the input.

    python -m benchmarks.serving.transports_worker CALLS NODES unix:PATH HOST:PORT

It says what `crates/ng-client/examples/transports.rs` says. grpcio's messages are made at run time,
as far as they are needed here; their numbers are those of proto/neargraph/v1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .served import GRAPH, MODEL

PACKAGE = "neargraph.v1"
# (field, number, type, label), with the name of a message in place of the type.
FIELDS = {
    "Nodes": [("ids", 2, "UINT64", "REPEATED")],
    "Targets": [("nodes", 1, "Nodes", "OPTIONAL")],
    "RunRequest": [
        ("graph", 1, "STRING", "OPTIONAL"),
        ("model", 2, "STRING", "OPTIONAL"),
        ("targets", 4, "Targets", "OPTIONAL"),
    ],
    "Tensor": [("shape", 2, "UINT64", "REPEATED"), ("data", 3, "BYTES", "OPTIONAL")],
    "Timing": [("queued_us", 1, "UINT64", "OPTIONAL"), ("engine_us", 2, "UINT64", "OPTIONAL")],
    "RunResponse": [("rows", 2, "Tensor", "OPTIONAL"), ("timing", 5, "Timing", "OPTIONAL")],
    "ServerInfoRequest": [],
    "ServerInfoResponse": [("version", 1, "STRING", "OPTIONAL")],
}
Call = Callable[[int], float]


def messages() -> dict[str, Any]:
    """Classes of messages by name."""
    file = descriptor_pb2.FileDescriptorProto(name="some.proto", package=PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            made = message.field.add(name=field, number=number)
            made.label = getattr(descriptor_pb2.FieldDescriptorProto, f"LABEL_{label}")
            if kind in FIELDS:
                made.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                made.type_name = f".{PACKAGE}.{kind}"
            else:
                made.type = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {}
    for name in FIELDS:
        descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
        found[name] = message_factory.GetMessageClass(descriptor)
    return found


def over_client(address: str) -> tuple[Call, Call]:
    """(echo, run) of `ng.Client`; each gives the microseconds of the engine."""
    import neargraph as ng

    client = ng.Client(address)

    def echo(_: int) -> float:
        client.server_info()
        return 0.0

    def run(node: int) -> float:
        return float(client.answer(MODEL, [node]).timing.engine_us)

    return echo, run


def over_grpcio(address: str) -> tuple[Call, Call]:
    """(echo, run) of grpcio. On a Unix socket it needs the name of a host."""
    import grpc

    made = messages()
    channel = grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")])

    def method(path: str, request: str, response: str) -> Any:
        return channel.unary_unary(
            f"/{PACKAGE}.{path}",
            request_serializer=made[request].SerializeToString,
            response_deserializer=made[response].FromString,
        )

    info = method("ServerService/ServerInfo", "ServerInfoRequest", "ServerInfoResponse")
    ask = method("InferenceService/Run", "RunRequest", "RunResponse")

    def echo(_: int) -> float:
        info(made["ServerInfoRequest"]())
        return 0.0

    def run(node: int) -> float:
        targets = made["Targets"](nodes=made["Nodes"](ids=[node]))
        answer = ask(made["RunRequest"](graph=GRAPH, model=MODEL, targets=targets))
        return float(answer.timing.engine_us)

    return echo, run


def timed(call: Call, calls: int, first: int, nodes: int) -> tuple[list[float], list[float]]:
    """(microseconds of each call, the same without the engine's)."""
    whole, share = [], []
    for number in range(first, first + calls):
        node = number * 7_919 % nodes
        begin = time.perf_counter()
        engine = call(node)
        took = 1e6 * (time.perf_counter() - begin)
        whole.append(took)
        share.append(took - engine)
    return whole, share


def main() -> None:
    calls, nodes = int(sys.argv[1]), int(sys.argv[2])
    unix, tcp = sys.argv[3:]
    ways = {
        "ng.Client, Unix socket": over_client(unix),
        "ng.Client, TCP": over_client(tcp),
        "grpcio, Unix socket": over_grpcio(unix),
        "grpcio, TCP": over_grpcio(tcp),
    }
    first = 0
    for _ in sys.stdin:
        found = {}
        for name, (echo, run) in ways.items():
            whole, _ = timed(echo, calls, first, nodes)
            runs, share = timed(run, calls, first, nodes)
            found[name] = {"echo": whole, "run": runs, "share": share}
            first += calls
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
