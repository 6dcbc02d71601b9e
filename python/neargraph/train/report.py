"""A run as one self-contained page: result, curves, settings.

The invariant: the page uses no outside resource and no script. It is readable in light and dark
mode, and on a screen of 420 pixels width.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from neargraph.units import format_bytes

from .config import TrainConfig
from .curves import svg
from .files import write_whole
from .plots import write_plots
from .result import TrainResult

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --paper: #fff; --soft: #5c6670; --line: #d8dde2;
        --c0: #2f6fab; --c1: #c8553d; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e6ea; --paper: #16191c; --soft: #9aa5b0; --line: #343b42;
          --c0: #6cabe6; --c1: #ee8a70; }
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 0 auto; padding: 1rem;
       color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .5rem 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .soft, .note { color: var(--soft); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .8rem; }
.facts div { border-top: 2px solid var(--c0); padding-top: .3rem; }
.facts b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } svg { width: 100%; min-width: 34rem; height: auto; display: block; }
.grid { stroke: var(--line); } .curve { fill: none; stroke-width: 1.8; }
.tick { font-size: 11px; fill: var(--soft); } .end { text-anchor: end; }
.middle { text-anchor: middle; } .name { font-size: 12px; font-weight: 600; }
.curve.c0 { stroke: var(--c0); } .curve.c1 { stroke: var(--c1); }
.name.c0, .dot.c0 { fill: var(--c0); } .name.c1, .dot.c1 { fill: var(--c1); }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.keys td { text-align: left; white-space: normal; }
@media print { body { color: #000; background: #fff; } .wide { overflow: visible; }
               svg { min-width: 0; } }
"""

_COLUMNS = {
    "epoch": "epoch",
    "loss": "loss",
    "seeds_per_second": "seeds/s",
    "hit_rate": "cache hits",
    "read_bytes": "read",
    "useful_bytes": "used",
}


def write_report(folder: Path, config: TrainConfig, store: str, result: TrainResult) -> str | None:
    """Writes ``report.html``, and ``plots/`` if matplotlib is installed.

    Args:
        folder: The directory of the run.
        config: The settings.
        store: Path of the store.
        result: The result of the run.

    Returns:
        None, or a note if matplotlib is not installed.
    """
    metric = result.metric
    write_whole(folder / "report.html", _page(folder, config, store, result, metric).encode())
    return write_plots(folder / "plots", result, metric)


def _page(folder: Path, config: TrainConfig, store: str, result: TrainResult, metric: str) -> str:
    title = f"{config.model} on {Path(store).name}: {config.task}"
    rows = result.history
    measured = [row for row in rows if f"val_{metric}" in row]
    curve = (metric, [row["epoch"] for row in measured], result.values(metric))
    epochs = [row["epoch"] for row in rows]
    steps = list(range(1, len(result.losses) + 1))
    read = [row["read_bytes"] / 1e6 for row in rows]
    useful = [row["useful_bytes"] / 1e6 for row in rows]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">run {escape(str(folder.name))}, objective and loss: '
        f"{escape(result.objective)}</p>",
        _facts(result),
        *(f'<p class="note">{escape(note)}</p>' for note in result.notes),
        _curve("Loss by step", svg([("loss", steps, result.losses)], "step", "loss by step")),
        _curve(
            f"Validation: {metric}",
            svg([curve], "epoch", metric),
        ),
        _curve(
            "MB read from disk, and MB used by batches",
            svg([("read", epochs, read), ("used", epochs, useful)], "epoch", "MB by epoch"),
        ),
        "<h2>Epochs</h2>",
        _epochs(rows, metric),
        "<h2>Settings</h2>",
        _settings({"store": store, **config.plain()}, left_to_run(config, result.resolved)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _facts(result: TrainResult) -> str:
    tested = f"test, {result.tested} parameters"
    facts = {f"{name} ({tested})": f"{value:.4f}" for name, value in result.test.items()}
    if result.best_epoch is not None:
        facts["best epoch"] = str(result.best_epoch)
    facts["epochs"] = f"{len(result.history)}{', stopped early' if result.stopped_early else ''}"
    facts["parameters"] = f"{result.num_parameters:,}"
    facts["seeds/s"] = f"{result.seeds_per_second:,.0f}"
    cells = (f"<div><b>{escape(v)}</b>{escape(k)}</div>" for k, v in facts.items())
    return f'<div class="facts">{"".join(cells)}</div>'


def _curve(title: str, picture: str) -> str:
    shown = f'<h2>{escape(title)}</h2><div class="wide">{picture}</div>'
    return shown if picture else ""


def _epochs(rows: list[dict[str, Any]], metric: str) -> str:
    columns = {**_COLUMNS, f"val_{metric}": f"val {metric}"}
    head = "".join(f"<th>{escape(name)}</th>" for name in columns.values())
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(key, row.get(key))}</td>" for key in columns) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.endswith("_bytes"):
        return format_bytes(int(value))
    if key == "hit_rate":
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}" if key in ("epoch", "seeds_per_second") else f"{value:.4f}"


def left_to_run(config: TrainConfig, resolved: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values that a run chose for open settings, by name, as on the command line."""
    given = config.plain()
    return {n: _written(v) for n, v in resolved.items() if given[n] in ("auto", None, [])}


def _settings(settings: dict[str, Any], left: dict[str, str]) -> str:
    def cell(name: str, value: Any) -> str:
        text = _written(value)
        return f"{text} ({left[name]})".lstrip() if name in left else text

    rows = "".join(
        f"<tr><td>{escape(name.replace('_', '-'))}</td><td>{escape(cell(name, value))}</td></tr>"
        for name, value in settings.items()
    )
    return f'<div class="wide"><table class="keys">{rows}</table></div>'


def _written(value: Any) -> str:
    """Returns the value of a setting as on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return str(value)
