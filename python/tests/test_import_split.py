"""The seeded split: exact counts, a function of the seed alone, any number of nodes."""

import numpy as np
import pytest

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, TensorPlan, parse_split, run_import
from neargraph.importers.split import split_chunks, split_counts


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 7, 1000, (1 << 20) + 3, 3 << 20])
@pytest.mark.parametrize("percent", [(60, 20, 20), (1, 0, 99), (33.3, 33.3, 33.3), (0.5, 0, 0)])
def test_the_counts_are_exact(num_nodes, percent):
    codes = np.concatenate([np.empty(0, np.uint8), *split_chunks(num_nodes, percent, 7)])
    assert len(codes) == num_nodes
    counts = np.bincount(codes, minlength=4)
    assert counts.tolist() == split_counts(num_nodes, percent)
    for share, count in zip(percent, counts[1:], strict=True):
        assert abs(count - num_nodes * share / 100) <= 1


def test_a_seed_decides_the_split_and_chunks_are_alike():
    first, again, other = (
        np.concatenate(list(split_chunks(2_500_000, (60, 20, 20), seed))) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    for part in np.array_split(first, 5):
        assert abs((part == 1).mean() - 0.6) < 0.005


@pytest.mark.parametrize("text", ["60,20", "a,b,c", "80,20,20", "-1,50,50", "0,0,0"])
def test_what_is_no_split_is_refused(text):
    with pytest.raises(ValueError, match="60,20,20"):
        parse_split(text)


def test_an_import_writes_the_split_and_invents_none(tmp_path):
    run_import(plan_generated(1000, 3000, 8, 4), tmp_path / "plain.ng")
    run_import(
        plan_generated(1000, 3000, 8, 4),
        tmp_path / "g.ng",
        ImportOptions(split_sizes=(60, 20, 20), seed=3),
    )
    with ng.open(tmp_path / "plain.ng", memory="64MB") as store:
        assert [t.name for t in store.schema.node_types[0].tensors] == ["x", "y"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        parts = [store.split(name) for name in ("train", "val", "test")]
        assert [len(part) for part in parts] == [600, 200, 200]
        assert len(np.unique(np.concatenate(parts))) == 1000


def test_a_type_that_has_splits_gets_no_other(tmp_path):
    plan = plan_generated(100, 300, 8, 4)
    codes = np.zeros(100, np.uint8)
    plan.nodes[0].tensors.append(TensorPlan("split_0", "u8", (), lambda: iter([codes]), 100))
    options = ImportOptions(split_sizes=(60, 20, 20))
    with pytest.raises(ng.ImportFailed, match="splits in the input; leave out split_sizes="):
        run_import(plan, tmp_path / "g.ng", options)


def test_text_whose_nodes_are_only_known_at_the_end_can_be_split(tmp_path):
    from neargraph.importers import import_graph

    (tmp_path / "e.txt").write_text("0 1\n1 2\n9 3\n")
    import_graph(tmp_path / "e.txt", tmp_path / "g.ng", split_sizes=(50, 30, 20))
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert [len(store.split(name)) for name in ("train", "val", "test")] == [5, 3, 2]
