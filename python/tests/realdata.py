"""Real data sets, found through NEARGRAPH_DATA, and the comparison of a store with raw arrays."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neargraph as ng
from neargraph import _core

Triple = tuple[str, str, str]
PLAIN: Triple = ("node", "to", "node")


def data(*parts: str) -> Path:
    """A file or folder under NEARGRAPH_DATA; skips the test, with the reason, where it is not."""
    root = os.environ.get("NEARGRAPH_DATA")
    if not root:
        pytest.skip("NEARGRAPH_DATA is not set: no real data sets here")
    path = Path(root, *parts)
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


@dataclass
class RawEdges:
    """Entries of an edge type, in any order."""

    sources: Any
    destinations: Any
    edge_ids: Any = None
    times: Any = None
    weights: Any = None
    tensors: dict[str, Any] = field(default_factory=dict)


@dataclass
class Raw:
    """What a store must hold: node counts, node tensors, entries."""

    num_nodes: dict[str, int]
    tensors: dict[str, dict[str, Any]]
    edges: dict[Triple, RawEdges]


def symmetric(edges: RawEdges) -> RawEdges:
    """Both directions of every edge, a self-loop once."""
    there = np.asarray(edges.sources) != np.asarray(edges.destinations)
    return RawEdges(
        np.concatenate([edges.sources, edges.destinations[there]]),
        np.concatenate([edges.destinations, edges.sources[there]]),
    )


def check_store(path: Path, raw: Raw, nodes_max: int = 400) -> None:
    """`verify` finds nothing, and full neighbourhoods and rows are what the raw arrays say.

    Small types are compared in every node, larger ones in a seeded draw.
    """
    report = json.loads(_core.verify(str(path)))
    assert report["ok"], report["problems"]
    with ng.open(path, memory="64MB") as store:
        assert set(store.node_types) == set(raw.num_nodes)
        for name, count in raw.num_nodes.items():
            assert store.schema.node_type(name).num_nodes == count
            kept = {t.name for t in store.schema.node_type(name).tensors}
            assert kept == set(raw.tensors.get(name, {}))
        assert set(store.edge_types) >= set(raw.edges)
        for triple, edges in raw.edges.items():
            assert store.schema.edge_type(triple).num_edges == len(edges.sources)
            _check_lists(store, triple, edges)
            _check_edge_tensors(store, triple, edges)
        for name in raw.num_nodes:
            _check_rows(store, name, raw.tensors.get(name, {}), _some(raw.num_nodes[name]))
            _check_sample(store, name, raw, _some(raw.num_nodes[name], nodes_max))


def _some(count: int, most: int = 4000) -> Any:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(5).choice(count, most, replace=False))


def _check_lists(store: ng.Store, triple: Triple, edges: RawEdges) -> None:
    """Every list of the type, in one read: sources in order, ids, times and weights beside."""
    count = store.schema.node_type(triple[2]).num_nodes
    got = store.snapshot().neighbors(triple, np.arange(count))
    ids = np.arange(len(edges.sources)) if edges.edge_ids is None else edges.edge_ids
    keys = [ids, edges.sources, edges.destinations]
    if edges.times is not None:
        keys.insert(2, edges.times)
    order = np.lexsort(keys)
    assert np.array_equal(np.diff(got.indptr), np.bincount(edges.destinations, minlength=count))
    assert np.array_equal(got.indices, np.asarray(edges.sources)[order])
    for column, wanted in (
        (got.edge_ids, edges.edge_ids),
        (got.times, edges.times),
        (got.weights, edges.weights),
    ):
        assert (column is None) == (wanted is None)
        if wanted is not None:
            assert np.array_equal(column, np.asarray(wanted)[order])


def _check_edge_tensors(store: ng.Store, triple: Triple, edges: RawEdges) -> None:
    assert {t.name for t in store.schema.edge_type(triple).tensors} == set(edges.tensors)
    for name, wanted in edges.tensors.items():
        ids = _some(len(wanted))
        got = store.snapshot().edge_features(triple, ids, name)
        assert got.dtype == wanted.dtype
        assert np.array_equal(got, wanted[ids], equal_nan=wanted.dtype.kind == "f")


def _check_rows(store: ng.Store, name: str, tensors: dict[str, Any], ids: Any) -> None:
    for tensor, wanted in tensors.items():
        # In pieces: rows that are read stay in the budget until they are dropped.
        for part in np.array_split(ids, max(1, len(ids) // 400)):
            got = store.snapshot().features(name, part, tensor)
            assert got.dtype == wanted.dtype, tensor
            assert np.array_equal(got, wanted[part], equal_nan=wanted.dtype.kind == "f"), tensor


def _check_sample(store: ng.Store, name: str, raw: Raw, ids: Any) -> None:
    """A one-hop sample of all neighbours holds exactly the raw in-edges of its seeds."""
    if not len(ids):
        return
    batch = ng.NumpySampler(store, [-1], attrs=[]).sample((name, ids))
    for triple, edges in raw.edges.items():
        if triple[2] != name:
            continue
        row, column = batch.edge_index(triple)
        got = np.stack([batch.nodes(triple[0])[row], batch.nodes(triple[2])[column]])
        wanted = np.isin(edges.destinations, ids)
        expected = np.stack([edges.sources[wanted], edges.destinations[wanted]]).astype(np.int64)
        assert np.array_equal(got[:, np.lexsort(got)], expected[:, np.lexsort(expected)])


def csr_dense(indptr: Any, indices: Any, values: Any, width: int) -> Any:
    """The dense f32 matrix of a CSR, duplicates added."""
    out = np.zeros((len(indptr) - 1, width), dtype=np.float32)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    np.add.at(out, (rows, indices), np.float32(1) if values is None else values)
    return out


def csr_rows(indptr: Any) -> Any:
    """The row of every value of a CSR."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
