"""The memory budget counts a batch until the last of its arrays is dropped."""

import gc

import pytest

import neargraph as ng


def used(store):
    gc.collect()
    return store.stats()["budget_used"]


def test_batches_held_by_the_caller_count_and_dropping_gives_back(homo_path):
    with ng.open(homo_path, memory="64MB") as store:
        sampler = ng.NumpySampler(store, [10, 10])
        sampler.sample(range(50))
        idle = used(store)
        batch = sampler.sample(range(50))
        held = used(store)
        assert held - idle >= batch.nbytes > 0
        x = batch.features("x")
        nodes = batch.nodes()
        del batch
        assert idle + x.nbytes + nodes.nbytes <= used(store) < held
        del nodes
        assert used(store) >= idle + x.nbytes
        del x
        assert used(store) == idle


def test_a_tensor_of_the_loader_holds_its_share(homo_path):
    pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    with ng.open(homo_path, memory="64MB") as store:
        loader = ng.NeighborLoader(store, [10, 10], batch_size=50, attrs=["x"])
        *_, batch = loader
        x = batch.x
        del batch, loader
        held = used(store)
        del x
        assert used(store) < held


@pytest.mark.parametrize("kind", ["sampler", "loader"])
def test_the_iterator_holds_no_batch_that_the_caller_has_dropped(homo_path, kind):
    with ng.open(homo_path, memory="64MB") as store:
        if kind == "sampler":
            running = ng.NumpySampler(store, [10, 10]).batches(range(50), 50)
        else:
            pytest.importorskip("torch_geometric")
            running = iter(ng.NeighborLoader(store, [10, 10], range(50), batch_size=50))
        ng.NumpySampler(store, [10, 10]).sample(range(50))
        idle = used(store)
        batch = next(running)
        assert used(store) > idle
        del batch
        assert used(store) == idle
        assert next(running, None) is None


def test_the_peak_stays_below_the_budget(homo_path):
    with ng.open(homo_path, memory="32MB") as store:
        for _ in ng.NumpySampler(store, [-1, -1]).batches(None, 20, reading=ng.Reading(prefetch=4)):
            pass
        stats = store.stats()
        assert 0 < stats["budget_peak"] <= stats["budget_limit"] == 32_000_000


def test_a_budget_that_cannot_work_says_the_minimum(homo_path):
    with pytest.raises(ng.BudgetTooSmall, match=r"\d"), ng.open(homo_path, memory=1000) as store:
        ng.NumpySampler(store, [-1, -1]).sample(range(300))


def test_stats_say_who_may_take_how_much_of_the_memory_and_who_has_it(homo_path):
    with ng.open(homo_path, memory="64MB") as store:
        empty = store.stats()["memory"]
        store.snapshot().features(None, range(10))
        memory, stats = store.stats()["memory"], store.stats()
        limit = stats["budget_limit"]
        assert all(0 <= user["share"] < limit for user in memory.values())
        assert memory["topology"] == {"share": limit // 2, "held": None}
        assert memory["rewrite"]["share"] == limit // 2
        assert memory["direct_pages"] == {"share": limit // 4 * 3, "held": 0}
        assert memory["block_cache"]["held"] == stats["block_cache_bytes"]
        assert memory["row_cache"]["held"] == stats["row_cache_bytes"]
        held = [user["held"] for user in memory.values() if user["held"] is not None]
        assert sum(held) == stats["budget_used"] > 0
        assert {name: user["share"] for name, user in empty.items()} == {
            name: user["share"] for name, user in memory.items()
        }
