"""This host beside simulated devices: measured, modelled, compared; presets and other platforms."""

import json

import numpy as np
import pytest

import neargraph as ng
from neargraph.exceptions import UnsupportedArgument

HOST = {
    "depths": [1, 64],
    "reads_per_s": [10_000.0, 100_000.0],
    "bytes_per_s": 1e9,
    "read_bytes": 4096,
    "cpu_ns_per_read": 1_000.0,
    "cores": 2,
    "depth": 64,
    "cache_pages": 0,
}


@pytest.fixture(scope="module")
def trace():
    return ng.sim.Trace.of_dataset("amazon", batches=2, batch_size=128, seed=3)


def test_a_host_takes_what_its_reads_take_at_the_rate_of_its_disk(trace):
    found = ng.sim.simulate_host(trace, HOST)
    for batch in found["batches"]:
        least = batch["outcome"]["reads"] / HOST["reads_per_s"][-1]
        assert least <= batch["outcome"]["makespan"] * 1e-12 < 1.2 * least
    slower = {**HOST, "reads_per_s": [5_000.0, 50_000.0]}
    ratio = found["targets_per_s"] / ng.sim.simulate_host(trace, slower)["targets_per_s"]
    assert ratio == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cores": 0}, r"host\['cores'\]=0 is not valid"),
        ({"depths": [2, 64]}, "ascend"),
        ({"reads_per_s": [1.0]}, "2 depths but 1 rates"),
        ({"cpu_ns_per_read": -1.0}, "-1 ns"),
        ({"depth": -3}, r"depth'\]=-3 is not valid: expected a whole number"),
        ({"depth": 1 << 20}, "depth is 1048576, expected 1 to 65536"),
        ({"cache_pages": 1.5}, r"cache_pages'\]=1.5 is not valid: expected a whole number"),
        ({"bytes_per_s": float("nan")}, "expected finite numbers, got nan"),
        ({"reads_per_s": [1.0, "many"]}, "expected finite numbers, got 'many'"),
    ],
)
def test_a_host_that_cannot_be_is_refused_by_name(trace, change, what):
    with pytest.raises(UnsupportedArgument, match=what):
        ng.sim.simulate_host(trace, {**HOST, **change})


def test_a_page_cache_keeps_pages_from_batch_to_batch():
    trace = ng.sim.Trace.of_dataset("ppi", batches=2, batch_size=64, seed=3)
    columns = trace.columns
    # The second batch visits whom the first has visited.
    columns["node"][columns["first_entry"][1] :] = columns["node"][0]
    again = ng.sim.Trace(type(trace.core).of_columns(columns), trace.about)

    def hits(pages):
        found = ng.sim.simulate_host(again, {**HOST, "cache_pages": pages})
        return [batch["outcome"]["hits"] for batch in found["batches"]]

    none, some = hits(0), hits(1 << 20)
    assert none == [0, 0]
    entries = len(columns["node"]) - int(columns["first_entry"][1])
    assert some[1] >= entries


def test_what_is_missing_of_a_host_is_named(trace):
    with pytest.raises(UnsupportedArgument, match="lacks 'bytes_per_s', 'cores'"):
        ng.sim.simulate_host(trace, {k: HOST[k] for k in HOST if k not in ("bytes_per_s", "cores")})


def test_this_host_is_measured_and_nothing_is_left_behind(tmp_path, trace):
    host = ng.sim.measure_host(tmp_path, depths=(1, 8))
    assert host["depths"] == [1, 8]
    assert min(host["reads_per_s"]) > 1
    assert host["bytes_per_s"] > 1e6
    assert host["cpu_ns_per_read"] >= 0
    assert host["depth"] == 8
    assert 2 <= len(host["rounds"]) <= 6
    assert host["rounds"][-1] == host["reads_per_s"][-1]
    assert ng.sim.simulate_host(trace, host)["targets_per_s"] > 0
    seconds = ng.sim.replay_on_host(trace, tmp_path, depth=8)
    assert seconds.shape == (2,)
    assert seconds.min() > 0
    assert list(tmp_path.iterdir()) == []


def test_a_disk_is_measured_until_two_rounds_agree(tmp_path, monkeypatch):
    rates = iter([9e3, 80e3, 120e3, 125e3, 1.0])

    def measure(*_):
        return json.dumps({"reads_per_s": [1.0, next(rates)]})

    monkeypatch.setattr("neargraph._core.measure_host", measure)
    host = ng.sim.measure_host(tmp_path, depths=(1, 8))
    assert host["rounds"] == [9e3, 80e3, 120e3, 125e3]
    assert host["reads_per_s"] == [1.0, 125e3]
    rates = iter([10.0**at for at in range(9)])
    assert len(ng.sim.measure_host(tmp_path, depths=(1, 8))["rounds"]) == 6


def test_nowhere_to_measure_is_said(tmp_path):
    with pytest.raises(UnsupportedArgument, match="is not a directory"):
        ng.sim.measure_host(tmp_path / "none")
    with pytest.raises(UnsupportedArgument, match="expected ascending numbers that start with 1"):
        ng.sim.measure_host(tmp_path, depths=(2, 4))


def test_other_platforms_are_run_when_they_are_named(trace):
    runs = ng.sim.simulate(trace, platforms=["CC", *ng.sim.MORE_PLATFORMS], mode="detailed")
    speed = dict(zip(runs["platform"].tolist(), runs["targets_per_s"].tolist(), strict=True))
    assert speed["CC-pipe"] > speed["CC"]
    assert speed["CC-512"] > speed["CC"]
    assert speed["SSD-mmap"] < speed["SSD-direct"] < speed["host-PMEM"] < speed["host-DRAM"]
    by_name = dict(zip(runs["platform"].tolist(), runs.rows, strict=True))
    assert by_name["SSD-direct"]["bound_by"] == "latency"
    assert by_name["host-DRAM"]["reads"] == by_name["host-DRAM"]["hit_rate"] == 0
    assert not set(ng.sim.MORE_PLATFORMS) & set(ng.sim.simulate(trace)["platform"].tolist())


def test_workers_share_a_device_and_fewer_targets_a_command_cost_more():
    how = {"dataset": "amazon", "batches": 12, "platforms": ["SmartSAGE-coalesced"]}
    many = ng.sim.sweep("workers", [1, 2, 4, 12], **how)["targets_per_s"]
    assert many[1] > many[0]
    assert np.all(np.diff(many / [1, 2, 4, 12]) < 0)
    fine = ng.sim.sweep("targets_per_command", [1, 16, 0], **how)["host_s"]
    assert fine[0] == pytest.approx(128 * 10e-6)
    assert fine[1] == pytest.approx(8 * 10e-6)
    assert fine[2] == pytest.approx(10e-6)
    for how, message in (
        ({"targets_per_command": 2}, "CC does not support 2 targets per command; only SmartSAGE"),
        ({"workers": 65}, "workers=65 is not valid: expected a whole number from 1 to 64"),
        ({"workers": 2, "grouped": 3}, "2 workers cannot be combined with 3 grouped batches"),
        ({"workers": 2, "cache_pages": 9}, "2 workers cannot be combined with a cache of 9 pages"),
    ):
        with pytest.raises(UnsupportedArgument, match=message):
            ng.sim.simulate(dataset="ppi", platforms=["CC"], **how)


def test_every_platform_has_workers():
    names = [*ng.sim.PLATFORMS, *ng.sim.MORE_PLATFORMS]
    how = {"dataset": "ogbn", "batches": 4, "batch_size": 16, "platforms": names}
    one, four = (ng.sim.simulate(mode="detailed", workers=n, **how) for n in (1, 4))
    gain = dict(zip(names, four["targets_per_s"] / one["targets_per_s"], strict=True))
    assert min(gain.values()) >= 1
    # A host that waits for one read at a time has four under way.
    assert 3.5 < gain["SSD-direct"] <= 4
    # Two cores sample from memory.
    assert 1.9 < gain["host-DRAM"] < 4
    assert np.all(four["headroom"] >= 1)
    assert [len(run["batches"]) for run in four.details] == [1] * len(names)


def test_accelerators_and_layers_change_the_time_of_computing():
    def compute(name, layer):
        how = {"dataset": "reddit", "platforms": ["BG-2"], "mode": "detailed", "layer": layer}
        return ng.sim.simulate(device=ng.sim.preset(name), **how)["compute_s"][0]

    for layer in ("gcn", "gin", "ngcf"):
        assert compute("hetero", layer) < min(compute("octa", layer), compute("lsap", layer))
    # Systolic arrays alone are slow at sums, cores at products.
    sums = {name: compute(name, "ngcf") / compute(name, "gin") for name in ("octa", "lsap")}
    assert sums["lsap"] > sums["octa"]
    with pytest.raises(UnsupportedArgument, match="layer"):
        compute("octa", "gat")
    with pytest.raises(UnsupportedArgument, match="'apu' is not a preset"):
        ng.sim.preset("apu")
    # Senses of 57 us on average take longer than those of 3.
    how = {"dataset": "ppi", "platforms": ["BG-2"], "mode": "detailed"}
    slow = ng.sim.simulate(device=ng.sim.preset("tlc"), **how)["flash_s"][0]
    assert slow > 5 * ng.sim.simulate(**how)["flash_s"][0]
    glist = ng.sim.preset("glist")
    assert (glist["flash"]["channels"], glist["flash"]["page_bytes"]) == (8, 16384)
    assert len(ng.sim.simulate(dataset="ppi", device=glist, mode="detailed")) == 8


def test_the_share_of_products_is_what_the_parts_of_the_time_say():
    how = {"dataset": "amazon", "platforms": ["BG-2"], "layer": "ngcf", "backward": False}

    def of(name):
        runs = ng.sim.simulate(device=ng.sim.preset(name), mode="detailed", **how)
        (batch,) = runs.details[0]["batches"]
        parts = batch["computing"]
        assert parts["products"] + parts["rest"] == batch["shares"]["compute"]
        assert runs["gemm_share"][0] == parts["products"] / batch["shares"]["compute"]
        return runs["gemm_share"][0]

    # What is no product is little of what cores do, and most of what a core beside arrays does.
    assert of("octa") > 0.5 > of("lsap") > 0
    # Mode `paper` counts products alone, and no time of the accelerator of CC at all.
    runs = ng.sim.simulate(dataset="amazon", platforms=["BG-2", "CC"], mode="paper")
    assert runs["gemm_share"].tolist() == [1.0, 0.0]


def test_inference_takes_an_accelerator_less_time_than_training():
    for layer in ("sage", "gcn", "gin", "ngcf"):
        how = {"dataset": "ppi", "platforms": ["BG-2"], "mode": "detailed", "layer": layer}
        trained, inferred = (
            ng.sim.simulate(**how, backward=backward)["compute_s"][0] for backward in (True, False)
        )
        assert inferred < trained


def test_rows_of_other_words_are_as_many_bytes(tmp_path):
    usual = ng.sim.Trace.of_dataset("reddit", batch_size=8)
    short = ng.sim.Trace.of_dataset("reddit", batch_size=8, word_bits=8)
    long = ng.sim.Trace.of_dataset("reddit", batch_size=8, word_bits=32)
    widths = [trace.about["feature_bytes"] for trace in (short, usual, long)]
    assert widths == [602, 2 * 602, 4 * 602]
    assert (short.about["word_bits"], long.about["word_bits"]) == (8, 32)
    # A trace of words of 16 bits says nothing of them, as all did once.
    assert "word_bits" not in usual.about
    short.save(tmp_path / "t.npz")
    assert ng.sim.Trace.load(tmp_path / "t.npz").about == short.about
    joules = []
    for bits in (8, 16, 32):
        words = {"accelerator.word_bits": bits, "discrete.word_bits": bits}
        how = {"device": ng.sim.preset("glist", **words), "mode": "detailed", "layer": "gcn"}
        joules.append(ng.sim.simulate(dataset="reddit", word_bits=bits, platforms=["GList"], **how))
    per_joule = [float(runs["targets_per_joule"][0]) for runs in joules]
    assert per_joule[0] > per_joule[1] > per_joule[2]


def test_batches_are_swept_too():
    found = ng.sim.sweep("batch_size", [32, 128], dataset="ppi", platforms=["BG-2"])
    assert found["value"].tolist() == [32, 128]
    assert found["targets_per_s"][1] > found["targets_per_s"][0]
    with pytest.raises(UnsupportedArgument, match=r"flash\.wings' is not a constant"):
        ng.sim.sweep("flash.wings", [1], dataset="ppi")
