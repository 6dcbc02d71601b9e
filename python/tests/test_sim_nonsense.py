"""Sixty inputs that mean nothing: each is refused in one line that says what is wrong."""

import json

import numpy as np
import pytest
from test_sim import run
from test_sim_host import HOST

import neargraph as ng
from neargraph.exceptions import NeargraphError

PPI = ["--dataset", "ppi", "--batch-size", "8", "--batches", "1"]

COMMANDS = [
    ([], "give either a store or --dataset"),
    (["G.ng", "--dataset", "ppi"], "give either a store or --dataset"),
    (["none.ng"], "none.ng"),
    (["--dataset", "pip"], "pip"),
    (["--dataset", ""], "data set"),
    ([*PPI, "--platforms", "BG-3"], "unknown platform"),
    ([*PPI, "--platforms", ""], "unknown platform"),
    ([*PPI, "--platforms", "CC,,BG-2"], "unknown platform"),
    ([*PPI, "--mode", "exact"], "'exact' is not one of 'paper', 'detailed'"),
    ([*PPI, "--fanouts", "3;3"], "3;3"),
    ([*PPI, "--fanouts", ""], "fanouts"),
    ([*PPI, "--fanouts", "0"], "fanouts"),
    ([*PPI, "--fanouts", "-1,3"], "fanouts"),
    ([*PPI, "--fanouts", ",".join(["1"] * 17)], "1 to 16"),
    ([*PPI, "--fanouts", "9999,9999"], "too many nodes"),
    ([*PPI, "--hidden", "0"], "--hidden 0 is not valid"),
    ([*PPI, "--hidden", str(2**40)], f"--hidden {2**40} is not valid"),
    ([*PPI, "--hidden", "1.5"], "invalid value for '--hidden'"),
    (["--dataset", "ppi", "--batch-size", "0"], "batch"),
    (["--dataset", "ppi", "--batch-size", "-8"], "batch"),
    (["--dataset", "ppi", "--batches", "0"], "--batches 0 is not valid"),
    ([*PPI, "--seed", "-1"], "--seed -1 is not valid"),
    ([*PPI, "--seed", str(2**64)], f"--seed {2**64} is not valid"),
    ([*PPI, "--sweep", "channels"], "is not valid: expected e.g."),
    ([*PPI, "--sweep", "flash.wings=1"], "'flash.wings' is not a constant"),
    ([*PPI, "--sweep", "hertz=1e9"], "is ambiguous"),
    ([*PPI, "--sweep", "channels=4,many"], "'many'"),
    ([*PPI, "--sweep", "channels=0,4"], "flash.channels is 0; use"),
    ([*PPI, "--sweep", "channels="], "is not valid: expected e.g."),
    ([*PPI, "--set", "flash.sense_ns=-1"], "flash.sense_ns is -1"),
    ([*PPI, "--set", "flash.sense_ns=none"], "flash.sense_ns is None"),
    ([*PPI, "--set", "flash.sense_ns=NaN"], "flash.sense_ns is nan"),
    ([*PPI, "--set", "flash.dies_per_channel=1.5"], "flash.dies_per_channel is 1.5"),
    ([*PPI, "--set", "flash.channels=true"], "flash.channels is True"),
    ([*PPI, "--set", 'flash.channels="8"'], "flash.channels is '8'"),
    ([*PPI, "--set", "flash.registers=0"], "flash.registers is 0"),
    ([*PPI, "--set", "pcie.bytes_per_s=0"], "pcie.bytes_per_s is 0"),
    ([*PPI, "--set", "features_beside_lists=2"], "use true or false"),
    ([*PPI, "--set", "flash.channels"], "is not valid: expected e.g."),
    ([*PPI, "--set", "accelerator.word_bits=12"], "accelerator.word_bits is 12"),
    ([*PPI, "--preset", "apu"], "'apu' is not one of 'octa'"),
    ([*PPI, "--layer", "gat"], "gat"),
    ([*PPI, "--reuse", "merged"], "is not valid: expected e.g."),
    ([*PPI, "--reuse", "grouped=0", "--platforms", "CC"], "grouped"),
    ([*PPI, "--reuse", "sorted=true"], "'sorted' is not valid"),
    ([*PPI, "--reuse", "cache_pages=-1", "--platforms", "CC"], "cache_pages=-1"),
    ([*PPI, "--ablation", "--mode", "paper"], "--ablation needs --mode detailed"),
    ([*PPI, "--tensor", "x"], "need a store"),
    ([*PPI, "--row-bytes", "64"], "need a store"),
    ([*PPI, "--host", "nowhere"], "is not a directory"),
    ([*PPI, "--host", ".", "--sweep", "channels=4"], "cannot be combined with --sweep"),
    ([*PPI, "--host", ".", "--seeds", "train"], "need a store"),
    ([*PPI, "--host", ".", "--repeats", "0"], "--repeats 0 is not valid"),
    ([*PPI, "--host", ".", "--memory", "much"], "much"),
    ([*PPI, "--host", ".", "--watch", "5"], "need a store"),
    ([*PPI, "--memory", "1GB"], "--memory can be given only with --host"),
    ([*PPI, "--repeats", "3"], "--repeats can be given only with --host"),
    ([*PPI, "--out", __file__], "cannot write the report"),
]


@pytest.mark.parametrize(("arguments", "words"), COMMANDS, ids=lambda of: str(of)[-40:])
def test_a_command_that_means_nothing_is_refused_in_one_line(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("simulate", *arguments, capsys=capsys)
    assert code != 0
    assert out == ""
    text = " ".join(err.split())
    assert words in text.replace("'\n", "'")
    assert "Traceback" not in err
    assert "line 1 column" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def columns():
    return ng.sim.Trace.of_dataset("ppi", batch_size=4, fanouts=(2, 2)).columns


CHANGES = {
    "a draw that finds itself": ("found", lambda c: c["found"].__setitem__(0, 0)),
    "a hop after the last": ("hop", lambda c: c["hop"].__setitem__(-1, 255)),
    "hops that descend": ("hop", lambda c: c.__setitem__("hop", c["hop"][::-1].copy())),
    "a batch without a target": ("hop", lambda c: c.__setitem__("hop", c["hop"] + 1)),
    "a position past the degree": (
        "position",
        lambda c: c["position"].__setitem__(0, int(c["degree"].max()) + 1),
    ),
    "a draw that finds nobody": ("found", lambda c: c["found"].__setitem__(0, 10**6)),
    "draws that do not ascend": (
        "first_draw",
        lambda c: c.__setitem__("first_draw", c["first_draw"][::-1].copy()),
    ),
    "columns of several lengths": ("degree", lambda c: c.__setitem__("degree", c["degree"][:-1])),
    "batches past the end": (
        "first_entry",
        lambda c: c.__setitem__("first_entry", c["first_entry"] + 10**6),
    ),
    "ids with a fraction": ("node", lambda c: c.__setitem__("node", c["node"] + 0.5)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_columns_that_no_sampler_makes_are_no_trace(columns, name, tmp_path):
    changed = {key: value.copy() for key, value in columns.items()}
    CHANGES[name][1](changed)
    about = json.dumps(ng.sim.Trace.of_dataset("ppi").about).encode()
    file = tmp_path / "trace.npz"
    np.savez(file, about=np.frombuffer(about, dtype=np.uint8), **changed)
    with pytest.raises(NeargraphError) as refused:
        ng.sim.Trace.load(file)
    assert "\n" not in str(refused.value)


CALLS = {
    "seeds that are no ids": lambda s: ng.sim.Trace.from_sampler(s, [0.5, 1.5]),
    "no seeds": lambda s: ng.sim.Trace.from_sampler(s, []),
    "a seed that is no node": lambda s: ng.sim.Trace.from_sampler(s, [10**9]),
    "seeds of a square": lambda s: ng.sim.Trace.from_sampler(s, np.zeros((2, 2), dtype=np.int64)),
    "rows of a byte": lambda s: ng.sim.Trace.from_sampler(s, row_bytes=1),
    "a tensor that is not there": lambda s: ng.sim.Trace.from_sampler(s, tensor="z"),
    "a device that is a number": lambda s: ng.sim.simulate(dataset="ppi", device=7),
    "a device without flash": lambda s: ng.sim.simulate(
        dataset="ppi", device={k: v for k, v in ng.sim.config().items() if k != "flash"}
    ),
    "words of 12 bits": lambda s: ng.sim.Trace.of_dataset("ppi", word_bits=12),
    "two sources": lambda s: ng.sim.simulate(ng.sim.Trace.of_dataset("ppi"), dataset="ppi"),
    "a host with holes": lambda s: ng.sim.what_would_it_buy(s, {"depths": [1]}, repeats=1),
    "a host that stands still": lambda s: ng.sim.simulate_host(
        ng.sim.Trace.of_dataset("ppi"), {**HOST, "reads_per_s": [0.0, 0.0]}
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_means_nothing_is_refused(homo, name):
    with pytest.raises(NeargraphError) as refused:
        CALLS[name](homo)
    text = str(refused.value)
    assert "\n" not in text
    assert "column" not in text or "columns" in text


def test_there_are_sixty_and_more():
    assert len(COMMANDS) + len(CHANGES) + len(CALLS) >= 60
    assert len({json.dumps(arguments) for arguments, _ in COMMANDS}) == len(COMMANDS)
