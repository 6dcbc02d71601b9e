"""Pictures, the page and the ablation of simulated runs."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from test_sim import run
from test_sim_host import HOST

import neargraph as ng
from neargraph.exceptions import UnsupportedArgument
from neargraph.sim.ablation import moved, ranking

pytest.importorskip("matplotlib")

from neargraph.sim import plots


class Page(HTMLParser):
    """What a page holds: its words in order, and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.words, self.sources, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def runs():
    return ng.sim.simulate(dataset="amazon", batch_size=32, mode="detailed")


def test_every_platform_has_its_bar_or_line_and_every_axis_its_unit(runs):
    (axes,) = plots.throughput(runs).axes
    assert [bar.get_height() for bar in axes.patches] == runs["targets_per_s"].tolist()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == runs["platform"].tolist()
    assert axes.get_ylabel() == "targets a second"
    two = runs + ng.sim.simulate(dataset="ppi", batch_size=32, mode="detailed")
    (axes,) = plots.throughput(two).axes
    assert len(axes.patches) == 16
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["amazon", "ppi"]
    figure = plots.active(runs)
    assert len(figure.axes) == 16
    assert figure.axes[-1].get_xlabel() == "us"
    (axes,) = plots.hops(runs).axes
    # Four rounds of reads for three hops.
    assert len(axes.patches) == 8 * 4
    assert axes.get_xlabel() == "us"
    (axes,) = plots.latency(runs).axes
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(5, 8).sum(axis=0)
    means = [
        sum(spread["mean"] for spread in run["batches"][0]["latency"].values()) / 1e6
        for run in runs.details
    ]
    assert heights == pytest.approx(means)
    (axes,) = plots.energy(runs).axes
    heights = sum(bar.get_height() for bar in axes.patches) * 1e-6
    assert heights == pytest.approx(sum(1 / runs["targets_per_joule"]))
    swept = ng.sim.sweep("flash.channels", [4, 8, 16], dataset="ppi", platforms=["CC", "BG-2"])
    (axes,) = plots.sweep(swept, "flash.channels").axes
    assert [line.get_label() for line in axes.lines] == ["CC", "BG-2"]
    assert axes.lines[1].get_xdata().tolist() == [4, 8, 16]
    assert axes.get_xlabel() == "flash.channels"
    (axes,) = plots.host_curve(HOST).axes
    assert axes.lines[0].get_ydata().tolist() == HOST["reads_per_s"]


def test_the_page_leads_with_the_answer_and_needs_nothing_else(tmp_path):
    trace = ng.sim.Trace.of_dataset("ppi", batch_size=32)
    answer = ng.sim.what_would_it_buy(trace, {**HOST, "path": "/data/<b>"})
    about = {"title": "ppi & <b>", "mode": "detailed", "device": ng.sim.config("detailed")}
    page = ng.sim.write_report(tmp_path / "made" / "here", answer.runs, **about, answer=answer)
    assert page == tmp_path / "made" / "here" / "report.html"
    found = Page(page.read_text())
    words = "".join(found.words)
    assert words.index(answer.words()) < words.index("Throughput")
    assert "ppi & <b>" in words
    assert "/data/<b>" in words
    assert "b" not in found.tags
    assert len(found.sources) == 6
    assert all(source.startswith("data:image/png;base64,") for source in found.sources)
    assert "script" not in found.tags
    assert sorted(path.name for path in page.parent.iterdir()) == ["report.html", "runs.json"]
    saved = json.loads((page.parent / "runs.json").read_text())
    assert saved["answer"]["speedups"] == answer.speedups
    assert len(saved["runs"]) == 8


def test_without_a_host_the_page_says_so(runs, tmp_path):
    about = {"title": "amazon", "mode": "detailed", "device": ng.sim.config("detailed")}
    page = ng.sim.write_report(tmp_path, runs, **about)
    assert "No host was measured" in page.read_text()
    with pytest.raises(UnsupportedArgument, match="no report can be written"):
        ng.sim.write_report(page, runs, **about)


def test_nothing_is_left_of_a_page_that_could_not_be_written(runs, tmp_path, monkeypatch):
    about = {"title": "amazon", "mode": "detailed", "device": ng.sim.config("detailed")}

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(UnsupportedArgument, match="no space"):
        ng.sim.write_report(tmp_path, runs, **about)
    assert list(tmp_path.iterdir()) == []


def test_an_ablation_leaves_out_one_cost_at_a_time():
    found = ng.sim.ablation(dataset="ppi", batch_size=32, seed=4)
    assert len(found) == 8 * (len(ng.sim.SWITCHES) + 2)
    how = {"dataset": "ppi", "batch_size": 32, "seed": 4, "placement": "striped"}
    for switch, mode in (("none", "detailed"), ("all", "paper")):
        rows = [row["targets_per_s"] for row in found.rows if row["switch"] == switch]
        assert rows == ng.sim.simulate(**how, mode=mode)["targets_per_s"].tolist()
    assert set(moved(found, "none").values()) == {1.0}
    # Firmware is in the way of all platforms but the one without it.
    gains = moved(found, "firmware time")
    assert gains["BG-2"] == 1.0
    assert gains["BG-DGSP"] > 1.5
    assert sorted(ranking(found, "all")) == sorted(ng.sim.PLATFORMS)
    with pytest.raises(UnsupportedArgument, match="a trace or the name"):
        ng.sim.ablation()


def test_the_command_writes_the_report_and_compares_with_a_host(tmp_path, capsys, monkeypatch):
    known = {**HOST, "path": "here"}
    monkeypatch.setattr("neargraph.sim.measure_host", lambda path: known)
    small = ["simulate", "--dataset", "ppi", "--batch", "16", "--batches", "2"]
    code, out, err = run(*small, "--host", tmp_path, "--out", tmp_path / "out", capsys=capsys)
    assert (code, err) == (0, "")
    assert "times as many targets a second as this host does" in " ".join(out.split())
    assert (tmp_path / "out" / "report.html").exists()
    code, out, err = run(
        *small,
        "--sweep",
        "workers=1,2",
        "--platforms",
        "SmartSAGE-coalesced",
        "--out",
        tmp_path / "swept",
        "--json",
        capsys=capsys,
    )
    assert code == 0, err
    assert [row["value"] for row in json.loads(out)["runs"]] == [1, 2]
    assert "over workers" in (tmp_path / "swept" / "report.html").read_text()
    code, out, _ = run(*small, "--sweep", "batch_size=8,16", "--json", capsys=capsys)
    rows = json.loads(out)["runs"]
    assert [row["value"] for row in rows] == [8] * 8 + [16] * 8
    code, out, _ = run(*small, "--preset", "tlc", "--layer", "gin", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["device"]["flash"]["sense_types_ns"] == [40e3, 65e3, 65e3]
    code, out, _ = run(*small, "--ablation", capsys=capsys)
    assert code == 0
    assert "firmware time" in out
    for more, words in [
        (["--ablation", "--mode", "paper"], "stands alone"),
        (["--host", "x", "--sweep", "workers=1"], "one graph"),
        (["--host", "x", "--dataset", "ppi,amazon"], "one graph"),
        (["--preset", "apu"], "no preset"),
        (["--out", __file__], "no report can be written"),
    ]:
        code, _, err = run(*small, *more, capsys=capsys)
        assert code != 0
        assert words in " ".join(err.split())
        assert "Traceback" not in err
