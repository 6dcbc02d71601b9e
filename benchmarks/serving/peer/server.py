"""One run of the peer: worker processes that share mapped files and a model, one port each.

    python -m benchmarks.serving.peer.server '{"graph": ..., "weights": ..., "workers": 2, ...}'

The parent maps the arrays with random advice and loads the model, then forks, so that workers share
what does not change. Each has a grpcio server of its own, on ports that follow one another, or all
on one port (`reuse_port`). A request is sampled by PyG's compiled sampler. Its rows are gathered by
`torch.index_select` straight out of the mapping, on `threads` threads, so that page faults of a
request overlap; then PyG's layers run on what the seeds need. With `dictionary_bytes` a worker
keeps answers, least recently used first out; the bytes are those of all workers, and only answers
and keys count, not what Python needs to hold them.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import threading
import warnings
from collections import OrderedDict
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neargraph.nn import GraphSAGE

from ... import sampler
from ...systems.sage import counted

FANOUTS = [25, 10]
KEY_BYTES = 8

warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


@dataclass
class Settings:
    """What a run has; made by `process`."""

    graph: str
    # indices.npy as int64, which the sampler takes.
    indices: str
    weights: str
    hidden: int = 256
    workers: int = 1
    port: int = 50051
    reuse_port: bool = False
    # Of torch in each worker, and of requests that a worker handles at once.
    threads: int = 2
    handlers: int = 4
    dictionary_bytes: int = 0


def mapped(path: str | Path) -> torch.Tensor:
    """An array as a tensor over the mapped file, with the advice that accesses are random."""
    array = np.load(path, mmap_mode="r")
    array._mmap.madvise(mmap.MADV_RANDOM)
    return torch.from_numpy(array)


class Model:
    """Topology, rows and weights."""

    def __init__(self, settings: Settings) -> None:
        home = Path(settings.graph)
        about = json.loads((home / "about.json").read_text())
        self.pointers = mapped(home / "indptr.npy")
        self.indices = mapped(settings.indices)
        self.rows = mapped(home / "feat.npy")
        width, classes = about["width"], about["classes"]
        self.net = GraphSAGE(width, settings.hidden, classes, len(FANOUTS)).eval()
        self.net.load_state_dict(torch.load(settings.weights))

    def answer(self, ids: list[int]) -> np.ndarray[Any, Any]:
        """Logits, f32 [n, classes], in the order of the ids."""
        seeds, places = torch.tensor(ids, dtype=torch.int64).unique(return_inverse=True)
        if len(seeds) == 0 or seeds[0] < 0 or seeds[-1] >= len(self.pointers) - 1:
            raise ValueError("ids that are not in the graph")
        nodes, source, target, _ = torch.ops.torch_sparse.neighbor_sample(
            self.pointers, self.indices, seeds, FANOUTS, False, True
        )
        edges = torch.stack([source, target])
        hops = counted(edges, len(nodes), len(seeds), len(FANOUTS))
        out = self.net(self.rows.index_select(0, nodes), edges, *hops)
        found: np.ndarray[Any, Any] = out[places].numpy()
        return found


class Dictionary:
    """Answers of nodes, least recently used first out."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, 0
        self._answers: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def get(self, ids: list[int]) -> dict[int, bytes]:
        """Those that are there."""
        found = {}
        with self._lock:
            for node in ids:
                answer = self._answers.get(node)
                if answer is not None:
                    self._answers.move_to_end(node)
                    found[node] = answer
            self.hits += sum(node in found for node in ids)
            self.misses += sum(node not in found for node in ids)
        return found

    def put(self, node: int, answer: bytes) -> None:
        """Keeps an answer, and forgets old ones until all fit."""
        with self._lock:
            if node not in self._answers:
                self._bytes += len(answer) + KEY_BYTES
            self._answers[node] = answer
            while self._bytes > self._limit:
                _, old = self._answers.popitem(last=False)
                self._bytes -= len(old) + KEY_BYTES


class Service:
    """What a worker answers."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model = model
        share = settings.dictionary_bytes // settings.workers
        self._dictionary = Dictionary(share) if share else None
        self._requests = 0

    def run(self, request: Any, context: Any) -> Any:
        """The reply to a request."""
        import grpc

        from .messages import RunReply

        self._requests += 1
        try:
            with torch.inference_mode():
                shape, values = self._values(list(request.nodes))
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return RunReply(shape=shape, values=values)

    def _values(self, ids: list[int]) -> tuple[list[int], bytes]:
        if self._dictionary is None:
            out = self._model.answer(ids)
            return list(out.shape), out.tobytes()
        known = self._dictionary.get(ids)
        missing = [node for node in dict.fromkeys(ids) if node not in known]
        if missing:
            for node, row in zip(missing, self._model.answer(missing), strict=True):
                known[node] = row.tobytes()
                self._dictionary.put(node, known[node])
        values = b"".join(known[node] for node in ids)
        return [len(ids), len(values) // (4 * len(ids))], values

    def stats(self, request: Any, context: Any) -> Any:
        """Counters."""
        from .messages import RunReply

        del request, context
        kept = self._dictionary
        used = os.times()
        found = {
            "requests": self._requests,
            "hits": kept.hits if kept else 0,
            "misses": kept.misses if kept else 0,
            "cpu_seconds": used.user + used.system,
        }
        return RunReply(values=json.dumps(found).encode())


def serve(model: Model, settings: Settings, number: int, ready: int) -> None:
    """Answers until it is killed; writes a byte to `ready` when it begins.

    grpcio does not survive a fork, so it is imported here.
    """
    import grpc

    from .messages import PACKAGE, RunReply, RunRequest

    torch.set_num_threads(settings.threads)
    service = Service(model, settings)
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=RunRequest.FromString,
            response_serializer=RunReply.SerializeToString,
        )
        for name, method in (("Run", service.run), ("Stats", service.stats))
    }
    server = grpc.server(
        futures.ThreadPoolExecutor(settings.handlers),
        options=[("grpc.so_reuseport", int(settings.reuse_port))],
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(f"{PACKAGE}.Peer", handlers)]
    )
    port = settings.port if settings.reuse_port else settings.port + number
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    os.write(ready, b".")
    os.close(ready)
    server.wait_for_termination()


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    sampler.load()
    model = Model(settings)
    children = []
    started, ready = os.pipe()
    for number in range(settings.workers):
        child = os.fork()
        if child == 0:
            serve(model, settings, number, ready)
            os._exit(0)
        children.append(child)
    os.close(ready)
    for _ in children:
        if not os.read(started, 1):
            raise SystemExit("a worker did not start")
    print(json.dumps({"ready": children}), flush=True)
    # The parent of this process ends the run by closing the pipe.
    sys.stdin.read()
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
