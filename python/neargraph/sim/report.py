"""Simulated runs as one page that leads with the answer, and their figures as JSON beside it."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from neargraph.exceptions import UnsupportedArgument

from . import plots
from .config import Config, names, value_of
from .host import Answer
from .runs import PICOS, Runs

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.answer { border-left: .3rem solid #3b6ea5; padding: .2rem 1rem; font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; background: #fff; }
details { margin: 1rem 0; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; } th, td { border-color: #444; }
}
"""

_LEFT_OUT = {
    "paper": (
        "This mode leaves out what the publication leaves out, such as the time of DRAM, of "
        "commands on the channels and of the router. Compare it with that publication alone."
    ),
    "detailed": (
        "Not modelled in either mode: allocation of blocks, retries and error correction, garbage "
        "collection during a run, several queue pairs, and caches inside the SSD."
    ),
}

_NOT_MEASURED = (
    "No host was measured: these figures compare simulated devices with each other, and say "
    "nothing about what this machine does."
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
    """Writes ``report.html``, which needs nothing else, and ``runs.json`` with all figures.

    Args:
        folder: Made if it is not there. Files of these names in it are replaced, each as a whole.
        runs: At least one.
        title: What was simulated.
        mode: Of the runs.
        device: The constants.
        answer: The gain over a measured host, which the page leads with; without it the page says
            that no host was measured.
        swept: Name of what was swept, where `runs` has the column ``value``.

    Returns:
        The page.

    Raises:
        UnsupportedArgument: The folder cannot be made or written to.
        MissingDependency: matplotlib is not installed.
    """
    page = _page(runs, title, mode, device, answer, swept)
    found: dict[str, Any] = {"title": title, "mode": mode, "device": device, "runs": runs.rows}
    if answer is not None:
        found["answer"] = answer.plain()
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write(target / "runs.json", json.dumps(found, indent=1))
        _write(target / "report.html", page)
    except OSError as error:
        raise UnsupportedArgument(f"no report can be written to {target} ({error})") from error
    return target / "report.html"


def _write(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def _page(
    runs: Runs, title: str, mode: str, device: Config, answer: Answer | None, swept: str | None
) -> str:
    lead = _NOT_MEASURED if answer is None else answer.words()
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="answer">{escape(lead)}</p>']
    if swept is None:
        parts += ["<h2>Throughput</h2>", _picture(plots.throughput(runs), "targets a second")]
    else:
        parts += ["<h2>Sweep</h2>", _picture(plots.sweep(runs, swept), f"over {swept}")]
    parts.append(_table(_HEAD if swept is None else [swept, *_HEAD], _rows(runs, swept)))
    if swept is None:
        parts += _one_graph(runs)
    if answer is not None:
        parts += _about_host(answer)
    parts += ["<h2>What this leaves out</h2>", f"<p>{escape(_LEFT_OUT[mode])}</p>"]
    constants = [[name, f"{value_of(device, name)}"] for name in names(device)]
    parts.append(
        f"<details><summary>Constants of the device, mode {mode}</summary>"
        f"{_table(['constant', 'value'], constants)}</details>"
    )
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


_HEAD = ["platform", "graph", "targets/s", "us a batch", "flash us", "host us", "PCIe us"]
_HEAD += ["compute us", "targets/J", "bound by", "times its bound"]


def _rows(runs: Runs, swept: str | None) -> list[list[str]]:
    rows = []
    for row in runs.rows:
        times = [
            row[f"{part}_s"] * 1e6 for part in ("interval", "flash", "host", "pcie", "compute")
        ]
        rows.append(
            [
                *([f"{row['value']}"] if swept is not None else []),
                row["platform"],
                row["source"],
                f"{row['targets_per_s']:,.0f}",
                *(f"{time:,.1f}" for time in times),
                f"{row['targets_per_joule']:,.0f}",
                row["bound_by"],
                f"{row['headroom']:.2f}",
            ]
        )
    return rows


def _one_graph(runs: Runs) -> list[str]:
    """What is drawn of the first graph: more than one would not be read."""
    first = runs.rows[0]["source"]
    kept = [at for at, row in enumerate(runs.rows) if row["source"] == first]
    one = Runs([runs.rows[at] for at in kept], [runs.details[at] for at in kept])
    waits = []
    for row, run in zip(one.rows, one.details, strict=True):
        spreads = run["batches"][0]["latency"]
        cells = [
            " / ".join(f"{spread[key] * PICOS * 1e6:,.1f}" for key in ("mean", "p50", "p99"))
            for spread in spreads.values()
        ]
        waits.append([row["platform"], *cells])
    heads = [name.replace("_", " ") for name in one.details[0]["batches"][0]["latency"]]
    return [
        f"<h2>{escape(first)}, first batch: hops</h2>",
        _picture(plots.hops(one), "hops over time"),
        "<h2>Dies and channels</h2>",
        _picture(plots.active(one), "dies and channels over time"),
        "<h2>Commands</h2>",
        _picture(plots.latency(one), "time of a command by part"),
        "<p>Mean / median / 99 of 100, us:</p>",
        _table(["platform", *heads], waits),
        "<h2>Energy</h2>",
        _picture(plots.energy(one), "joules of a target by part"),
    ]


def _about_host(answer: Answer) -> list[str]:
    host = answer.host
    gains = [
        [name, f"{gain:.3g}", f"{answer.over_cc[name]:.3g}"]
        for name, gain in answer.speedups.items()
    ]
    hangs = [[name, f"{half:.3g}", f"{double:.3g}"] for name, half, double in answer.hangs_on]
    return [
        "<h2>This host</h2>",
        f"<p>{escape(str(host.get('path', '')))}: {host['bytes_per_s'] / 1e9:.2f} GB/s, "
        f"{host['cpu_ns_per_read'] / 1e3:.2f} us of a core for each read, {host['cores']} cores, "
        f"{host['depth']} reads under way.</p>",
        _picture(plots.host_curve(host), "random reads over depth"),
        _table(["platform", "times this host", "times CC"], gains),
        f"<p>What {escape(answer.best)} over this host hangs on:</p>",
        _table(["constant", "with half of it", "with double"], hangs),
    ]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>{line(head, "th")}{body}</table></div>'


def _picture(figure: Any, what: str) -> str:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    data = base64.b64encode(png.getvalue()).decode()
    return f'<p><img alt="{escape(what)}" src="data:image/png;base64,{data}"></p>'
