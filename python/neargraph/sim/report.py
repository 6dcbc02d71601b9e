"""Writes simulated runs as one page, which starts with the answer, and as JSON and pictures."""

import io
import json
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neargraph.exceptions import UnsupportedArgument

from . import plots
from .answer import Answer
from .chain import HERE, Step
from .config import SWITCHES, Config, constants
from .glossary import constant_in_words, in_words, reading_in_words
from .page import bar, card, exact, explained, glossary, picture, table, whole_page, words_of
from .plots import tick
from .provenance import provenance
from .runs import PICOS, Runs, speeds_and_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEFT_OUT = (
    "The simulation leaves out block allocation, retries, error correction, garbage collection "
    "during a run, and caches inside the SSD. The simulated SSD has one queue pair, and is idle "
    "when a batch starts."
)
_LEFT_OUT_OF_PAPER = (
    'The mode "paper" also leaves out these costs, as the publication on BeaconGNN does: '
    f"{'; '.join(SWITCHES)}. Compare results of this mode only with that publication."
)

_NOT_MEASURED = (
    "This host was not measured. The figures compare simulated devices with each other, and say "
    "nothing about the speed of this machine."
)


def write_report(
    folder: str | os.PathLike[str],
    runs: Runs,
    *,
    title: str,
    mode: str,
    device: Config,
    answer: Answer | None = None,
    swept: str | None = None,
) -> Path:
    """Writes ``report.html``, ``runs.json`` and a PNG of each picture.

    The page includes its pictures, so it can be moved alone.

    Args:
        folder: The folder, which is created if it does not exist. Existing files of these names are
            replaced, each by one rename, after all are written.
        runs: At least one run.
        title: Title of the page.
        mode: Mode of the runs.
        device: Constants of the runs.
        answer: The gain over a measured host, with which the page starts. Without it, the page says
            that no host was measured.
        swept: Name of the swept constant or argument, if `runs` has the column ``value``.

    Returns:
        The path of the page.

    Raises:
        UnsupportedArgument: The folder cannot be created or is not writable.
        MissingDependency: matplotlib is not installed.

    Example:
        >>> page = write_report("out", runs, title="a", mode="paper", device=made)  # doctest: +SKIP
    """
    pictures = _pictures(runs, answer, swept)
    page = _page(pictures, runs, title, mode, device, answer, swept)
    found: dict[str, Any] = {"title": title, "mode": mode, "device": device, "runs": runs.rows}
    if answer is not None:
        found["answer"] = answer.plain()
    files = {f"{name}.png": picture for name, picture in pictures.items()}
    files |= {"runs.json": json.dumps(found, indent=1).encode(), "report.html": page.encode()}
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write(target, files)
    except OSError as error:
        raise UnsupportedArgument(
            f"{target}: cannot write the report ({error}); choose another folder"
        ) from error
    return target / "report.html"


def _write(folder: Path, files: dict[str, bytes]) -> None:
    halves = {name: folder / f".{name}.{os.getpid()}" for name in files}
    try:
        for name, half in halves.items():
            half.write_bytes(files[name])
        for name, half in halves.items():
            half.replace(folder / name)
    finally:
        for half in halves.values():
            half.unlink(missing_ok=True)


def _pictures(runs: Runs, answer: Answer | None, swept: str | None) -> dict[str, bytes]:
    """PNGs by name."""
    figures = {}
    if answer is not None:
        figures = {"host": plots.host_curve(answer.host), "steps": plots.steps(answer.steps)}
    if swept is not None:
        figures["sweep"] = plots.sweep(runs, swept)
    else:
        one = _first_graph(runs)
        if answer is None:
            figures["throughput"] = plots.throughput(runs)
        for draw in (plots.hops, plots.active, plots.latency, plots.energy):
            figures[draw.__name__] = draw(one)
    return {name: _png(figure) for name, figure in figures.items()}


def _page(
    pictures: dict[str, bytes],
    runs: Runs,
    title: str,
    mode: str,
    device: Config,
    answer: Answer | None,
    swept: str | None,
) -> str:
    drawn = {name: picture(data, _ALT[name], name != "host") for name, data in pictures.items()}
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f"<p>{_NOT_MEASURED}</p>"] if answer is None else _first_screens(drawn, answer)
    parts.append(f"<h2>{'Simulated devices' if swept is None else 'Sweep'}</h2>")
    parts += [drawn[name] for name in ("steps", "throughput", "sweep") if name in drawn]
    parts.append(table(_HEAD if swept is None else [swept, *_HEAD], _rows(runs, swept)))
    if swept is None:
        parts += _one_graph(drawn, _first_graph(runs))
    parts += ["<h2>What the simulation leaves out</h2>", f"<p>{_LEFT_OUT}</p>"]
    if mode == "paper":
        parts.append(f"<p>{_LEFT_OUT_OF_PAPER}</p>")
    parts += _made(runs, mode, device, answer)
    body = "\n".join(parts)
    words = words_of(body)
    return whole_page(title, f"{body}\n<h2>Glossary</h2>{glossary(words)}")


_HEAD = ["platform", "graph", "targets/s", "us per batch", "flash us", "host us", "PCIe us"]
_HEAD += ["compute us", "targets/J", "bound by", "times its lower bound"]
_ALT = {
    "steps": "targets per second of this host and of every device",
    "throughput": "targets per second by platform",
    "sweep": "targets per second by value of the swept constant",
    "hops": "hops over time",
    "active": "active dies and channels over time",
    "latency": "time of a command by part",
    "energy": "microjoules per target by part",
    "host": "random reads per second by queue depth",
}


def _first_screens(drawn: dict[str, str], answer: Answer) -> list[str]:
    """Returns the answer, the chain of stages, this host and the sensitivities."""
    cards = [
        card("What should I buy?", answer.to_buy()),
        card("What would it gain?", answer.gains()),
        card("What does the gain depend on?", answer.dependence()),
    ]
    return [
        f'<div class="cards">{"".join(cards)}</div>',
        "<h2>From this host to sampling in the dies</h2>",
        _chain(answer),
        '<div class="two">',
        f"<div><h2>This host</h2>{_about_host(answer)}{drawn['host']}</div>",
        f"<div><h2>Sensitivities</h2>{_sensitivities(answer)}</div>",
        "</div>",
    ]


def _chain(answer: Answer) -> str:
    """The stages as rows, with bars on one linear scale."""
    stages = answer.stages()
    here = answer.here.targets_per_s
    top = max(step.most for step in stages)
    known = "this host" if answer.reading != "modelled" else "this host's disk"
    return (
        '<div class="wide"><table class="chain"><tr><th class="text">design</th>'
        f"<th>{explained('target')}s/s</th><th>times this host</th>"
        f'<th class="text more">{explained("bound by")}</th><th class="text"></th>'
        f"<th>{explained('times with TLC')}</th></tr>"
        f"{''.join(_stage(step, here, top) for step in stages)}</table></div>"
        f'<p class="soft">Thick bars: flash that senses a page in {answer.sense_us:.3g} us. Thin '
        "bars: TLC flash. In parentheses: the lowest and the highest rate of a batch, with "
        f"{_seeds(answer)}. For this host: of a part of the measurement. "
        f"Only {known} is measured. The devices are simulated. The devices that sample are designs "
        "from publications, not products. Targets/s include sampling, reading and computing the "
        "model on an accelerator.</p>"
    )


def _seeds(answer: Answer) -> str:
    count = len(answer.seeds)
    return f"{count} random seed{'' if count == 1 else 's'}"


def _stage(step: Step, here: float, top: float) -> str:
    tlc = step.tlc_targets_per_s
    bars = bar(step.targets_per_s / top) + ("" if tlc is None else bar(tlc / top, "bar tlc"))
    where = step.name if step.name == HERE else f"{step.where} ({step.name})"
    span = f" ({step.least:,.0f}-{step.most:,.0f})" if step.least < step.most else ""
    return (
        f'<tr><td class="text">{explained(where)}</td>'
        f'<td>{step.targets_per_s:,.0f}<span class="more soft">{span}</span></td>'
        f"<td>{step.targets_per_s / here:.3g}</td>"
        f'<td class="text more">{escape(in_words(step.bound_by))}</td>'
        f'<td class="bars">{bars}</td>'
        f"<td>{'' if tlc is None else f'{tlc / here:.3g}'}</td></tr>"
    )


def _about_host(answer: Answer) -> str:
    host = answer.host
    size = f"{host['read_bytes'] / 1024:g} KiB"
    said = [
        f"Disk under {host.get('path', 'an unknown path')}: "
        f"{host['reads_per_s'][-1]:,.0f} random reads/s of {size} at queue depth "
        f"{host['depths'][-1]}, {host['bytes_per_s'] / 1e9:.2f} GB/s in sequential reads.",
        f"Each read takes {host['cpu_ns_per_read'] / 1e3:.2f} us of processor time; the host has "
        f"{host['cores']} cores.",
        f"How the loader reads rows: {reading_in_words(answer.reading)}.",
    ]
    return "".join(f"<p>{explained(sentence)}</p>" for sentence in said)


def _sensitivities(answer: Answer) -> str:
    rows = [
        [
            constant_in_words(one.name),
            tick(one.value),
            f"{one.with_half:.3g}",
            f"{one.with_double:.3g}",
        ]
        for one in answer.sensitivities
    ]
    now = answer.speedups[answer.sensitive]
    gain = f"{answer.sensitive} is {now:.3g} times as fast as this host."
    lead = f"{gain} This gain is most sensitive to"
    head = ["constant", "value", "gain with half", "gain with double"]
    return f"<p>{explained(lead)}:</p>{table(head, rows)}"


def _rows(runs: Runs, swept: str | None) -> list[list[str]]:
    rows = []
    for row in runs.rows:
        value = [] if swept is None else [exact(row["value"])]
        bound = [row["bound_by"], f"{row['headroom']:.2f}"]
        rows.append([*value, row["platform"], row["source"], *speeds_and_times(row), *bound])
    return rows


def _first_graph(runs: Runs) -> Runs:
    """The runs on the first graph, as the pictures show only one graph."""
    first = runs.rows[0]["source"]
    kept = [at for at, row in enumerate(runs.rows) if row["source"] == first]
    return Runs([runs.rows[at] for at in kept], [runs.details[at] for at in kept])


def _one_graph(drawn: dict[str, str], one: Runs) -> list[str]:
    waits = []
    for row, run in zip(one.rows, one.details, strict=True):
        spreads = run["batches"][0]["latency"]
        cells = [
            " / ".join(f"{spread[key] * PICOS * 1e6:,.1f}" for key in ("mean", "p50", "p99"))
            for spread in (spreads[part] for part in plots.WAITS)
        ]
        waits.append([row["platform"], *cells])
    return [
        f"<h2>{escape(one.rows[0]['source'])}, first batch: hops</h2>",
        drawn["hops"],
        "<h2>Active dies and channels</h2>",
        drawn["active"],
        "<h2>Commands</h2>",
        drawn["latency"],
        f"<p>Time in us: {explained('mean / p50 / p99')}</p>",
        table(["platform", *plots.WAITS.values()], waits),
        "<h2>Energy</h2>",
        drawn["energy"],
    ]


def _made(runs: Runs, mode: str, device: Config, answer: Answer | None) -> list[str]:
    seeds = list(dict.fromkeys(str(row["seed"]) for row in runs.rows))
    if answer is not None:
        seeds = [str(seed) for seed in answer.seeds]
    about = {**provenance(), "mode": mode, "seeds": ", ".join(seeds)}
    return [
        "<h2>How this report was made</h2>",
        f'<div class="made">{"".join(_fact(name, value) for name, value in about.items())}</div>',
        "<p>Constants of the simulated SSD:</p>",
        table(["constant", "value"], [[name, exact(v)] for name, v in constants(device).items()]),
    ]


def _fact(name: str, value: str) -> str:
    return f"<p>{escape(name)}: {escape(value)}</p>"


def _png(figure: "Figure") -> bytes:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return png.getvalue()
