"""Folders of the Open Graph Benchmark, as its package leaves them, and damaged ones."""

import gzip

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store

import neargraph as ng
from neargraph.datasets import link_splits
from neargraph.importers import detect_format, import_graph, plan_source

pytest.importorskip("pyarrow")

NODES, EDGES = 50, 300


def table(file, rows):
    """Writes rows as .csv.gz; NaN as an empty field, whole numbers without a point."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = np.asarray(rows)
    lines = []
    for row in rows.reshape(len(rows), -1) if len(rows) else ():
        lines.append(",".join("" if v != v else str(v) for v in row))
    with gzip.open(file, "wt") as stream:
        stream.write("".join(line + "\n" for line in lines))


def nodes_set(root):
    """A set like ogbn-arxiv; returns what it holds."""
    rng = np.random.default_rng(1)
    ends = rng.integers(0, NODES, (2, EDGES))
    x = rng.standard_normal((NODES, 7)).astype(np.float32)
    y = rng.integers(0, 9, NODES)
    year = rng.integers(1990, 2020, NODES)
    weights = rng.random(EDGES).astype(np.float32)
    kind = rng.integers(0, 3, EDGES)
    order = rng.permutation(NODES)
    raw, split = root / "raw", root / "split/time"
    table(raw / "edge.csv.gz", ends.T)
    table(raw / "num-node-list.csv.gz", [NODES])
    table(raw / "num-edge-list.csv.gz", [EDGES])
    table(raw / "node-feat.csv.gz", x)
    table(raw / "node-label.csv.gz", y)
    table(raw / "node_year.csv.gz", year)
    table(raw / "edge_weight.csv.gz", weights)
    table(raw / "edge_reltype.csv.gz", kind)
    codes = np.zeros(NODES, np.uint8)
    for code, ids in enumerate(np.split(order, [30, 40])):
        table(split / f"{('train', 'valid', 'test')[code]}.csv.gz", ids)
        codes[ids] = code + 1
    (root / "RELEASE_v1.txt").write_text("")
    (root / "mapping").mkdir()
    (root / "mapping/nodeidx2paperid.csv.gz").write_bytes(b"")
    tensors = {"x": x, "y": y, "node_year": year, "split_0": codes}
    edges = RawEdges(*ends, np.arange(EDGES), None, weights, {"edge_reltype": kind})
    return Raw({"node": NODES}, {"node": tensors}, {PLAIN: edges})


def test_a_node_property_set_is_stored_with_its_split(tmp_path):
    raw = nodes_set(tmp_path / "ogbn_tiny")
    assert detect_format(tmp_path / "ogbn_tiny") == "ogb"
    report = import_graph(tmp_path / "ogbn_tiny", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)
    (note,) = [n for n in report["notes"] if n["code"] == "files-unused"]
    assert "nodeidx2paperid" in note["message"]


def test_the_raw_folder_alone_will_do(tmp_path):
    raw = nodes_set(tmp_path / "set")
    import_graph(tmp_path / "set/raw", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)


def test_several_splits_are_several_columns_in_the_order_of_their_names(tmp_path):
    raw = nodes_set(tmp_path / "set")
    for part, ids in (("train", [0]), ("valid", [1]), ("test", [2])):
        table(tmp_path / f"set/split/random/{part}.csv.gz", ids)
    plan = plan_source(tmp_path / "set")
    assert plan.facts[-2:] == [
        "the tensor split_0 is the split 'random' of the data set",
        "the tensor split_1 is the split 'time' of the data set",
    ]
    import_graph(tmp_path / "set", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.mask("val").shape == (NODES, 2)
        assert store.split("test", index=0).tolist() == [2]
        wanted = np.flatnonzero(raw.tensors["node"]["split_0"] == 3)
        assert np.array_equal(store.split("test", index=1), wanted)


def test_a_binary_set_has_missing_labels_as_minus_one(tmp_path):
    rng = np.random.default_rng(2)
    ends = rng.integers(0, NODES, (2, EDGES))
    x = rng.standard_normal((NODES, 4)).astype(np.float16)
    labels = rng.integers(0, 5, (NODES, 1)).astype(np.float32)
    labels[::3] = np.nan
    raw = tmp_path / "set/raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "data.npz",
        edge_index=ends,
        num_nodes_list=[NODES],
        num_edges_list=[EDGES],
        node_feat=x,
        node_year=np.arange(NODES).reshape(-1, 1),
    )
    np.savez(raw / "node-label.npz", node_label=labels)
    table(tmp_path / "set/split/time/train.csv.gz", [1, 2])
    table(tmp_path / "set/split/time/valid.csv.gz", [4])
    table(tmp_path / "set/split/time/test.csv.gz", np.zeros((0, 1)))
    report = import_graph(tmp_path / "set", tmp_path / "g.ng")
    codes = np.zeros(NODES, np.uint8)
    codes[[1, 2]], codes[4] = 1, 2
    y = np.where(np.isnan(labels), -1, labels).astype(np.int64)[:, 0]
    years = np.arange(NODES).reshape(-1, 1)
    tensors = {"x": x.astype(np.float32), "y": y, "node_year": years, "split_0": codes}
    check_store(
        tmp_path / "g.ng", Raw({"node": NODES}, {"node": tensors}, {PLAIN: RawEdges(*ends)})
    )
    counts = {n["code"]: n["count"] for n in report["notes"]}
    assert counts["labels-missing"] == len(range(0, NODES, 3))


def test_a_typed_set_keeps_its_triplets(tmp_path):
    rng = np.random.default_rng(3)
    raw = tmp_path / "set/raw"
    writes = rng.integers(0, (20, 40), (90, 2))
    cites = rng.integers(0, 40, (120, 2))
    x, y = rng.standard_normal((40, 6)).astype(np.float32), rng.integers(0, 3, 40)
    years, kind = rng.integers(0, 9, 40), rng.integers(0, 2, 90)
    raw.mkdir(parents=True)
    for name, text in (
        ("num-node-dict", "author,paper\n20,40\n"),
        ("triplet-type-list", "author,writes,paper\npaper,cites,paper\n"),
        ("nodetype-has-feat", "author,paper\nFalse,True\n"),
    ):
        with gzip.open(raw / f"{name}.csv.gz", "wt") as file:
            file.write(text)
    for name, ends in (("author___writes___paper", writes), ("paper___cites___paper", cites)):
        table(raw / "relations" / name / "edge.csv.gz", ends)
        table(raw / "relations" / name / "num-edge-list.csv.gz", [len(ends)])
    table(raw / "relations/author___writes___paper/edge_reltype.csv.gz", kind)
    table(raw / "node-feat/paper/node-feat.csv.gz", x)
    table(raw / "node-feat/paper/node_year.csv.gz", years)
    table(raw / "node-label/paper/node-label.csv.gz", y)
    codes = np.zeros(40, np.uint8)
    for code, (part, ids) in enumerate((("train", [5, 6]), ("valid", [7]), ("test", [0, 9]))):
        table(tmp_path / f"set/split/time/paper/{part}.csv.gz", ids)
        codes[ids] = code + 1
    assert detect_format(tmp_path / "set") == "ogb"
    import_graph(tmp_path / "set", tmp_path / "g.ng")
    tensors = {"x": x, "y": y, "node_year": years, "split_0": codes}
    written = RawEdges(*writes.T, np.arange(90), tensors={"edge_reltype": kind})
    edges = {
        ("author", "writes", "paper"): written,
        ("paper", "cites", "paper"): RawEdges(*cites.T),
    }
    check_store(tmp_path / "g.ng", Raw({"author": 20, "paper": 40}, {"paper": tensors}, edges))


def graphs_set(root):
    """A set like ogbg-molpcba: four graphs, two tasks, one label missing."""
    raw = root / "raw"
    counts, per = [3, 2, 4, 1], [4, 2, 3, 0]
    rng = np.random.default_rng(4)
    local = np.concatenate([rng.integers(0, n, (e, 2)) for n, e in zip(counts, per, strict=True)])
    starts = np.concatenate([[0], np.cumsum(counts)])
    graph_of = np.repeat(np.arange(4), counts)
    shift = np.repeat(starts[:-1], per)
    x, attr = rng.integers(0, 9, (10, 3)), rng.integers(0, 4, (9, 2))
    labels = np.array([[0, 1], [1, np.nan], [0, 0], [1, 1]])
    table(raw / "edge.csv.gz", local)
    table(raw / "num-node-list.csv.gz", counts)
    table(raw / "num-edge-list.csv.gz", per)
    table(raw / "node-feat.csv.gz", x)
    table(raw / "edge-feat.csv.gz", attr)
    table(raw / "graph-label.csv.gz", labels)
    for part, ids in (("train", [3, 0]), ("valid", [1]), ("test", [2])):
        table(root / f"split/scaffold/{part}.csv.gz", ids)
    tensors = {
        "x": x,
        "graph_id": graph_of,
        "graph_y": labels.astype(np.float32)[graph_of],
        "split_0": np.array([1, 2, 3, 1], np.uint8)[graph_of],
    }
    ends = (local + shift[:, None]).T
    edges = RawEdges(*ends, np.arange(9), tensors={"edge_attr": attr})
    return Raw({"node": 10}, {"node": tensors}, {PLAIN: edges})


def test_a_graph_property_set_is_one_block_diagonal_graph(tmp_path):
    raw = graphs_set(tmp_path / "set")
    import_graph(tmp_path / "set", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)


def test_labels_of_graphs_that_are_words_are_classes_or_said_to_be_left_out(tmp_path):
    graphs_set(tmp_path / "set")
    file = tmp_path / "set/raw/graph-label.csv.gz"
    with gzip.open(file, "wt") as stream:
        stream.write("ring\nchain\nring\nring\n")
    import_graph(tmp_path / "set", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.column("graph_y").tolist() == [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
        node = store.schema.node_type()
        assert store.schema.tensor(node, "graph_y").class_names == ("chain", "ring")
    with gzip.open(file, "wt") as stream:
        stream.write("get name\nset it\nring a\nring\n")
    report = import_graph(tmp_path / "set", tmp_path / "h.ng")
    assert "labels-dropped" in {note["code"] for note in report["notes"]}


def test_link_splits_are_left_out_with_a_note_and_read_apart(tmp_path):
    torch = pytest.importorskip("torch")
    raw = nodes_set(tmp_path / "set")
    folder = tmp_path / "set/split/time"
    for file in folder.iterdir():
        file.unlink()
    wanted = {}
    for part in ("train", "valid", "test"):
        pairs = {"edge": np.arange(8).reshape(4, 2), "weight": torch.arange(4), "year": [part]}
        if part != "train":
            pairs["edge_neg"] = torch.arange(6).reshape(3, 2)
        # Sets of 2020 are in the older form.
        torch.save(pairs, folder / f"{part}.pt", _use_new_zipfile_serialization=part != "test")
        wanted[part] = pairs
    report = import_graph(tmp_path / "set", tmp_path / "g.ng")
    del raw.tensors["node"]["split_0"]
    check_store(tmp_path / "g.ng", raw)
    (note,) = [n for n in report["notes"] if n["code"] == "link-splits-left-out"]
    assert "link_splits" in note["message"]
    found = link_splits(tmp_path / "set")
    assert set(found) == set(wanted)
    for part, pairs in wanted.items():
        assert set(found[part]) == set(pairs)
        for name, value in pairs.items():
            assert np.array_equal(found[part][name], np.asarray(value)), (part, name)
    with pytest.raises(ng.ImportFailed, match="split=: time"):
        link_splits(tmp_path / "set", "random")


def test_a_folder_without_pairs_is_said_to_have_none(tmp_path):
    nodes_set(tmp_path / "set")
    with pytest.raises(ng.ImportFailed, match="has no link splits"):
        link_splits(tmp_path / "set")


def cut(file):
    file.write_bytes(file.read_bytes()[:-20])


BAD = {
    "fewer edges than it says": ("num-edge-list", [EDGES + 1], "300 rows, expected 301"),
    "more nodes than rows": ("num-node-list", [NODES + 1], "50 rows, expected 51"),
    "no count": ("num-node-list", [], "has no entry"),
    "a negative count": ("num-node-list", [-50], "not a list of counts"),
    "an absurd count": ("num-node-list", [2**62, 2**62], "add up to 2"),
    "counts of other graphs": (
        "num-node-list",
        [25, 25],
        "node counts of 2 graphs, but edge counts of 1",
    ),
    "counts that are fractions": ("num-edge-list", [300.5], "one column of whole numbers"),
    "an end that is far away": ("edge", [[0, NODES]] * EDGES, "node id 50"),
    "a negative end": ("edge", [[0, -1]] * EDGES, "negative node id -1"),
    "ends that are fractions": ("edge", [[0.5, 1.0]] * EDGES, "not have two columns of node ids"),
    "an end that is missing": ("edge", [[np.nan, 1.0]] * EDGES, "not have two columns of node ids"),
    "three ends": ("edge", [[0, 1, 2]] * EDGES, "not have two columns of node ids"),
    "labels of other nodes": ("node-label", [1, 2], "2 rows, expected 50"),
    "weights of two columns": (
        "edge_weight",
        [[1, 2]] * EDGES,
        "not have one weight for each edge",
    ),
    "years that are words": ("node_year", [["old"]] * NODES, "not a table of numbers"),
    "a split that is far away": ("../split/time/test", [NODES], "node id 50"),
    "a split that is twice": ("../split/time/test", np.arange(NODES), "in two parts of the split"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_named_and_leaves_nothing(case, tmp_path):
    nodes_set(tmp_path / "set")
    name, rows, words = BAD[case]
    table(tmp_path / f"set/raw/{name}.csv.gz", rows)
    with pytest.raises(ng.ImportFailed, match=words):
        import_graph(tmp_path / "set", tmp_path / "g.ng")
    assert [file.name for file in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("name", ["edge", "node-feat", "num-edge-list", "../split/time/valid"])
def test_a_file_that_is_cut_or_missing_is_named(name, tmp_path):
    nodes_set(tmp_path / "set")
    file = tmp_path / f"set/raw/{name}.csv.gz"
    cut(file)
    with pytest.raises(ng.ImportFailed, match=file.name):
        import_graph(tmp_path / "set", tmp_path / "g.ng")
    file.unlink()
    if name != "node-feat":
        with pytest.raises(ng.ImportFailed, match="no such file"):
            import_graph(tmp_path / "set", tmp_path / "g.ng")
    assert not (tmp_path / "g.ng").exists()


def test_ids_of_a_graph_stay_in_it(tmp_path):
    graphs_set(tmp_path / "set")
    table(tmp_path / "set/raw/edge.csv.gz", [[0, 3]] + [[0, 0]] * 8)
    with pytest.raises(
        ng.ImportFailed, match="edge 0 names node 3 of graph 0, but this graph has 3 nodes"
    ):
        import_graph(tmp_path / "set", tmp_path / "g.ng")


def test_a_type_whose_name_leaves_the_folder_is_refused(tmp_path):
    raw = tmp_path / "set/raw"
    raw.mkdir(parents=True)
    (raw / "num-node-dict.csv").write_text("../x,paper\n1,2\n")
    (raw / "triplet-type-list.csv").write_text("../x,writes,paper\n")
    with pytest.raises(ng.ImportFailed, match="not a valid name"):
        import_graph(tmp_path / "set", tmp_path / "g.ng")


def test_numbers_that_turn_into_fractions_late_are_fractions_from_the_start(tmp_path):
    raw = nodes_set(tmp_path / "set")
    x = np.zeros((NODES, 30_000), np.float32)
    x[-1, -1] = 0.5
    lines = [",".join(["0"] * 30_000)] * (NODES - 1) + [",".join(["0"] * 29_999 + ["0.5"])]
    with gzip.open(tmp_path / "set/raw/node-feat.csv.gz", "wt") as stream:
        stream.write("\n".join(lines))
    raw.tensors["node"]["x"] = x
    import_graph(tmp_path / "set", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)
