"""Which seeds stand in which batch: for every epoch, rank and world size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neargraph.loader.seeds import SeedPlan


@given(
    num_seeds=st.integers(0, 200),
    part=st.integers(1, 20),
    world_size=st.integers(1, 5),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_ranks_cut_the_same_global_batches_and_only_fill_the_last(
    num_seeds, part, world_size, epoch, shuffle
):
    size = part * world_size
    common = {"num_seeds": num_seeds, "batch_size": size, "shuffle": shuffle, "seed": 9}
    whole = SeedPlan(**common)
    ranks = [
        SeedPlan(**common, rank=r, world_size=world_size, pad=world_size > 1)
        for r in range(world_size)
    ]
    assert {p.steps for p in ranks} == {whole.steps}
    everything = []
    for batch in range(whole.steps):
        expected = whole.places(epoch, batch, batch + 1)
        parts = [p.places(epoch, batch, batch + 1) for p in ranks]
        assert len({len(p) for p in parts}) == 1
        kept = [p[: len(p) - plan.padding(batch)] for p, plan in zip(parts, ranks, strict=True)]
        assert np.array_equal(np.concatenate(kept), expected)
        assert {p.stream(epoch, batch) for p in ranks} == {whole.stream(epoch, batch)}
        everything.append(expected)
    together = np.concatenate([np.empty(0, np.int64), *everything])
    assert np.array_equal(np.sort(together), np.arange(num_seeds))
    for plan in ranks:
        at_once = plan.places(epoch, 0, plan.steps)
        apart = [plan.places(epoch, b, b + 1) for b in range(plan.steps)]
        assert np.array_equal(at_once, np.concatenate([np.empty(0, np.int64), *apart]))


def test_the_tail_is_kept_dropped_or_padded():
    plan = SeedPlan(num_seeds=10, batch_size=4)
    assert plan.steps == 3
    assert len(plan.places(0, 2, 3)) == 2
    assert SeedPlan(num_seeds=10, batch_size=4, drop_last=True).steps == 2
    unpadded = SeedPlan(num_seeds=10, batch_size=4, world_size=4)
    assert unpadded.steps == 2
    padded = [
        SeedPlan(num_seeds=10, batch_size=4, world_size=4, rank=r, pad=True) for r in range(4)
    ]
    assert [p.padding(2) for p in padded] == [0, 0, 1, 1]
    assert [p.places(0, 2, 3).tolist() for p in padded] == [[8], [9], [0], [1]]


def test_streams_never_repeat_over_epochs_and_ignore_the_tail_rule():
    kept = SeedPlan(num_seeds=10, batch_size=4)
    dropped = SeedPlan(num_seeds=10, batch_size=4, drop_last=True)
    streams = [kept.stream(e, b) for e in range(5) for b in range(kept.steps)]
    assert len(set(streams)) == len(streams)
    assert dropped.stream(3, 1) == kept.stream(3, 1)


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_size": 0},
        {"batch_size": 4, "rank": 2, "world_size": 2},
        {"batch_size": 5, "world_size": 2},
    ],
)
def test_impossible_plans_are_refused(bad):
    with pytest.raises(ValueError, match=r"batch_size=\d, rank="):
        SeedPlan(num_seeds=10, **bad)
