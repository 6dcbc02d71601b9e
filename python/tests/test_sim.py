"""Simulated devices through the public face: traces, runs, sweeps, the command, bad input."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.cli import main
from neargraph.exceptions import NameNotFound, UnsupportedArgument

STEPS = ["CC", "BG-1", "BG-DG", "BG-DGSP", "BG-2"]


def run(*arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def test_a_trace_of_a_store_is_what_its_sampler_makes(homo):
    trace = ng.sim.Trace.from_sampler(
        homo, np.arange(100), (3, 2), seed=5, batches=2, batch_size=50
    )
    columns = trace.columns
    sampler = ng.NumpySampler(homo, [3, 2], seed=5, attrs=[])
    first = columns["first_entry"]
    assert len(first) == 3
    for batch in range(2):
        entries = slice(int(first[batch]), int(first[batch + 1]))
        sample = sampler.sample(np.arange(50 * batch, 50 * batch + 50), stream=batch)
        assert np.array_equal(columns["node"][entries], sample.nodes())
        draws = columns["first_draw"][first[batch] : first[batch + 1] + 1]
        assert np.array_equal(columns["found"][draws[0] : draws[-1]], sample.edge_index()[0])
    assert trace.about["feature_bytes"] == trace.about["columns"] * 4


def test_a_trace_comes_back_from_its_file_and_only_whole(homo, tmp_path):
    trace = ng.sim.Trace.from_sampler(homo, batches=2, batch_size=32)
    file = tmp_path / "t.npz"
    trace.save(file)
    assert [path.name for path in tmp_path.iterdir()] == ["t.npz"]
    again = ng.sim.Trace.load(file, homo)
    assert again.about == trace.about
    assert all(np.array_equal(again.columns[name], c) for name, c in trace.columns.items())
    with pytest.raises(FileNotFoundError):
        ng.sim.Trace.load(tmp_path / "none.npz")
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(UnsupportedArgument, match="not a complete trace"):
        ng.sim.Trace.load(file)
    other = ng.sim.Trace.of_dataset("ppi", batch_size=4)
    other.save(file)
    with pytest.raises(UnsupportedArgument, match="recorded on ppi"):
        ng.sim.Trace.load(file, homo)
    np.savez(file, about=np.frombuffer(b"{}", np.uint8), **other.columns)
    with pytest.raises(UnsupportedArgument, match="not a complete trace"):
        ng.sim.Trace.load(file)
    np.savez(file, **(other.columns | {"about": np.frombuffer(b"[]", np.uint8)}))
    with pytest.raises(UnsupportedArgument, match="not a complete trace"):
        ng.sim.Trace.load(file)
    columns = other.columns
    columns["found"] = columns["found"][:-1].copy()
    np.savez(file, about=np.frombuffer(json.dumps(other.about).encode(), np.uint8), **columns)
    with pytest.raises(UnsupportedArgument, match="truncated or damaged"):
        ng.sim.Trace.load(file)


def test_a_trace_whose_bytes_are_damaged_is_refused_or_whole(tmp_path):
    file = tmp_path / "t.npz"
    ng.sim.Trace.of_dataset("ppi", batch_size=16).save(file)
    whole, refused = file.read_bytes(), 0
    for seed in range(100):
        damaged = bytearray(whole)
        at = np.random.default_rng(seed).integers(len(whole))
        damaged[at] ^= 0xFF
        file.write_bytes(damaged)
        try:
            ng.sim.Trace.load(file)
        except UnsupportedArgument:
            refused += 1
        except Exception as error:
            pytest.fail(f"byte {at} (seed {seed}): {type(error).__name__}: {error}")
    assert refused > 50


def test_a_trace_knows_where_its_nodes_lie_in_a_file_of_the_direct_layout(homo, tmp_path):
    trace = ng.sim.Trace.from_sampler(homo, batches=2, batch_size=32)
    places = trace.core.places()
    assert trace.page_bytes == places["page_bytes"] == 4096
    assert np.array_equal(places["node"], np.unique(trace.columns["node"]))
    # Nodes come in their order here, and a list ends where the next one starts.
    assert np.array_equal(places["row"], places["node"])
    lists = homo.snapshot().degrees(None, np.arange(homo.num_nodes))
    starts = np.concatenate([[0], np.cumsum(lists)])
    assert np.array_equal(places["first_entry"], starts[places["node"]])

    def bytes_of(placement, given=trace, **changes):
        device = ng.sim.config("detailed", **changes)
        runs = ng.sim.simulate(given, mode="detailed", device=device, placement=placement)
        return json.dumps(runs.details)

    assert bytes_of("auto") == bytes_of("direct_layout") != bytes_of("striped")
    wide = {"flash.page_bytes": 8192}
    assert bytes_of("auto", **wide) == bytes_of("striped", **wide)
    with pytest.raises(UnsupportedArgument, match="for pages of 8192 bytes"):
        bytes_of("direct_layout", **wide)
    with pytest.raises(UnsupportedArgument, match="placement='best'"):
        bytes_of("best")
    other = ng.sim.Trace.from_sampler(homo, batches=2, batch_size=32, page_bytes=8192)
    assert other.page_bytes == 8192
    assert bytes_of("auto", other, **wide) == bytes_of("direct_layout", other, **wide)

    file = tmp_path / "t.npz"
    trace.save(file)
    again = ng.sim.Trace.load(file, homo)
    assert bytes_of("direct_layout", again) == bytes_of("direct_layout")
    none = ng.sim.Trace.from_sampler(homo, batches=2, batch_size=32, page_bytes=None)
    assert none.page_bytes is None
    assert bytes_of("auto", none) == bytes_of("striped")
    damage = {"place_tail": places["tail"][:-1].copy(), "place_node": places["node"][::-1].copy()}
    damage |= {"place_row": places["row"] + (1 << 60), "place_full": places["full"].astype(int)}
    damage |= {"place_page_bytes": np.array(-1), "place_entries_per_page": np.array(0)}
    for name, column in damage.items():
        with np.load(file) as whole:
            np.savez(tmp_path / "d.npz", **(dict(whole) | {name: column}))
        with pytest.raises(UnsupportedArgument, match=r"truncated or damaged|not a complete trace"):
            ng.sim.Trace.load(tmp_path / "d.npz")


def test_a_store_of_several_types_has_no_trace(hetero):
    with pytest.raises(UnsupportedArgument, match="one node type and one edge type"):
        ng.sim.Trace.from_sampler(hetero)


def test_runs_are_columns_and_each_step_of_the_paper_is_quicker():
    runs = ng.sim.simulate(dataset="amazon", platforms=STEPS, batches=2, mode="paper")
    assert runs["platform"].tolist() == STEPS
    speeds = runs["targets_per_s"]
    assert np.all(np.diff(speeds) > 0), speeds
    assert np.all(runs["headroom"] >= 1)
    assert set(runs.columns) >= {"flash_s", "host_s", "pcie_s", "compute_s", "targets_per_joule"}
    for run in runs.details:
        for batch in run["batches"]:
            assert not any(batch["audit"].values())
            assert batch["outcome"]["issued"] == batch["outcome"]["completed"]


def test_a_sweep_changes_one_constant():
    how = {"dataset": "reddit", "platforms": ["BG-1"], "mode": "paper"}
    found = ng.sim.sweep("flash.channels", [4, 16], **how)
    slow, quick = found["targets_per_s"]
    assert found["value"].tolist() == [4, 16]
    assert 2 < quick / slow < 4.2


def test_every_switch_leads_from_one_mode_to_the_other():
    device, detailed = ng.sim.config("paper"), ng.sim.config("detailed")
    from neargraph.sim.config import switched

    for switch in ng.sim.SWITCHES:
        device = switched(device, switch, detailed)
    assert device == detailed
    with pytest.raises(NameNotFound, match="unknown switch"):
        switched(device, "warp drive", detailed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flash.dies_per_channel": 0}, "flash.dies_per_channel is 0"),
        ({"flash.sense_ns": -1}, "flash.sense_ns is -1"),
        ({"flash.channels": "many"}, "flash.channels is 'many'; use a whole number from 1 to 4096"),
        ({"flash.channels": 2.5}, "flash.channels is 2.5; use a whole number from 1 to 4096"),
        ({"flash.channels": True}, "flash.channels is True; use"),
        ({"flash.channels": 2**70}, "use a whole number from 1 to 4096"),
        ({"flash.sense_ns": float("nan")}, "flash.sense_ns is nan; use 0 to 1000000000 ns"),
        ({"flash.sense_ns": None}, "flash.sense_ns is None; use"),
        ({"flash.sense_types_ns": ["slow"]}, "flash.sense_types_ns is 'slow'; use"),
        ({"accelerator.timed": 1}, "accelerator.timed is 1; use true or false"),
        ({"accelerator.word_bits": 12}, "accelerator.word_bits is 12; use 8, 16 or 32"),
        ({"discrete.word_bits": 8.0}, "discrete.word_bits is 8.0; use 8, 16 or 32"),
        ({"accelerator.hertz": None}, "accelerator.hertz is None; use 1000 per second or more"),
        ({"pcie.bytes_per_s": 1}, "pcie.bytes_per_s is 1; use 1000 per second or more"),
        ({"flash.chanels": 8}, "'flash.chanels' is not a constant"),
        ({"flash": 8}, "'flash' is not a constant"),
        ({"cores": 8}, "'cores' is ambiguous: expected one of firmware.cores, host.cores"),
    ],
)
def test_nonsense_is_refused_by_name(changes, message):
    with pytest.raises(UnsupportedArgument, match=message):
        ng.sim.simulate(dataset="amazon", device=ng.sim.config("paper", **changes))


def test_what_does_not_exist_is_said_with_what_does():
    with pytest.raises(UnsupportedArgument, match='unknown platform "BG-3"; known: CC'):
        ng.sim.simulate(dataset="amazon", platforms=["BG-3"])
    with pytest.raises(NameNotFound, match="reddit, amazon"):
        ng.sim.simulate(dataset="facebook")
    with pytest.raises(UnsupportedArgument, match="expected either a trace or dataset="):
        ng.sim.simulate()
    with pytest.raises(UnsupportedArgument, match="fanouts"):
        ng.sim.simulate(dataset="amazon", fanouts=[3, 0])
    with pytest.raises(UnsupportedArgument, match="visit too many nodes"):
        ng.sim.simulate(dataset="amazon", batch_size=1 << 24)
    with pytest.raises(UnsupportedArgument, match="batches=0"):
        ng.sim.simulate(dataset="amazon", batches=0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"seed": 2**64},
            "seed=18446744073709551616 is not valid: expected a whole number from 0 to",
        ),
        ({"seed": -1}, "seed=-1 is not valid"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not valid: expected a whole number"),
        ({"batch_size": "many"}, "batch_size='many' is not valid: expected a whole number"),
        ({"fanouts": []}, "expected 1 to 16 numbers, one per hop"),
        ({"fanouts": [2.5]}, "fanouts=2.5 is not valid: expected a whole number"),
        (
            {"hidden": 2**40},
            "hidden=1099511627776 is not valid: expected a whole number from 1 to 65536",
        ),
        ({"hidden": 0}, "hidden=0 is not valid"),
        ({"outputs": "ten"}, "outputs='ten' is not valid: expected a whole number"),
        (
            {"layer": "transformer"},
            "layer='transformer' is not valid: expected one of sage, gcn, gin, ngcf",
        ),
        ({"workers": 1.5}, "workers=1.5 is not valid: expected a whole number"),
        ({"word_bits": 12}, "word_bits=12 is not valid: expected 8, 16 or 32"),
        ({"word_bits": True}, "word_bits=True is not valid"),
        ({"word_bits": "half"}, "word_bits='half' is not valid"),
        ({"device": {}}, "device= lacks the setting"),
        ({"device": {**ng.sim.config(), "wings": 2}}, "'wings' is not a constant"),
        ({"device": "fast"}, "expected a dictionary from sim.config"),
    ],
)
def test_arguments_without_a_meaning_are_refused_by_name(how, message):
    with pytest.raises(UnsupportedArgument, match=message):
        ng.sim.simulate(dataset="amazon", **how)


def test_a_platform_that_is_named_twice_is_simulated_once():
    runs = ng.sim.simulate(dataset="ppi", platforms=["BG-2", "CC", "BG-2"])
    assert runs["platform"].tolist() == ["BG-2", "CC"]


def test_a_store_without_rows_is_simulated_by_topology_or_with_rows_of_a_stated_width(
    tmp_path, capsys
):
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    ng.from_pyg(Data(edge_index=edges, num_nodes=5), tmp_path / "bare.ng")
    store = ng.open(tmp_path / "bare.ng")
    with pytest.raises(NameNotFound, match=r"no tensor 'x': expected none \(without rows\)"):
        ng.sim.Trace.from_sampler(store)
    bare = ng.sim.Trace.from_sampler(store, tensor=None)
    wide = ng.sim.Trace.from_sampler(store, tensor=None, row_bytes=27_000)
    assert (bare.about["feature_bytes"], wide.about["columns"]) == (0, 6750)
    of_bare, of_wide = (ng.sim.simulate(trace, mode="detailed") for trace in (bare, wide))
    assert np.all(of_bare["reads"] < of_wide["reads"])
    assert np.all(of_bare["compute_s"] == 0)
    assert np.all(of_wide["compute_s"] > 0)
    path = str(tmp_path / "bare.ng")
    for more in (["--tensor", "none"], ["--row-bytes", "400"]):
        code, out, _ = run("simulate", path, "--platforms", "BG-2", *more, capsys=capsys)
        assert code == 0
        assert "BG-2" in out
    for more, message in (
        (["--tensor", "none", "--row-bytes", "4"], "exclude each other"),
        (["--row-bytes", "1"], "--row-bytes 1 is not valid: expected a whole number from 4"),
    ):
        code, _, err = run("simulate", path, *more, capsys=capsys)
        assert code == 2
        assert message in err


def test_the_direct_layout_of_equal_degrees_has_the_size_that_one_computes_by_hand():
    # ppi: a row of 512 bytes, 967 neighbours. Beside header, count, one address and the row 892 of
    # them fill a page; the other 75 are a secondary section of 308 bytes, 13 a page.
    raw = 512 + 4 * 967
    for most, together in ((None, 13), (16, 13), (4, 4)):
        found = ng.sim.direct_size("ppi", sigma=0, sections_per_page=most, nodes=1300 * 4)
        assert found.inflation == pytest.approx(4096 * (1 + 1 / together) / raw)
        assert found.raw_bytes == pytest.approx(9_100_000 * raw)
    # amazon: sections of 12 + 400 + 1200 bytes, two a page.
    found = ng.sim.direct_size("amazon", sigma=0, nodes=1000)
    assert (found.sections_per_page, found.inflation) == (2, 4096 / 2 / 1600)
    # ogbn: 28 neighbours and 64 bytes are 188 with header and count, 21 a page, or 16.
    for most, together in ((None, 21), (16, 16)):
        found = ng.sim.direct_size("ogbn", sigma=0, sections_per_page=most, nodes=21 * 16)
        assert found.sections_per_page == together
    for how, message in (
        ({"sigma": -1}, "sigma=-1 is not valid: expected a number from 0 to 4"),
        ({"sigma": float("nan")}, "sigma=nan"),
        ({"sections_per_page": 0}, "sections_per_page=0 is not valid"),
        ({"page_bytes": 100}, "page_bytes=100 is not valid: expected a whole number from 576"),
    ):
        with pytest.raises(UnsupportedArgument, match=message):
            ng.sim.direct_size("ppi", **how)
    with pytest.raises(NameNotFound, match="'web' is not a known data set"):
        ng.sim.direct_size("web")


def test_seeds_of_a_trace_are_node_ids(homo):
    for seeds in ([1.5], ["1"], [[1, 2]], [True]):
        with pytest.raises(UnsupportedArgument, match="expected a list of node ids"):
            ng.sim.Trace.from_sampler(homo, seeds)


def test_pages_that_are_read_once_for_several_are_read_less(homo):
    trace = ng.sim.Trace.from_sampler(homo, batches=8, batch_size=32)

    def run(**reuse):
        runs = ng.sim.simulate(trace, platforms="GList", mode="detailed", **reuse)
        return runs["reads"][0], runs

    none, _ = run()
    merged, _ = run(merged=True)
    grouped, runs = run(merged=True, grouped=4)
    all_three, cached = run(merged=True, grouped=4, cache_pages=1 << 20)
    assert none > merged > grouped > all_three > 0
    assert len(runs.details[0]["batches"]) == 2
    assert runs["hit_rate"][0] == 0 < cached["hit_rate"][0] < 1
    found = ng.sim.sweep("cache_pages", [0, 1 << 20], trace=trace, platforms="GList")
    assert np.all(np.diff(found["targets_per_s"]) > 0)
    with pytest.raises(UnsupportedArgument, match="BG-2 cannot merge page reads"):
        ng.sim.simulate(trace, platforms="BG-2", merged=True)
    with pytest.raises(UnsupportedArgument, match="1 to 1024"):
        ng.sim.simulate(trace, platforms="GList", grouped=0)


def test_the_number_of_threads_changes_nothing():
    code = (
        "import json, neargraph as ng;"
        "runs = ng.sim.simulate(dataset='ogbn', mode='detailed', batch_size=32);"
        "print(json.dumps(runs.details))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"RAYON_NUM_THREADS": threads},
            check=True,
            capture_output=True,
        ).stdout
        for threads in ("1", "4")
    ]
    assert outputs[0] == outputs[1]


def test_ratios_of_the_paper_mode_are_of_all_pairs():
    ratios = ng.sim.paper_ratios(repeats=1)
    assert len(ratios) == 8 * 7
    assert ratios["BG-2/CC"] > ratios["BG-1/CC"] > 1
    assert ratios["BG-2/BG-1"] > 1


def test_the_last_part_of_a_name_is_enough_where_no_other_ends_so():
    how = {"dataset": "amazon", "platforms": ["BG-1"]}
    short, long = (ng.sim.sweep(name, [4, 8], **how) for name in ("channels", "flash.channels"))
    assert short.rows == long.rows
    assert len({row["targets_per_s"] for row in short.rows}) == 2
    device = ng.sim.config("paper", channels=8)
    assert device == ng.sim.config("paper", **{"flash.channels": 8})


def test_the_command_simulates_a_store_and_a_data_set(homo_path, capsys):
    code, out, err = run("simulate", homo_path, "--batch-size", 16, "--batches", 2, capsys=capsys)
    assert (code, err) == (0, "")
    assert all(name in out for name in ng.sim.PLATFORMS)
    code, out, _ = run(
        *("simulate", "--dataset", "ppi", "--mode", "paper", "--platforms", "BG-1,BG-2"),
        *("--sweep", "flash.channels=4,8", "--set", "flash.sense_ns=20000", "--json"),
        capsys=capsys,
    )
    report = json.loads(out)
    assert code == 0
    assert report["device"]["flash"]["sense_ns"] == 20000
    assert [row["value"] for row in report["runs"]] == [4, 4, 8, 8]
    code, out, _ = run(
        *("simulate", homo_path, "--preset", "glist", "--platforms", "GList"),
        *("--reuse", "merged=true,grouped=2,cache_pages=4096"),
        capsys=capsys,
    )
    assert (code, "hits" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "ppi", "--mode", "guess"], "'guess' is not one of 'paper', 'detailed'"),
        ([], "give either a store or --dataset"),
        (["G.ng", "--dataset", "ppi"], "give either a store or --dataset"),
        (
            ["--dataset", "ppi", "--set", "flash.channels"],
            "is not valid: expected e.g. flash.channels=8",
        ),
        (["--dataset", "ppi", "--sweep", "flash.channels=four"], "expected a number"),
        (["--dataset", "nobody"], "unknown data set"),
        (["--dataset", "ppi", "--platforms", "BG-2", "--reuse", "grouped=2"], "hop by hop"),
        (
            ["--dataset", "ppi", "--host", ".", "--reuse", "grouped=2"],
            "cannot be combined with --reuse",
        ),
        (["--dataset", "ppi", "--reuse", "merge=true"], "'merge' is not valid"),
        (["--dataset", "ppi", "--reuse", "grouped=many"], "expected a number"),
        (
            ["--dataset", "ppi", "--reuse", "cache_pages=-1"],
            "cache_pages=-1 is not valid: expected a whole number",
        ),
    ],
)
def test_the_command_refuses_in_one_line(arguments, message, capsys):
    code, out, err = run("simulate", *arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
