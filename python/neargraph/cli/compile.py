"""`neargraph compile G.ng`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neargraph.units import parse_bytes

from .options import (
    Backend,
    NodeType,
    Recover,
    Seed,
    StoreArgument,
    opened,
    parse_fanouts,
)
from .seeds import Seeds, input_nodes, named_or_default
from .settings import Json
from .show import bars, console, pairs_table, print_json, print_report, readable, size

# The options with long help, so that the command fits on a screen.
_Layout = Annotated[
    Literal["paged", "direct"],
    typer.Option(
        help="paged: compile epochs. direct: write the direct layout instead, with feature "
        "rows beside neighbour lists."
    ),
]
_Method = Annotated[
    Literal["uniform", "labor", "weighted"],
    typer.Option(help="Method of choosing neighbours if a node has more than the fanout."),
]
_Out = Annotated[
    Path | None, typer.Option(help="Directory for the compiled files. Default: STORE/compiled.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print estimates of size and time; write nothing.")
]
_PageSize = Annotated[
    str, typer.Option(help="With --layout direct: page size, 4KiB to 64KiB.", metavar="SIZE")
]
_Name = Annotated[
    str, typer.Option(help="With --layout direct: name of the file, without the suffix .direct.")
]
_Fanouts = Annotated[
    str, typer.Option(help="Neighbours per node at each hop, comma-separated; -1 = all.")
]
_DropLast = Annotated[
    bool, typer.Option(help="Drop the last batch of an epoch if it is smaller than --batch-size.")
]
_DependentBatches = Annotated[
    int,
    typer.Option(
        help="With --method labor: number of consecutive batches that share random numbers."
    ),
]
_Attrs = Annotated[
    str | None,
    typer.Option(
        help="Tensors to include, e.g. x,y. Default: all tensors; with --layout direct: all "
        "dense tensors."
    ),
]
_Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory budget of the store for compiling, and later for replaying, e.g. 2GB. "
        "Default: a quarter of RAM.",
        metavar="SIZE",
    ),
]


# Of a direct layout.
_INFLATION = "{:.3f} times the bytes of rows, degrees and 4-byte neighbour ids"
_ADDRESS = "{address_bytes} bytes, including {section_bits} bits for the number of the section"
# The words of the report for people; `--json` has the names.
_LABELS = {
    "kept": "existing epochs kept",
    "written_bytes": "written",
    "hot_rows": "rows held in memory",
    "hot_bytes": "memory for these rows",
    "replay_memory_bytes": "memory for a replay",
    "count_seconds": "time to count rows",
    "seconds": "time in total",
}


def compile_(
    store: StoreArgument,
    layout: _Layout = "paged",
    page_size: _PageSize = "4KiB",
    name: _Name = "graph",
    epochs: Annotated[int, typer.Option(help="Number of different epochs to sample.")] = 1,
    fanouts: _Fanouts = "15,10",
    batch_size: Annotated[int, typer.Option(help="Seed nodes per batch.")] = 1024,
    seeds: Seeds = None,
    node_type: NodeType = None,
    seed: Seed = 0,
    shuffle: Annotated[bool, typer.Option(help="Shuffle the seed nodes in every epoch.")] = True,
    drop_last: _DropLast = False,
    replace: Annotated[bool, typer.Option(help="Sample neighbours with replacement.")] = False,
    method: _Method = "uniform",
    dependent_batches: _DependentBatches = 1,
    attrs: _Attrs = None,
    memory: _Memory = None,
    first_epoch: Annotated[int, typer.Option(help="Number of the first epoch to sample.")] = 0,
    out: _Out = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing compiled files.")] = False,
    backend: Backend = "auto",
    recover: Recover = True,
    dry_run: _DryRun = False,
    as_json: Json = False,
) -> None:
    """Sample epochs once and save them to files that loaders replay.

    With --layout direct, the command writes the graph instead of epochs: feature rows beside
    neighbour lists, for loaders with reading="direct_layout". It then ignores the options that
    choose epochs, seeds and neighbours.
    """
    import neargraph
    from neargraph.loader.compiling import EpochCompiler
    from neargraph.loader.direct import check_layout, compile_direct
    from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

    is_direct = check_layout(layout, "uniform") == "direct"
    tensors = None if attrs is None else attrs.split(",")
    with (
        opened(store, memory, backend=backend, recover=recover) as handle,
        bars() as progress,
    ):
        if is_direct:
            where: dict[str, Any] = {"page_bytes": parse_bytes(page_size), "directory": out}
            where |= {"overwrite": overwrite, "dry_run": dry_run, "progress": progress}
            written = compile_direct(handle.snapshot(), name, attrs=tensors, **where)
            return _show_direct(store, written, as_json)
        how: dict[str, Any] = {"method": method, "dependent_batches": dependent_batches}
        how |= {"attrs": tensors, "replace": replace}
        sampler = neargraph.NumpySampler(handle, list(parse_fanouts(fanouts)), seed=seed, **how)
        named = named_or_default(seeds, handle.schema, node_type)
        inputs = resolve_input_nodes(sampler.snapshot, input_nodes(named, node_type))
        order: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "drop_last": drop_last}
        plan = SeedPlan(num_seeds=len(inputs), batch_size=batch_size, **order)
        compiler = EpochCompiler(
            sampler, inputs, plan, epochs, first_epoch=first_epoch, directory=out
        )
        estimate = compiler.estimate()
        if not as_json:
            _show_estimate(store, estimate)
        found: dict[str, Any] = {"store": str(store), "estimate": estimate.plain()}
        if dry_run:
            if as_json:
                print_json(found)
            return
        compiler.check_room(estimate.total_bytes)
        report = compiler.run(progress, overwrite=overwrite)
    rows = [(_label(key), readable(key, value)) for key, value in report.items()]
    print_report(as_json, {**found, "report": report}, f"Compiled {store}", rows)


def _label(key: str) -> str:
    return _LABELS.get(key, key.replace("_", " "))


def _show_direct(store: Path, report: Mapping[str, Any], as_json: bool) -> None:
    rows = [
        ("file", report["file"] + ("" if report["written"] else " (not written)")),
        ("tensors", ", ".join(report["tensors"]) or "none"),
        ("tensors left in the store", ", ".join(report["left_out"]) or "none"),
        ("size", f"{size(report['file_bytes'])} of {size(report['free_bytes'])} free"),
        ("inflation", _INFLATION.format(report["inflation"])),
        ("address", _ADDRESS.format(**report)),
        ("page", f"{report['page_bytes']:,} bytes"),
        ("pages read per node", report["pages_per_section"]),
        ("primary pages", report["primary_pages"]),
        ("secondary pages", report["secondary_pages"]),
        ("pages of the address table", report["table_pages"]),
    ]
    title = f"Compiled {store}" if report["written"] else f"Direct layout of {store}"
    print_report(as_json, {"store": str(store), "layout": "direct", **report}, title, rows)


def _show_estimate(store: Path, estimate: Any) -> None:
    times, pays = estimate.times_features, estimate.break_even_epochs
    compared = "" if times is None else f", {times:.2f} times the features"
    rows = [
        ("epochs", estimate.epochs),
        ("batches per epoch", estimate.batches),
        ("disk per epoch", size(estimate.bytes_per_epoch) + compared),
        ("disk in total", f"{size(estimate.total_bytes)} of {size(estimate.free_bytes)} free"),
        ("rows held in memory", f"{estimate.hot_rows:,}, {size(estimate.hot_bytes)}"),
        ("time to compile", f"{estimate.build_seconds:.0f} s"),
        ("time of a sampled epoch", f"{estimate.fresh_seconds_per_epoch:.1f} s"),
        ("time of a replayed epoch", f"{estimate.replay_seconds_per_epoch:.1f} s"),
        ("compiling pays off after", "never" if pays is None else f"{pays:.1f} replayed epochs"),
    ]
    console().print(pairs_table(f"Estimate for {store}", rows))
