"""Folders of the Illinois Graph Benchmark, with and without headers, and damaged ones."""

import numpy as np
import pytest
from realdata import Raw, RawEdges, check_store

import neargraph as ng
from neargraph.importers import detect_format, import_graph

CITES = ("paper", "cites", "paper")


def write(root):
    """A heterogeneous set of the newer kind; returns what it holds."""
    rng = np.random.default_rng(6)
    sizes = {"paper": 40, "author": 30, "fos": 7, "institute": 5, "journal": 4, "conference": 3}
    types = [
        CITES,
        ("paper", "written_by", "author"),
        ("author", "affiliated_to", "institute"),
        ("paper", "topic", "fos"),
        ("paper", "published", "journal"),
        ("paper", "venue", "conference"),
    ]
    tensors, edges = {}, {}
    for name, count in sizes.items():
        x = rng.standard_normal((count, 1024)).astype(np.float32)
        folder = root / "processed" / name
        folder.mkdir(parents=True)
        np.save(folder / "node_feat.npy", x)
        tensors[name] = {"x": x}
    labels = rng.integers(0, 19, 40)
    many = rng.integers(0, 2983, 40).astype(np.float32)
    np.save(root / "processed/paper/node_label_19.npy", labels)
    np.save(root / "processed/paper/node_label_2K.npy", many)
    tensors["paper"] |= {"y": labels, "y_2k": many.astype(np.int64)}
    for source, relation, destination in types:
        ends = rng.integers(0, (sizes[source], sizes[destination]), (90, 2))
        folder = root / "processed" / f"{source}__{relation}__{destination}"
        folder.mkdir()
        np.save(folder / "edge_index.npy", ends)
        edges[source, relation, destination] = RawEdges(*ends.T)
    return Raw(sizes, tensors, edges)


@pytest.mark.parametrize("given", ["", "processed"])
def test_a_heterogeneous_set_keeps_its_types_features_and_labels(given, tmp_path):
    raw = write(tmp_path / "tiny")
    assert detect_format(tmp_path / "tiny" / given) == "igb"
    import_graph(tmp_path / "tiny" / given, tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)


def test_arrays_without_a_header_are_float32_rows(tmp_path):
    raw = write(tmp_path / "large")
    paper = tmp_path / "large/processed/paper"
    raw.tensors["paper"]["x"].tofile(paper / "node_feat.npy")
    labels = raw.tensors["paper"]["y"].astype(np.float32)
    labels[5] = np.nan
    labels.tofile(paper / "node_label_19.npy")
    raw.tensors["paper"]["y"][5] = -1
    report = import_graph(tmp_path / "large", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)
    assert {n["code"]: n["count"] for n in report["notes"]}["labels-missing"] == 1


BAD = {
    "features of other nodes": ("paper/node_feat.npy", np.zeros((39, 1024), np.float32), "39"),
    "features of one column": ("author/node_feat.npy", np.zeros(30, np.float32), "nodes, width"),
    "labels of other papers": ("paper/node_label_19.npy", np.zeros(41, np.int64), "41 rows"),
    "an end that is far away": (
        "paper__topic__fos/edge_index.npy",
        np.array([[0, 6], [0, 7]] * 3),
        "row 1 has node id 7",
    ),
    "a negative end": ("paper__topic__fos/edge_index.npy", np.array([[0, -1]] * 3), "id -1"),
    "ends that are floats": ("paper__topic__fos/edge_index.npy", np.zeros((3, 2)), "float64"),
    "three ends": ("paper__topic__fos/edge_index.npy", np.zeros((4, 3), int), "has shape"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_named_and_leaves_nothing(case, tmp_path):
    write(tmp_path / "tiny")
    name, array, words = BAD[case]
    np.save(tmp_path / "tiny/processed" / name, array)
    with pytest.raises(ng.ImportFailed, match=words):
        import_graph(tmp_path / "tiny", tmp_path / "g.ng")
    assert [file.name for file in tmp_path.iterdir()] == ["tiny"]


def test_a_file_that_is_cut_is_named(tmp_path):
    write(tmp_path / "tiny")
    file = tmp_path / "tiny/processed/paper/node_feat.npy"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(ng.ImportFailed, match="bytes of data"):
        import_graph(tmp_path / "tiny", tmp_path / "g.ng")
    file.write_bytes(b"\0" * 4097)
    with pytest.raises(ng.ImportFailed, match=r"has 4097 bytes and no \.npy header"):
        import_graph(tmp_path / "tiny", tmp_path / "g.ng")


def test_files_that_no_rows_are_in_are_said(tmp_path):
    write(tmp_path / "tiny")
    np.save(tmp_path / "tiny/processed/paper/paper_id_index_mapping.npy", np.zeros(3))
    report = import_graph(tmp_path / "tiny", tmp_path / "g.ng")
    (note,) = [n for n in report["notes"] if n["code"] == "files-unused"]
    assert "paper_id_index_mapping.npy" in note["message"]
