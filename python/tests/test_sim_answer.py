"""What one should buy: this host, the chain of devices beside it, and what fits in memory."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from test_sim_host import HOST
from torch_geometric.data import Data

import neargraph as ng
from neargraph.exceptions import UnsupportedArgument
from neargraph.sim.chain import rank, tlc_of, where
from neargraph.sim.modelled import modelled_loader, share_of_wanted
from neargraph.sim.room import Room, room_of_store

SHAPE = {"fanouts": (3, 2), "batch_size": 32, "batches": 2, "seed": 4}
RECORD = [("offset", "<u8"), ("bytes", "<u4"), ("file", "<u4")]


@pytest.fixture(scope="module")
def trace():
    return ng.sim.Trace.of_dataset("amazon", batches=2, batch_size=64, seed=3)


@pytest.fixture(scope="module")
def answer(trace):
    return ng.sim.what_would_it_buy(trace, HOST, memory="8GB", repeats=3)


def watched(reads, cpu_seconds=0.001, seconds=0.01):
    """A loader that made ten batches of 32 targets, each with `reads` reads of a page."""
    requests = np.zeros(10 * reads, dtype=RECORD)
    requests["offset"], requests["bytes"] = np.arange(10 * reads) * 4096, 4096
    return ng.sim.Watched(
        "scan", 10, 320, seconds, cpu_seconds, 2, True, requests, rates=[3000.0, 3400.0]
    )


def test_steps_are_medians_over_seeds_of_what_simulate_says(answer):
    speeds = {name: [] for name in [*ng.sim.PLATFORMS, "CC-pipe"]}
    batches = {name: [] for name in speeds}
    for seed in (3, 4, 5):
        one = ng.sim.Trace.of_dataset("amazon", batches=2, batch_size=64, seed=seed)
        runs = ng.sim.simulate(one, platforms=list(speeds), mode="detailed")
        for name, speed in zip(speeds, runs["targets_per_s"].tolist(), strict=True):
            speeds[name].append(speed)
        for name, run in zip(speeds, runs.details, strict=True):
            batches[name] += [b["targets"] / b["interval"] * 1e12 for b in run["batches"]]
    assert answer.seeds == [3, 4, 5]
    for name, found in speeds.items():
        step = answer.step(name)
        assert step.targets_per_s == np.median(found)
        ends = (min(batches[name]), max(batches[name]))
        assert (step.least, step.most) == pytest.approx(ends)
    device = ng.sim.config("detailed")
    slow = ng.sim.simulate(
        dataset="amazon",
        batches=2,
        batch_size=64,
        seed=4,
        mode="detailed",
        platforms=["BG-2"],
        device=tlc_of(device),
    )
    assert answer.step("BG-2").tlc_targets_per_s == pytest.approx(slow["targets_per_s"][0], rel=0.1)
    assert device == ng.sim.config("detailed")


def test_the_chain_goes_from_this_host_to_the_dies(answer):
    assert [step.name for step in answer.stages()] == ["this host", "CC-uring", "BG-DG", "BG-2"]
    names = [step.name for step in answer.steps]
    assert names[:3] == ["this host", "uncached reader", "CC-uring"]
    assert [rank(name) for name in names] == sorted(rank(name) for name in names)
    assert answer.speedups["this host"] == 1.0
    assert answer.over_cc["CC"] == pytest.approx(1, rel=0.05)
    assert (where("BG-SP"), rank("host-DRAM")) == ("dies of the SSD", None)


def test_an_ordinary_ssd_changes_the_disk_and_nothing_else(homo):
    def steps(of):
        found = ng.sim.what_would_it_buy(homo, HOST, **SHAPE, watched=of, platforms=["CC"])
        return found.here, found.step("CC-uring"), found

    # 1,000 reads a batch take 10 ms of this disk, and the processor 0.5 ms.
    here, other, found = steps(watched(1000))
    assert here.targets_per_s == 3200
    assert (here.least, here.most) == (3000, 3400)
    assert here.bound_by == "disk"
    assert found.modelled_targets_per_s == pytest.approx(3200)
    assert other.targets_per_s > 3 * here.targets_per_s
    # Where the loader takes twice what the model says, so does it with the other disk.
    slow = steps(watched(1000, seconds=0.02))
    assert slow[1].targets_per_s / slow[0].targets_per_s == other.targets_per_s / 3200
    # Where the processor is what bounds, no disk helps.
    here, other, _ = steps(watched(10, cpu_seconds=0.02))
    assert (here.bound_by, other.bound_by) == ("processor", "processor")
    assert other.targets_per_s == here.targets_per_s


def test_the_simplest_within_five_percent_is_recommended():
    def step(name, speed, tlc=None):
        return ng.sim.Step(name, where(name), speed, speed, speed, "dies", tlc or speed)

    def answered(*steps, memory=1000):
        room = Room(memory, 100, 10_000)
        return ng.sim.Answer(
            {}, room, "scan", True, 100.0, list(steps), {}, "BG-2", [], 3.0, [0], None
        )

    here, uring = step("this host", 100.0), step("CC-uring", 180.0)
    found = answered(here, uring, step("BG-1", 955.0, 300.0), step("BG-2", 1000.0, 400.0))
    assert (found.best, found.recommended, found.recommended_tlc) == ("BG-2", "BG-1", "BG-2")
    assert "9.55 times as fast as this host, or 3 times with TLC flash" in found.words()
    assert "It is the simplest choice within 5 % of the fastest, BG-2." in found.words()
    assert (
        "With TLC flash, the recommendation is BG-2, the simplest choice within 5 % of the "
        "fastest device: 4 times as fast as this host." in found.words()
    )
    found = answered(here, uring, step("BG-1", 900.0), step("BG-2", 1000.0))
    assert found.recommended == "BG-2"
    assert "The fastest simpler choice, BG-1, reaches 90 % of its rate." in found.words()
    assert "The recommendation is the same for both kinds of flash." in found.words()
    found = answered(here, step("CC-uring", 104.0))
    assert found.recommended == "this host"
    assert "Buy nothing: this host is within 5 %" in found.words()
    # DRAM of a host is no SSD that one could buy.
    assert answered(here, uring, step("host-DRAM", 5000.0)).best == "CC-uring"
    fits = answered(here, uring, step("BG-2", 1000.0), memory=100_000)
    assert (fits.recommended, fits.best) == ("this host", "BG-2")
    assert "the graph fits. Buy nothing: the loader reads from memory" in fits.words()
    assert "TLC" not in " ".join(fits.dependence())


def test_what_fits_is_said_with_what_it_would_take():
    assert Room(1000, 425, 425).fits
    assert not Room(999, 425, 425).fits
    room = Room(1000, 425, 800, int8_bytes=400, sparse_bytes=500)
    assert (room.fits, room.fits_as) == (False, "int8")
    assert "stored as int8" in room.words()
    assert Room(1000, 425, 800, int8_bytes=400, sparse_bytes=425).fits_as == "sparse"
    assert Room(1000, 425, 800, int8_bytes=500).fits_as is None
    assert (
        "Compare the price of 1.44 kB of memory first"
        in Room(1000, 425, 800, int8_bytes=500).words()
    )


def test_rows_are_looked_at_for_zeros(tmp_path):
    def room(x):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.ng"
        edges = torch.randint(0, 500, (2, 3000), generator=torch.Generator().manual_seed(1))
        ng.from_pyg(Data(x=x, edge_index=edges), path, dense=True)
        with ng.open(path, memory="16MB") as store:
            found = room_of_store(store, "x")
            assert room_of_store(store, None).rows_bytes == 0
        files = sum(file.stat().st_size for file in Path(path).glob("e*.dat"))
        assert (found.memory_bytes, found.topology_bytes) == (16_000_000, files)
        assert (found.rows_bytes, found.int8_bytes) == (500 * 100 * 4, 500 * 100)
        return found.sparse_bytes

    full = torch.rand(500, 100) + 0.1
    assert room(full) is None
    # A tenth of the columns: 8 bytes a row, 2 an entry, and its value.
    mask = torch.zeros(500, 100)
    mask[:, ::10] = 1
    assert room(full * mask) == 500 * (8 + 10 * (2 + 4))
    assert room(mask) == 500 * (8 + 10 * 2)
    assert room(mask * 3) == 500 * (8 + 10 * (2 + 1))


def test_a_graph_known_by_its_counts_has_a_modelled_loader(trace):
    visits = len(trace.columns["node"])
    known = ng.sim.DATASETS["amazon"]
    rows = 2 * known["columns"] * known["nodes"]
    topology = 4 * known["edges"] + 8 * known["nodes"]

    def reads(memory):
        found = modelled_loader(trace, HOST, memory).requests
        return int((found["file"] == 1).sum()), int((found["file"] == 0).sum())

    lists = int((trace.columns["hop"] < 3).sum())
    assert reads(1) == (visits, lists)
    # The half of the rows that is wanted most often, and no topology.
    half = math.ceil(rows / 2 / 0.85)
    assert half * 0.5 < topology
    assert reads(half) == (round(visits * (1 - share_of_wanted(0.5, 1.0))), lists)
    # All of the topology, and half of the rows.
    wide = dict(trace.about, feature_bytes=100 * trace.about["feature_bytes"])
    found = modelled_loader(
        ng.sim.Trace(trace.core, wide), HOST, math.ceil((topology + 50 * rows) / 0.85)
    )
    assert (found.requests["file"] == 1).all()
    assert len(found.requests) == round(visits * (1 - share_of_wanted(0.5, 1.0)))
    assert reads(2 * (topology + rows)) == (0, 0)
    found = modelled_loader(trace, HOST, 1)
    assert found.reading == "modelled"
    assert found.seconds == found.on_host(HOST)
    assert found.targets == 128
    bare = ng.sim.Trace(trace.core, {k: v for k, v in trace.about.items() if k != "num_nodes"})
    with pytest.raises(UnsupportedArgument, match="does not contain the size of its graph"):
        ng.sim.what_would_it_buy(bare, HOST)


def test_the_share_of_wanted_rows_is_that_of_drawn_degrees():
    degrees = np.random.default_rng(1).lognormal(0, 1, 1_000_000)
    top = np.sort(degrees)[::-1]
    for kept in (0.01, 0.2, 0.7):
        share = top[: int(kept * len(top))].sum() / top.sum()
        assert share_of_wanted(kept, 1.0) == pytest.approx(share, rel=0.02)


def test_a_fitting_data_set_needs_no_device(trace):
    found = ng.sim.what_would_it_buy(trace, HOST, memory="2TB", repeats=1, platforms=["BG-2"])
    assert found.recommended == "this host"
    assert found.speedups["CC-uring"] == 1
    assert found.here.bound_by == "processor"
    assert "modelled" in found.words()


def test_the_gain_is_most_sensitive_to_what_moves_it_most(trace, answer):
    found = answer.sensitivities
    weights = [abs(np.log(one.with_half / one.with_double)) for one in found]
    assert len(weights) == 5
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0
    assert answer.sensitive == "BG-2"
    device = ng.sim.config("detailed")
    for one in found:
        group, _, last = one.name.partition(".")
        value = device[group][last]
        assert one.value == value
        value = max(1, round(value / 2)) if isinstance(value, int) else value / 2
        other = ng.sim.config("detailed", **{one.name: value})
        run = ng.sim.simulate(trace, platforms=["BG-2"], mode="detailed", device=other)
        speed = run["targets_per_s"][0] / answer.here.targets_per_s
        assert speed == pytest.approx(one.with_half)


def test_a_model_that_is_far_from_the_measured_rate_is_said_to_be(trace):
    def said(seconds):
        found = ng.sim.what_would_it_buy(
            trace, HOST, memory="64MB", repeats=1, watched=watched(10, 0.02, seconds)
        )
        return found.modelled_targets_per_s / found.here.targets_per_s, found.words()

    ratio, words = said(0.02)
    assert ratio == pytest.approx(2)
    assert "The model predicts 2 times the measured rate of this host." in words
    ratio, words = said(0.0125)
    assert ratio == pytest.approx(1.25)
    assert "The model predicts 1" not in words


def test_the_loader_of_a_store_is_run_and_watched(homo):
    told = []
    found = ng.sim.what_would_it_buy(
        homo,
        HOST,
        **SHAPE,
        repeats=2,
        platforms=["BG-2"],
        seconds=0.2,
        warm_seconds=0.3,
        progress=lambda *what: told.append(what),
    )
    assert found.reading != "modelled"
    assert found.here.targets_per_s > 0
    assert found.seeds == [4, 5]
    phases = dict.fromkeys(phase for phase, _, _ in told)
    assert list(phases)[-4:] == [
        "simulating devices",
        "warming up the loader (s)",
        "measuring the loader (s)",
        "varying constants",
    ]
    for phase in ("simulating devices", "varying constants"):
        steps = [(done, total) for name, done, total in told if name == phase]
        assert [done for done, _ in steps] == list(range(steps[0][1] + 1))
        assert len(steps) > 4
    assert all((phase, 1, 1) in told for phase in list(phases)[-3:-1])
    assert found.plain()["room"]["memory_bytes"] == 64_000_000
    assert found.plain()["recommended"] == found.recommended
    ids = np.array([3, 5, 8, 13])
    some = ng.sim.what_would_it_buy(
        homo, HOST, **SHAPE, repeats=1, platforms=["BG-2"], watched=watched(10), input_nodes=ids
    )
    assert some.runs.details[0]["batches"][0]["targets"] == 4
    with pytest.raises(UnsupportedArgument, match="memory= applies only to a trace"):
        ng.sim.what_would_it_buy(homo, HOST, memory="1GB")
    with pytest.raises(
        UnsupportedArgument, match="repeats=0 is not valid: expected a whole number"
    ):
        ng.sim.what_would_it_buy(homo, HOST, repeats=0)


def test_rows_of_a_stated_width_have_a_modelled_loader(homo):
    how = {**SHAPE, "repeats": 1, "platforms": ["BG-2"]}
    found = ng.sim.what_would_it_buy(homo, HOST, **how, row_bytes=2048)
    assert found.reading == "modelled"
    bare = ng.sim.what_would_it_buy(homo, HOST, **how, tensor=None, seconds=0.1, warm_seconds=0.1)
    assert bare.room.rows_bytes == 0
