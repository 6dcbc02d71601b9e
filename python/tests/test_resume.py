"""A loader's state: two numbers and a fingerprint; a resumed epoch loses and repeats nothing."""

import json

import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


def loader_of(store, **changes):
    arguments = {
        "num_neighbors": [3, 2],
        "batch_size": 16,
        "input_nodes": "train",
        "shuffle": True,
        "seed": 7,
    }
    return ng.NeighborLoader(store, **{**arguments, **changes})


def key(batch):
    return batch.n_id.tolist(), batch.edge_index.tolist(), batch.x.sum().item()


def all_batches(store, epochs=3):
    loader = loader_of(store)
    return [[key(b) for b in loader] for _ in range(epochs)]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("handed", [0, 1, 3])
def test_a_resumed_epoch_gives_the_batches_that_were_missing(homo, handed, workers):
    expected = all_batches(homo)
    loader = loader_of(homo, reading=ng.Reading(prefetch=4))
    list(loader)
    batches = iter(loader)
    got = [key(next(batches)) for _ in range(handed)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["batches"]) == (1, handed)
    del batches
    resumed = loader_of(homo, num_workers=workers)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert got + [key(b) for b in resumed] == expected[1]
    assert [key(b) for b in resumed] == expected[2]


def test_batches_that_were_only_prefetched_are_not_counted(homo):
    loader = loader_of(homo, reading=ng.Reading(prefetch=8))
    batches = iter(loader)
    next(batches)
    assert loader.state_dict()["batches"] == 1


def test_after_a_whole_epoch_the_next_one_begins(homo):
    expected = all_batches(homo)
    loader = loader_of(homo)
    list(loader)
    state = loader.state_dict()
    resumed = loader_of(homo)
    resumed.load_state_dict(state)
    assert [key(b) for b in resumed] == expected[1]
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert list(resumed) == []
    assert [key(b) for b in resumed] == expected[1]


def test_set_epoch_keeps_a_state_of_that_epoch_and_drops_another(homo):
    expected = all_batches(homo)
    loader = loader_of(homo)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    for epoch, rest in ((0, expected[0][1:]), (2, expected[2])):
        resumed = loader_of(homo)
        resumed.load_state_dict(state)
        resumed.set_epoch(epoch)
        assert [key(b) for b in resumed] == rest


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("fanouts", {"num_neighbors": [3, 3]}),
        ("batch_size", {"batch_size": 8}),
        ("seed", {"seed": 8}),
        ("shuffle", {"shuffle": False}),
        ("replace", {"replace": True}),
        ("input_nodes", {"input_nodes": "val"}),
        ("world_size", {"ranks": (0, 2)}),
        ("drop_last", {"drop_last": True}),
    ],
)
def test_a_state_of_other_settings_is_refused_by_the_name_of_the_field(homo, field, changes):
    state = loader_of(homo).state_dict()
    with pytest.raises(ng.StateMismatch, match=field):
        loader_of(homo, **changes).load_state_dict(state)


def test_a_state_of_another_store_or_of_nothing_is_refused(homo, hetero):
    other = ng.NeighborLoader(hetero, [3, 2], input_nodes=("paper", "train"), batch_size=16)
    with pytest.raises(ng.StateMismatch, match="store"):
        loader_of(homo).load_state_dict(other.state_dict())
    for bad in ({}, {"format": 9}, [], None):
        with pytest.raises(ng.StateMismatch, match="format"):
            loader_of(homo).load_state_dict(bad)
    state = loader_of(homo).state_dict()
    with pytest.raises(ng.StateMismatch, match="batches"):
        loader_of(homo).load_state_dict({**state, "batches": 10**9})


def test_ranks_resume_from_the_same_state(homo):
    states, rest = [], []
    for rank in range(2):
        loader = loader_of(homo, ranks=(rank, 2))
        batches = iter(loader)
        next(batches)
        states.append(loader.state_dict())
        rest.append([key(b) for b in batches])
    assert states[0] == states[1]
    for rank in range(2):
        resumed = loader_of(homo, ranks=(rank, 2))
        resumed.load_state_dict(states[1 - rank])
        assert [key(b) for b in resumed] == rest[rank]
