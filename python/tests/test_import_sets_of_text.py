"""Published sets in text files: musae, gowalla check-ins, temporal co-authors."""

import gzip
import json

import numpy as np
import pytest
import tiny_planetoid
from realdata import PLAIN, Raw, RawEdges, check_store, data

import neargraph as ng
from neargraph.importers import (
    ImportOptions,
    TextHints,
    estimate_import,
    import_graph,
    plan_source,
)


@pytest.mark.parametrize("name", ["chameleon", "squirrel"])
def test_a_musae_set_joins_edges_features_and_targets(name, tmp_path):
    source = data("musae", f"{name}_edges.csv.gz")
    import_graph(source, tmp_path / "g.ng")
    with gzip.open(source, "rt") as lines:
        edges = np.loadtxt(lines, delimiter=",", skiprows=1, dtype=np.int64)
    with gzip.open(source.with_name(f"{name}_target.csv.gz"), "rt") as lines:
        target = np.loadtxt(lines, delimiter=",", skiprows=1, dtype=np.int64)
    with gzip.open(source.with_name(f"{name}.json.gz"), "rt") as stream:
        words = {int(key): ids for key, ids in json.load(stream).items()}
    x = np.zeros((len(target), 1 + max(max(ids) for ids in words.values())), dtype=np.float32)
    for node, ids in words.items():
        x[node, ids] = 1
    y = np.zeros(len(target), dtype=np.int64)
    y[target[:, 0]] = target[:, 1]
    raw = Raw({"node": len(y)}, {"node": {"x": x, "y": y}}, {PLAIN: RawEdges(*edges.T)})
    check_store(tmp_path / "g.ng", raw)


def test_adjacency_lists_become_users_items_and_visits_with_times(tmp_path):
    source = data("gowalla_checkins", "gowalla_train.txt.gz")
    import_graph(source, tmp_path / "g.ng")
    with gzip.open(source, "rt") as lines:
        rows = [[int(field) for field in line.split()] for line in lines]
    with gzip.open(source.with_name("gowalla_time_train.txt.gz"), "rt") as lines:
        times = np.concatenate([[int(field) for field in line.split()[1:]] for line in lines])
    users = np.concatenate([np.full(len(row) - 1, row[0]) for row in rows])
    items = np.concatenate([row[1:] for row in rows])
    counts = {"user": int(users.max()) + 1, "item": int(items.max()) + 1}
    edges = {("user", "visits", "item"): RawEdges(users, items, times=times)}
    check_store(tmp_path / "g.ng", Raw(counts, {}, edges))


def test_temporal_edges_keep_fractional_times_in_millionths(tmp_path):
    source = data("dblp_coauthor_temporal", "dblp.txt.gz")
    import_graph(source, tmp_path / "g.ng")
    with gzip.open(source, "rt") as lines:
        table = np.loadtxt(lines)
    with gzip.open(source.with_name("node2label.txt.gz"), "rt") as lines:
        labels = np.loadtxt(lines, dtype=np.int64)
    y = np.full(25_387, -1, dtype=np.int64)
    y[labels[:, 0]] = labels[:, 1]
    times = np.rint(table[:, 2] * 1e6).astype(np.int64)
    edges = RawEdges(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), times=times)
    check_store(tmp_path / "g.ng", Raw({"node": len(y)}, {"node": {"y": y}}, {PLAIN: edges}))
    assert "millionths" in str(plan_source(source).notes[0])


@pytest.mark.parametrize(
    ("line", "hints", "words"),
    [
        ("0 1 5 1.0\n", None, 'read the file with format="text"'),
        ("src,dst,time\n0,1,5\n", None, 'read the file with format="text"'),
        (
            f"0 1 {2**53 + 1}\n",
            None,
            'is out of range: .* below 2\\^53; read the file with format="text"',
        ),
        (
            "0 1 5\n",
            TextHints(columns={"src": "1", "dst": "0"}),
            "leave out this hint, or read the file with format=",
        ),
    ],
)
def test_what_is_no_temporal_list_is_refused_with_the_format_that_takes_it(
    line, hints, words, tmp_path
):
    (tmp_path / "t.txt").write_text(line)
    with pytest.raises(ng.ImportFailed, match=words):
        plan_source(tmp_path / "t.txt", "temporal", hints)
    if "header" not in words:
        columns = {"src": "0", "dst": "1", "time": "2"}
        plan_source(tmp_path / "t.txt", "text", TextHints(columns=columns))


def test_a_folder_of_several_sets_names_them(tmp_path):
    def refused(folder, words, format=None):
        with pytest.raises(ng.ImportFailed, match=words):
            plan_source(folder, format)

    sets = tmp_path / "sets"
    for name in ("A", "B"):
        (sets / name).mkdir(parents=True)
        (sets / name / f"{name}_A.txt").write_text("1, 2\n")
    (sets / "notes.txt").write_text("0 1\n")
    refused(sets, "not a folder of a known layout; give one of its entries A, B$")
    refused(sets, "not a TUDataset folder; give one of its folders A, B$", "tudataset")
    planetoid = tmp_path / "planetoid"
    planetoid.mkdir()
    tiny_planetoid.write(planetoid)
    (planetoid / "ind.other.graph").write_bytes(b"")
    refused(planetoid, r"one of its entries ind\.other\.graph, ind\.tiny\.graph$")
    refused(planetoid, r"a file of one data set: ind\.other\.graph, ind\.tiny\.graph$", "planetoid")
    text = tmp_path / "text"
    text.mkdir()
    for name in ("node2label.txt.gz", "w.txt", "SOURCE", ".hidden.txt"):
        (text / name).write_text("0 1\n")
    refused(text, r"give w\.txt$")
    refused(text, "not a regular file but a folder; give a file in the folder$", "temporal")


def test_the_estimate_counts_pages_and_what_is_not_zero(tmp_path):
    (tmp_path / "in").mkdir()
    tiny_planetoid.write(tmp_path / "in")
    rows = np.zeros((900, 1000), np.float32)
    np.savez(tmp_path / "n.npz", edges=np.array([[0, 1]]), node_features=rows)
    words = {str(node): [node % 7, 2000] for node in range(600)}
    (tmp_path / "m.json").write_text(json.dumps(words))
    (tmp_path / "m_edges.csv").write_text("id1,id2\n" + "".join(f"{k},1\n" for k in range(300)))
    found = {}
    for name, options in (
        ("in", {}),
        ("n.npz", {}),
        ("n.npz", {"dense": True}),
        ("m_edges.csv", {}),
    ):
        out = tmp_path / f"{len(found)}.ng"
        estimate = estimate_import(plan_source(tmp_path / name), out, ImportOptions(**options))
        import_graph(tmp_path / name, out, **options)
        size = sum(file.stat().st_size for file in out.iterdir() if "log" not in file.name)
        found[len(found)] = estimate["is_upper_bound"], estimate["disk_bytes"], size
    # Rows of 4,000 bytes take a page each.
    assert found[2][1] >= 900 * 4096
    assert [bound for bound, _, _ in found.values()] == [False, True, False, False]
    assert found[1][1] == found[2][1] > 4 * found[1][2]
    assert 0.8 < found[2][1] / found[2][2] < 1.2
    # All words are 600 rows of 8,004 bytes.
    assert found[3][1] < 100_000
    assert estimate["edges"] == 300
