"""`check_rows` passes what is right, however it was read, and names what is not."""

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

import neargraph as ng
from neargraph.loader import sampler as sampler_module
from neargraph.loader.check import RowCheck

NODES = 6_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(7)
    sources, destinations = rng.integers(0, NODES, (2, 30_000))
    x = rng.standard_normal((NODES, 300), dtype=np.float32)
    # What is no number has to compare as well.
    x[::5, 7] = np.nan
    tensors = {"x": x, "y": rng.integers(0, 9, NODES)}
    edges = Edges(sources, destinations, {"w": rng.standard_normal((30_000, 3), np.float32)})
    graph = Graph({"node": Nodes(NODES, tensors)}, {("node", "to", "node"): edges})
    return graph.write(tmp_path_factory.mktemp("check") / "g.ng")


class Spoiled:
    """A batch whose tensor of a name is changed."""

    def __init__(self, core, name, change):
        self._core, self._name, self._change = core, name, change

    def __getattr__(self, name):
        return getattr(self._core, name)

    def tensor(self, kind, type_id, name):
        found = self._core.tensor(kind, type_id, name)
        return self._change(found.copy()) if name == self._name else found


@pytest.mark.parametrize("reading", ["on_demand", "window", "scan", "naive-uring+sieve"])
def test_batches_pass_with_as_many_rows_compared_as_they_have(path, reading, monkeypatch):
    compared = []
    dense = RowCheck._dense

    def counted(self, found, part, column, ids):
        compared.append((column[2], part.stop - part.start))
        return dense(self, found, part, column, ids)

    monkeypatch.setattr(RowCheck, "_dense", counted)
    with ng.open(path, memory="64MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3, check_rows=True)
        rows = edges = count = 0
        for batch in sampler.batches(np.arange(NODES), 256, shuffle=True, reading=reading):
            rows, edges = rows + len(batch.nodes()), edges + batch.edge_index().shape[1]
            count += 1
            del batch
    assert count == 24
    for name, expected in (("x", rows), ("y", rows), ("w", edges)):
        assert sum(n for tensor, n in compared if tensor == name) == expected


def _zero(rows):
    rows[40] = 0
    return rows


def _swap(rows):
    rows[[40, 9]] = rows[[9, 40]]
    return rows


def _flip(rows):
    rows.view(np.uint8)[40, 1199] ^= 1
    return rows


@pytest.mark.parametrize(
    ("name", "change", "place", "said"),
    [
        ("x", _zero, 40, "is all zeros"),
        ("x", _swap, 9, "equals the stored row of node {40}"),
        ("x", _flip, 40, "equals no other stored row"),
        ("x", lambda rows: rows[:-1], None, "rows for"),
        ("w", lambda rows: rows + 1, 0, "node-to-node.w of edge"),
    ],
)
@pytest.mark.parametrize("reading", ["on_demand", "scan"])
def test_a_wrong_row_is_named_with_batch_node_and_reading(
    path, reading, name, change, place, said, monkeypatch
):
    spoiled = []

    class Check(RowCheck):
        def check(self, batch, columns, number, how):
            if number == "batch 3 of epoch 2":
                spoiled.append(batch.nodes(0).copy())
                batch = Spoiled(batch, name, change)
            super().check(batch, columns, number, how)

    monkeypatch.setattr(sampler_module, "RowCheck", Check)
    with ng.open(path, memory="64MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3, check_rows=True)
        batches = sampler.batches(np.arange(NODES), 128, reading=reading, epoch=2)
        with pytest.raises(ng.WrongRow) as error:
            sum(1 for _ in batches)
    message = str(error.value)
    (nodes,) = spoiled
    assert "batch 3 of epoch 2" in message
    assert ("batches one by one" if reading == "on_demand" else "'scan', window=") in message
    assert said.replace("{40}", str(nodes[40])) in message
    if name == "x" and place is not None:
        assert f"node.x of node {nodes[place]} (row {place} of {len(nodes)})" in message


def test_commits_after_the_checkpoint_and_other_dtypes_are_checked_too(path, tmp_path):
    rng = np.random.default_rng(7)
    tensors = {"x": rng.standard_normal((500, 40), dtype=np.float32).astype(np.float16)}
    sources, destinations = rng.integers(0, 500, (2, 3_000))
    edges = Edges(sources, destinations, edge_ids=False)
    graph = Graph({"node": Nodes(500, tensors)}, {("node", "to", "node"): edges})
    with ng.open(graph.write(tmp_path / "g.ng"), memory="64MB") as store:
        with store.write() as tx:
            tx.update_features("node", [3], "x", np.ones((1, 40), np.float16))
        for dtype in (None, "stored", "f32"):
            sampler = ng.NumpySampler(store, [4], x_dtype=dtype, check_rows=True)
            assert len(list(sampler.batches(None, 100))) == 5
            assert sampler.sample([3]).features("x")[0, 0] == 1
            assert sampler.sample_many({"node": [3, 4]}).num_seeds == 2


def test_a_loader_checks_and_so_do_its_workers(path):
    pytest.importorskip("torch_geometric")
    with ng.open(path, memory="64MB") as store:
        options = {
            "input_nodes": np.arange(600),
            "batch_size": 100,
            "reading": ng.Reading(check_rows=True),
        }
        for workers in (0, 2):
            assert len(list(ng.NeighborLoader(store, [4], num_workers=workers, **options))) == 6
