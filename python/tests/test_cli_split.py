"""`neargraph split`: exact sizes, the split of an import, classes, times, degrees, many graphs."""

import json
from itertools import pairwise

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes, heterogeneous
from hypothesis import given
from hypothesis import strategies as st
from test_cli_commands import run

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, import_graph, run_import
from neargraph.ranked import boundaries, sortable

COUNT = 1000


def made(folder, **tensors):
    """A store of one type with these node tensors, and edges into low ids."""
    rng = np.random.default_rng(4)
    ends = rng.integers(0, COUNT, 4000), np.minimum(rng.integers(0, COUNT, 4000), 300)
    graph = Graph({"node": Nodes(COUNT, tensors)}, {("node", "to", "node"): Edges(*ends)})
    return graph.write(folder / "a.ng")


def asked(*words, capsys):
    code, out, err = run("split", *words, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    return json.loads(out)


def codes(path, node_type=None, column="split_0"):
    with ng.open(path) as store:
        return store.column(column, node_type)


def test_a_random_split_is_that_of_an_import(tmp_path, capsys):
    for name, split in (("a.ng", (50, 20, 10)), ("b.ng", None)):
        options = ImportOptions(split_sizes=split, seed=9)
        run_import(plan_generated(5000, 9000, 4, 3), tmp_path / name, options)
    path = tmp_path / "b.ng"
    report = asked(path, "--sizes", "50,20,10", "--seed", 9, capsys=capsys)
    assert np.array_equal(codes(path), codes(tmp_path / "a.ng"))
    assert [report[part] for part in ("train", "val", "test", "none")] == [2500, 1000, 500, 1000]
    assert (report["tensor"], report["unit"], report["by"]) == ("split_0", "node", "random")
    with ng.open(path) as store:
        assert len(store.split("train")) == 2500


def test_an_existing_split_is_replaced_only_when_told(tmp_path, capsys):
    path = made(tmp_path, split_0=np.full(COUNT, 2, np.uint8))
    code, _, err = run("split", path, capsys=capsys)
    assert code == 2
    assert (
        "already has the split split_0; give --overwrite to replace this split, or --index" in err
    )
    assert (codes(path) == 2).all()
    report = asked(path, "--overwrite", capsys=capsys)
    assert np.bincount(codes(path)).tolist() == [0, 600, 200, 200]
    assert report["lsn"] == 1
    report = asked(path, "--index", 1, "--seed", 5, capsys=capsys)
    assert report["tensor"] == "split_1"
    assert not np.array_equal(codes(path), codes(path, column="split_1"))
    code, _, err = run("split", path, "--index", 7, capsys=capsys)
    assert code == 2
    assert "has 2 splits; use --index 2" in err


def test_a_stratified_split_has_the_shares_of_each_class(tmp_path, capsys):
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(COUNT) < 0.1, -1, rng.choice(3, COUNT, p=[0.7, 0.2, 0.1]))
    path = made(tmp_path, y=labels)
    report = asked(path, "--stratify", "--seed", 2, capsys=capsys)
    found = codes(path)
    assert (found[labels < 0] == 0).all()
    for kind in range(3):
        mine = np.bincount(found[labels == kind], minlength=4)
        assert np.allclose(mine[1:], np.array([0.6, 0.2, 0.2]) * (labels == kind).sum(), atol=1)
        assert mine[0] == 0
    assert report["none"] == (labels < 0).sum()
    again = asked(path, "--stratify", "--seed", 3, "--overwrite", capsys=capsys)
    assert again["train"] == report["train"]
    assert not np.array_equal(codes(path), found)


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_a_split_by_time_puts_the_earliest_into_train(kind, tmp_path, capsys):
    times = np.random.default_rng(3).integers(-50, 50, COUNT).astype(kind)
    if kind is np.float32:
        times[::10] = np.nan
    path = made(tmp_path, time=times)
    report = asked(path, "--by", "time", "--sizes", "50,30,20", capsys=capsys)
    found = codes(path)
    known = ~np.isnan(times.astype(float))
    order = np.flatnonzero(known)[np.argsort(times[known], kind="stable")]
    expected = np.zeros(COUNT, np.uint8)
    bounds = (np.array([0, 0.5, 0.8, 1.0]) * len(order)).astype(int)
    for code, (low, high) in enumerate(pairwise(bounds), start=1):
        expected[order[low:high]] = code
    assert np.array_equal(found, expected)
    assert report["none"] == (~known).sum()


def test_a_split_by_degree_puts_the_most_linked_into_train(tmp_path, capsys):
    path = made(tmp_path)
    asked(path, "--by", "degree", "--sizes", "10,10,80", capsys=capsys)
    with ng.open(path) as store:
        degrees = store.snapshot().degrees(None, np.arange(COUNT))
    found = codes(path)
    assert degrees[found == 1].min() >= degrees[found == 2].max()
    assert degrees[found == 2].min() >= degrees[found == 3].max()
    assert np.bincount(found).tolist() == [0, 100, 100, 800]


def test_deleted_nodes_are_in_no_part_and_new_ones_are(tmp_path, capsys):
    np.save(tmp_path / "e.npy", np.random.default_rng(1).integers(0, 100, (2, 400)))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", reverse=True, num_nodes=100)
    path = tmp_path / "a.ng"
    with ng.open(path) as store, store.write() as tx:
        for node in range(40):
            tx.delete_node(None, node)
        tx.add_nodes(count=40)
    for more in ([], ["--overwrite"], ["--overwrite", "--by", "degree"]):
        report = asked(path, *more, capsys=capsys)
        assert [report[part] for part in ("train", "val", "test", "none")] == [60, 20, 20, 0]
        assert (codes(path)[:40] == 0).all()
        assert np.bincount(codes(path)).tolist() == [40, 60, 20, 20]


def test_all_nodes_of_a_graph_get_one_part(tmp_path, capsys):
    graphs = np.repeat(np.arange(50), np.random.default_rng(1).integers(1, 40, 50))
    labels = (np.arange(50) % 2)[graphs]
    graph = Graph({"node": Nodes(len(graphs), {"graph_id": graphs, "graph_y": labels})}, {})
    path = graph.write(tmp_path / "a.ng")
    for more in ([], ["--overwrite", "--stratify"]):
        report = asked(path, *more, capsys=capsys)
        assert report["unit"] == "graph"
        of_graph = [np.unique(codes(path)[graphs == k]).tolist() for k in range(50)]
        assert all(len(found) == 1 for found in of_graph)
        assert np.bincount([found[0] for found in of_graph]).tolist() == [0, 30, 10, 10]
    train = np.array([found[0] == 1 for found in of_graph])
    assert train[::2].sum() == train[1::2].sum() == 15
    code, _, err = run("split", path, "--by", "degree", "--overwrite", capsys=capsys)
    assert code == 2
    assert "holds many graphs, which are split as wholes; use --by random" in err


def test_of_several_types_the_labelled_one_is_split_unless_another_is_named(tmp_path, capsys):
    graph = heterogeneous()
    for name in ("split_0", "split_1"):
        del graph.nodes["paper"].tensors[name]
    path = graph.write(tmp_path / "a.ng")
    assert asked(path, capsys=capsys)["node_type"] == "paper"
    assert asked(path, "--node-type", "author", capsys=capsys)["node_type"] == "author"
    assert np.bincount(codes(path, "author")).tolist() == [0, 36, 12, 12]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sizes", "60,20"], "'60,20' is not a valid split"),
        (["--sizes", "90,20,20"], "add up to at most 100"),
        (["--stratify"], "--stratify needs one class for each node"),
        (["--stratify", "--by", "time"], "--stratify cannot be combined with --by time"),
        (["--by", "time"], "no tensor 'time'"),
        (["--by", "time", "--time-attr", "x"], "not one time for each node"),
        (["--by", "age"], "'age' is not one of"),
        (["--node-type", "paper"], "no node type 'paper'"),
    ],
)
def test_what_cannot_be_split_is_one_line_and_the_store_stays(words, message, tmp_path, capsys):
    path = made(tmp_path, x=np.ones((COUNT, 3), np.float32))
    code, out, err = run("split", path, *words, capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    with ng.open(path) as store:
        assert store.lsn == 0
        assert [t.name for t in store.schema.node_type().tensors] == ["x"]


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=20)),
    st.data(),
)
def test_boundaries_take_the_smallest_of_any_stream_in_its_order(parts, data):
    arrays = [np.array(part, np.int64) for part in parts]
    total = sum(map(len, arrays))
    rank = data.draw(st.integers(0, total))
    keys = [sortable(array) for array in arrays]
    (found,) = boundaries(lambda: iter(keys), [rank])
    below = [found.below(part) for part in keys]
    whole = np.concatenate([np.empty(0, np.int64), *arrays])
    expected = np.zeros(total, bool)
    expected[np.argsort(whole, kind="stable")[:rank]] = True
    assert np.array_equal(np.concatenate([np.empty(0, bool), *below]), expected)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_keys_sort_as_floats_do(values):
    array = np.array(values)
    order = np.argsort(sortable(array), kind="stable")
    assert np.array_equal(array[order], np.sort(array))
