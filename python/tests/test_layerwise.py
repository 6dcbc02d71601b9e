"""Layer-wise inference gives what the model gives for the whole graph at once in PyG, in one block
and in several; what cannot be split is refused by node."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

from export_cases import CASES, TYPES, WIDTH  # noqa: E402
from graphs import Edges, Graph, Nodes  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import (  # noqa: E402
    BudgetTooSmall,
    InvalidModel,
    StoreBusy,
    StoreDamaged,
    UnsupportedArgument,
)

NODES, EDGES = 2500, 9000
BLOCK = 1024

# Hops, and by pass the tables with the widths of their rows.
PASSES = {
    "SAGE mean": (2, [{"addmm.narrowed": 8}, {"relu": 8}, {"out": 8}]),
    "SAGE max": (2, [{"relu": 8}, {"out": 8}]),
    "SAGE pool": (2, [{"relu": 16}, {"relu_2": 8, "mm_1": 8}, {"out": 8}]),
    "GCN": (2, [{"gcn_norm.root": 1, "mm": 8}, {"mm_1": 8}, {"out": 8}]),
    "GIN": (2, [{"relu_1": 8}, {"out": 8}]),
    "GAT": (2, [{"mm": 8, "sum_1": 2}, {"mm_1": 8, "sum_3": 1}, {"out": 8}]),
    "GATv2": (2, [{"addmm": 8}, {"addmm_2": 8, "view_4": 8}, {"out": 8}]),
    "PNA": (1, [{"div": 1, "div_1": 1}, {"out": 8}]),
    "RGCN": (1, [{"out": 8}]),
    "JK cat": (2, [{"addmm.narrowed": 8}, {"relu": 8}, {"out": 16}]),
    "NGCF": (1, [{"pow_1": 1}, {"out": 16}]),
    "APPNP": (3, [{"gcn_norm.root": 1}, {"add_1": 16}, {"add_2": 16}, {"out": 16}]),
    "GraphSAGE": (2, [{"addmm.narrowed": 8}, {"addmm_1.narrowed": 4, "mm_1": 4}, {"out": 4}]),
}
REFUSED = {
    "HGT": "it concatenates rows of different sets",
    "LayerNorm graph": "reduces over all nodes",
    "GraphNorm": "reduces over all nodes",
    "pool mean": 'input "batch"',
    "pool add": 'input "batch"',
    "pool max": 'input "batch"',
    "pool attention": 'input "batch"',
    "decoder dot": 'input "pairs"',
    "decoder mlp": 'input "pairs"',
    "decoder DistMult": 'input "pairs"',
}
SPLIT = [name for name in CASES if name not in REFUSED]


def drawn(seed):
    print("seed", seed)
    return np.random.default_rng(seed)


def ends(random, sources, destinations, count):
    """Edges with loops, repeated edges, hubs on both sides, and nodes without any."""
    source = (sources * random.random(count) ** 2).astype(np.int64)
    destination = (destinations * 0.9 * random.random(count) ** 2).astype(np.int64)
    source[:40], destination[:40] = np.arange(40) // 2, np.arange(40) // 4
    destination[40:400] = 3
    return source, destination


def rows_of_edges(name, random, count):
    """What a case takes of each edge: weights, attributes or relations."""
    example = CASES[name]()[1]
    if len(example) != 3:
        return None
    like = example[2]
    if like.dtype == torch.int64:
        return random.integers(0, 4, count)
    return random.random((count, *like.shape[1:]), dtype=np.float32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models by case, with the paths of their files, made once."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def get(name):
        if name not in made:
            torch.manual_seed(0)
            model, example = CASES[name]()
            path = folder / f"{len(made)}.ngm"
            ng.export(model.eval(), example, path)
            made[name] = (model, path)
        return made[name]

    return get


def prepared(name, random, path):
    """A store for a case, and the arguments of the model for all of it."""
    if isinstance(CASES[name]()[1][0], dict):
        counts = {"a": NODES, "b": NODES - 700}
        x = {key: random.standard_normal((n, WIDTH), np.float32) for key, n in counts.items()}
        edges = {kind: ends(random, counts[kind[0]], counts[kind[2]], EDGES) for kind in TYPES[1]}
        nodes = {key: Nodes(counts[key], named(name, rows)) for key, rows in x.items()}
        graph = Graph(nodes, {kind: Edges(*pair) for kind, pair in edges.items()})
        given = (
            {key: torch.from_numpy(rows) for key, rows in x.items()},
            {kind: torch.from_numpy(np.stack(pair)) for kind, pair in edges.items()},
        )
        return graph.write(path), given
    x = random.standard_normal((NODES, WIDTH), np.float32)
    source, destination = ends(random, NODES, NODES, EDGES)
    rows = rows_of_edges(name, random, EDGES)
    tensors = {} if rows is None else {"edge_attr": rows}
    edges = Edges(source, destination, tensors)
    graph = Graph({"n": Nodes(NODES, {"x": x})}, {("n", "e", "n"): edges})
    given = [torch.from_numpy(x), torch.from_numpy(np.stack([source, destination]))]
    if rows is not None:
        given.append(torch.from_numpy(rows))
    return graph.write(path), tuple(given)


def named(_, rows):
    return {"x": rows}


def eager(model, given):
    """What the model gives for the whole graph at once, by output."""
    with torch.no_grad():
        found = model(*given)
    if isinstance(found, dict):
        return {f"out.{key}": rows.numpy() for key, rows in found.items()}
    return {"out": found.numpy()}


def close(found, wanted):
    assert found.keys() == wanted.keys()
    for name, rows in wanted.items():
        assert found[name].shape == rows.shape
        bound = 1e-5 * max(1.0, float(np.abs(rows).max()))
        assert np.abs(found[name] - rows).max() <= bound, name


@pytest.mark.parametrize("name", SPLIT)
def test_all_nodes_in_one_block_and_in_several_are_those_of_pyg(name, exported, tmp_path):
    random = drawn(11)
    model, path = exported(name)
    store, given = prepared(name, random, tmp_path / "g.ng")
    wanted = eager(model, given)
    for device in ("cpu", "cpu-scalar"):
        found = []
        for block, chunk in ((None, None), (BLOCK, BLOCK)):
            with ng.Inference(
                store, path, memory="128MB", device=device, block_nodes=block, chunk_nodes=chunk
            ) as inference:
                plan = inference.plan
                assert {one["blocks"] for one in plan["passes"]} <= {1} | ({2, 3} if block else {1})
                found.append(inference.run().arrays)
            close(found[-1], wanted)
        if device == "cpu-scalar":
            assert all(np.array_equal(found[0][key], found[1][key]) for key in wanted)


@pytest.mark.parametrize("name", PASSES)
def test_tables_are_cut_where_edges_gather_and_no_wider_than_needed(name, exported, tmp_path):
    _, path = exported(name)
    store, _ = prepared(name, drawn(12), tmp_path / "g.ng")
    with ng.Inference(store, path, memory="128MB") as inference:
        plan = inference.plan
    tables = [dict(one["tables"]) for one in plan["passes"]]
    assert (plan["hops"], tables) == PASSES[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_is_refused_by_node(name, exported, tmp_path):
    _, path = exported(name)
    store, _ = prepared("HGT" if name == "HGT" else "GCN", drawn(13), tmp_path / "g.ng")
    with pytest.raises(InvalidModel, match=REFUSED[name]):
        ng.Inference(store, path, memory="128MB")


@pytest.fixture(scope="module")
def gat(exported, tmp_path_factory):
    """A store, the file of a GAT of two layers, and what that gives."""
    model, path = exported("GAT")
    store, given = prepared("GAT", drawn(14), tmp_path_factory.mktemp("gat") / "g.ng")
    return store, path, eager(model, given)["out"]


def small(store, path, **options):
    """Inference in blocks and chunks of 1,024 nodes."""
    settings = {"memory": "128MB", "block_nodes": BLOCK, "chunk_nodes": BLOCK} | options
    return ng.Inference(store, path, **settings)


def test_threads_and_memory_change_no_byte(gat):
    store, path, _ = gat
    found = set()
    for threads in (1, 2, 3):
        for memory in ("96MB", "1GB"):
            with small(store, path, threads=threads, memory=memory) as inference:
                found.add(inference.run().arrays["out"].tobytes())
    with ng.Inference(store, path, threads=2) as inference:
        found.add(inference.run().arrays["out"].tobytes())
    assert len(found) == 1


def test_bytes_are_read_as_the_plan_says(gat, tmp_path):
    store, path, _ = gat
    with small(store, path, threads=1) as inference:
        plan = inference.plan["passes"]
        x, mm, logits = 4 * WIDTH * NODES, 4 * 8 * NODES, 4 * 2 * NODES
        assert [one["blocks"] for one in plan] == [3, 3, 3]
        # Both scans of the softmax read logits alone; the last one reads rows and logits.
        assert plan[1]["scans"] == 3
        assert plan[1]["scanned_bytes"] == 3 * logits + mm
        before = inference.store.stats()["read_bytes"]
        result = inference.run(folder=tmp_path / "work")
        from_store = inference.store.stats()["read_bytes"] - before
    # Whole blocks are read, so the last rows of a table and pages of the store cost a little more.
    tables = sum(one["read_bytes"] for one in plan) - plan[0]["read_bytes"]
    assert tables <= result.table_read_bytes <= tables * 1.05 + 65536
    assert x <= from_store <= 1.2 * x + 6 * os.path.getsize(os.path.join(store, "e0.topo.dat"))


def test_results_are_written_whole_to_the_file_that_is_asked_for(gat, tmp_path):
    store, path, wanted = gat
    with small(store, path) as inference:
        done = []
        result = inference.run(tmp_path / "h.npy", progress=lambda *at: done.append(at))
        assert result.paths == {"out": tmp_path / "h.npy"}
        assert result.begun[0] == "new"
        close({"out": np.load(tmp_path / "h.npy")}, {"out": wanted})
        assert not inference.folder.exists()
        assert done[0][:2] == (0, 3)
        assert done[-1] == (2, 3, NODES, NODES)
        with pytest.raises(UnsupportedArgument, match=r"expected a \.npy or \.parquet file"):
            inference.run(tmp_path / "h.txt")
        parquet = pytest.importorskip("pyarrow.parquet")
        inference.run(tmp_path / "h.parquet")
        table = parquet.read_table(tmp_path / "h.parquet")
    assert table["id"].to_pylist() == list(range(NODES))
    close({"out": np.array(table["row"].to_pylist(), np.float32)}, {"out": wanted})
    assert sorted(os.listdir(tmp_path)) == ["h.npy", "h.parquet"]


@pytest.mark.parametrize("reordered", [False, True])
def test_results_become_a_tensor_of_the_store_with_the_bytes_of_the_file(gat, reordered, tmp_path):
    source, path, _ = gat
    store = str(shutil.copytree(source, tmp_path / "g.ng"))
    command = [sys.executable, "-m", "neargraph", "infer", store, str(path), "--out"]
    with ng.open(store, memory="128MB") as held:
        if reordered:
            held.reorganize(by="locality", num_neighbors=[3, 3])
        before = held.snapshot()
    subprocess.run([*command, str(tmp_path / "h.npy")], check=True, capture_output=True)
    done = subprocess.run([*command, "embedding", "--json"], check=True, capture_output=True)
    assert json.loads(done.stdout)["tensors"] == {"out": "embedding"}
    assert not os.path.exists(f"{store}.infer")
    wanted = np.load(tmp_path / "h.npy")
    with ng.open(store, memory="128MB") as opened:
        assert opened.column("embedding").tobytes() == wanted.tobytes()
        assert opened.lsn == before.lsn + 1
        # Nodes that came while it was computed have zeros; what runs beside it is not disturbed.
        added = []

        def meanwhile(*_):
            if not added:
                with opened.write() as tx:
                    added.append(tx.add_node())

        with ng.Inference(opened, path) as inference:
            result = inference.run("later", progress=meanwhile)
            assert (result.tensors, result.arrays) == ({"out": "later"}, {})
        rows = opened.column("later")
        assert rows[:NODES].tobytes() == wanted.tobytes()
        assert len(rows) == NODES + 1
        assert not rows[NODES].any()
        with pytest.raises(UnsupportedArgument, match="name of the tensor is empty"):
            ng.infer(opened, path, "", progress=lambda *_: pytest.fail("it has begun"))
        with pytest.raises(UnsupportedArgument, match="already has a tensor 'later'"):
            ng.infer(opened, path, "later", progress=lambda *_: pytest.fail("it has begun"))
        with opened.write(), pytest.raises(StoreBusy):
            ng.infer(opened, path, "never", progress=lambda *_: pytest.fail("it has begun"))
        # What cannot be written now is kept, and the next run has only to write it.
        with ng.open(store, memory="128MB", busy_timeout=0) as other:
            with pytest.raises(StoreBusy) as kept:
                ng.infer(other, path, "third")
            assert "another process or handle is writing" in str(kept.value)
            opened.close()
            again = ng.infer(other, path, "third")
        assert again.begun[0] == "resumed"


def stop_after(count):
    calls = 0

    def hear(*_):
        nonlocal calls
        calls += 1
        if calls == count:
            raise KeyboardInterrupt

    return hear


def test_a_run_that_is_stopped_goes_on_and_gives_the_same_bytes(gat, tmp_path):
    store, path, _ = gat
    work = tmp_path / "work"
    with small(store, path) as inference:
        wanted = inference.run(folder=work).arrays["out"].tobytes()
        with pytest.raises(KeyboardInterrupt):
            inference.run(folder=work, progress=stop_after(30))
        assert work.exists()
        result = inference.run(folder=work)
        assert result.begun[0] == "resumed"
        assert result.arrays["out"].tobytes() == wanted
        with pytest.raises(KeyboardInterrupt):
            inference.run(folder=work, progress=stop_after(30))
        (work / "mine.txt").write_text("a user's own")
        fresh = inference.run(folder=work, fresh=True)
        assert fresh.begun[0] == "anew"
        assert [file.name for file in work.iterdir()] == ["mine.txt"]
        assert fresh.arrays["out"].tobytes() == wanted


def test_what_is_left_of_another_model_or_snapshot_is_never_used(gat, exported, tmp_path):
    store, path, wanted = gat
    work = tmp_path / "work"
    _, other = exported("GATv2")
    with small(store, other) as inference, pytest.raises(KeyboardInterrupt):
        inference.run(folder=work, progress=stop_after(30))
    with small(store, path) as inference:
        result = inference.run(folder=work)
        assert result.begun == ("anew", "the folder belongs to another snapshot, model or device")
        close(result.arrays, {"out": wanted})
    copied = shutil.copytree(store, tmp_path / "copy.ng")
    with small(copied, path) as inference, pytest.raises(KeyboardInterrupt):
        inference.run(folder=work, progress=stop_after(30))
    with ng.open(copied) as changed, changed.write() as tx:
        tx.update_features(None, [3], "x", np.ones((1, WIDTH), np.float32))
    with small(copied, path) as inference:
        result = inference.run(folder=work)
    assert result.begun[0] == "anew"
    with small(copied, path) as inference, pytest.raises(KeyboardInterrupt):
        inference.run(folder=work, progress=stop_after(30))
    with small(copied, path, device="cpu-scalar") as inference:
        assert inference.run(folder=work).begun[0] == "anew"
    assert not np.array_equal(result.arrays["out"], wanted)


def test_damaged_tables_and_records_are_noticed(gat, tmp_path):
    store, path, wanted = gat
    work = tmp_path / "work"

    def leave(count):
        with small(store, path) as inference, pytest.raises(KeyboardInterrupt):
            inference.run(folder=work, progress=stop_after(count))

    leave(30)
    with (work / "0-0.rows").open("r+b") as table:
        table.seek(5000)
        table.write(b"\xff" * 4)
    with small(store, path) as inference:
        with pytest.raises(StoreDamaged, match=r"rows 0 to 1023 of .*/0-0.rows"):
            inference.run(folder=work)
        close(inference.run(folder=work, fresh=True).arrays, {"out": wanted})
    # Each record stands in one of two files; without both, all begins anew.
    for names in (["record.a"], ["record.b"], ["record.a", "record.b"]):
        leave(30)
        for name in names:
            with (work / name).open("r+b") as record:
                record.seek(30)
                record.write(b"#")
        with small(store, path) as inference:
            result = inference.run(folder=work)
        assert result.begun[0] == ("new" if len(names) == 2 else "resumed")
        close(result.arrays, {"out": wanted})


def test_two_runs_at_once_never_share_a_folder(gat, tmp_path):
    store, path, wanted = gat
    work, heard = tmp_path / "work", []

    def meanwhile(*_):
        if not heard:
            with small(store, path) as other, pytest.raises(StoreBusy, match="another process"):
                other.run(folder=work)
            heard.append(True)

    with small(store, path) as inference:
        close(inference.run(folder=work, progress=meanwhile).arrays, {"out": wanted})
    assert heard


def test_too_little_memory_is_refused_with_what_would_do(gat):
    store, path, _ = gat
    with pytest.raises(BudgetTooSmall):
        ng.Inference(store, path, memory="40MB")


CHILD = """
import sys
import neargraph as ng
store, model, out, work = sys.argv[1:]
with ng.Inference(store, model, memory="128MB", block_nodes=1024, chunk_nodes=1024) as inference:
    print("begins", flush=True)
    inference.run(out, folder=work)
"""


def test_runs_that_are_killed_at_any_moment_end_with_the_same_bytes(gat, tmp_path):
    store, path, _ = gat
    random = drawn(int(os.environ.get("NEARGRAPH_FUZZ_SEED", "15")))
    work, out, wanted = tmp_path / "work", tmp_path / "h.npy", tmp_path / "wanted.npy"
    command = [sys.executable, "-c", CHILD, store, str(path)]
    begun = time.monotonic()
    subprocess.run([*command, str(wanted), str(work)], check=True, capture_output=True)
    longest = time.monotonic() - begun
    kills, wanted_kills = 0, int(os.environ.get("NEARGRAPH_INFER_KILLS", "8"))
    for _ in range(10 * wanted_kills):
        with subprocess.Popen([*command, str(out), str(work)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begins\n"
            try:
                child.wait(random.random() * longest / 4)
            except subprocess.TimeoutExpired:
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
        if child.returncode == 0:
            assert out.read_bytes() == wanted.read_bytes()
            out.unlink()
        if kills == wanted_kills:
            break
    print(f"figure: {kills} kills of a run over all nodes")
    assert kills == wanted_kills
    subprocess.run([*command, str(out), str(work)], check=True, capture_output=True)
    assert out.read_bytes() == wanted.read_bytes()
    assert not work.exists()


def test_the_command_prints_its_plan_and_goes_on_after_it_was_stopped(gat, tmp_path):
    store, path, wanted = gat
    command = [sys.executable, "-m", "neargraph", "infer", store, str(path), "--out"]
    run = subprocess.run(
        [*command, str(tmp_path / "h.npy"), "--folder", str(tmp_path / "w"), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(run.stdout)
    assert [one["blocks"] for one in report["plan"]["passes"]] == [1, 1, 1]
    close({"out": np.load(tmp_path / "h.npy")}, {"out": wanted})
    shown = subprocess.run(
        [*command, str(tmp_path / "h.npy"), "--plan"], check=True, capture_output=True, text=True
    )
    assert "mm (8), sum_1 (2)" in shown.stdout
    refused = subprocess.run(
        [*command, str(tmp_path / "h.txt")], check=False, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert ".npy or .parquet" in refused.stderr
