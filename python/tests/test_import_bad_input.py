"""Bad input: the error names the file and the row, and nothing is left behind."""

import numpy as np
import pytest

import neargraph as ng
from neargraph.importers import import_graph


def npz(folder, **changes):
    arrays = {
        "adj_data": np.ones(4, np.float32),
        "adj_indices": np.array([1, 2, 0, 1], np.int32),
        "adj_indptr": np.array([0, 2, 3, 4], np.int32),
        "adj_shape": np.array([3, 3]),
        "labels": np.array([0, 1, 0]),
        **changes,
    }
    np.savez(folder / "in.npz", **{k: v for k, v in arrays.items() if v is not None})
    return folder / "in.npz"


def text(folder, content, name="in.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def cut(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 200])
    return path


def flipped(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    path.write_bytes(whole)
    return path


def large_npz(folder):
    arrays = {"indptr": np.arange(20_001), "indices": np.arange(20_000)}
    np.savez_compressed(folder / "in.npz", **arrays)
    return folder / "in.npz"


def npy(folder, array):
    np.save(folder / "in.npy", array)
    return folder / "in.npy"


OBJECTS = np.array([{"a": 1}, None], dtype=object)
CASES = {
    "missing": (lambda d: d / "none.csv", r"none\.csv: no such file"),
    "empty text": (lambda d: text(d, "# nothing\n"), r"in\.csv: holds no edges"),
    "one column": (lambda d: text(d, "17\n18\n"), r"in\.csv:1: has only one column"),
    "binary": (lambda d: text(d, b"\0\1\2\3"), r"in\.csv: is binary"),
    "unknown folder": (lambda d: d, "not a folder of a known layout"),
    "ragged csv": (lambda d: text(d, "0,1\n1,2\n3\n4,5\n"), r"in\.csv.*line 3"),
    "negative id in text": (lambda d: text(d, "0,1\n-4,2\n"), r"in\.csv.*line 2"),
    "word in text": (lambda d: text(d, "0,1\n1,x\n"), r"in\.csv.*line 2"),
    "id beyond 2^40": (lambda d: text(d, f"0,1\n1,{1 << 41}\n"), r"in\.csv.*line 2"),
    "truncated npz": (lambda d: cut(large_npz(d)), r"in\.npz"),
    "flipped npz": (lambda d: flipped(large_npz(d)), r"in\.npz"),
    "no npz": (lambda d: text(d, "hello", "in.npz"), r"in\.npz: is not a readable \.npz"),
    "column out of range": (
        lambda d: npz(d, adj_indices=np.array([1, 2, 3, 1])),
        r"in\.npz \[adj_indices\]: row 2 has node id 3, but there are 3 nodes",
    ),
    "negative column": (
        lambda d: npz(d, adj_indices=np.array([1, -2, 0, 1])),
        "row 1 has the negative node id -2",
    ),
    "falling pointers": (
        lambda d: npz(d, adj_indptr=np.array([0, 3, 2, 4])),
        "row 1 has the pointers 3 and 2, but",
    ),
    "pointers past the end": (
        lambda d: npz(d, adj_indptr=np.array([0, 2, 3, 9])),
        "row 2 has the pointers 3 and 9, but",
    ),
    "not square": (lambda d: npz(d, adj_shape=np.array([3, 5])), "store a square matrix"),
    "too few labels": (lambda d: npz(d, labels=np.array([0, 1])), "expected 3 rows"),
    "labels of bytes": (lambda d: npz(d, labels=np.array([b"a", b"b", b"c"])), "cannot be stored"),
    "complex labels": (
        lambda d: npz(d, labels=np.ones(3, complex)),
        "complex128, which cannot",
    ),
    "float node ids": (
        lambda d: npz(d, adj_indices=np.array([1.0, 2.0, 0.0, 1.0])),
        "node ids have dtype float64",
    ),
    "object arrays": (lambda d: npz(d, labels=OBJECTS), "holds Python objects"),
    "missing member": (lambda d: npz(d, adj_indices=None), "has no member 'adj_indices'"),
    "unknown layout": (lambda d: npz(d, adj_indptr=None), "not an npz file of a known layout"),
    "npy of three columns": (
        lambda d: npy(d, np.zeros((5, 3), int)),
        r"in\.npy: has shape \[5, 3\]",
    ),
    "npy of floats": (lambda d: npy(d, np.zeros((5, 2))), r"in\.npy: node ids have dtype float64"),
    "npy of negative ids": (
        lambda d: npy(d, np.array([[0, 1], [1, -7]])),
        r"in\.npy, row 1: destination -7 is negative",
    ),
    "truncated npy": (
        lambda d: cut(npy(d, np.zeros((500, 2), int))),
        "is not a readable .npy file",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named_and_leaves_nothing(case, tmp_path):
    make, message = CASES[case]
    folder = tmp_path / "in"
    out = tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    source = make(folder)
    with pytest.raises(ng.ImportFailed, match=message) as failed:
        import_graph(source, out / "g.ng")
    assert str(source) in str(failed.value)
    assert list(out.iterdir()) == []


def test_a_nan_in_a_float_label_means_missing(tmp_path):
    labels = np.array([0.0, np.nan, 2.0])
    report = import_graph(npz(tmp_path, labels=labels), tmp_path / "g.ng")
    assert "labels-missing" in [note["code"] for note in report["notes"]]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert np.array_equal(store.labels, labels, equal_nan=True)


def test_an_existing_store_is_kept_unless_told_otherwise(tmp_path):
    source = npz(tmp_path)
    import_graph(source, tmp_path / "g.ng")
    before = sorted((f.name, f.read_bytes()) for f in (tmp_path / "g.ng").iterdir())
    with pytest.raises(ng.ImportFailed, match="already exists"):
        import_graph(source, tmp_path / "g.ng", undirected=True)
    assert before == sorted((f.name, f.read_bytes()) for f in (tmp_path / "g.ng").iterdir())
    with pytest.raises(ng.ImportFailed, match="in"):
        import_graph(
            npz(tmp_path, adj_indices=np.array([9, 9, 9, 9])), tmp_path / "g.ng", overwrite=True
        )
    assert before == sorted((f.name, f.read_bytes()) for f in (tmp_path / "g.ng").iterdir())
    import_graph(npz(tmp_path), tmp_path / "g.ng", undirected=True, overwrite=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.schema.edge_types[0].undirected


def test_a_budget_too_small_says_the_minimum(tmp_path):
    with pytest.raises(ng.BudgetTooSmall, match="at least"):
        import_graph(npz(tmp_path), tmp_path / "g.ng", memory=1000)
    assert not (tmp_path / "g.ng").exists()


def test_an_undirected_import_of_two_node_types_is_refused(tmp_path):
    lists = text(tmp_path, "0 1 2 3\n1 5\n2 7 8 9 10 11\n", "lists.txt")
    with pytest.raises(ng.ImportFailed, match="joins two node types"):
        import_graph(lists, tmp_path / "g.ng", format="lists", undirected=True)
