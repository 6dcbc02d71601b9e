"""Every argument of the loaders and samplers takes effect, changes nothing by nature, or raises."""

import inspect
import json

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from neargraph.loader.direct import compile_direct  # noqa: E402
from neargraph.loader.reading import ROW_READINGS  # noqa: E402


class _reading:
    """`ng.Reading` that is made, and refused, in the test."""

    def __init__(self, *way, **settings):
        self.way, self.settings = way, settings

    def __repr__(self):
        return f"Reading({self.way}, {self.settings})"


def _made(given):
    how = given.get("reading")
    if not isinstance(how, _reading):
        return given
    return {**given, "reading": ng.Reading(*how.way, **how.settings)}


WORKERS = {"num_workers": 1}

# Combinations whose second part would have no effect: (arguments, what the message names).
IGNORED = [
    # Processes make batches one by one.
    ({**WORKERS, "reading": "scan"}, "reading"),
    ({**WORKERS, "reading": "window"}, "reading"),
    ({**WORKERS, "reading": "distribute"}, "reading"),
    ({**WORKERS, "reading": _reading(window=4)}, "window"),
    ({**WORKERS, "reading": _reading(two_phase=True)}, "two_phase"),
    ({**WORKERS, "reading": _reading(two_phase=False)}, "two_phase"),
    ({**WORKERS, "reading": _reading(prefetch=2)}, "prefetch"),
    ({**WORKERS, "reading": _reading(threads=2)}, "threads"),
    ({**WORKERS, "reading": "compiled"}, "compiled"),
    ({**WORKERS, "filter_per_worker": False}, "filter_per_worker"),
    # Without processes there is nobody to take these.
    ({"multiprocessing_context": "spawn"}, "num_workers"),
    ({"persistent_workers": True}, "num_workers"),
    ({"prefetch_factor": 2}, "num_workers"),
    ({"worker_init_fn": print}, "num_workers"),
    ({"timeout": 5}, "num_workers"),
    # Ways of reading that do not look ahead, or not so.
    ({"reading": _reading("on_demand", window=4)}, "window"),
    ({"reading": _reading("on_demand", two_phase=True)}, "two_phase"),
    ({"reading": _reading("naive-uring", window=4)}, "window"),
    ({"reading": _reading("naive-uring+sieve", two_phase=True)}, "two_phase"),
    ({"reading": _reading("distribute", two_phase=False)}, "two_phase"),
    ({"reading": _reading("window", two_phase=True)}, "two_phase"),
    ({"reading": _reading("scan", otherwise="auto")}, "otherwise"),
    ({"reading": _reading("distribute", temporary_writes="2x")}, "temporary_writes"),
    ({"reading": _reading("on_demand", temporary_writes="never")}, "temporary_writes"),
    ({"reading": _reading(two_phase=True, temporary_writes="never")}, "temporary_writes"),
    ({"reading": _reading("direct_layout", temporary_writes="never")}, "temporary_writes"),
    ({"reading": _reading("compiled", temporary_writes="never")}, "temporary_writes"),
    ({**WORKERS, "reading": _reading(temporary_writes="never")}, "temporary_writes"),
    ({"reading": _reading("direct_layout", window=4)}, "window"),
    ({"reading": _reading("direct_layout", two_phase=True)}, "two_phase"),
    # A replay reads its files from front to back.
    ({"reading": _reading("compiled", window=4)}, "window"),
    ({"reading": _reading("compiled", two_phase=True)}, "two_phase"),
    ({"reading": _reading("compiled", threads=2)}, "threads"),
    # What is said of x, where no x is read.
    ({"attrs": ["y"], "x_dtype": "f16"}, "x_dtype"),
    ({"attrs": [], "x_dtype": torch.float16}, "x_dtype"),
    ({"attrs": ["y"], "x_format": "sparse"}, "x_format"),
    ({"x_format": "sparse"}, "x_format"),
    # Draws.
    ({"dependent_batches": 4}, "dependent_batches"),
    ({"method": "labor", "replace": True}, "labor"),
    ({"method": "labor", "weight_attr": "edge_weight"}, "weight_attr"),
    ({"weight_attr": "w"}, "edge_weight"),
    ({"reading": "direct_layout", "method": "weighted"}, "weighted"),
    ({"reading": "direct_layout", "method": "labor"}, "labor"),
    # Arguments of PyG.
    ({"temporal_strategy": "last"}, "temporal_strategy"),
    ({"temporal_strategy": "anneal", "time_attr": None}, "temporal_strategy"),
    ({"input_time": [1]}, "time_attr"),
    ({"time_attr": "x"}, "int64"),
    ({"subgraph_type": "sideways"}, "subgraph_type"),
    ({"input_id": [1]}, "input_id"),
    ({"disjoint": True, "reading": "direct_layout"}, "layout"),
    ({"subgraph_type": "induced", "reading": "direct_layout"}, "layout"),
    ({"time_attr": "y", "reading": "direct_layout"}, "layout"),
    ({"time_attr": "y", "method": "labor"}, "labor"),
    ({"is_sorted": "yes"}, "is_sorted"),
    ({"neighbor_sampler": "ours"}, "neighbor_sampler"),
    ({"transform_sampler_output": print}, "transform_sampler_output"),
    ({"pin_memory_device": "cuda"}, "device"),
    ({"in_order": False}, "in_order"),
    ({"dataset": [1]}, "data"),
]

# Values that no count can have.
BAD = [
    ({"reading": _reading(window=0)}, "window"),
    ({"reading": _reading(window=True)}, "window"),
    ({"reading": _reading(prefetch=0)}, "prefetch"),
    ({"reading": _reading(prefetch=-1)}, "prefetch"),
    ({"reading": _reading(threads=0)}, "threads"),
    ({"reading": _reading(threads=1.5)}, "threads"),
    ({"num_workers": -1}, "num_workers"),
    ({"batch_size": 0}, "batch_size"),
    ({"ranks": (1, 1)}, "rank"),
    ({"batch_size": 3, "ranks": (0, 2)}, "world_size"),
    ({"seed": -1}, "seed"),
    ({"reading": "sideways"}, "reading"),
    ({"reading": None}, "reading"),
    ({"reading": 1}, "reading"),
    ({"reading": _reading("compiled", otherwise="sideways")}, "otherwise"),
    ({"ranks": 1}, "ranks"),
    ({"attrs": "xy"}, "attrs"),
    ({"method": "sideways"}, "method"),
    ({"x_format": "sideways"}, "x_format"),
]


@pytest.fixture(scope="module")
def store(homo_graph, tmp_path_factory):
    """A store with a direct layout, so that arguments alone are wrong."""
    path = homo_graph.write(tmp_path_factory.mktemp("arguments") / "homo.ng")
    with ng.open(path, memory="64MB") as store:
        compile_direct(store.snapshot())
        yield store


@pytest.mark.parametrize(("given", "named"), IGNORED + BAD, ids=lambda given: str(given)[:60])
def test_a_loader_refuses_what_it_would_ignore(store, given, named):
    with pytest.raises((ValueError, TypeError), match=named):
        ng.NeighborLoader(store, [2], **_made(given))


OF_BATCHES = inspect.signature(ng.NumpySampler.batches).parameters
OF_SAMPLER = inspect.signature(ng.NumpySampler).parameters
FOR_SAMPLERS = [
    (given, named)
    for given, named in IGNORED + BAD
    if all(name in {**OF_BATCHES, **OF_SAMPLER} for name in given)
    and given.get("reading") != "direct_layout"
]
# A sampler is made with its layout.
FOR_SAMPLERS += [
    ({"layout": "direct", "reading": "scan"}, "reading"),
    ({"layout": "direct", "reading": "compiled"}, "reading"),
    ({"layout": "direct", "reading": _reading(window=4)}, "window"),
    ({"reading": "direct_layout"}, "layout"),
    ({"layout": "direct", "method": "labor"}, "labor"),
    ({"layout": "direct", "disjoint": True}, "layout"),
    ({"layout": "sideways"}, "layout"),
]


@pytest.mark.parametrize(("given", "named"), FOR_SAMPLERS, ids=lambda given: str(given)[:60])
def test_a_sampler_refuses_what_it_would_ignore(store, given, named):
    given = {"batch_size": 2, **given}
    made = {name: value for name, value in given.items() if name in OF_SAMPLER}
    asked = {name: value for name, value in given.items() if name in OF_BATCHES}
    with pytest.raises((ValueError, TypeError), match=named):
        ng.NumpySampler(store, [2], **made).batches(None, **_made(asked))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"attrs": ["y"], "x_dtype": "f16"}, "x_dtype"),
        ({"attrs": "x"}, "attrs"),
        ({"reading": _reading(prefetch=0)}, "prefetch"),
        ({"reading": _reading(prefetch=1.5)}, "prefetch"),
        ({"num_parts": 0}, "num_parts"),
        ({"num_parts": 301}, "num_parts"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"num_workers": 1, "reading": "scan"}, "reading"),
        ({"nodes": 1}, "nodes"),
        ({"ranks": ng.Ranks(0, 2, pad=True)}, "pad"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_a_cluster_loader_refuses_what_it_would_ignore(homo, given, named):
    with pytest.raises((ValueError, TypeError), match=named):
        ng.ClusterGCNLoader(homo, **{"num_parts": 4, **_made(given)})


def test_some_of_several_split_columns_are_refused_where_batches_have_masks(hetero):
    assert hetero.schema.node_type("paper").tensors[-1].name == "split_1"
    with pytest.raises(ng.UnsupportedArgument, match="train_mask"):
        ng.NeighborLoader(hetero, [2], "paper", attrs={"paper": ["split_0"]})
    sampler = ng.NumpySampler(hetero, [2], attrs={"paper": ["split_0"]})
    assert len(sampler.sample(("paper", [1])).features("split_0", "paper")) > 0


def test_a_window_that_is_asked_for_is_looked_ahead_by(homo):
    for reading in ROW_READINGS:
        with ng.open(homo.path, memory="64MB") as store:
            looks = reading != "on_demand" and not reading.startswith("naive")
            how = ng.Reading(reading, window=3 if looks else None)
            loader = ng.NeighborLoader(store, [2, 2], batch_size=30, reading=how)
            assert sum(batch.batch_size for batch in loader) == 300
            if looks and reading != "distribute":
                assert loader.chosen()["window"] == 3
            loader.close()


def test_what_asks_for_what_happens_anyway_is_taken(homo):
    plain = [b.n_id.tolist() for b in ng.NeighborLoader(homo, [2], batch_size=50)]
    for same in (
        {"reading": "on_demand"},
        {"num_workers": 1, "reading": "on_demand", "filter_per_worker": True},
        {"num_workers": 1, "prefetch_factor": 3, "persistent_workers": False},
        {"reading": ng.Reading("compiled", otherwise="on_demand", prefetch=1, threads=1)},
        {"persistent_workers": False, "prefetch_factor": None, "timeout": 0},
        {"temporal_strategy": "uniform", "is_sorted": True, "filter_per_worker": False},
        {"reading": ng.Reading(two_phase=False)},
        {"reading": ng.Reading(window=2, prefetch=1, threads=1)},
        {"drop_last": True},
    ):
        loader = ng.NeighborLoader(homo, [2], batch_size=50, **same)
        assert [b.n_id.tolist() for b in loader] == plain, same
        loader.close()


# What each argument of a loader changes, and what it is given to see that.
EFFECTS = {
    "num_neighbors": [1],
    "input_nodes": [3, 4, 5],
    "batch_size": 7,
    "shuffle": True,
    "seed": 9,
    "replace": True,
    "method": "labor",
    "drop_last": True,
    "attrs": ["y"],
    "x_dtype": torch.float16,
    "transform": lambda batch: batch.n_id,
    "input_id": range(300, 0, -1),
    "disjoint": True,
    "time_attr": "y",
    "subgraph_type": "induced",
    "directed": False,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_an_argument_changes_the_batches(homo, name):
    def batches(**changed):
        arguments = {"num_neighbors": [3], "batch_size": 80, **changed}
        found = list(ng.NeighborLoader(homo, **arguments))
        return [str(batch) if not hasattr(batch, "to_dict") else _plain(batch) for batch in found]

    assert batches(**{name: EFFECTS[name]}) != batches()


def test_times_of_seeds_and_the_strategy_change_the_batches(homo):
    def batches(**changed):
        arguments = {"num_neighbors": [3], "batch_size": 80, "time_attr": "y", **changed}
        return [_plain(batch) for batch in ng.NeighborLoader(homo, **arguments)]

    assert batches(input_time=[3] * 300) != batches()
    assert batches(temporal_strategy="last") != batches()


def _plain(batch):
    values = {name: value for name, value in batch.to_dict().items() if torch.is_tensor(value)}
    return json.dumps({name: (str(v.dtype), v.tolist()) for name, v in values.items()})


def test_every_argument_of_a_loader_is_looked_at_by_a_test():
    tested = {name for given, _ in IGNORED + BAD for name in given} | set(EFFECTS)
    elsewhere = {"data", "pin_memory", "device", "kwargs"}
    assert set(inspect.signature(ng.NeighborLoader).parameters) <= tested | elsewhere
    assert set(OF_BATCHES) - {"self", "ids", "epoch"} <= tested
    elsewhere = {"store", "fanouts", "check_rows", "layout"}
    assert set(OF_SAMPLER) - elsewhere <= tested


def test_ids_that_are_asked_for_by_a_mask_of_numpy_and_of_torch_are_the_same(homo):
    mask = homo.mask("train")
    loaders = [ng.NeighborLoader(homo, [2], given) for given in (mask, torch.from_numpy(mask))]
    first, second = ([b.input_id.tolist() for b in loader] for loader in loaders)
    assert first == second == [[int(i)] for i in np.flatnonzero(mask)]
