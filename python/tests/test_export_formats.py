"""Stores as Parquet, PyG and NumPy: an import gives the same store, or a note names the loss."""

import fcntl
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes, heterogeneous, homogeneous, shop
from test_cli_commands import run
from test_to_graphbolt import same

import neargraph as ng
from neargraph.datasets import to_npz, to_parquet, to_pyg
from neargraph.importers import import_graph

pytest.importorskip("pyarrow")

FORMATS = {"parquet": "out", "npz": "out.npz", "pyg": "out.pt"}
WRITERS = {"parquet": to_parquet, "npz": to_npz, "pyg": to_pyg}


@pytest.fixture(params=FORMATS)
def format(request):
    if request.param == "pyg":
        pytest.importorskip("torch_geometric")
    return request.param


def export(format, path, folder):
    """The report of an export, and the path of what it wrote."""
    with ng.open(path, memory="64MB") as store:
        return WRITERS[format](store, folder / FORMATS[format]), folder / FORMATS[format]


def imported(report, out, target, **more):
    """The store that an import with the options of the report makes."""
    words, options = report["import_options"], dict(more)
    for at, word in enumerate(words):
        if word.startswith("--"):
            value = words[at + 1] if at + 1 < len(words) else "--"
            name = word[2:].replace("-", "_")
            options[name] = True if value.startswith("--") else value
    import_graph(out, target, **options)
    return target


def codes(report):
    return sorted(note["code"] for note in report["notes"])


@pytest.mark.parametrize("make", [homogeneous, heterogeneous, shop])
def test_a_store_comes_back_when_the_output_is_imported(make, format, tmp_path):
    path = make().write(tmp_path / "a.ng", mask_width=2 if make is heterogeneous else None)
    report, out = export(format, path, tmp_path)
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(path, memory="64MB") as one, ng.open(again, memory="64MB") as other:
        compare(report, one, other)
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted(["a.ng", "b.ng", out.name])


def compare(report, one, other):
    """The stores are equal, but for ids of edges that the report says were added."""
    if "edge-ids-added" not in codes(report):
        same(one, other)
    for triple in one.edge_types:
        assert np.array_equal(without_ids(one, triple), without_ids(other, triple))


@pytest.mark.parametrize("how", [{"undirected": True}, {"reverse": True}, {"unique": True}, {}])
@pytest.mark.parametrize("edge_ids", [True, False])
def test_how_a_store_was_imported_comes_back_with_the_options_of_the_report(
    how, edge_ids, format, tmp_path
):
    rng = np.random.default_rng(3)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/edge_index.npy", rng.integers(0, 30, (2, 200)))
    np.save(tmp_path / "in/edge_time.npy", rng.integers(-9, 9, 200))
    if edge_ids:
        attr = rng.standard_normal((200, 2)).astype(np.float32)
        np.save(tmp_path / "in/edge_attr.npy", attr)
    import_graph(tmp_path / "in", tmp_path / "a.ng", **how)
    report, out = export(format, tmp_path / "a.ng", tmp_path)
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(tmp_path / "a.ng") as one, ng.open(again) as other:
        # PyG has both directions as edges, each with a number of its own.
        notes = {"undirected-dropped": format == "pyg" and "undirected" in how}
        # Edges that were left out keep their numbers in the store.
        notes["edge-ids-renumbered"] = "unique" in how and edge_ids
        notes["edge-ids-added"] = format == "pyg" and not edge_ids
        assert codes(report) == sorted(code for code, there in notes.items() if there)
        if not report["notes"]:
            same(one, other)
        assert np.array_equal(without_ids(one), without_ids(other))


def without_ids(store, triple=None):
    """The edges of a type with times and tensors, whatever their numbers, sorted."""
    snap, edge = store.snapshot(), store.schema.edge_type(triple)
    ids = np.arange(store.schema.node_type(edge.destination).num_nodes)
    found = snap.neighbors(triple, ids)
    columns = [found.indices, np.repeat(ids, np.diff(found.indptr))]
    columns += [column for column in (found.weights, found.times) if column is not None]
    for tensor in edge.tensors:
        if tensor.name != "old_edge_id":
            rows = snap.edge_features(triple, found.edge_ids, tensor.name)
            columns += list(rows.reshape(len(rows), -1).T)
    table = np.stack([column.astype(np.float64) for column in columns])
    return table[:, np.lexsort(table)]


def test_edges_that_were_added_and_deleted_come_back_with_new_numbers(format, tmp_path):
    path = homogeneous().write(tmp_path / "a.ng")
    with ng.open(path, memory="64MB") as store:
        first = store.snapshot().neighbors(None, [7])
        with store.write() as tx:
            tx.delete_edge(None, int(first.indices[0]), 7)
            tx.add_edge(None, 3, 5, features={"edge_attr": np.float32([1, 2, 3])})
        expected = without_ids(store)
        found = store.snapshot().neighbors(None, np.arange(store.num_nodes))
        ids = sorted(found.edge_ids.tolist())
    report, out = export(format, path, tmp_path)
    assert codes(report) == ["edge-ids-renumbered"]
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(again, memory="64MB") as other:
        assert np.array_equal(without_ids(other), expected)
        old = other.snapshot().edge_features(None, np.arange(len(ids)), "old_edge_id")
        assert old.tolist() == ids


def named_store(folder):
    lines = [f"n{k},n{(k * 7 + 1) % 40}" for k in range(40)]
    (folder / "e.csv").write_text("src,dst\n" + "\n".join(lines) + "\n")
    import_graph(folder / "e.csv", folder / "named.ng", format="table")
    return folder / "named.ng"


def test_parquet_keeps_string_ids(tmp_path):
    path = named_store(tmp_path)
    report, out = export("parquet", path, tmp_path)
    assert report["notes"] == []
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(path) as one, ng.open(again) as other:
        assert one.names(np.arange(40)) == other.names(np.arange(40))
        same(one, other)


@pytest.mark.parametrize("format", ["npz", "pyg"])
def test_other_formats_hold_string_ids_that_an_import_leaves_out(format, tmp_path):
    path = named_store(tmp_path)
    report, out = export(format, path, tmp_path)
    assert set(codes(report)) - {"edge-ids-added"} == {"string-ids-dropped"}
    with ng.open(path) as store:
        expected = store.names(np.arange(40))
    if format == "npz":
        assert np.load(out)["node_ids"].tolist() == expected
    else:
        torch = pytest.importorskip("torch")
        assert torch.load(out, weights_only=False).names == expected


def test_narrow_and_sparse_rows_come_back(format, tmp_path):
    rows = np.zeros((300, 40), np.float32)
    rows[np.arange(300), np.arange(300) % 40] = 1.5
    edges = np.stack([np.arange(300), (np.arange(300) * 7 + 1) % 300], axis=1)
    np.savez(tmp_path / "a.npz", edges=edges, node_features=rows)
    import_graph(tmp_path / "a.npz", tmp_path / "sparse.ng")
    dense = np.random.default_rng(5).standard_normal((300, 6)).astype(np.float32)
    np.savez(tmp_path / "d.npz", edges=edges, node_features=dense)
    for kind in ("i8", "bf16", "f16"):
        import_graph(tmp_path / "d.npz", tmp_path / f"{kind}.ng", x_dtype=kind)
    for name in ("sparse", "i8", "bf16", "f16"):
        (tmp_path / name).mkdir()
        report, out = export(format, tmp_path / f"{name}.ng", tmp_path / name)
        again = imported(report, out, tmp_path / name / "b.ng")
        with ng.open(tmp_path / f"{name}.ng") as one, ng.open(again) as other:
            compare(report, one, other)
            mine, theirs = (s.schema.tensor(s.schema.node_type(), "x") for s in (one, other))
            assert (mine.dtype, mine.sparse, mine.scaled) == (
                theirs.dtype,
                theirs.sparse,
                theirs.scaled,
            )


def test_labels_with_class_names_are_text_in_parquet(tmp_path):
    import pyarrow.parquet as pq

    labels = np.array(["cat", "", "dog", "ant", "dog"])
    edges = np.array([[0, 1], [1, 2], [3, 4]])
    np.savez(
        tmp_path / "a.npz",
        edges=edges,
        node_features=np.eye(5, 3, dtype=np.float32),
        node_labels=labels,
    )
    import_graph(tmp_path / "a.npz", tmp_path / "a.ng")
    report, out = export("parquet", tmp_path / "a.ng", tmp_path)
    assert report["notes"] == []
    column = pq.read_table(out / "nodes.parquet")["y"].to_pylist()
    assert column == ["cat", None, "dog", "ant", "dog"]
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(tmp_path / "a.ng") as one, ng.open(again) as other:
        same(one, other)
        with other.write() as tx:
            tx.update_features(None, 3, "y", 0 if other.labels[3] else 1)
    report, _ = export("parquet", again, make(tmp_path / "more"))
    assert codes(report) == ["classes-renumbered"], "ant is no class any more"


def make(folder):
    folder.mkdir()
    return folder


def test_deleted_nodes_and_reused_ids_are_said(format, tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 2]]))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", reverse=True, reuse_ids=True)
    with ng.open(tmp_path / "a.ng") as store, store.write() as tx:
        tx.delete_node(None, 0)
    report, out = export(format, tmp_path / "a.ng", tmp_path)
    assert set(codes(report)) - {"edge-ids-added"} == {"nodes-deleted"}
    assert report["import_options"] == ["--reuse-ids", "--reverse"]
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(again) as other:
        assert (other.num_nodes, other.num_edges) == (3, 2)


def test_a_type_without_edges_and_one_without_nodes_come_back(format, tmp_path):
    none = np.empty(0, np.int64)
    graph = Graph(
        {"a": Nodes(3, {"x": np.eye(3, 2, dtype=np.float32)}), "b": Nodes(0)},
        {
            ("a", "r", "b"): Edges(none, none, edge_ids=False),
            ("a", "s", "a"): Edges(np.arange(3), np.arange(3), edge_ids=False),
        },
    )
    path = graph.write(tmp_path / "a.ng")
    report, out = export(format, path, tmp_path)
    again = imported(report, out, tmp_path / "b.ng")
    with ng.open(path) as one, ng.open(again) as other:
        compare(report, one, other)


@pytest.mark.parametrize("name", ["a__b", "a/b", "_a"])
def test_a_type_that_cannot_be_a_file_name_is_refused(name, tmp_path):
    ends = np.arange(3)
    graph = Graph({name: Nodes(3)}, {(name, "to", name): Edges(ends, ends)})
    graph.write(tmp_path / "s.ng")
    with (
        ng.open(tmp_path / "s.ng") as store,
        pytest.raises(ng.UnsupportedArgument, match="file name"),
    ):
        to_parquet(store, tmp_path / "out")
    assert [f.name for f in tmp_path.iterdir()] == ["s.ng"]


def test_nothing_is_replaced_and_nothing_half_is_left(format, tmp_path):
    path = homogeneous().write(tmp_path / "a.ng")
    with ng.open(path, memory="64MB") as store:
        out = tmp_path / FORMATS[format]
        out.write_text("mine")
        with pytest.raises(ng.UnsupportedArgument, match="already exists"):
            WRITERS[format](store, out)
        assert out.read_text() == "mine"
        out.unlink()
        with pytest.raises(ng.UnsupportedArgument, match="does not exist"):
            WRITERS[format](store, tmp_path / "none" / FORMATS[format])

        def stop(phase, done, total):
            if phase.startswith("edges"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            WRITERS[format](store, out, progress=stop)
    assert [f.name for f in tmp_path.iterdir()] == ["a.ng"]


def test_a_graph_larger_than_memory_is_refused_before_anything_is_read(tmp_path, capsys):
    pytest.importorskip("torch_geometric")
    path = homogeneous(40_000, 400_000).write(tmp_path / "a.ng")
    arguments = ("export", path, tmp_path / "out.pt", "--format", "pyg", "--memory", "8MB")
    code, _, err = run(*arguments, capsys=capsys)
    assert code == 2
    assert "as PyG tensors, but the memory limit is 8 MB" in err
    assert "raise --memory to at least" in err
    assert [f.name for f in tmp_path.iterdir()] == ["a.ng"]


@pytest.mark.parametrize("format", ["parquet", "npz"])
def test_pieces_keep_memory_below_the_size_of_the_graph(format, tmp_path):
    """320 MB of rows and 48 MB of edges pass through a process that grows by a fraction of that."""
    count = 1_000_000
    nodes = {"x": np.ones((count, 80), np.float32)}
    ends = np.arange(count)
    triple = ("node", "to", "node")
    Graph({"node": Nodes(count, nodes)}, {triple: Edges(ends, ends[::-1].copy())}).write(
        tmp_path / "a.ng"
    )
    program = (
        "import sys, resource, neargraph as ng\n"
        f"from neargraph.datasets import to_{format} as write\n"
        "store = ng.open(sys.argv[1], memory='32MB')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "write(store, sys.argv[2])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.ng", tmp_path / FORMATS[format]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150_000


def test_the_command_says_how_to_import_again(tmp_path, capsys):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 2]]))
    import_graph(tmp_path / "e.npy", tmp_path / "u.ng", undirected=True)
    arguments = ("export", tmp_path / "u.ng", tmp_path / "out", "--format", "parquet")
    code, out, _ = run(*arguments, capsys=capsys)
    assert code == 0
    assert (
        f"import again with: neargraph import {tmp_path / 'out'} --out NEW.ng --undirected" in out
    )
    code, out, err = run(
        *arguments[:2], tmp_path / "o2", "--format", "parquet", "--json", capsys=capsys
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["import_options"] == ["--undirected"]


def test_what_a_killed_export_left_is_removed_and_what_a_running_one_writes_stays(tmp_path):
    path = homogeneous().write(tmp_path / "a.ng")
    killed, running = (tmp_path / f".out.{pid}.partial" for pid in (4_000_001, 4_000_002))
    for folder in (killed, running):
        folder.mkdir()
        (folder / "rows").write_text("0")
    held = os.open(running, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        export("parquet", path, tmp_path)
    finally:
        os.close(held)
    assert sorted(found.name for found in tmp_path.iterdir()) == [running.name, "a.ng", "out"]
