"""A tensor that a store gets later is read, trained on and changed as those of the import."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

import neargraph as ng
from neargraph.exceptions import NameNotFound, RowWidth, StoreBusy, UnsupportedArgument

COUNT = 500


def graph(path):
    random = np.random.default_rng(3)
    ends = [random.integers(0, COUNT, 2000) for _ in range(2)]
    nodes = {"node": Nodes(COUNT, {"x": random.random((COUNT, 4), np.float32)}), "other": Nodes(7)}
    return Graph(nodes, {("node", "to", "node"): Edges(*ends)}).write(path)


@pytest.fixture
def store(tmp_path):
    with ng.open(graph(tmp_path / "g.ng"), memory="64MB") as opened:
        yield opened


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8", ">f4", ">i8"],
)
def test_every_dtype_is_stored_as_it_is(store, dtype, tmp_path):
    print("seed 5")
    rows = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 100, (COUNT, 3, 2))
    rows = rows.astype(dtype)
    np.save(tmp_path / "rows.npy", rows)
    assert store.add_tensor("of_array", rows[::-1], "node") == 1
    assert store.add_tensor("of_file", tmp_path / "rows.npy", "node") == 2
    assert store.add_tensor("of_list", list(rows[:, 0, 0]), "node") == 3
    snap = store.snapshot()
    found = snap.features("node", np.arange(COUNT), "of_array", "stored")
    assert found.dtype == rows.dtype.newbyteorder("=")
    assert np.array_equal(found, rows[::-1])
    assert np.array_equal(store.column("of_file", "node"), rows)
    assert np.array_equal(store.column("of_list", "node"), rows[:, 0, 0])


def test_loaders_and_batches_use_it_and_what_was_open_does_not_see_it(store):
    before, batch_of_then = store.snapshot(), store.write()
    rows = np.arange(COUNT * 2, dtype=np.float32).reshape(COUNT, 2)
    store.add_tensor("h", rows, "node")
    with pytest.raises(NameNotFound):
        before.features("node", [0], "h")
    rows = rows.copy()
    with batch_of_then as batch:
        batch.update_features("node", 3, "h", [7.0, 8.0])
        assert batch.add_node("node", {"h": [1.0, 2.0]}) == COUNT
        assert batch.add_node("node") == COUNT + 1
    rows[3] = [7, 8]
    rows = np.vstack([rows, [[1, 2], [0, 0]]])
    assert np.array_equal(store.column("h", "node"), rows)
    with ng.open(store.path, memory="64MB") as other:
        assert other.lsn == 1
        assert "h" in [meta.name for meta in other.schema.node_type("node").tensors]
    store.compact()
    assert np.array_equal(store.column("h", "node"), rows)
    torch = pytest.importorskip("torch")
    loader = ng.NeighborLoader(
        store, num_neighbors=[3], input_nodes=("node", torch.arange(COUNT)), batch_size=64
    )
    for batch in loader:
        ids = batch["node"].n_id
        assert np.array_equal(batch["node"]["h"].numpy(), rows[ids.numpy()])


@pytest.mark.parametrize("backend", ["memory", "mmap", "pread"])
def test_a_handle_of_any_back_end_reads_it_at_once(tmp_path, backend):
    path = graph(tmp_path / "g.ng")
    rows = np.random.default_rng(8).random((COUNT, 300), np.float32)
    for name in ("h", "g"):
        with ng.open(path, memory="64MB", backend=backend) as store:
            store.add_tensor(name, rows, "node")
            found = store.snapshot().features("node", [7, 3, 7], name)
            assert np.array_equal(found, rows[[7, 3, 7]])
            with store.write() as tx:
                tx.update_features("node", 3, name, rows[4])
            store.checkpoint()
            assert np.array_equal(store.snapshot().features("node", [3], name), rows[[4]])
            assert np.array_equal(store.column(name, "node")[4:], rows[4:])


def test_what_does_not_fit_is_refused_with_what_would(store, tmp_path):
    rows = np.zeros((COUNT, 2), np.float32)
    for name, given, message in [
        ("x", rows, "already has a tensor 'x'"),
        ("split_0", rows, "names that begin with split_"),
        ("", rows, "name of the tensor is empty"),
        ("h", rows[:-1], "has 499 rows, but node type .node. has 500 ids"),
        ("h", np.zeros((COUNT, 0), np.float32), "1 to 1073741824 bytes"),
        ("h", np.broadcast_to(np.float32(0), (COUNT, 1 << 40)), "1 to 1073741824 bytes"),
        ("h", np.zeros(COUNT, np.uint16), "elements of uint16"),
        ("h", np.zeros(COUNT, "c8"), "elements of complex64"),
        ("h", np.array(["a"] * COUNT), "elements of <U1"),
        ("h", np.array([{}] * COUNT), "elements of object"),
        ("h", np.float32(3), "got one number"),
        ("h", tmp_path / "h.txt", "not a .npy file"),
    ]:
        with pytest.raises(UnsupportedArgument, match=message):
            store.add_tensor(name, given, "node")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes(200))
    np.save(tmp_path / "pickle.npy", np.array([{}] * COUNT))
    for bad in ("bad.npy", "pickle.npy"):
        with pytest.raises(UnsupportedArgument, match=bad):
            store.add_tensor("h", tmp_path / bad, "node")
    with pytest.raises(FileNotFoundError):
        store.add_tensor("h", tmp_path / "none.npy", "node")
    with pytest.raises(NameNotFound):
        store.add_tensor("h", rows, "nobody")
    with pytest.raises(RowWidth), store.write() as tx:
        tx.update_features("node", 3, "x", [1.0])
    with store.write() as tx:
        with pytest.raises(StoreBusy, match="open transaction"):
            store.add_tensor("h", rows, "node")
        tx.add_node("other")
    then = store.snapshot()
    wrong = pytest.raises(UnsupportedArgument, match="expected a snapshot of")
    with ng.open(graph(tmp_path / "b.ng"), memory="64MB") as other, wrong:
        other.add_tensor("h", rows, "node", of=store.snapshot())
    with store.write() as tx:
        tx.add_node("node")
    with pytest.raises(UnsupportedArgument, match="501 ids: give a row for every id"):
        store.add_tensor("h", rows, "node")
    with pytest.raises(UnsupportedArgument, match=r"has 499 rows, .* had 500 ids at commit 1"):
        store.add_tensor("h", rows[1:], "node", of=then)
    assert store.add_tensor("h", rows + 1, "node", of=then) == 3
    assert np.array_equal(store.column("h", "node"), np.vstack([rows + 1, rows[:1]]))


def test_ctrl_c_and_errors_of_the_rows_leave_the_store_as_it_is(store, monkeypatch):
    monkeypatch.setattr("neargraph.update.tensor._PART_BYTES", 64)
    monkeypatch.setattr("neargraph.update.tensor.as_array", lambda _, rows: rows)

    class Stops(np.ndarray):
        def __getitem__(self, at):
            if isinstance(at, slice) and at.start and at.start >= 200:
                raise KeyboardInterrupt
            return super().__getitem__(at)

    files = sorted(os.listdir(store.path))
    with store.write() as tx:
        tx.add_node("other")
    with pytest.raises(KeyboardInterrupt):
        store.add_tensor("h", np.zeros((COUNT, 4), np.float32).view(Stops), "node")
    assert (store.lsn, sorted(os.listdir(store.path))) == (1, files)
    assert store.add_tensor("h", np.ones((COUNT, 4), np.float32), "node") == 2


CHILD = """
import sys
import numpy as np
import neargraph as ng
import neargraph.update.tensor as tensor
tensor._PART_BYTES = 1 << 16
with ng.open(sys.argv[1], memory="64MB") as store:
    print("begins", flush=True)
    for at in range(int(sys.argv[2]), 100):
        store.add_tensor(f"h{at}", np.full((500, 1500), at, np.float32), "node")
        print(at, flush=True)
"""


def test_a_process_that_is_killed_has_added_whole_tensors_or_none(store, capsys):
    print("seed 6")
    random, there = np.random.default_rng(6), 0
    for _ in range(8):
        command = [sys.executable, "-c", CHILD, store.path, str(there)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "begins\n"
            try:
                child.wait(random.random() / 4)
            except subprocess.TimeoutExpired:
                os.kill(child.pid, signal.SIGKILL)
            acknowledged = [int(line) for line in child.stdout if line.strip()]
        report = subprocess.run([sys.executable, "-m", "neargraph", "verify", store.path])
        assert report.returncode == 0
        with ng.open(store.path, memory="64MB") as found:
            names = {meta.name for meta in found.schema.node_type("node").tensors} - {"x"}
            assert len(names) >= max(acknowledged, default=there - 1) + 1
            there = len(names)
            for at in range(there):
                column = found.column(f"h{at}", "node")
                assert column.shape == (COUNT, 1500)
                assert (column == at).all()
    assert there > 0
