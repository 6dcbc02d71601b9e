"""`neargraph import SRC --out G.ng`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from neargraph.exceptions import ImportFailed
from neargraph.importers import (
    GraphPlan,
    ImportOptions,
    TextHints,
    check_target,
    estimate_import,
    parse_columns,
    parse_split,
    plan_source,
    run_import,
)
from neargraph.importers.memory import beside_interpreter, of_whole_process
from neargraph.importers.notes import note_line
from neargraph.units import parse_bytes

from . import import_options as options
from .show import bars, console, pairs_table, print_json, size


@of_whole_process()
def import_(
    source: options.Source,
    out: options.Out,
    format: options.Format = None,
    memory: options.Memory = None,
    undirected: options.Undirected = False,
    self_loops: options.SelfLoops = "keep",
    unique: options.Unique = False,
    reverse: options.Reverse = False,
    edge_ids: options.EdgeIds = False,
    fill: options.Fill = 0.9,
    page_size: options.PageSize = "4KiB",
    split: options.Split = None,
    split_type: options.SplitType = None,
    seed: options.Seed = 0,
    num_nodes: options.NumNodes = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    columns: options.Columns = None,
    time_scale: options.TimeScale = None,
    strings: options.Strings = False,
    reuse_ids: options.ReuseIds = False,
    x_dtype: options.XDtype = None,
    dense: options.Dense = False,
    relabel: options.Relabel = False,
    strict: options.Strict = False,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Imports edge lists, tables, matrices and known data sets into a store."""
    settings = ImportOptions(
        memory=None if memory is None else beside_interpreter(parse_bytes(memory)),
        threads=threads,
        undirected=undirected,
        self_loops=self_loops,  # type: ignore[arg-type]
        unique=unique,
        reverse=reverse,
        edge_ids=edge_ids,
        page_bytes=parse_bytes(page_size),
        fill=fill,
        split=parse_split(split),
        split_type=split_type,
        seed=seed,
        num_nodes=num_nodes,
        reuse_ids=reuse_ids,
        x_dtype=x_dtype,  # type: ignore[arg-type]
        dense=dense,
        relabel=relabel,
        strict=strict,
        overwrite=overwrite,
    )
    if not dry_run:
        check_target(out, settings)
    hints = TextHints(delimiter, header, parse_columns(columns), strings, time_scale)
    plan = plan_source(source, format, hints, settings.memory)
    estimate = estimate_import(plan, out, settings)
    if memory is not None:
        estimate["memory_bytes"] = parse_bytes(memory)
    if not as_json:
        _show_plan(plan, estimate)
    if dry_run:
        notes = [note.as_dict() for note in plan.notes]
        if as_json:
            print_json(_planned(plan, estimate, notes))
        else:
            _show_notes(notes)
        return
    _run(plan, out, settings, estimate, as_json)


def _run(
    plan: GraphPlan, out: Path, settings: ImportOptions, estimate: dict[str, Any], as_json: bool
) -> None:
    try:
        with bars(as_json) as progress:
            report = run_import(plan, out, settings, progress)
    except ImportFailed as error:
        if as_json and error.notes:
            print_json({"out": None, **_planned(plan, estimate, list(error.notes))})
        elif error.notes:
            _show_notes(list(error.notes))
            raise ImportFailed(
                f"{out} was not written: --strict, and the import has notes"
            ) from None
        raise
    if not as_json:
        _show_report(out, report)
        return
    print_json({"out": str(out), **_planned(plan, estimate, report["notes"]), "report": report})


def _planned(plan: Any, estimate: dict[str, Any], notes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": plan.format,
        "estimate": estimate,
        "facts": plan.facts,
        "notes": notes,
    }


def _show_plan(plan: Any, estimate: dict[str, Any]) -> None:
    rows: list[tuple[str, Any]] = [
        ("format", plan.format),
        ("input edges", estimate["edges"]),
        ("node and edge data", size(estimate["tensor_bytes"])),
    ]
    rows.extend(
        (_label(key), _value(key, value))
        for key, value in estimate.items()
        if key not in ("edges", "tensor_bytes", "entries_bytes")
    )
    rows.extend(("contents", fact) for fact in plan.facts)
    console().print(pairs_table(f"Estimate for {plan.origin}", rows))


def _show_report(out: Path, report: dict[str, Any]) -> None:
    rows = [(_label(key), _value(key, report[key])) for key in report if key != "notes"]
    console().print(pairs_table(f"Wrote {out}", rows))
    _show_notes(report["notes"])


def _show_notes(notes: list[dict[str, Any]]) -> None:
    for note in notes:
        typer.echo(f"note: {note_line(note)}")


def _label(key: str) -> str:
    key = "time" if key == "seconds" else key.removesuffix("_bytes").removesuffix("_seconds")
    return key.replace("_", " ")


def _value(key: str, value: Any) -> Any:
    if key.endswith("_bytes"):
        return size(value)
    if key.endswith("seconds"):
        return f"{value:.1f} s"
    if key.endswith("share"):
        return f"{100 * value:.1f} %"
    return value
