"""`head`, `neighbors` and `stats` show what the arrays say that a store was made from."""

import json
import math

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes, heterogeneous, homogeneous
from test_cli_commands import run

import neargraph as ng
from neargraph.importers import import_graph
from neargraph.splits import SPLITS


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    homogeneous().write(folder / "homo.ng")
    heterogeneous().write(folder / "hetero.ng", mask_width=2)
    lines = [f"n{k},n{(k * 7 + 1) % 40},{k},{k / 4}" for k in range(40)]
    (folder / "e.csv").write_text("src,dst,time,weight\n" + "\n".join(lines) + "\n")
    import_graph(folder / "e.csv", folder / "named.ng", format="table")
    return folder


def asked(*words, capsys):
    code, out, err = run(*words, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_head_shows_the_first_nodes_with_their_rows(paths, capsys):
    graph = homogeneous()
    nodes = graph.nodes["node"].tensors
    (found,) = asked("head", paths / "homo.ng", "-n", 3, capsys=capsys)["nodes"]
    assert (found["type"], found["count"]) == ("node", 300)
    assert [row["id"] for row in found["rows"]] == [0, 1, 2]
    for row in found["rows"]:
        x = row["tensors"]["x"]
        assert x["shape"] == [6]
        assert np.allclose(x["values"], nodes["x"][row["id"]])
        assert row["tensors"]["y"]["values"] == [nodes["y"][row["id"]]]
        code = nodes["split_0"][row["id"]]
        parts = {number: part for part, number in SPLITS.items()}
        assert row["tensors"]["split_0"]["part"] == parts.get(code, "none")


def test_head_shows_the_first_edges_by_destination_with_their_columns(paths, capsys):
    graph, triple = homogeneous(), ("node", "to", "node")
    (found,) = asked("head", paths / "homo.ng", "-n", 12, capsys=capsys)["edges"]
    expected = [(s, d, i) for d in range(20) for s, i in graph.in_edges(triple, d)][:12]
    assert [(r["source"], r["destination"], r["edge_id"]) for r in found["rows"]] == expected
    attr = graph.edges[triple].tensors["edge_attr"]
    for row in found["rows"]:
        assert np.allclose(row["tensors"]["edge_attr"]["values"], attr[row["edge_id"]])


def test_head_takes_one_type_and_shortens_rows(paths, capsys):
    path = paths / "hetero.ng"
    report = asked("head", path, "--type", "venue,holds,paper", capsys=capsys)
    assert (report["nodes"], len(report["edges"])) == ([], 1)
    assert set(report["edges"][0]["rows"][0]) == {
        "source",
        "destination",
        "edge_id",
        "time",
        "weight",
    }
    report = asked("head", path, "--type", "paper", "--width", 2, "-n", 1, capsys=capsys)
    assert [one["type"] for one in report["nodes"]] == ["paper"]
    assert report["edges"] == []
    x = report["nodes"][0]["rows"][0]["tensors"]["x"]
    assert (len(x["values"]), x["shape"]) == (2, [4])
    shown = run("head", path, "--type", "paper", "--width", 2, "-n", 1, capsys=capsys)[1]
    assert "... (4)" in shown
    code, _, err = run("head", path, "--type", "reviewer", capsys=capsys)
    assert code == 2
    assert "no edge type 'reviewer'" in err


def test_head_leaves_deleted_nodes_out_and_shows_new_ones(tmp_path, capsys):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 3]]))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", reverse=True)
    with ng.open(tmp_path / "a.ng") as store, store.write() as tx:
        tx.delete_node(None, 1)
        tx.add_node()
    (found,) = asked("head", tmp_path / "a.ng", capsys=capsys)["nodes"]
    assert [row["id"] for row in found["rows"]] == [0, 2, 3, 4]
    assert found["count"] == 4


def test_head_shows_string_ids_on_both_ends(paths, capsys):
    report = asked("head", paths / "named.ng", "-n", 2, capsys=capsys)
    with ng.open(paths / "named.ng") as store:
        names = store.names(np.arange(40))
    assert [row["name"] for row in report["nodes"][0]["rows"]] == names[:2]
    for row in report["edges"][0]["rows"]:
        ends = (names[row["source"]], names[row["destination"]])
        assert (row["source_name"], row["destination_name"]) == ends
    empty = Graph({"a": Nodes(0)}, {("a", "r", "a"): Edges(np.empty(0, int), np.empty(0, int))})
    empty.write(paths / "empty.ng")
    report = asked("head", paths / "empty.ng", capsys=capsys)
    assert (report["nodes"][0]["rows"], report["edges"][0]["rows"]) == ([], [])
    assert run("head", paths / "empty.ng", capsys=capsys)[0] == 0


def test_neighbors_are_those_of_the_lists_with_ids_and_rows(paths, capsys):
    graph, triple = homogeneous(), ("node", "to", "node")
    report = asked("neighbors", paths / "homo.ng", 7, "--limit", 0, capsys=capsys)
    (found,) = report["lists"]
    expected = graph.in_edges(triple, 7)
    assert found["count"] == len(expected)
    assert [(row["source"], row["edge_id"]) for row in found["rows"]] == expected
    some = asked("neighbors", paths / "homo.ng", 7, "--limit", 2, capsys=capsys)["lists"][0]
    assert (some["count"], some["rows"]) == (len(expected), found["rows"][:2])
    assert (
        f"{len(expected)} in-neighbours of 7 (first 20 shown)"
        in run("neighbors", paths / "homo.ng", 7, capsys=capsys)[1]
    )


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"undirected": True}])
def test_out_neighbors_are_found_with_and_without_a_reverse(how, tmp_path, capsys):
    rng = np.random.default_rng(2)
    (tmp_path / "in").mkdir()
    edges = rng.integers(0, 12, (2, 60))
    times = rng.integers(0, 99, 60)
    np.save(tmp_path / "in/edge_index.npy", edges)
    np.save(tmp_path / "in/edge_time.npy", times)
    np.save(tmp_path / "in/edge_attr.npy", np.arange(60, dtype=np.float32).reshape(60, 1))
    import_graph(tmp_path / "in", tmp_path / "a.ng", **how)
    for node in range(12):
        report = asked("neighbors", tmp_path / "a.ng", node, "--out", capsys=capsys)
        (found,) = report["lists"]
        expected = [(d, i) for i, (s, d) in enumerate(edges.T.tolist()) if s == node]
        if "undirected" in how:
            expected += [(s, i) for i, (s, d) in enumerate(edges.T.tolist()) if d == node != s]
        rows = [(row["destination"], row["edge_id"]) for row in found["rows"]]
        assert sorted(rows) == sorted(expected)
        for row in found["rows"]:
            assert row["time"] == times[row["edge_id"]]
            assert row["tensors"]["edge_attr"]["values"] == [row["edge_id"]]


def test_neighbors_follow_updates(tmp_path, capsys):
    path = homogeneous().write(tmp_path / "a.ng")
    with ng.open(path, memory="64MB") as store, store.write() as tx:
        node = tx.add_node()
        tx.add_edge(None, node, node, features={"edge_attr": np.float32([1, 2, 3])})
    for way in ("--in", "--out"):
        (found,) = asked("neighbors", path, node, way, capsys=capsys)["lists"]
        (row,) = found["rows"]
        assert row["tensors"]["edge_attr"]["values"] == [1, 2, 3]
        assert node in row.values()


def test_neighbors_go_by_string_id_and_by_number(paths, capsys):
    path = paths / "named.ng"
    report = asked("neighbors", path, "n5", capsys=capsys)
    with ng.open(path) as store:
        number = int(store.lookup(["n5"])[0])
    assert (report["node"], report["name"]) == (number, "n5")
    (row,) = report["lists"][0]["rows"]
    source = int(row["source_name"].removeprefix("n"))
    assert (source * 7 + 1) % 40 == 5
    assert (row["time"], row["weight"]) == (source, source / 4)
    assert asked("neighbors", path, number, "--by-number", capsys=capsys) == report


def test_neighbors_of_several_types_are_listed_apart(paths, capsys):
    path = paths / "hetero.ng"
    report = asked("neighbors", path, 3, "--node-type", "paper", capsys=capsys)
    assert [one["type"][1] for one in report["lists"]] == ["cites", "writes", "holds"]
    report = asked("neighbors", path, 3, "--edge-type", "writes", capsys=capsys)
    assert (report["node_type"], len(report["lists"])) == ("paper", 1)
    report = asked("neighbors", path, 3, "--edge-type", "writes", "--out", capsys=capsys)
    assert report["node_type"] == "author"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["homo.ng", "300"], "node 300 does not exist; type 'node' has 300 nodes"),
        (["homo.ng", "n7"], "node 'n7' is not a valid number"),
        (["named.ng", "7"], "has the string id '7'; give --by-number"),
        (["hetero.ng", "7"], "a node type must be named"),
        (["hetero.ng", "7", "--node-type", "author", "--edge-type", "writes"], "give --out"),
        (["hetero.ng", "7", "--edge-type", "reads"], "no edge type 'reads'"),
    ],
)
def test_a_node_that_cannot_be_is_one_line(paths, words, message, capsys):
    code, out, err = run("neighbors", paths / words[0], *words[1:], capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_deleted_node_has_no_neighbors(tmp_path, capsys):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 3]]))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", reverse=True)
    with ng.open(tmp_path / "a.ng") as store, store.write() as tx:
        tx.delete_node(None, 1)
    code, _, err = run("neighbors", tmp_path / "a.ng", 1, capsys=capsys)
    assert code == 2
    assert "node 1 of type 'node' was deleted" in err


def degrees_of(counts):
    """The figures of degrees, from the degree of each node."""
    ranked = np.sort(counts)
    at = [max(1, math.ceil(share * len(ranked))) - 1 for share in (0.5, 0.99)]
    histogram = {}
    for degree in ranked.tolist():
        low = 0 if degree == 0 else 1 << (degree.bit_length() - 1)
        histogram[low] = histogram.get(low, 0) + 1
    return {
        "min": ranked[0],
        "median": ranked[at[0]],
        "mean": pytest.approx(ranked.mean()),
        "p99": ranked[at[1]],
        "max": ranked[-1],
        "histogram": [list(pair) for pair in sorted(histogram.items())],
    }


def test_stats_are_those_of_the_arrays(paths, capsys):
    graph, triple = homogeneous(), ("node", "to", "node")
    edges, tensors = graph.edges[triple], graph.nodes["node"].tensors
    report = asked("stats", paths / "homo.ng", capsys=capsys)
    (node,), (edge,) = report["node_types"], report["edge_types"]
    into = np.bincount(edges.destinations, minlength=300)
    out = np.bincount(edges.sources, minlength=300)
    assert edge["in_degree"] == degrees_of(into)
    assert edge["out_degree"] == degrees_of(out)
    assert edge["self_loops"] == (edges.sources == edges.destinations).sum()
    assert node["isolated"] == ((into == 0) & (out == 0)).sum()
    x = tensors["x"]
    assert node["tensors"]["x"] == {
        "dtype": "f32",
        "shape": [6],
        "min": pytest.approx(x.min()),
        "max": pytest.approx(x.max()),
        "mean": pytest.approx(x.mean(dtype=float)),
        "zero_share": 0.0,
        "nan": 0,
        "infinite": 0,
    }
    classes = {c["class"]: c["count"] for c in node["labels"]["y"]["classes"]}
    assert classes == {k: (tensors["y"] == k).sum() for k in range(5)}
    codes = np.bincount(tensors["split_0"], minlength=4)
    assert node["splits"] == {
        "split_0": {"train": codes[1], "val": codes[2], "test": codes[3], "none": codes[0]}
    }
    assert edge["tensors"]["edge_attr"]["max"] == pytest.approx(edges.tensors["edge_attr"].max())


def test_stats_of_times_weights_and_types(paths, capsys):
    report = asked("stats", paths / "hetero.ng", capsys=capsys)
    weights = heterogeneous().edges["venue", "holds", "paper"].weights
    (holds,) = [e for e in report["edge_types"] if e["type"][1] == "holds"]
    assert (holds["time"]["min"], holds["time"]["max"]) == (0, 0)
    assert holds["weight"]["min"] == pytest.approx(weights.min())
    assert holds["self_loops"] is None
    assert [n["type"] for n in report["node_types"]] == ["paper", "author", "venue"]
    shown = run("stats", paths / "hetero.ng", capsys=capsys)[1]
    for words in ("Nodes paper", "split_0", "classes of y", "in-degree", "median", "weight"):
        assert words in shown


def test_stats_leave_deleted_nodes_out_and_count_what_is_not_finite(tmp_path, capsys):
    rows = np.array([[0, 1], [np.nan, 0], [7, 8], [np.inf, -2]], np.float32)
    ends = np.array([[0, 1, 1], [1, 2, 3]])
    graph = Graph(
        {"node": Nodes(4, {"x": np.zeros((4, 2), np.float32), "y": np.array([1, -1, 0, 1])})},
        {("node", "to", "node"): Edges(*ends, edge_ids=False)},
    )
    path = graph.write(tmp_path / "a.ng")
    with ng.open(path) as store:
        store.add_tensor("wide", rows)
    with ng.open(path) as store, store.write() as tx:
        tx.add_nodes(None, count=1)
    (node,) = asked("stats", path, capsys=capsys)["node_types"]
    wide = node["tensors"]["wide"]
    assert (wide["min"], wide["max"], wide["nan"], wide["infinite"]) == (-2, 8, 1, 1)
    assert wide["zero_share"] == pytest.approx(4 / 10)
    assert node["labels"]["y"]["unlabelled"] == 1
    assert (node["num_nodes"], node["isolated"], node["deleted"]) == (5, 1, 0)


def test_stats_are_those_of_live_nodes(tmp_path, capsys):
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    rows = np.arange(5, dtype=np.float32).reshape(5, 1)
    np.savez(tmp_path / "a.npz", edges=edges, node_features=rows, node_labels=np.arange(5) % 2)
    import_graph(tmp_path / "a.npz", tmp_path / "a.ng", reverse=True, split_sizes="60,20,20")
    with ng.open(tmp_path / "a.ng") as store, store.write() as batch:
        batch.delete_node(None, 4)
        batch.delete_node(None, 3)
    (node,), (edge,) = (
        asked("stats", tmp_path / "a.ng", capsys=capsys)[kind]
        for kind in ("node_types", "edge_types")
    )
    assert (node["num_nodes"], node["deleted"], node["isolated"]) == (3, 2, 0)
    assert (node["tensors"]["x"]["min"], node["tensors"]["x"]["max"]) == (0, 2)
    assert {c["class"]: c["count"] for c in node["labels"]["y"]["classes"]} == {0: 2, 1: 1}
    assert sum(node["splits"]["split_0"].values()) == 3
    assert edge["in_degree"]["histogram"] == [[0, 1], [1, 2]]
    assert edge["out_degree"]["histogram"] == [[0, 1], [1, 2]]


def test_counters_that_do_not_fit_are_left_out_and_said(tmp_path, capsys):
    count = 3_000_000
    ends = np.arange(10)
    graph = Graph(
        {"node": Nodes(count)}, {("node", "to", "node"): Edges(ends, ends, edge_ids=False)}
    )
    path = graph.write(tmp_path / "a.ng")
    report = asked("stats", path, "--memory", "8MB", capsys=capsys)
    assert report["edge_types"][0]["out_degree"] is None
    assert report["node_types"][0]["isolated"] is None
    assert report["edge_types"][0]["in_degree"]["histogram"] == [[0, count - 10], [1, 10]]
    assert "not counted" in run("stats", path, "--memory", "8MB", capsys=capsys)[1]
    report = asked("stats", path, "--memory", "256MB", capsys=capsys)
    assert report["node_types"][0]["isolated"] == count - 10
