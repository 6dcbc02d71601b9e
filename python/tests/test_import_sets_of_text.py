"""Published sets in text files: musae, gowalla check-ins, temporal co-authors."""

import gzip
import json

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store, data

from neargraph.importers import import_graph, plan_source


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
