"""Where a disk cannot hold a store beside the runs of its sort, rows wait until these are gone."""

from types import SimpleNamespace

import numpy as np
import pytest

from neargraph.importers import (
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    ImportOptions,
    NodePlan,
    TensorPlan,
    run,
    run_import,
)

NODES, EDGES, WIDTH = 2_000, 500_000, 4
TOPOLOGY = 4 * EDGES
ROWS = 4 * NODES * WIDTH


def imported(path, edges=EDGES):
    """(the report, the phases in the order in which they began) of an import in little memory."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, NODES, (2, edges))
    x = rng.standard_normal((NODES, WIDTH), dtype=np.float32)
    tensor = TensorPlan("x", "f32", (WIDTH,), lambda: iter([x]), NODES)
    chunks = [EdgeChunk(ends[0], ends[1])]
    edge = EdgePlan(chunks=lambda: iter(chunks), num_edges=edges)
    plan = GraphPlan("test", "test", [NodePlan(num_nodes=NODES, tensors=[tensor])], [edge])
    phases = []

    def progress(phase, done, total):
        if phase not in phases:
            phases.append(phase)

    report = run_import(plan, path, ImportOptions(memory=40_000_000, dense=True), progress)
    return report, phases


def leave_free(monkeypatch, free):
    """The disk has so many bytes free from now on."""
    usage = SimpleNamespace(disk_usage=lambda path: SimpleNamespace(free=free))
    monkeypatch.setattr(run, "shutil", usage)


@pytest.mark.parametrize(
    ("free", "waits"), [(TOPOLOGY + ROWS, True), (2 * (TOPOLOGY + ROWS), False)]
)
def test_rows_wait_for_the_sort_where_the_disk_lacks_room(tmp_path, monkeypatch, free, waits):
    first, _ = imported(tmp_path / "first.ng")
    assert first["temp_bytes"] > EDGES * 8 / 2
    leave_free(monkeypatch, free)
    report, phases = imported(tmp_path / "g.ng")
    expected = ["edges", "write", "tensors"] if waits else ["edges", "tensors", "write"]
    assert phases == expected
    assert report["fingerprint"] == first["fingerprint"]
    if waits:
        assert report["hidden_share"] == 0


def test_edges_that_were_sorted_in_memory_are_not_waited_for(tmp_path, monkeypatch):
    leave_free(monkeypatch, 0)
    report, phases = imported(tmp_path / "g.ng", edges=1_000)
    assert report["temp_bytes"] == 0
    assert phases == ["edges", "tensors", "write"]
