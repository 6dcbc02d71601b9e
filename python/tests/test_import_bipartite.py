"""Edge lists whose two columns are two id spaces: two node types, with names, times and weights."""

import numpy as np
import pytest
from import_command import edges_of, refused
from realdata import Raw, RawEdges, check_store

import neargraph as ng
from neargraph.importers import TextHints, import_graph
from neargraph.importers.hints import parse_bipartite

RNG = np.random.default_rng(2)
USERS, ITEMS = RNG.integers(0, 30, 500), RNG.integers(0, 200, 500)
TIMES, WEIGHTS = RNG.integers(0, 10**9, 500), RNG.random(500).astype(np.float32)
RATES = ("user", "rates", "item")
TIMED = {"src": "0", "dst": "1", "time": "2", "weight": "3"}


def rows(*columns, joint=" "):
    return "".join(joint.join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def test_the_columns_are_two_node_types(tmp_path):
    (tmp_path / "r.txt").write_text(rows(USERS, ITEMS, TIMES, WEIGHTS))
    hints = TextHints(bipartite="user,rates,item", columns=TIMED)
    import_graph(tmp_path / "r.txt", tmp_path / "g.ng", hints=hints, edge_ids=True)
    counts = {"user": int(USERS.max()) + 1, "item": int(ITEMS.max()) + 1}
    edges = RawEdges(USERS, ITEMS, np.arange(500), TIMES, WEIGHTS)
    check_store(tmp_path / "g.ng", Raw(counts, {}, {RATES: edges}))


def test_a_name_may_be_a_node_of_both_types(tmp_path):
    (tmp_path / "r.txt").write_text("5 5\n7 5\n")
    hints = TextHints(strings=True, bipartite=RATES)
    import_graph(tmp_path / "r.txt", tmp_path / "g.ng", hints=hints, edge_ids=True, reverse=True)
    assert [row[:2] for row in edges_of(tmp_path / "g.ng", RATES)] == [("5", "5"), ("7", "5")]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.snapshot().names([0, 1], "user") == ["5", "7"]
        assert store.snapshot().names([0], "item") == ["5"]
        assert store.schema.reverse_types


def test_sparse_ids_are_numbered_by_type(tmp_path):
    (tmp_path / "r.txt").write_text("100 7\n900 7\n")
    hints = TextHints(bipartite="user,item")
    import_graph(tmp_path / "r.txt", tmp_path / "g.ng", hints=hints, relabel=True, edge_ids=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.edge_types == [("user", "to", "item")]
    assert [row[:2] for row in edges_of(tmp_path / "g.ng")] == [("100", "7"), ("900", "7")]


def test_a_table_has_two_node_types_too(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"user": USERS, "item": ITEMS}), tmp_path / "r.parquet")
    hints = TextHints(bipartite=RATES)
    import_graph(tmp_path / "r.parquet", tmp_path / "g.ng", hints=hints)
    counts = {"user": int(USERS.max()) + 1, "item": int(ITEMS.max()) + 1}
    check_store(tmp_path / "g.ng", Raw(counts, {}, {RATES: RawEdges(USERS, ITEMS)}))


@pytest.mark.parametrize("names", ["user", "user,rates,user", "a,b,c,d", ",rates,item", "a,", ""])
def test_what_does_not_name_two_types_is_refused(names):
    with pytest.raises(ValueError, match="does not name two different node types, expected SOURCE"):
        TextHints(bipartite=names)


def test_two_names_have_a_relation():
    assert parse_bipartite("user, item") == ("user", "to", "item")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--undirected"], "(user, rates, item) joins two node types and cannot be undirected; "),
        (["--num-nodes", "9"], "--num-nodes applies to one node type; leave out --num-nodes"),
        (["--split-sizes", "50,25,25"], "choose one with --split-type: user, item"),
        (["--format", "lists"], "--bipartite has no effect on the format lists; leave out"),
    ],
)
def test_options_that_need_one_type_are_refused(options, message, tmp_path):
    (tmp_path / "r.txt").write_text("1 2\n")
    given = ["--bipartite", "user,rates,item", "--out", tmp_path / "g.ng", *options]
    assert message in refused(tmp_path / "r.txt", *given)
    assert not (tmp_path / "g.ng").exists()
