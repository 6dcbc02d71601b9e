"""What clients ask: the method of the core, its arguments, and what becomes of the answer.

What must not live here: waiting. The invariant: both clients ask the same for the same arguments.
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._modelfiles import MODEL, WEIGHTS, read_with_manifest
from neargraph.client import results
from neargraph.client.updates import Updates
from neargraph.exceptions import UnsupportedArgument

T = TypeVar("T")


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call."""

    method: str
    arguments: tuple[Any, ...]
    then: Callable[[Any], T]


@dataclass(frozen=True)
class Tls:
    """Certificates of a client, as paths of PEM files.

    Attributes:
        ca: Who signs the certificate of the server.
        cert: The certificate of the client, if the server wants one.
        key: Its key.
        server_name: The name in the server's certificate, where it is not that of the address.
    """

    ca: str | os.PathLike[str]
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    server_name: str | None = None


def core(
    address: str,
    token: str | None,
    timeout: float | None,
    retry: float,
    tls: "Tls | Mapping[str, Any] | None",
) -> _core.Client:
    """The compiled client."""
    if tls is None:
        return _core.Client(address, token, timeout, retry, None)
    files = tls if isinstance(tls, Tls) else Tls(**tls)
    if (files.cert is None) != (files.key is None):
        raise UnsupportedArgument("a certificate of the client and its key go together")
    identity = None
    if files.cert is not None and files.key is not None:
        identity = (Path(files.cert).read_bytes(), Path(files.key).read_bytes())
    given = (Path(files.ca).read_bytes(), identity, files.server_name)
    return _core.Client(address, token, timeout, retry, given)


def _ids(given: Any) -> NDArray[np.int64]:
    array = np.asarray(given)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise UnsupportedArgument(
            f"ids are integers of shape [n], got {array.dtype} of shape {list(array.shape)}"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def targets(
    model: str,
    nodes: Any,
    edges: Any,
    graph_ids: Any,
    graph: str,
    target_type: str,
    seed: int,
    at_snapshot: int | None,
    max_lag_commits: int,
) -> tuple[Any, ...]:
    """The arguments of a run."""
    given = {"nodes": nodes, "edges": edges, "graphs": graph_ids}
    named = [kind for kind, ids in given.items() if ids is not None]
    if len(named) != 1:
        raise UnsupportedArgument("give nodes, edges= or graph_ids=: one of them")
    kind, none = named[0], np.empty(0, np.int64)
    if kind == "edges":
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise UnsupportedArgument(f"edges have shape [2, n], got {list(pairs.shape)}")
        first, second = _ids(pairs[0]), _ids(pairs[1])
    else:
        first, second = _ids(given[kind]), none
    rest = (seed, at_snapshot, max_lag_commits)
    return graph, model, kind, target_type, first, second, *rest


def run(*given: Any) -> "Request[results.Answer]":
    """Rows of a model."""
    return Request("run", (targets(*given),), results.answer)


def analyze(keep_seconds: int, *given: Any) -> Request[str]:
    """A job."""
    return Request("analyze", (targets(*given), keep_seconds), str)


def job_result(
    job: str, wait_seconds: float
) -> "Request[tuple[results.JobState, results.Answer | None]]":
    """How far a job is, and what it found."""

    def then(given: Any) -> "tuple[results.JobState, results.Answer | None]":
        state, found = given
        return results.job_state(state), None if found is None else results.answer(found)

    return Request("result", (job, int(1000 * wait_seconds)), then)


def features(
    ids: Any, tensor: str, graph: str, node_type: str, at_snapshot: int | None
) -> Request[NDArray[Any]]:
    """Rows of nodes."""
    arguments = (graph, node_type, _ids(ids), tensor, at_snapshot)
    return Request("features", arguments, results.rows_alone)


def neighbors(
    ids: Any, limit: int | None, graph: str, edge_type: str, at_snapshot: int | None
) -> "Request[results.NeighborLists]":
    """Neighbours of nodes."""
    arguments = (graph, edge_type, _ids(ids), limit, at_snapshot)
    return Request("neighbors", arguments, results.neighbor_lists)


def apply(updates: Updates, graph: str, key: bytes | None) -> Request[dict[str, Any]]:
    """One commit. A key of its own makes it safe to try again."""
    key = uuid.uuid4().bytes if key is None else key
    return Request("apply", (graph, updates.changes, key), dict)


def call(method: str, **message: Any) -> Request[dict[str, Any]]:
    """A method by name."""
    return Request("call", (method, json.dumps(message)), json.loads)


def listed(method: str, field: str) -> Request[list[dict[str, Any]]]:
    """A method whose answer is a list."""
    return Request("call", (method, "{}"), lambda text: json.loads(text)[field])


def field_of(method: str, field: str, **message: Any) -> Request[dict[str, Any]]:
    """A method whose answer has one field."""
    return Request("call", (method, json.dumps(message)), lambda text: json.loads(text)[field])


def register_graph(graph: str, path: str, narrow: str | None, reorganize: bool) -> Any:
    """Serves a store."""
    names = {None: 0, "f16": 1, "bf16": 2, "int8": 3}
    if narrow not in names:
        raise UnsupportedArgument(f"narrow is {narrow!r}; use 'f16', 'bf16' or 'int8'")
    rest = {"narrow": names[narrow], "reorganize": reorganize}
    return field_of("GraphRegister", "graph", graph=graph, path=path, **rest)


def register_model(
    model: str,
    files: str | os.PathLike[str] | None,
    path: str | None,
    graph: str,
    prepare: str,
    fanouts: Sequence[int] | None,
    output: str,
    devices: Sequence[str],
) -> Request[dict[str, Any]]:
    """Serves a model."""
    if (files is None) == (path is None):
        raise UnsupportedArgument(
            "give the folder of a model file, or path= of one in the server's folder"
        )
    message: dict[str, Any] = {"model": model, "graph": graph, "prepare": prepare}
    message |= {"fanouts": list(fanouts or []), "output": output, "devices": list(devices)}
    content = None
    if files is None:
        message["source"] = {"Path": path}
    else:
        parts, manifest = read_with_manifest(Path(files))
        content = (parts[MODEL], parts[WEIGHTS], manifest)
    return Request(
        "register_model", (json.dumps(message), content), lambda text: json.loads(text)["model"]
    )
