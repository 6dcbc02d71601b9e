"""G1 and G3: how the store is read never shows in a batch or in a loss curve."""

import hashlib
import itertools
import json

import numpy as np
import pytest

import neargraph as ng
from neargraph import _core


def digest(store, **ahead):
    """One digest over two shuffled epochs, every array of every batch."""
    hashed = hashlib.blake2b(digest_size=16)
    sampler = ng.NumpySampler(store, [5, 3], seed=11)
    for epoch in range(2):
        for batch in sampler.batches(None, 40, shuffle=True, epoch=epoch, **ahead):
            for array in (
                batch.nodes(),
                batch.edge_index(),
                batch.edge_ids(),
                batch.features("x"),
                batch.features("y"),
                batch.edge_features(),
            ):
                hashed.update(np.ascontiguousarray(array).tobytes())
            hashed.update(repr(batch.num_sampled_nodes()).encode())
    return hashed.hexdigest()


def back_ends(path):
    """All back ends that work here; io_uring is often blocked in containers."""
    works = json.loads(_core.probe(str(path)))
    optional = [("odirect", "direct_io"), ("uring", "io_uring")]
    found = [name for name, key in optional if works[key]["works"]]
    return ["memory", "mmap", "pread", "auto", *found]


@pytest.mark.reliability
def test_batches_are_the_same_for_every_back_end_cache_thread_count_and_page_size(
    homo_graph, tmp_path, capsys
):
    paths = [homo_graph.write(tmp_path / f"{b}.ng", page_bytes=b) for b in (4096, 65536)]
    grid = itertools.product(
        paths,
        back_ends(tmp_path),
        ("16MB", "200MB"),
        (
            {"reading": ng.Reading(prefetch=1, threads=1)},
            {"reading": ng.Reading(prefetch=8, threads=4)},
        ),
    )
    digests = []
    for path, backend, memory, ahead in grid:
        with ng.open(path, memory=memory, backend=backend) as store:
            digests.append(digest(store, **ahead))
    different = sum(d != digests[0] for d in digests)
    figure = {"id": "G1", "tried": len(digests), "failed": different, "seed": 11}
    with capsys.disabled():
        print(f"\nfigure: {json.dumps(figure)}")
    assert different == 0


@pytest.mark.reliability
def test_the_loss_curve_from_disk_is_that_from_memory(homo_path, homo_graph, capsys):
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("torch_geometric.nn")
    raw = {k: torch.from_numpy(v) for k, v in homo_graph.nodes["node"].tensors.items()}

    def train(store, rows_of):
        torch.manual_seed(0)
        model = nn.GraphSAGE(6, 16, num_layers=2, out_channels=5)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loader = ng.NeighborLoader(
            store, [5, 3], input_nodes="train", batch_size=16, shuffle=True, seed=11
        )
        losses = []
        for _ in range(4):
            for batch in loader:
                x, y = rows_of(batch)
                out = model(x, batch.edge_index)[: batch.batch_size]
                loss = torch.nn.functional.cross_entropy(out, y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return np.array(losses)

    with (
        ng.open(homo_path, memory="16MB", backend="auto") as disk,
        ng.open(homo_path, memory="200MB", backend="memory") as memory,
    ):
        from_disk = train(disk, lambda batch: (batch.x, batch.y))
        from_arrays = train(memory, lambda batch: (raw["x"][batch.n_id], raw["y"][batch.n_id]))
    difference = float(np.abs(from_disk - from_arrays).max())
    figure = {
        "id": "G3",
        "tried": len(from_disk),
        "failed": int((from_disk != from_arrays).sum()),
        "max_difference": difference,
        "seed": 11,
    }
    with capsys.disabled():
        print(f"\nfigure: {json.dumps(figure)}")
    assert difference == 0
    assert len(set(from_disk)) > 1


def test_the_seed_order_is_a_permutation_that_can_be_asked_for_in_parts():
    plan = _core.SeedPlan(num_seeds=1000, batch_size=100, shuffle=True, seed=5)
    whole = plan.places(2, 0, 10)
    assert sorted(whole.tolist()) == list(range(1000))
    parts = [plan.places(2, batch, batch + 1) for batch in range(10)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(plan.places(3, 0, 10), whole)
    empty = _core.SeedPlan(num_seeds=0, batch_size=100, shuffle=True, seed=5)
    assert len(empty.places(3, 0, 0)) == 0
