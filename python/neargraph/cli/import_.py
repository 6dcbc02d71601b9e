"""`neargraph import SOURCE... --out G.ng`."""

from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import typer

from neargraph._room import minimum_of
from neargraph.exceptions import ImportFailed
from neargraph.importers import (
    GraphPlan,
    ImportOptions,
    Note,
    check_target,
    estimate_import,
    plan_source,
    run_import,
)
from neargraph.importers.memory import INTERPRETER_BYTES
from neargraph.importers.notes import in_words
from neargraph.importers.preview import preview_import
from neargraph.remedies import flag_words, on_command_line
from neargraph.units import parse_bytes

from . import import_options as given
from .import_preview import preview_tables
from .settings import Json
from .show import bars, console, pairs_table, print_json, print_notes, readable, size


@minimum_of(lambda minimum: minimum + INTERPRETER_BYTES)
def import_(
    source: given.Sources = None,
    *,
    out: given.Out,
    format: given.Format = None,
    memory: given.Memory = None,
    nodes: given.Nodes = None,
    edges: given.Edges = None,
    key: given.Key = None,
    features: given.Features = None,
    label: given.Label = None,
    delimiter: given.Delimiter = None,
    header: given.Header = None,
    columns: given.Columns = None,
    time_scale: given.TimeScale = None,
    strings: given.Strings = False,
    encoding: given.Encoding = None,
    bipartite: given.Bipartite = None,
    undirected: given.Undirected = False,
    self_loops: given.SelfLoops = "keep",
    unique: given.Unique = False,
    reverse: given.Reverse = False,
    edge_ids: given.EdgeIds = False,
    relabel: given.Relabel = False,
    num_nodes: given.NumNodes = None,
    split_sizes: given.SplitSizes = None,
    split_type: given.SplitType = None,
    seed: given.Seed = 0,
    x_dtype: given.XDtype = None,
    dense: given.Dense = False,
    fill: given.Fill = 0.9,
    page_size: given.PageSize = "4KiB",
    reuse_ids: given.ReuseIds = False,
    strict: given.Strict = False,
    threads: given.Threads = None,
    overwrite: given.Overwrite = False,
    dry_run: given.DryRun = False,
    as_json: Json = False,
) -> None:
    """Import an edge list, tables, arrays or a benchmark data set into a new store."""
    _import(dict(locals()))


def _import(values: dict[str, Any]) -> None:
    """Imports what the options say."""
    settings, hints = given.settings_of(values), given.hints_of(values)
    out, as_json = values["out"], values["as_json"]
    if not values["dry_run"]:
        check_target(out, settings)
    folder = out.absolute().parent
    with bars() as progress:
        sources = given.sources_of(values["source"], given.tables_of(values), progress)
        plan = plan_source(sources, values["format"], hints, settings.memory, folder)
    estimate = estimate_import(plan, out, settings)
    if values["memory"] is not None:
        estimate["memory_bytes"] = parse_bytes(values["memory"])
    if not as_json:
        _show_plan(plan, estimate)
    if not values["dry_run"]:
        _run(plan, out, settings, estimate, as_json)
        return
    preview = preview_import(plan, out, settings)
    notes = in_words([asdict(note) for note in plan.notes], import_words)
    if as_json:
        print_json({**_planned(plan, estimate, notes), "preview": preview})
    else:
        console().print(preview_tables(preview))
        print_notes(notes)


def import_words(remedy: dict[str, Any]) -> str:
    """What to do about a note, by the options of this command."""
    return on_command_line(remedy, _options())


def _options() -> frozenset[str]:
    """The options of this command, by which settings in messages are called."""
    return frozenset(f"--{name.replace('_', '-')}" for name in signature(import_).parameters)


def _run(
    plan: GraphPlan, out: Path, settings: ImportOptions, estimate: dict[str, Any], as_json: bool
) -> None:
    try:
        with bars() as progress:
            report = run_import(plan, out, settings, progress)
    except ImportFailed as error:
        error.notes = in_words(error.notes, import_words)
        if as_json and error.notes:
            print_json({"out": None, **_planned(plan, estimate, list(error.notes))})
        elif error.notes:
            _show_notes(list(error.notes))
            raise ImportFailed(
                f"{out} was not written, because the import has notes and --strict is given; "
                "correct the input, or leave out --strict"
            ) from None
        raise
    report["notes"] = in_words(report["notes"], import_words)
    if not as_json:
        _show_report(out, report)
        return
    print_json({"out": str(out), **_planned(plan, estimate, report["notes"]), "report": report})


def _planned(
    plan: GraphPlan, estimate: dict[str, Any], notes: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"format": plan.format, "estimate": estimate, "facts": _facts(plan), "notes": notes}


def _facts(plan: GraphPlan) -> list[str]:
    return [flag_words(fact, _options()) for fact in plan.facts]


def _show_plan(plan: GraphPlan, estimate: dict[str, Any]) -> None:
    # Zeros are counted when x is read; less is stored if it is mostly zeros.
    most = "at most " if estimate["is_upper_bound"] else ""
    rows: list[tuple[str, Any]] = [
        ("format", plan.format),
        ("input edges", estimate["edges"]),
        ("node and edge data", most + size(estimate["tensor_bytes"])),
        ("entries of neighbour lists", estimate["entries"]),
        ("neighbour lists", size(estimate["topology_bytes"])),
        ("disk", most + size(estimate["disk_bytes"])),
        ("temporary files", size(estimate["temp_bytes"])),
        ("memory budget", size(estimate["memory_bytes"])),
        ("time", readable("seconds", estimate["seconds"])),
    ]
    if estimate["spooled_bytes"]:
        rows.insert(7, ("... of which copies of input", size(estimate["spooled_bytes"])))
    rows.extend(("contents", fact) for fact in _facts(plan))
    console().print(pairs_table(f"Estimate for {plan.origin}", rows))


def _show_report(out: Path, report: dict[str, Any]) -> None:
    rows = [(row_label(key), readable(key, report[key])) for key in report if key != "notes"]
    console().print(pairs_table(f"Wrote {out}", rows))
    print_notes(report["notes"])


def _show_notes(notes: list[dict[str, Any]]) -> None:
    for note in notes:
        typer.echo(f"note: {Note(**note)}")


# The words of the report for people; `--json` has the names.
_LABELS = {
    "rows": "input edges",
    "entries": "entries of neighbour lists",
    "seconds": "time",
    "topology_seconds": "... of neighbour lists",
    "tensor_seconds": "... of node and edge data",
    "hidden_share": "... overlap of both",
    "publish_seconds": "... of syncing to the disk",
    "temp_bytes": "temporary files, at most",
    "temp_written_bytes": "temporary files, written in total",
    "disk_bytes": "disk",
    "peak_rss_bytes": "peak memory of the process",
}


def row_label(key: str) -> str:
    """The words for an entry of a report."""
    return _LABELS.get(key, key.replace("_", " "))
