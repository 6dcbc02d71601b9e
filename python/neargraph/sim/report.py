"""Simulated runs as one page that leads with the answer; its figures and pictures lie beside it."""

import base64
import io
import json
import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neargraph.exceptions import UnsupportedArgument

from . import plots
from .config import SWITCHES, Config, constants
from .host import Answer
from .runs import PICOS, Runs, speeds_and_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.answer { border-left: .3rem solid #3b6ea5; padding: .2rem 1rem; font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ccc; text-align: right; }
td { white-space: nowrap; } .text { text-align: left; }
img { max-width: 100%; min-width: 38rem; height: auto; background: #fff; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; } th, td { border-color: #444; }
}
@media print {
  body { color: #000; background: #fff; } .wide { overflow: visible; } img { min-width: 0; }
  table { font-size: .6rem; } img, tr { break-inside: avoid; } h2 { break-after: avoid; }
}
"""

_LEFT_OUT = (
    "Neither mode has allocation of blocks, retries and error correction, garbage collection "
    "during a run, several queue pairs, or caches inside the SSD. Batches start on an empty device."
)
_LEFT_OUT_OF_PAPER = (
    "Mode paper leaves out what the publication does, so compare it with that publication alone: "
    f"{'; '.join(SWITCHES)}."
)

_NOT_MEASURED = (
    "This host was not measured: these figures compare simulated devices with each other alone, "
    "and say nothing about what this machine does."
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
    """Writes ``report.html``, which needs nothing else, ``runs.json`` and a PNG of each picture.

    Args:
        folder: Made if it is not there. Files of these names in it are replaced, each as a whole,
            once all of them are written.
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
            f"no report can be written to {target} ({error}); name another folder"
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
    if swept is not None:
        figures = {"sweep": plots.sweep(runs, swept)}
    else:
        one = _first_graph(runs)
        figures = {"throughput": plots.throughput(runs)}
        for draw in (plots.hops, plots.active, plots.latency, plots.energy):
            figures[draw.__name__] = draw(one)
    if answer is not None:
        figures["host"] = plots.host_curve(answer.host)
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
    lead = _NOT_MEASURED if answer is None else answer.words()
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="answer">{escape(lead)}</p>']
    parts.append(f"<h2>{'Throughput' if swept is None else 'Sweep'}</h2>")
    parts.append(_picture(pictures, "throughput" if swept is None else "sweep"))
    parts.append(_table(_HEAD if swept is None else [swept, *_HEAD], _rows(runs, swept)))
    if swept is None:
        parts += _one_graph(pictures, _first_graph(runs))
    if answer is not None:
        parts += _about_host(pictures, answer)
    parts += ["<h2>What this leaves out</h2>", f"<p>{_LEFT_OUT}</p>"]
    if mode == "paper":
        parts.append(f"<p>{_LEFT_OUT_OF_PAPER}</p>")
    seeds = ", ".join(dict.fromkeys(str(row["seed"]) for row in runs.rows))
    exact = [[name, _exact(value)] for name, value in constants(device).items()]
    parts.append(f"<h2>How it was made</h2><p>Mode {escape(mode)}; seed {seeds}; constants:</p>")
    parts.append(_table(["constant", "value"], exact))
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


_HEAD = ["platform", "graph", "targets/s", "us a batch", "flash us", "host us", "PCIe us"]
_HEAD += ["compute us", "targets/J", "bound by", "times its bound"]
# Columns of words; the others are numbers, whose ends stand under each other.
_WORDS = {"platform", "graph", "bound by", "constant"}
_ALT = {
    "throughput": "targets a second by platform",
    "sweep": "targets a second over the swept constant",
    "hops": "hops over time",
    "active": "dies and channels over time",
    "latency": "time of a command by part",
    "energy": "microjoules of a target by part",
    "host": "random reads a second over reads under way",
}


def _rows(runs: Runs, swept: str | None) -> list[list[str]]:
    rows = []
    for row in runs.rows:
        value = [] if swept is None else [_exact(row["value"])]
        bound = [row["bound_by"], f"{row['headroom']:.2f}"]
        rows.append([*value, row["platform"], row["source"], *speeds_and_times(row), *bound])
    return rows


def _first_graph(runs: Runs) -> Runs:
    """The runs on the first graph: pictures of more than one would not be read."""
    first = runs.rows[0]["source"]
    kept = [at for at, row in enumerate(runs.rows) if row["source"] == first]
    return Runs([runs.rows[at] for at in kept], [runs.details[at] for at in kept])


def _one_graph(pictures: dict[str, bytes], one: Runs) -> list[str]:
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
        _picture(pictures, "hops"),
        "<h2>Dies and channels</h2>",
        _picture(pictures, "active"),
        "<h2>Commands</h2>",
        _picture(pictures, "latency"),
        "<p>Mean / median / 99 of 100, us:</p>",
        _table(["platform", *plots.WAITS.values()], waits),
        "<h2>Energy</h2>",
        _picture(pictures, "energy"),
    ]


def _about_host(pictures: dict[str, bytes], answer: Answer) -> list[str]:
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
        _picture(pictures, "host"),
        _table(["platform", "times this host", "times CC"], gains),
        f"<p>What {escape(answer.best)} over this host hangs on:</p>",
        _table(["constant", "with half of it", "with double"], hangs),
    ]


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    kinds = [' class="text"' if name in _WORDS else "" for name in head]

    def line(cells: list[str], tag: str) -> str:
        both = zip(kinds, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{escape(cell)}</{tag}>' for kind, cell in both)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>{line(head, "th")}{body}</table></div>'


def _exact(value: Any) -> str:
    """A constant as it is.

    >>> _exact(800e6), _exact(None), _exact(True)
    ('800,000,000.0', 'no limit', 'True')
    """
    if value is None:
        return "no limit"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value)


def _picture(pictures: dict[str, bytes], name: str) -> str:
    data = base64.b64encode(pictures[name]).decode()
    alt = _ALT[name]
    return f'<p class="wide"><img alt="{alt}" src="data:image/png;base64,{data}"></p>'


def _png(figure: "Figure") -> bytes:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return png.getvalue()
