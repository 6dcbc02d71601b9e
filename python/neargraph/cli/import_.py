"""`neargraph import SRC --out G.ng`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph._room import minimum_of
from neargraph.exceptions import ImportFailed
from neargraph.importers import (
    FORMATS,
    GraphPlan,
    ImportOptions,
    Note,
    TextHints,
    check_target,
    estimate_import,
    parse_columns,
    plan_source,
    run_import,
)
from neargraph.importers.memory import INTERPRETER_BYTES, beside_interpreter
from neargraph.units import parse_bytes

from .show import bars, console, pairs_table, print_json, readable, size

# The options with long help, so that the command fits on a screen.
_Format = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(FORMATS)}. Default: what the input looks like."),
]
_Memory = Annotated[
    str | None,
    typer.Option(help="Memory of the whole process, e.g. 256MB. Default: a quarter of RAM."),
]
_Split = Annotated[str | None, typer.Option(help="train,val,test in percent, like 60,20,20.")]
_Delimiter = Annotated[str | None, typer.Option(help="Text: one character, or tab, comma, blank.")]
_Columns = Annotated[
    str | None, typer.Option(help="src=0,dst=1,time=2,weight=3 (numbers or names).")
]
_TimeScale = Annotated[
    float | None, typer.Option(help="Text: multiply times by this and round, such as 1000.")
]
_ReuseIds = Annotated[bool, typer.Option(help="Give the ids of deleted nodes to new ones.")]
_XDtype = Annotated[
    str | None, typer.Option(help="Store x as f16, bf16 or i8 (scaled by column); read as f32.")
]
_Dense = Annotated[bool, typer.Option(help="Store x with its zeros, even if most of it is.")]
_Relabel = Annotated[
    bool, typer.Option(help="Number only the ids that occur, ascending; keep them as names.")
]
_Strict = Annotated[bool, typer.Option(help="Refuse an import that would end with notes.")]


@minimum_of(lambda minimum: minimum + INTERPRETER_BYTES)
def import_(
    source: Annotated[Path, typer.Argument(help="File or folder to read.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The new store, NAME.ng.")],
    format: _Format = None,
    memory: _Memory = None,
    undirected: Annotated[bool, typer.Option(help="Store both directions.")] = False,
    self_loops: Annotated[str, typer.Option(help="keep, remove or add.")] = "keep",
    unique: Annotated[bool, typer.Option(help="Keep one of parallel edges.")] = False,
    reverse: Annotated[bool, typer.Option(help="Also store the reverse edge types.")] = False,
    edge_ids: Annotated[bool, typer.Option(help="Keep the input row of each edge.")] = False,
    fill: Annotated[float, typer.Option(help="Share of a page to fill.")] = 0.9,
    page_size: Annotated[str, typer.Option(help="4KiB to 64KiB.")] = "4KiB",
    split: _Split = None,
    split_type: Annotated[str | None, typer.Option(help="Node type to split.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    num_nodes: Annotated[int | None, typer.Option(help="Number of nodes, if larger.")] = None,
    delimiter: _Delimiter = None,
    header: Annotated[bool | None, typer.Option(help="Text: the first line names columns.")] = None,
    columns: _Columns = None,
    time_scale: _TimeScale = None,
    strings: Annotated[bool, typer.Option(help="Text: node ids are strings.")] = False,
    reuse_ids: _ReuseIds = False,
    x_dtype: _XDtype = None,
    dense: _Dense = False,
    relabel: _Relabel = False,
    strict: _Strict = False,
    threads: Annotated[int | None, typer.Option(help="Threads to use.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a store that nobody writes to.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the estimate and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
        split=split,
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
        notes = [asdict(note) for note in plan.notes]
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
    return {"format": plan.format, "estimate": estimate, "facts": plan.facts, "notes": notes}


def _show_plan(plan: Any, estimate: dict[str, Any]) -> None:
    # Zeros are counted when x is read; less is stored if it is mostly zeros.
    most = "at most " if estimate["is_upper_bound"] else ""
    rows: list[tuple[str, Any]] = [
        ("format", plan.format),
        ("input edges", estimate["edges"]),
        ("node and edge data", most + size(estimate["tensor_bytes"])),
        ("entries", estimate["entries"]),
        ("topology", size(estimate["topology_bytes"])),
        ("disk", most + size(estimate["disk_bytes"])),
        ("temporary files", size(estimate["temp_bytes"])),
        ("memory budget", size(estimate["memory_bytes"])),
        ("time", readable("seconds", estimate["seconds"])),
    ]
    rows.extend(("contents", fact) for fact in plan.facts)
    console().print(pairs_table(f"Estimate for {plan.origin}", rows))


def _show_report(out: Path, report: dict[str, Any]) -> None:
    rows = [(_label(key), readable(key, report[key])) for key in report if key != "notes"]
    console().print(pairs_table(f"Wrote {out}", rows))
    _show_notes(report["notes"])


def _show_notes(notes: list[dict[str, Any]]) -> None:
    for note in notes:
        typer.echo(f"note: {Note(**note)}")


def _label(key: str) -> str:
    key = "time" if key == "seconds" else key.removesuffix("_bytes").removesuffix("_seconds")
    return key.replace("_", " ")
