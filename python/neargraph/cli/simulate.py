"""`neargraph simulate G.ng` and `neargraph simulate --dataset NAME`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import Seed, complete_stores, opened, parse_fanouts
from .seeds import SEEDS, input_nodes
from .settings import Json
from .show import bars, console, print_json, titled

if TYPE_CHECKING:
    from rich.table import Table

_Store = Annotated[
    Path | None,
    typer.Argument(
        help="Store directory, NAME.ng. Give either STORE or --dataset.",
        metavar="STORE",
        autocompletion=complete_stores,
    ),
]
_Tensor = Annotated[
    str | None,
    typer.Option(help="Node tensor of the features; none = no features. Default: x."),
]
_Dataset = Annotated[
    str | None,
    typer.Option(
        help="Data sets to model instead of a store, comma-separated: reddit, amazon, "
        "movielens, ogbn, ppi; all = all five."
    ),
]
_Seeds = Annotated[str | None, typer.Option(help=f"Seed nodes for --host: {SEEDS}. Default: all.")]
_Repeats = Annotated[
    int | None, typer.Option(help="With --host: number of random seeds to simulate. Default: 5.")
]
_Watch = Annotated[
    float | None,
    typer.Option(
        help="With --host and STORE: seconds for which training batches are loaded and measured. "
        "Default: 10."
    ),
]
_Host = Annotated[
    Path | None,
    typer.Option(
        help="Folder or store on the disk to measure. The command compares this machine with "
        "the computational SSDs."
    ),
]
_Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory budget for reading STORE, e.g. 256MB. With --dataset (and --host): budget of "
        "the modelled training loader. Both default to a quarter of RAM.",
        metavar="SIZE",
    ),
]
_Reuse = Annotated[
    str | None,
    typer.Option(
        help="Ways to avoid reading a page twice, comma-separated. merged=true: one read of a "
        "page per hop. grouped=8: 8 batches are processed as one. cache_pages=4096: the SSD "
        "caches 4096 pages."
    ),
]
_Preset = Annotated[
    Literal["octa", "lsap", "hetero", "tlc", "glist"] | None,
    typer.Option(
        help="Named set of device constants, to which --set is applied. Default: the constants "
        "of --mode."
    ),
]
_Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Device constant to change, e.g. flash.sense_ns=20000. May be repeated."
    ),
]
_RowBytes = Annotated[
    int | None,
    typer.Option(
        help="Simulate feature rows of this many bytes, instead of the rows of a tensor. "
        "Cannot be combined with --tensor."
    ),
]
_Platforms = Annotated[
    str,
    typer.Option(
        help="Platforms to simulate, comma-separated, e.g. CC,BG-2; all = CC, SmartSage, GList "
        "and all BG platforms."
    ),
]
_Mode = Annotated[
    Literal["paper", "detailed"],
    typer.Option(
        help="Costs to simulate. paper: only the costs that the publication models. detailed: "
        "all costs."
    ),
]
_Fanouts = Annotated[str, typer.Option(help="Neighbours per node at each hop, comma-separated.")]
_Layer = Annotated[
    Literal["sage", "gcn", "gin", "ngcf"], typer.Option(help="GNN layer to simulate.")
]
_Inference = Annotated[
    bool,
    typer.Option(
        "--inference", help="Simulate inference instead of training: compute no gradients."
    ),
]
_Sweep = Annotated[
    str | None,
    typer.Option(
        help="Device constant, batch_size, hidden, layer or seed to vary, with its values, "
        "e.g. flash.channels=4,8,16."
    ),
]
_Ablation = Annotated[
    bool,
    typer.Option(
        "--ablation",
        help="Repeat the simulation with each cost left out in turn, and compare the rates.",
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the report: report.html and runs.json. Default: write no report."
    ),
]


def simulate(
    store: _Store = None,
    dataset: _Dataset = None,
    platforms: _Platforms = "all",
    mode: _Mode = "detailed",
    fanouts: _Fanouts = "3,3,3",
    hidden: Annotated[int, typer.Option(help="Width of hidden layers.")] = 128,
    batch_size: Annotated[int, typer.Option(help="Seed nodes (targets) per batch.")] = 128,
    batches: Annotated[int, typer.Option(help="Number of batches.")] = 8,
    sweep: _Sweep = None,
    change: _Changes = None,
    preset: _Preset = None,
    layer: _Layer = "sage",
    reuse: _Reuse = None,
    ablation: _Ablation = False,
    inference: _Inference = False,
    host: _Host = None,
    seeds: _Seeds = None,
    repeats: _Repeats = None,
    watch: _Watch = None,
    out: _Out = None,
    memory: _Memory = None,
    tensor: _Tensor = None,
    row_bytes: _RowBytes = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Simulate graph sampling on computational SSDs.

    With --host, the command compares these SSDs with the disk and the processors of this machine.
    """
    from neargraph import sim

    _check(store, dataset)
    if ablation:
        _check_ablation(mode, bool(sweep or out or host or preset or change))
    hops = parse_fanouts(fanouts)
    shape = {"batches": batches, "batch_size": batch_size, "seed": seed, "fanouts": hops}
    rows = _rows(dataset, tensor, row_bytes)
    device = _device(mode, preset, change or [])
    how: dict[str, Any] = {"platforms": platforms, "hidden": hidden, "layer": layer}
    how |= {"backward": not inference, **_reuse(reuse)}
    about: dict[str, Any] = {"mode": mode, "device": device}
    if host is not None:
        _refuse_with_host({"--sweep": sweep, "--reuse": reuse})
        nodes = None if seeds is None else input_nodes(seeds, None)
        given = {"repeats": repeats, "seconds": watch, "input_nodes": nodes}
        more = {name: value for name, value in given.items() if value is not None}
        answer = _asked((store, dataset, memory), host, shape, more | rows | how | about)
        about |= {"title": _question(answer.runs, mode, shape), "answer": answer}
        return _show(answer.runs, about, out, as_json)
    of_host = None if store is not None else memory
    _refuse_alone({"--seeds": seeds, "--repeats": repeats, "--watch": watch, "--memory": of_host})
    name, values = assigned("--sweep", sweep, many=True) if sweep else (None, [])
    shapes = _shapes(shape, name, values)
    pages = None if ablation else _page_bytes(mode, name, device)

    def traced(of: dict[str, Any]) -> list[Any]:
        if store is None:
            return drawn(dataset, of)
        return recorded(store, memory, {**of, **rows}, pages)

    traces = {value: traced(of) for value, of in shapes.items()}
    if ablation:
        (several,) = traces.values()
        return show_ablation([sim.ablation(trace, **how) for trace in several], as_json)
    found = run_all(traces, (name, values), how | about)
    about |= {"title": _title(found, mode, shapes.values()), "answer": None, "swept": name}
    _show(found, about, out, as_json)


def _asked(
    of: tuple[Path | None, str | None, str | None],
    host: Path,
    shape: dict[str, Any],
    more: dict[str, Any],
) -> Any:
    """The answer for a store or a data set, with this memory; watching takes a minute or two."""
    from neargraph import sim

    store, dataset, memory = of
    with bars() as progress:
        if store is not None:
            with opened(store, memory) as handle:
                return sim.what_would_it_buy(handle, host, **shape, **more, progress=progress)
        if more.keys() & {"input_nodes", "seconds"}:
            raise UnsupportedArgument(
                "--seeds and --watch need a store, because loaders cannot run with --dataset"
            )
        traces = drawn(dataset, shape)
        if len(traces) > 1:
            raise UnsupportedArgument("--host compares one graph; give one name to --dataset")
        left = {name: value for name, value in more.items() if name not in ("tensor", "row_bytes")}
        return sim.what_would_it_buy(traces[0], host, memory=memory, **left, progress=progress)


def _show(found: Any, about: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Runs as a table or as JSON, and a report of them."""
    from neargraph.sim import write_report

    page = None if out is None else write_report(out, found, **about)
    answer, title = about["answer"], about["title"]
    if as_json:
        told = None if answer is None else answer.plain()
        made = {"mode": about["mode"], "device": about["device"]}
        print_json({**made, "runs": found.rows, "answer": told})
        return
    if answer is not None:
        typer.echo(title)
        typer.echo("\n".join(answer.sentences()))
        console().print(steps_table(answer))
        title = f"Simulated batches with random seed {answer.seeds[0]}"
    console().print(titled(title, table(found)))
    typer.echo(
        "bound by: the component with the most work; in parentheses, time of a batch / time of "
        "this work"
    )
    if page is not None:
        typer.echo(f"report: {page}")


def _question(runs: Any, mode: str, shape: dict[str, Any]) -> str:
    graph = runs.rows[0]["source"]
    fanouts = ",".join(map(str, shape["fanouts"]))
    return (
        f"What would a computational SSD gain for {graph}? Batches of {shape['batch_size']:,} "
        f"targets, fanouts {fanouts}, mode {mode}"
    )


def _title(runs: Any, mode: str, shapes: Iterable[dict[str, Any]]) -> str:
    graphs = ", ".join(dict.fromkeys(row["source"] for row in runs.rows))
    sizes = ", ".join(dict.fromkeys(str(shape["batch_size"]) for shape in shapes))
    fanouts = ",".join(map(str, next(iter(shapes))["fanouts"]))
    return f"{graphs}, mode {mode}: batches of {sizes} targets, fanouts {fanouts}"


def _check(store: Path | None, dataset: str | None) -> None:
    if (store is None) == (dataset is None):
        raise UnsupportedArgument("give either a store or --dataset")


def _rows(dataset: str | None, tensor: str | None, row_bytes: int | None) -> dict[str, Any]:
    """Which rows a store has, as arguments of `Trace.from_sampler`."""
    if dataset is not None and (tensor, row_bytes) != (None, None):
        raise UnsupportedArgument(
            "--tensor and --row-bytes need a store, because the data sets of --dataset have a "
            "fixed row size"
        )
    if tensor is not None and row_bytes is not None:
        raise UnsupportedArgument("--row-bytes and --tensor exclude each other")
    chosen = {} if tensor is None else {"tensor": None if tensor == "none" else tensor}
    return {**chosen, "row_bytes": row_bytes}


def _page_bytes(mode: str, swept: str | None, device: dict[str, Any]) -> int | None:
    """Of the pages whose places are recorded; None where pages are random or of several sizes."""
    is_random = mode == "paper" or swept in ("page_bytes", "flash.page_bytes")
    return None if is_random else device["flash"]["page_bytes"]


def _refuse_with_host(others: dict[str, Any]) -> None:
    """Refuses options that --host does not take."""
    if given := [option for option, value in others.items() if value is not None]:
        raise UnsupportedArgument(f"--host cannot be combined with {' or '.join(given)}")


def _refuse_alone(for_host: dict[str, Any]) -> None:
    """Refuses options that mean nothing without --host."""
    if alone := [option for option, value in for_host.items() if value is not None]:
        raise UnsupportedArgument(f"{' and '.join(alone)} can be given only with --host")


def _check_ablation(mode: str, has_more: bool) -> None:
    if mode == "paper":
        raise UnsupportedArgument("--ablation needs --mode detailed")
    if has_more:
        raise UnsupportedArgument(
            "--ablation cannot be combined with --sweep, --out, --host, --preset or --set"
        )


def _reuse(text: str | None) -> dict[str, Any]:
    """What is read once for several, as arguments of `simulate`.

    >>> _reuse("merged=true,grouped=8")
    {'merged': True, 'grouped': 8}
    """
    found = dict(assigned("--reuse", part) for part in text.split(",")) if text else {}
    unknown = found.keys() - {"merged", "grouped", "cache_pages"}
    if unknown:
        raise UnsupportedArgument(
            f"--reuse {min(unknown)!r} is not valid: expected merged=, grouped= or cache_pages="
        )
    return found


def _shapes(shape: dict[str, Any], name: str | None, values: list[Any]) -> dict[Any, Any]:
    """By swept value: batches of another size or seed are other traces."""
    if name in ("batch_size", "seed"):
        return {value: {**shape, name: value} for value in values}
    return {None: shape}


def run_all(
    traces: dict[Any, list[Any]],
    sweep: tuple[Any, list[Any]],
    how: dict[str, Any],
) -> Any:
    """Runs on traces by what was swept of their shape, None for a sweep of a constant."""
    from neargraph import sim

    name, values = sweep
    found = sim.Runs([], [])
    for value, several in traces.items():
        for trace in several:
            if value is not None:
                found += sim.simulate(trace, **how).with_column("value", value)
            elif name is not None:
                found += sim.sweep(name, values, trace=trace, **how)
            else:
                found += sim.simulate(trace, **how)
    return found


def _device(mode: Any, preset: str | None, assignments: list[str]) -> dict[str, Any]:
    from neargraph import sim

    changes = dict(assigned("--set", assignment) for assignment in assignments)
    return sim.preset(preset, mode, **changes) if preset else sim.config(mode, **changes)


def recorded(
    store: Path, memory: str | None, shape: dict[str, Any], pages: int | None
) -> list[Any]:
    """The trace of a store, with places on pages of so many bytes where a file can have them; None
    where pages are random or of several sizes, and nobody asks."""
    from neargraph import sim
    from neargraph._core import PAGE_SIZES

    can_be = pages in PAGE_SIZES
    with opened(store, memory) as handle, bars() as progress:
        pages = pages if can_be else None
        return [sim.Trace.from_sampler(handle, **shape, page_bytes=pages, progress=progress)]


def drawn(dataset: str | None, shape: dict[str, Any]) -> list[Any]:
    """The traces of data sets."""
    from neargraph import sim

    names = list(sim.DATASETS) if dataset == "all" else str(dataset).split(",")
    return [sim.Trace.of_dataset(name, **shape) for name in names]


def show_ablation(found: list[Any], as_json: bool) -> None:
    """Targets a second without each cost over those with all, by graph, and who overtakes whom."""
    from rich.box import SIMPLE
    from rich.table import Table

    from neargraph.sim.ablation import moved, overtakes, ranking

    if as_json:
        print_json({"runs": [row for runs in found for row in runs.rows]})
        return
    for runs in found:
        made = Table(box=SIMPLE, padding=0)
        made.add_column("left out", no_wrap=True)
        for name in moved(runs, "none"):
            made.add_column(name, justify="right", no_wrap=True)
        lines = []
        for switch in dict.fromkeys(row["switch"] for row in runs.rows):
            made.add_row(switch, *(f"{ratio:.2f}" for ratio in moved(runs, switch).values()))
            for (quicker, slower), ratio in overtakes(runs, switch).items():
                lines.append(
                    f"without {switch}, {quicker} overtakes {slower}: {ratio:.3f} times as fast"
                )
        about = "targets/s without one cost, divided by targets/s with all costs"
        console().print(titled(f"{runs.rows[0]['source']}: {about}", made))
        typer.echo(f"order with all costs, the fastest first: {', '.join(ranking(runs, 'none'))}")
        typer.echo("\n".join(lines) or "leaving out one cost does not change the order")


def assigned(option: str, text: str, many: bool = False) -> tuple[str, Any]:
    """(name, value) of "name=value", or with a list of values.

    >>> assigned("--sweep", "flash.channels=4,8", many=True)
    ('flash.channels', [4, 8])
    >>> assigned("--set", "dram.bytes_per_s=none")
    ('dram.bytes_per_s', None)
    """
    name, equals, value = text.partition("=")
    if not equals or not value:
        example = "flash.channels=4,8" if many else "flash.channels=8"
        raise UnsupportedArgument(f"{option} {text!r} is not valid: expected e.g. {example}")
    values = [_value(option, part) for part in value.split(",")]
    return name, values if many else values[0]


def _value(option: str, text: str) -> Any:
    if text == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnsupportedArgument(
            f"{option}: {text!r} is not valid: expected a number, true, false or none"
        ) from error


def steps_table(answer: Any) -> "Table":
    """This host and its possible replacements, the simplest first."""
    from rich.box import SIMPLE
    from rich.table import Table

    made = Table(box=SIMPLE, padding=0)
    for head in ("", "design"):
        made.add_column(head, no_wrap=True)
    for head in ("targets/s", "least-most", "times this host", "with TLC", "bound by"):
        made.add_column(head, justify="right", no_wrap=True)
    here = answer.here.targets_per_s
    for step in answer.steps:
        tlc = step.tlc_targets_per_s
        made.add_row(
            step.name,
            step.where,
            f"{step.targets_per_s:,.0f}",
            f"{step.least:,.0f}-{step.most:,.0f}",
            f"{step.targets_per_s / here:.3g}",
            "" if tlc is None else f"{tlc / here:.3g}",
            step.bound_by,
        )
    return made


def table(runs: Any) -> "Table":
    """One row for each run; times are of a batch."""
    from rich.box import SIMPLE
    from rich.table import Table

    from neargraph.sim.plots import tick
    from neargraph.sim.runs import speeds_and_times

    sources = {row["source"] for row in runs.rows}
    first = {"platform": "platform"}
    if len(sources) > 1:
        first["source"] = "graph"
    if "value" in runs.columns:
        first["value"] = "value"
    made = Table(box=SIMPLE, padding=0)
    for head in first.values():
        made.add_column(head, no_wrap=True)
    # Only some platforms have a cache, and only where it is asked for.
    has_hits = any(row["hit_rate"] > 0 for row in runs.rows)
    heads = ["targets/s", "us", "flash", "host", "PCIe", "compute", "targets/J", "bound by"]
    for head in heads + ["hits"] * has_hits:
        made.add_column(head, justify="right", no_wrap=True)
    for row in runs.rows:
        known = [tick(row[name]) for name in first]
        bound = f"{row['bound_by']} ({row['headroom']:.2f})"
        hits = [f"{row['hit_rate']:.3f}"] * has_hits
        made.add_row(*known, *speeds_and_times(row), bound, *hits)
    return made
