"""The graph of papers100M's shape: what is planned, what is refused, and what is made of it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.places import ROOT
from benchmarks.shape.plan import SHAPES, SPARE_BYTES, Plan, lack_of_room
from benchmarks.shape.steps import STEPS, Spec
from benchmarks.shape.watch import Watch, flatness, folder_bytes, thinned, unnamed_bytes

import neargraph as ng

NODES, EDGES, CLASSES, WIDTH = 4_000, 40_000, 10, 16
STEPS_ALL = ["import", "verify", "epoch", "accuracy", "naive", "update"]


def plan(scale):
    """papers100M at a scale."""
    return Plan(SHAPES["papers100m"], scale, 512_000_000)


def example():
    """The program that makes the graph; `cargo test` and the benchmark build it."""
    places = (ROOT / "target" / mode / "examples" / "citations" for mode in ("debug", "release"))
    found = [place for place in places if place.exists()]
    if not found:
        pytest.skip("the example `citations` of ng-import is not built")
    return max(found, key=lambda place: place.stat().st_mtime)


def made(path, *options):
    """A small graph at `path`, and the report of its import."""
    numbers = {"nodes": NODES, "edges": EDGES, "classes": CLASSES, "width": WIDTH}
    named = [text for name, n in numbers.items() for text in (f"--{name}", str(n))]
    command = [example(), path, *named, *options]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_the_whole_shape_takes_at_most_40_gb_and_half_of_it_half():
    whole, half = (plan(scale).peak(STEPS_ALL, 10_000) for scale in (1, 0.5))
    assert 37e9 < whole < 40e9
    assert 0.49 < half / whole < 0.53
    # Rows that did not wait for the runs of the sort would not fit.
    assert plan(1).store + plan(1).runs > 50e9
    assert plan(1).memory == 4_000_000_000
    # Loaders take no more than a quarter of what is free beside the store.
    assert plan(1).temporary(plan(1).store + 4 * 10**9, 1024) == 10**9
    assert plan(0.01).temporary(10**12, 1024) < 10**9


def test_a_disk_without_room_is_refused_with_the_scale_that_fits():
    whole = plan(1)
    peak = whole.peak(STEPS_ALL, 10_000)
    assert lack_of_room(whole, peak, peak + SPARE_BYTES, Path("here")) is None
    said = lack_of_room(whole, peak, 25 * 10**9, Path("here"))
    assert "at scale 1 needs 38.9 GB" in said
    assert "25 GB free" in said
    assert "--scale 0.5 (half the shape, 55,529,978 nodes) fits" in said
    assert "another disk" in lack_of_room(whole, peak, 10**9, Path("here"))


def test_equal_seeds_give_equal_stores_whatever_the_pieces(tmp_path):
    one = made(tmp_path / "one.ng", "--threads", "1", "--memory", str(8 << 20))
    two = made(tmp_path / "two.ng", "--threads", "3", "--together")
    other = made(tmp_path / "other.ng", "--seed", "2")
    assert one["fingerprint"] == two["fingerprint"] != other["fingerprint"]
    files = {path.name for path in (tmp_path / "one.ng").iterdir()}
    for name in files:
        pair = [(tmp_path / store / name).read_bytes() for store in ("one.ng", "two.ng")]
        assert pair[0] == pair[1], name


def test_the_graph_is_simple_skewed_and_tells_its_classes(tmp_path):
    report = made(tmp_path / "g.ng")
    assert 0.8 * EDGES < report["entries"] < EDGES
    with ng.open(tmp_path / "g.ng") as store:
        assert (store.num_nodes, store.num_edges) == (NODES, report["entries"])
        ids = np.arange(NODES)
        snapshot = store.snapshot()
        y = np.asarray(snapshot.features(None, ids, "y")).reshape(-1)
        x = np.asarray(snapshot.features(None, ids))
        sampler = ng.NumpySampler(store, [-1], attrs=[])
        batch = sampler.sample(ids)
        nodes, (source, target) = batch.nodes(), batch.edge_index()
        source, target = nodes[source], nodes[target]
        trained = len(snapshot.split("train"))
    assert not (source == target).any()
    assert len(np.unique(source * NODES + target)) == len(source) == report["entries"]
    degrees = np.sort(np.bincount(target, minlength=NODES))[::-1]
    assert degrees[0] > 20 * degrees.mean() > 30 * np.median(degrees)
    assert sorted(set(y.tolist())) == list(range(CLASSES))
    assert 0.55 < (y[source] == y[target]).mean() < 0.7
    means = np.stack([x[y == kind].mean(axis=0) for kind in range(CLASSES)])
    nearest = ((x[:, None, :] - means[None]) ** 2).sum(-1).argmin(1)
    assert 2 / CLASSES < (nearest == y).mean() < 0.95
    assert 0.003 * NODES < trained < 0.03 * NODES


def test_steps_run_on_a_store_that_is_there(tmp_path):
    made(tmp_path / "g.ng")
    shared = {"store": str(tmp_path / "g.ng"), "memory": 256_000_000, "train": 43}
    shared |= {"classes": CLASSES, "batch_size": 16, "naive_batches": 1, "compared": 3}
    found = {step: STEPS[step](Spec(step, **shared)) for step in ("verify", "epoch", "update")}
    assert found["verify"]["report"]["ok"]
    assert found["epoch"]["seeds"] > 16
    assert found["epoch"]["read_bytes"] > 0
    assert found["update"]["operations"] == 10_000
    assert STEPS["verify"](Spec("verify", **shared))["report"]["ok"]
    compiled = STEPS["compiled"](Spec("compiled", **shared))
    assert compiled["seeds"] == found["epoch"]["seeds"]
    assert not list((tmp_path / "g.ng" / "compiled").glob("*.epoch"))


def test_a_watched_child_is_measured(tmp_path):
    (tmp_path / "named").write_bytes(b"x" * 40_000)
    code = (
        "import sys, tempfile, time, json\n"
        "file = tempfile.TemporaryFile(dir=sys.argv[1]); file.write(b'y' * 80_000); file.flush()\n"
        "held = b'z' * 50_000_000\n"
        "print('edges 1 2', file=sys.stderr, flush=True); time.sleep(1)\n"
        "print(json.dumps({'found': 1}))"
    )
    watch = Watch(tmp_path, quiet=True)
    found = watch.run([sys.executable, "-c", code, str(tmp_path)], dict(os.environ))
    assert found["found"] == 1
    assert found["wall_seconds"] >= 1
    assert found["peak_rss_bytes"] > 50_000_000
    assert max(found["memory_bytes"]) > 50_000_000
    assert 120_000 <= found["disk_peak_bytes"] < 200_000
    code = "import sys; print('wrong', file=sys.stderr); sys.exit(3)"
    watch = Watch(tmp_path, quiet=True)
    with pytest.raises(SystemExit, match=r"ended with 3:\nwrong"):
        watch.run([sys.executable, "-c", code], dict(os.environ))


def test_bytes_on_disk_count_files_without_a_name(tmp_path):
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(b"x" * 100_000)
        file.flush()
        assert unnamed_bytes(os.getpid(), tmp_path) >= 100_000
        assert folder_bytes(tmp_path) == 0


def test_memory_that_grows_is_told_from_memory_that_is_flat():
    assert flatness([1, 50, *[100] * 100]) == 1.0
    assert flatness(list(range(100))) > 1.5
    assert flatness([]) == flatness([7]) == 1.0
    assert len(thinned(list(range(1000)))) <= 60


def test_a_split_is_found_in_one_pass_and_after_changes_as_before(tmp_path):
    made(tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng") as store:
        ids = np.arange(NODES)
        snapshot = store.snapshot()
        codes = np.asarray(snapshot.features(None, ids, "split_0")).reshape(-1)
        for code, name in enumerate(("train", "val", "test"), 1):
            assert np.array_equal(snapshot.split(name), np.flatnonzero(codes == code))
        with store.write() as tx:
            tx.set_split(None, [5, 3_999], "val")
        expected = np.union1d(np.flatnonzero(codes == 2), [5, 3_999])
        assert np.array_equal(store.split("val"), expected)
        # Rows of more than a byte hold no splits, and are not looked through.
        assert store.snapshot().version.nodes_with(0, "y", 1) is None
