"""Pictures, the page and the ablation of simulated runs."""

import base64
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from test_sim import run
from test_sim_host import HOST

import neargraph as ng
from neargraph.exceptions import MissingDependency, UnsupportedArgument
from neargraph.sim.ablation import moved, overtakes, ranking

pytest.importorskip("matplotlib")

from neargraph.sim import plots
from neargraph.sim.glossary import PLATFORMS

PICTURES = ["host", "steps", "hops", "active", "latency", "energy"]


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


@pytest.fixture
def one(runs):
    return ng.sim.Runs(runs.rows[:1], runs.details[:1])


@pytest.fixture(scope="module")
def about():
    return {"title": "amazon", "mode": "detailed", "device": ng.sim.config("detailed")}


def test_throughput_has_a_dot_for_each_platform_and_graph(runs):
    (axes,) = plots.throughput(runs).axes
    (dots,) = axes.lines
    assert dots.get_xdata().tolist() == runs["targets_per_s"].tolist()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == runs["platform"].tolist()
    # BG-2 does more than ten times what CC does.
    assert (axes.get_xlabel(), axes.get_xscale()) == ("targets per second, log", "log")
    assert not axes.patches
    near = ng.sim.simulate(dataset="amazon", batch_size=32, platforms=["CC", "BG-1"], mode="paper")
    (axes,) = plots.throughput(near).axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("targets per second", "linear")
    two = runs + ng.sim.simulate(dataset="ppi", batch_size=32, mode="detailed")
    (axes,) = plots.throughput(two).axes
    assert [len(line.get_xdata()) for line in axes.lines] == [8, 8]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["amazon", "ppi"]


def test_steps_have_a_dot_with_their_range_and_a_ring_for_tlc():
    here = ng.sim.Step("this host", "as it is", 100.0, 90.0, 120.0, "disk")
    other = ng.sim.Step("BG-2", "dies of the SSD", 400.0, 400.0, 410.0, "dies", 50.0)
    (axes,) = plots.steps([here, other]).axes
    drawn = [np.ravel(line.get_xdata()).tolist() for line in axes.lines]
    assert drawn == [[90.0, 120.0], [100.0], [400.0, 410.0], [400.0], [50.0]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "rate, simulated or measured",
        "rate with TLC flash",
    ]


def test_dies_and_channels_have_a_panel_a_platform_on_common_axes(runs):
    figure = plots.active(runs)
    assert len(figure.axes) == 16
    for row, (dies, channels) in enumerate(zip(figure.axes[::2], figure.axes[1::2], strict=True)):
        batch = runs.details[row]["batches"][0]
        assert dies.patches[0].get_data().values.tolist() == batch["dies"]["active"]
        assert channels.patches[0].get_data().values.tolist() == batch["channels"]["active"]
        name, time = dies.get_ylabel().split("\n")
        assert name == runs["platform"][row]
        micros = batch["outcome"]["makespan"] / 1e6
        assert float(time.removesuffix(" us").replace(",", "")) == pytest.approx(micros, rel=0.02)
    assert {axes.get_ylim() for axes in figure.axes[::2]} == {figure.axes[0].get_ylim()}
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 100)}
    assert figure.get_supxlabel() == "% of the time of the batch in the SSD"


def test_hops_have_a_bar_each_from_first_sense_to_last_result(runs):
    (axes,) = plots.hops(runs).axes
    drawn = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    spans = [span for run in runs.details for span in run["batches"][0]["outcome"]["hops"]]
    # Four rounds of reads for three hops.
    assert len(spans) == 8 * 4
    assert np.array(drawn) == pytest.approx(np.array(spans) / 1e6)
    assert axes.get_xlabel() == "us since the first command"
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "hop 3"


def test_the_life_of_a_command_is_stacked_with_its_long_wait_and_without(runs):
    whole, rest = plots.latency(runs).axes
    heights = [
        np.array([bar.get_height() for bar in axes.patches]).reshape(5, 8) for axes in (whole, rest)
    ]
    spreads = [run["batches"][0]["latency"] for run in runs.details]
    means = np.array([[spread[part]["mean"] / 1e6 for spread in spreads] for part in plots.WAITS])
    assert heights[0] == pytest.approx(means)
    assert heights[1][1:] == pytest.approx(means[1:])
    assert not heights[1][0].any()
    assert "us" in whole.get_ylabel()
    assert "us" in rest.get_ylabel()


def test_energy_is_stacked_to_the_joules_of_a_target_each_part_in_its_colour(runs):
    (axes,) = plots.energy(runs).axes
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
    assert tops[-8:] == pytest.approx(1e6 / runs["targets_per_joule"])
    assert axes.get_ylabel() == "uJ per target"
    colours = [bar.get_facecolor() for bar in axes.patches[::8]]
    assert len(colours) == len(set(colours)) == 9


def test_a_sweep_has_a_line_a_platform_and_a_panel_a_graph():
    how = {"platforms": ["CC", "BG-2"], "batch_size": 32}
    swept = ng.sim.sweep("flash.channels", [4, 8, 16], dataset="ppi", **how)
    (axes,) = plots.sweep(swept, "flash.channels").axes
    assert [line.get_label() for line in axes.lines] == ["CC", "BG-2"]
    assert axes.lines[1].get_xdata().tolist() == [4, 8, 16]
    assert axes.lines[1].get_ydata().tolist() == swept["targets_per_s"][1::2].tolist()
    assert (axes.get_xlabel(), axes.get_xscale()) == ("flash.channels", "log")
    swept += ng.sim.sweep("flash.channels", [4, 8, 16], dataset="amazon", **how)
    swept += ng.sim.sweep("flash.channels", [4, 8, 16], dataset="reddit", **how)
    shown = [axes for axes in plots.sweep(swept, "flash.channels").axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["ppi", "amazon", "reddit"]
    assert [len(axes.lines) for axes in shown] == [2, 2, 2]


def test_swept_values_that_are_no_numbers_stand_in_their_order():
    swept = ng.sim.sweep(
        "dram.bytes_per_s", [None, 1e9, 20e9], dataset="ppi", platforms=["CC"], batch_size=32
    )
    (axes,) = plots.sweep(swept, "dram.bytes_per_s").axes
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["no limit", "1 G", "20 G"]


def test_the_disk_of_a_host_is_drawn_over_the_queue_depth():
    (axes,) = plots.host_curve(HOST).axes
    assert axes.lines[0].get_ydata().tolist() == HOST["reads_per_s"]
    assert axes.get_xlabel() == "queue depth (reads in flight)"
    assert axes.get_ylabel() == "random reads of 4 KiB per second"


def test_names_of_graphs_are_no_formulas(runs):
    odd = ng.sim.Runs([{**row, "source": "_$x$_"} for row in runs.rows], runs.details)
    figure = plots.throughput(runs + odd)
    figure.canvas.draw()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["amazon", r" _\$x\$_"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    trace = ng.sim.Trace.of_dataset("ppi", batch_size=32)
    answer = ng.sim.what_would_it_buy(trace, {**HOST, "path": "/data/<b>"}, memory="8GB", repeats=2)
    about = {"title": "ppi & <b>", "mode": "detailed", "device": ng.sim.config("detailed")}
    folder = tmp_path_factory.mktemp("made") / "here"
    page = ng.sim.write_report(folder, answer.runs, **about, answer=answer)
    assert page == folder / "report.html"
    return page, answer


def test_the_page_leads_with_the_answer_and_needs_nothing_else(page):
    page, answer = page
    found = Page(page.read_text())
    words = "".join(found.words)
    marks = ["What should I buy?", *answer.to_buy(), "What would it gain?", *answer.gains()]
    marks += ["What does the gain depend on?", *answer.dependence(), "From this host"]
    marks += ["Sensitivities", "Simulated devices", "What the simulation leaves out", "command: "]
    marks += ["seeds: 0, 1", "features_beside_lists", "Glossary"]
    places = [words.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "This host was not measured" not in words
    assert "ppi & <b>" in words
    assert "/data/<b>" in words
    assert {"b", "script", "link"}.isdisjoint(found.tags)
    pictures = [source for source in found.sources if source.startswith("data:")]
    assert len(pictures) == len(PICTURES)
    needs = re.sub(r'"data:image/png;base64,[^"]*"', "", page.read_text())
    assert not re.search("http|url[(]|@import|src=[^>]", needs)
    drawn = sorted(base64.b64decode(of.removeprefix("data:image/png;base64,")) for of in pictures)
    assert drawn == sorted((page.parent / f"{name}.png").read_bytes() for name in PICTURES)
    assert sorted(path.name for path in page.parent.iterdir()) == sorted(
        ["report.html", "runs.json", *(f"{name}.png" for name in PICTURES)]
    )
    saved = json.loads((page.parent / "runs.json").read_text())
    assert saved["answer"]["speedups"] == answer.speedups
    assert len(saved["runs"]) == 9


def test_the_chain_has_a_bar_for_this_host_and_each_stage_on_one_scale(page):
    page, answer = page
    widths = [
        float(width)
        for width in re.findall('class="bar" style="width:([0-9.]+)%', page.read_text())
    ]
    top = max(step.most for step in answer.stages())
    assert widths == pytest.approx([100 * s.targets_per_s / top for s in answer.stages()], abs=0.06)


def test_words_of_the_glossary_lead_to_it(page):
    text = page[0].read_text()
    linked = set(re.findall('class="term" href="#([^"]*)"', text))
    assert {"BG-2", "TLC", "queue-depth", "most-sensitive-to", "lower-bound", "p99"} <= linked
    assert linked == set(re.findall('<dt id="([^"]*)"', text))
    assert set(PLATFORMS) >= {*ng.sim.PLATFORMS, *ng.sim.MORE_PLATFORMS}


def test_without_a_host_the_page_says_so_first(one, about, tmp_path):
    page = ng.sim.write_report(tmp_path, one, **about)
    words = "".join(Page(page.read_text()).words)
    assert words.index("This host was not measured") < words.index("Simulated devices")


def test_mode_paper_names_what_it_leaves_out_beside_what_no_mode_has(one, about, tmp_path):
    detailed = ng.sim.write_report(tmp_path / "d", one, **about).read_text()
    paper = ng.sim.write_report(tmp_path / "p", one, **about | {"mode": "paper"}).read_text()
    for text, is_paper in ((detailed, False), (paper, True)):
        assert "garbage collection" in text
        assert all((switch in text) == is_paper for switch in ng.sim.SWITCHES if " " in switch)


def test_a_folder_that_is_a_file_is_refused(one, about, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(UnsupportedArgument, match=r"cannot write the report .* another folder"):
        ng.sim.write_report(file, one, **about)
    assert file.read_text() == "kept"


@pytest.mark.parametrize("call", ["write_bytes", "replace"])
def test_a_report_that_cannot_be_written_leaves_nothing_half(
    one, about, tmp_path, monkeypatch, call
):
    def fail(*_):
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(Path, call, fail)
        with pytest.raises(UnsupportedArgument, match="no space"):
            ng.sim.write_report(tmp_path, one, **about)
    assert list(tmp_path.iterdir()) == []
    before = ng.sim.write_report(tmp_path, one, **about).read_text()
    write, files = Path.write_bytes, []

    def fill(path, data):
        files.append(path)
        return fail() if len(files) == 3 else write(path, data)

    monkeypatch.setattr(Path, "write_bytes", fill)
    as_it_was = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    with pytest.raises(UnsupportedArgument, match="no space"):
        ng.sim.write_report(tmp_path, one, **about | {"title": "other"})
    assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == as_it_was
    assert (tmp_path / "report.html").read_text() == before


def test_without_matplotlib_the_report_says_what_to_install(one, about, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match="plot"):
        ng.sim.write_report(tmp_path / "out", one, **about)
    assert list(tmp_path.iterdir()) == []


def test_an_ablation_leaves_out_one_cost_at_a_time():
    found = ng.sim.ablation(dataset="ppi", batch_size=32, seed=4)
    assert len(found) == 8 * (len(ng.sim.SWITCHES) + 3)
    how = {"dataset": "ppi", "batch_size": 32, "seed": 4}
    for switch, mode in (("none", "detailed"), ("all", "paper")):
        rows = [row["targets_per_s"] for row in found.rows if row["switch"] == switch]
        assert rows == ng.sim.simulate(**how, mode=mode)["targets_per_s"].tolist()
    assert set(moved(found, "none").values()) == {1.0}
    # Firmware is in the way of all platforms but the one without it.
    gains = moved(found, "firmware time")
    assert gains["BG-2"] == 1.0
    assert gains["BG-DGSP"] > 1.5
    assert sorted(ranking(found, "all")) == sorted(ng.sim.PLATFORMS)
    with pytest.raises(UnsupportedArgument, match="expected either a trace or dataset="):
        ng.sim.ablation()


def test_who_overtakes_whom_is_told_with_the_margin():
    speeds = {"none": [3.0, 2.0, 1.0], "DRAM": [3.0, 2.0, 1.0], "router": [3.0, 6.0, 4.0]}
    rows = [
        {"switch": switch, "platform": name, "targets_per_s": speed}
        for switch, values in speeds.items()
        for name, speed in zip("abc", values, strict=True)
    ]
    found = ng.sim.Runs(rows, [])
    assert ranking(found, "router") == ["b", "c", "a"]
    assert overtakes(found, "router") == {("b", "a"): 2.0, ("c", "a"): 4 / 3}
    assert overtakes(found, "DRAM") == {}
    assert moved(found, "router") == {"a": 1.0, "b": 3.0, "c": 4.0}


def test_the_command_escapes_the_name_of_a_store(homo_path, tmp_path, capsys):
    odd = tmp_path / "<b>.ng"
    shutil.copytree(homo_path, odd)
    small = ["--batch-size", 16, "--batches", 2, "--fanouts", "2,2"]
    code, out, err = run("simulate", odd, *small, "--out", tmp_path / "out", capsys=capsys)
    assert (code, err) == (0, "")
    assert f"report: {tmp_path / 'out' / 'report.html'}" in out
    found = Page((tmp_path / "out" / "report.html").read_text())
    assert "b" not in found.tags
    assert "<b>.ng" in found.words
    assert any("fanouts 2,2" in word for word in found.words)


def test_the_command_writes_the_report_and_compares_with_a_host(tmp_path, capsys, monkeypatch):
    known = {**HOST, "path": "here"}
    monkeypatch.setattr("neargraph.sim.buying.measure_host", lambda path, progress: known)
    small = ["simulate", "--dataset", "ppi", "--batch-size", "16", "--batches", "2"]
    code, out, err = run(*small, "--host", tmp_path, "--out", tmp_path / "out", capsys=capsys)
    assert (code, err) == (0, "")
    assert (
        "Recommended: an SSD that samples in its flash dies (BG-2). This is a published design"
        in out
    )
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
    assert "<th>workers</th>" in (tmp_path / "swept" / "report.html").read_text()
    assert (tmp_path / "swept" / "sweep.png").exists()
    code, out, _ = run(*small, "--sweep", "batch_size=8,16", "--json", capsys=capsys)
    rows = json.loads(out)["runs"]
    assert [row["value"] for row in rows] == [8] * 8 + [16] * 8
    code, out, _ = run(*small, "--preset", "tlc", "--layer", "gin", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["device"]["flash"]["sense_types_ns"] == [40e3, 65e3, 65e3]
    code, out, _ = run(*small, "--ablation", capsys=capsys)
    assert code == 0
    assert "firmware time" in out
    assert "the fastest first: BG-2, " in out
    assert "overtakes" in out or "does not change the order" in out
    for more, words in [
        (["--ablation", "--mode", "paper"], "--ablation needs --mode detailed"),
        (["--ablation", "--out", "x"], "cannot be combined with"),
        (["--host", "x", "--sweep", "workers=1"], "--host cannot be combined with --sweep"),
        (["--host", "x", "--dataset", "ppi,amazon"], "one graph"),
        (["--preset", "apu"], "'apu' is not one of"),
        (["--out", __file__], "cannot write the report"),
    ]:
        code, _, err = run(*small, *more, capsys=capsys)
        assert code != 0
        assert words in " ".join(err.split())
        assert "Traceback" not in err
