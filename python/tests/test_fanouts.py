"""Fanouts in all of PyG's spellings."""

import pytest

import neargraph as ng
from neargraph.loader.fanouts import resolve_fanouts

WRITES = ("author", "writes", "paper")


def test_a_list_holds_for_every_edge_type(homo, hetero):
    assert resolve_fanouts(homo.schema, [15, 10]) == [[15, 10]]
    assert resolve_fanouts(hetero.schema, (3, -1)) == [[3, -1]] * 3


def test_a_dictionary_takes_triples_pairs_strings_and_relations(hetero):
    expected = [[1], [2], [3]]
    for keys in (
        [("paper", "cites", "paper"), WRITES, ("venue", "holds", "paper")],
        ["paper__cites__paper", "author__writes__paper", "venue__holds__paper"],
        ["paper__paper", "author__paper", ("venue", "paper")],
        ["cites", "writes", "holds"],
    ):
        fanouts = {key: [k + 1] for k, key in enumerate(keys)}
        assert resolve_fanouts(hetero.schema, fanouts) == expected


def test_num_neighbors_objects_are_taken_with_their_default(hetero):
    sampler = pytest.importorskip("torch_geometric.sampler")
    given = sampler.NumNeighbors({WRITES: [2, 2]}, default=[1, 0])
    assert resolve_fanouts(hetero.schema, given) == [[1, 0], [2, 2], [1, 0]]


def test_bad_fanouts_say_what_is_wrong(hetero):
    with pytest.raises(ValueError, match="have no list for edge type"):
        resolve_fanouts(hetero.schema, {WRITES: [2]})
    with pytest.raises(ng.NameNotFound, match="reviews"):
        resolve_fanouts(hetero.schema, {("author", "reviews", "paper"): [2]})
    with pytest.raises(ValueError, match="same number of hops"):
        resolve_fanouts(hetero.schema, {"cites": [1], "writes": [1, 2], "holds": [1]})
    odd = ([None], ["a"], [[2, 2]], [float("nan")], [float("inf")])
    for bad in ([-2], [1.5], [2**31], [True], "15", 3, None, *odd):
        with pytest.raises(ValueError, match="fanout"):
            resolve_fanouts(hetero.schema, bad)
    for bad in (None, 3, [None]):
        with pytest.raises(
            ValueError, match=r"fanout.*got (None|3)|None is not valid for the fanouts"
        ):
            resolve_fanouts(hetero.schema, {"cites": bad, "writes": [1], "holds": [1]})
