"""`neargraph simulate G.ng` and `neargraph simulate --dataset NAME`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from .show import console, print_json, titled
from .train import parse_fanouts


def simulate(
    store: Annotated[Path | None, typer.Argument(help="The store, NAME.ng.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Of reddit, amazon, movielens, ogbn, ppi, or all.")
    ] = None,
    platforms: Annotated[str, typer.Option(help="Names with commas, or all.")] = "all",
    mode: Annotated[str, typer.Option(help="paper or detailed.")] = "detailed",
    fanouts: Annotated[str, typer.Option(help="Neighbours by hop.")] = "3,3,3",
    hidden: Annotated[int, typer.Option(help="Columns between layers.")] = 128,
    batch: Annotated[int, typer.Option(help="Targets of a batch.")] = 128,
    batches: Annotated[int, typer.Option(help="Batches to run.")] = 8,
    sweep: Annotated[
        str | None, typer.Option(help="One constant, like flash.channels=4,8,16.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="A constant, like flash.sense_ns=20000.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of the store, like 256MB.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What computational SSDs would make of sampling a graph."""
    from neargraph import sim

    if (store is None) == (dataset is None):
        raise ValueError("name a store, or a data set with --dataset")
    if mode not in ("paper", "detailed"):
        raise ValueError(f"--mode {mode!r} is neither paper nor detailed")
    changes = dict(assigned("--set", assignment) for assignment in change or [])
    device = sim.config(mode, **changes)  # type: ignore[arg-type]
    shape: dict[str, Any] = {
        "batches": batches,
        "batch_size": batch,
        "fanouts": parse_fanouts(fanouts),
        "seed": seed,
    }
    if store is not None:
        import neargraph as ng

        with ng.open(store, memory=memory) as opened:
            traces = [sim.Trace.from_sampler(opened, **shape)]
    else:
        names = list(sim.DATASETS) if dataset == "all" else str(dataset).split(",")
        traces = [sim.Trace.of_dataset(name, **shape) for name in names]
    found = sim.Runs([], [])
    for trace in traces:
        how: dict[str, Any] = {"platforms": platforms, "device": device, "hidden": hidden}
        if sweep is None:
            found += sim.simulate(trace, mode=mode, **how)  # type: ignore[arg-type]
        else:
            name, text = assigned("--sweep", sweep, many=True)
            found += sim.sweep(name, text, trace=trace, mode=mode, **how)  # type: ignore[arg-type]
    if as_json:
        print_json({"mode": mode, "device": device, "runs": found.rows})
        return
    graphs = ", ".join(dict.fromkeys(row["source"] for row in found.rows))
    title = f"{graphs}, mode {mode}: batches of {batch} targets, fanouts {fanouts}"
    console().print(titled(title, table(found)))
    typer.echo("bound by: the busiest server, and how many times its work the flash took")


def assigned(option: str, text: str, many: bool = False) -> tuple[str, Any]:
    """(name, value) of "name=value", or with a list of values.

    >>> assigned("--sweep", "flash.channels=4,8", many=True)
    ('flash.channels', [4, 8])
    >>> assigned("--set", "dram.bytes_per_s=none")
    ('dram.bytes_per_s', None)
    """
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ValueError(f"{option} {text!r} is not like flash.channels={'4,8' if many else '8'}")
    values = [_value(option, part) for part in value.split(",")]
    return name, values if many else values[0]


def _value(option: str, text: str) -> Any:
    if text == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{option}: {text!r} is no number, true, false or none") from error


def table(runs: Any) -> Table:
    """One row a run; times are of a batch."""
    sources = {row["source"] for row in runs.rows}
    first = {"platform": "platform"}
    if len(sources) > 1:
        first["source"] = "graph"
    if "value" in runs.columns:
        first["value"] = "value"
    made = Table(box=SIMPLE, padding=0)
    for head in first.values():
        made.add_column(head, no_wrap=True)
    for head in ["targets/s", "us", "flash", "host", "PCIe", "compute", "targets/J", "bound by"]:
        made.add_column(head, justify="right", no_wrap=True)
    for row in runs.rows:
        parts = ("interval", "flash", "host", "pcie", "compute")
        made.add_row(
            *(str(row[name]) for name in first),
            f"{row['targets_per_s']:,.0f}",
            *(f"{row[f'{part}_s'] * 1e6:,.1f}" for part in parts),
            f"{row['targets_per_joule']:,.0f}",
            f"{row['bound_by']} ({row['headroom']:.2f})",
        )
    return made
