"""Stock clients, unmodified, against a running server; `test_server_interop.py` runs this file.

It runs in an environment of its own, which has nothing of this project: what is known of the
interface comes from the server's reflection. Prints one line for each check, or fails.
"""

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2

V1 = "neargraph.v1"
NODES = np.int64([3, 1, 4, 1, 5])
# What the path of a socket as the name of a host breaks.
AUTHORITY = [("grpc.default_authority", "localhost")]


class Services:
    """Calls of services whose descriptors come from reflection."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._database = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._database)

    def names(self) -> list[str]:
        return list(self._database.get_services())

    def message(self, name: str, **fields: Any) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(f"{V1}.{name}"))(**fields)

    def call(self, service: str, method: str, request: Any) -> Any:
        found = self._pool.FindServiceByName(f"{V1}.{service}").FindMethodByName(method)
        answer = GetMessageClass(found.output_type)
        path = f"/{V1}.{service}/{method}"
        unary = self._channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
        return unary(request, timeout=60)

    def run(self) -> Any:
        nodes = self.message("Nodes", ids=NODES)
        request = self.message("RunRequest", graph="g", model="sage")
        request.targets.nodes.CopyFrom(nodes)
        return self.call("InferenceService", "Run", request)


def register(services: Services, files: Path) -> None:
    names = ("model.onnx", "model.safetensors", "manifest.json")
    bytes_of = {name.replace(".", "_"): (files / name).read_bytes() for name in names}
    request = services.message("ModelRegisterRequest", model="sage", graph="g")
    request.files.CopyFrom(services.message("ModelFiles", **bytes_of))
    services.call("RegistryService", "ModelRegister", request)


def rows_of(tensor: Any) -> np.ndarray:
    return np.frombuffer(tensor.data, np.float32).reshape(list(tensor.shape))


def grpc_over_tcp(address: str, files: Path) -> np.ndarray:
    with grpc.insecure_channel(address) as channel:
        services = Services(channel)
        register(services, files)
        answer = services.run()
        assert answer.model == "sage@1", answer.model
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        names = services.names()
        wanted = ("GraphStore", "Inference", "Registry", "Sampling", "Accelerator", "Server")
        missing = {f"{V1}.{name}Service" for name in wanted} - set(names)
        assert not missing, missing
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(names), names
        return rows_of(answer.rows)


def grpc_over_socket(path: str, rows: np.ndarray) -> None:
    with grpc.insecure_channel(f"unix:{path}", options=AUTHORITY) as channel:
        assert np.array_equal(rows_of(Services(channel).run().rows), rows)
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        # The name of the host is the escaped path, which HTTP/2 libraries refuse: PROTOCOL_ERROR.
        # Where this works one day, docs/reference/protocols.md has to say so.
        text = failed(lambda: stub.Check(health_pb2.HealthCheckRequest(), timeout=10))
        assert "RST_STREAM" in text, text


def failed(call: Callable[[], Any]) -> str:
    """The text of the exception that a call raises."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("it did not fail")


def triton(client: Any, module: Any, rows: np.ndarray, **versions: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    for name in ("sage", "g/sage"):
        assert client.is_model_ready(name)
        for binary in ({"binary_data": True}, {"binary_data": False}):
            given = module.InferInput("nodes", [len(NODES)], "INT64")
            wanted = module.InferRequestedOutput("rows")
            if module is triton_http:
                given.set_data_from_numpy(NODES, **binary)
                wanted = module.InferRequestedOutput("rows", **binary)
            else:
                given.set_data_from_numpy(NODES)
            for outputs in ([wanted], None):
                answer = client.infer(name, [given], outputs=outputs, request_id="r1")
                assert np.array_equal(answer.as_numpy("rows"), rows)
    given = module.InferInput("edges", [2, 3], "INT64")
    given.set_data_from_numpy(np.int64([[1, 2, 3], [4, 5, 6]]))
    assert client.infer("sage", [given]).as_numpy("rows").shape == (3,)
    text = failed(lambda: client.infer("none", [given]))
    assert "does not exist" in text, text


def descriptors_agree(address: str) -> None:
    """Each message that the server has is field by field the one of tritonclient."""
    with grpc.insecure_channel(address) as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        own = pool.FindServiceByName("inference.GRPCInferenceService")
        stock = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        for method in own.methods:
            other = stock.methods_by_name[method.name]
            compare(method.input_type, other.input_type)
            compare(method.output_type, other.output_type)


def compare(own: Any, stock: Any) -> None:
    assert own.full_name == stock.full_name
    for field in own.fields:
        other = stock.fields_by_name[field.name]
        for what in ("number", "type", "is_repeated"):
            assert getattr(field, what) == getattr(other, what), (own.full_name, field.name, what)
        if field.message_type is not None and field.message_type.full_name != own.full_name:
            compare(field.message_type, other.message_type)


def curl(side: str, rows: np.ndarray) -> None:
    body = json.dumps({"graph": "g", "model": "sage", "nodes": NODES.tolist()})
    url = f"http://{side}/v1/run"
    done = subprocess.run(["curl", "-fsS", url, "-d", body], capture_output=True, check=True)
    found = np.float32(json.loads(done.stdout)["rows"])
    assert np.array_equal(found, rows)


def metrics(side: str) -> bool:
    """Whether there are metrics; if so, each line is one that Prometheus takes."""
    done = subprocess.run(
        ["curl", "-sS", "-w", "\n%{http_code}", f"http://{side}/metrics"],
        capture_output=True,
        check=True,
        text=True,
    )
    text, _, status = done.stdout.rpartition("\n")
    if status == "404":
        return False
    assert any(line.startswith("neargraph_") for line in text.splitlines())
    for line in text.splitlines():
        if line and not line.startswith("#"):
            float(line.rpartition(" ")[2])
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("tcp", "unix", "side", "files"):
        parser.add_argument(name)
    given = parser.parse_args()
    rows = grpc_over_tcp(given.tcp, Path(given.files))
    print("grpcio over TCP, health, reflection")
    grpc_over_socket(given.unix, rows)
    print("grpcio over a Unix socket")
    triton(triton_grpc.InferenceServerClient(given.tcp), triton_grpc, rows)
    print("tritonclient over gRPC")
    triton(triton_http.InferenceServerClient(given.side), triton_http, rows)
    print("tritonclient over HTTP")
    descriptors_agree(given.tcp)
    print("descriptors of the Open Inference Protocol")
    curl(given.side, rows)
    print("curl")
    print("metrics" if metrics(given.side) else "no metrics here")


if __name__ == "__main__":
    main()
