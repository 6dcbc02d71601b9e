"""`neargraph profile train G.ng`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from neargraph.exceptions import UnsupportedArgument

from .frame import PLAIN, Command, Group, with_common
from .options import BackendName, Memory, Seed, StoreArgument, parse_fanouts
from .settings import Json
from .show import bars, console, print_json, titled

profile = typer.Typer(**PLAIN, cls=Group, no_args_is_help=True)

_LARGE = "for 50,000 nodes or more"

_Models = Annotated[str, typer.Option(help="Models to train, comma-separated: gcn, sage, cluster.")]
_Fanouts = Annotated[
    str | None,
    typer.Option(help=f"Fanouts of GraphSAGE, comma-separated. Default: 10,10, or 25,15 {_LARGE}."),
]
_BatchSize = Annotated[
    int | None,
    typer.Option(help=f"Seed nodes per batch of GraphSAGE. Default: 16, or 256 {_LARGE}."),
]
_Hidden = Annotated[
    int | None,
    typer.Option(help=f"Width of hidden layers. Default: 16, or 256 {_LARGE}; always 16 for GCN."),
]
_Parts = Annotated[
    int | None,
    typer.Option(help=f"Number of clusters of ClusterGCN. Default: 100, or 1000 {_LARGE}."),
]
_BatchParts = Annotated[
    int | None, typer.Option(help=f"Clusters per batch of ClusterGCN. Default: 16, or 32 {_LARGE}.")
]
_Fused = Annotated[
    bool,
    typer.Option(
        help="In GraphSAGE, aggregate by a sparse matrix product. The stage 'aggregate' then "
        "includes the stage 'message'."
    ),
]
_Interval = Annotated[
    float, typer.Option(help="Seconds between two measurements of processor, disk and memory use.")
]
_Out = Annotated[
    Path | None,
    typer.Option(help="Folder for profile.json and profile.md. Default: write no files."),
]

_NAMES = {"gcn": "GCN", "sage": "GraphSAGE", "cluster": "ClusterGCN"}
_SYSTEM = {
    "GPU memory MB": ("gpu_memory_bytes", 1e-6),
    "GPU idle %": ("gpu_idle_percent", 1.0),
    "GPU util %": ("gpu_percent", 1.0),
    "memory MB": ("memory_bytes", 1e-6),
    "disk MB/s": ("disk_bytes_per_s", 1e-6),
    "iowait %": ("iowait_percent", 1.0),
    "CPU %": ("cpu_percent", 1.0),
}
_STAGES = ["linear", "message", "aggregate", "update", "rest", "wait"]
_WORK = ["sample", "read", "gather", "copy"]

_Name = TypeVar("_Name", bound=str)
# Title, names of the columns, rows.
Sheet = tuple[str, list[str], list[list[str]]]


@profile.callback()
def _root() -> None:
    """Measure the time of training for each back end and each stage."""


@profile.command(cls=Command)
@with_common
def train(
    store: StoreArgument,
    models: _Models = "gcn,sage,cluster",
    backends: Annotated[
        str,
        typer.Option(
            help="I/O back ends to compare, comma-separated: memory, mmap, pread, odirect, uring."
        ),
    ] = "memory,mmap,odirect,uring",
    repeats: Annotated[
        int, typer.Option(help="Number of runs for each pair of model and back end.")
    ] = 10,
    epochs: Annotated[int, typer.Option(help="Number of epochs per run.")] = 3,
    memory: Memory = None,
    fanouts: _Fanouts = None,
    batch_size: _BatchSize = None,
    hidden: _Hidden = None,
    parts: _Parts = None,
    batch_parts: _BatchParts = None,
    seed: Seed = 0,
    fused: _Fused = False,
    device: Annotated[
        str | None, typer.Option(help="Torch device for the model, e.g. cuda. Default: the CPU.")
    ] = None,
    interval: _Interval = 0.1,
    out: _Out = None,
    as_json: Json = False,
) -> None:
    """Train models on several back ends and show the time of each stage."""
    import neargraph

    neargraph.tune_process()
    from neargraph.profile import ProfileConfig, load_times, profile_training

    names = _listed("--models", models, list(_NAMES))
    ends = _listed("--backends", backends, get_args(BackendName)[1:])
    if repeats < 1:
        raise UnsupportedArgument(f"--repeats is {repeats}; expected at least 1")
    config = ProfileConfig(
        epochs=epochs,
        hidden=hidden,
        fanouts=None if fanouts is None else parse_fanouts(fanouts),
        batch_size=batch_size,
        parts=parts,
        batch_parts=batch_parts,
        seed=seed,
        fused=fused,
        device=device,
        interval=interval,
    )
    with bars() as progress:
        loads = load_times(store.absolute().parent, ends, repeats)
        runs = profile_training(store, names, ends, repeats, config, memory, progress)
    report = {"store": str(store), "repeats": repeats, "load": loads, "training": runs}
    sheets = [load_sheet(loads), *(sheet for end in ends for sheet in training_sheets(end, runs))]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "profile.json").write_text(json.dumps(report, indent=1) + "\n")
        (out / "profile.md").write_text("\n".join(map(_markdown, sheets)))
    if as_json:
        print_json(report)
        return
    for sheet in sheets:
        console().print(_rich(sheet))
    for entry in runs:
        if "refused" in entry:
            typer.echo(f"{entry['backend']}, {_NAMES[entry['model']]}: {entry['refused']}")


def _listed(option: str, text: str, known: Sequence[_Name]) -> list[_Name]:
    by_name = {str(name): name for name in known}
    names = text.split(",")
    for name in names:
        if name not in by_name:
            raise UnsupportedArgument(
                f"{option} {name!r} is not valid: expected one of {', '.join(known)}"
            )
    return [by_name[name] for name in names]


def spread(values: Sequence[float | None], scale: float = 1.0) -> str:
    """The mean and the range of some repeats; "-" where nothing is known.

    >>> spread([1.0, 2.0, 6.0])
    '3 (1 to 6)'
    """
    known = [value * scale for value in values if value is not None]
    if not known:
        return "-"
    mean, low, high = map(_digits, (sum(known) / len(known), min(known), max(known)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _digits(value: float) -> str:
    """Three digits, without an exponent.

    >>> _digits(12345.6), _digits(0.01234), _digits(0.0)
    ('12,346', '0.0123', '0')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.4f}" if "e" in text else text


def load_sheet(loads: Sequence[Mapping[str, Any]]) -> Sheet:
    """Time to load one file, by back end."""
    rows = []
    for entry in loads:
        opening = entry["opening_seconds"]
        took = [sum(both) for both in zip(opening, entry["reading_seconds"], strict=True)]
        rates = [entry["bytes"] / seconds / 1e6 for seconds in took]
        file = f"{entry['bytes'] / 1e3:,.0f} kB"
        spreads = [spread(took, 1e3), spread(opening, 1e3), spread(rates)]
        rows.append([entry["backend"], file, *spreads])
    columns = ["back end", "file", "loading ms", "of which opening ms", "MB/s"]
    return "Loading one file from the disk", columns, rows


def training_sheets(backend: str, entries: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """Load of the machine, and time per stage of a batch."""
    system, parts, work = [], [], []
    for entry in entries:
        if entry["backend"] != backend or not entry["runs"]:
            continue
        name, runs = _NAMES[entry["model"]], entry["runs"]
        seen = [
            spread([run["system"][key] for run in runs], scale) for key, scale in _SYSTEM.values()
        ]
        system.append([name, *seen, spread([run["seconds"] for run in runs])])
        parts.append([name, str(runs[0]["batches"]), *_a_batch(runs, _STAGES)])
        work.append([name, *_a_batch(runs, _WORK), *_counted(runs)])
    counted = ["reads", "read MB", "hit rate"]
    return [
        (f"{backend}: use of the machine", ["model", *_SYSTEM, "training s"], system),
        (f"{backend}: training loop, ms per batch", ["model", "batches", *_STAGES], parts),
        (f"{backend}: background threads, ms per batch", ["model", *_WORK, *counted], work),
    ]


def _a_batch(runs: Sequence[Mapping[str, Any]], stages: list[str]) -> list[str]:
    return [
        spread([run["stages"][stage] / max(1, run["batches"]) for run in runs], 1e3)
        for stage in stages
    ]


def _counted(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    counters = [run["store"] for run in runs]
    hits = [c["rows_cached"] / c["rows_served"] if c["rows_served"] else None for c in counters]
    return [
        spread([float(c["reads"]) for c in counters]),
        spread([float(c["read_bytes"]) for c in counters], 1e-6),
        spread(hits),
    ]


def _rich(sheet: Sheet) -> Any:
    from rich.table import Table

    title, columns, rows = sheet
    table = Table()
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", overflow="fold", no_wrap=not at)
    for row in rows:
        # The range on a line of its own keeps columns narrow.
        table.add_row(*(cell.replace(" (", "\n(") for cell in row))
    return titled(title, table)


def _markdown(sheet: Sheet) -> str:
    title, columns, rows = sheet
    lines = [f"### {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
