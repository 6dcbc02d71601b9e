"""The table of the demo, and the notes under it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from neargraph.cli.show import size

_WIDTH = 100

_BOUND_SHARE = 0.3
"""If the training loop waits for less than this share of the time, the model is the bottleneck."""

_IDLE_LOAD = 0.5
"""Load average per core up to which a machine counts as idle."""


def show(figures: dict[str, Any]) -> None:
    """Prints the table, its notes, and the answers of the server."""
    console = Console(width=_WIDTH, highlight=False, markup=False)
    console.print(_title(figures), style="bold")
    console.print(_table(figures))
    console.print(_pairs(notes(figures)))
    console.print("\nThen the model was served while the graph changed", style="bold")
    console.print(_pairs(figures["serving"]["lines"]))


def _pairs(lines: Sequence[Sequence[str]]) -> Table:
    """Names and sentences in two columns without a frame."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, text in lines:
        grid.add_row(Text(name), Text(text))
    return grid


def _title(figures: dict[str, Any]) -> str:
    graph, job = figures["graph"], figures["training"]
    training = job["training"]
    hops = ",".join(map(str, training["fanouts"]))
    epochs = "1 epoch" if job["epochs"] == 1 else f"{job['epochs']} epochs"
    return (
        f"Graph: {size(graph['disk_bytes'])}, {graph['nodes']:,} nodes, "
        f"{graph['neighbors']:,} neighbours, {graph['features']} float32 features\n"
        f"Model: PyG's GraphSAGE, {epochs} in batches of {training['batch_size']}, fanouts {hops}"
    )


def rows_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of the table and the picture, one for each source and way of reading."""
    runs, memory = figures["runs"], size(figures["training"]["memory"])
    named = [("memory", "everything in memory"), ("disk", f"disk, neargraph in {memory}")]
    rows = [_row(runs[source], name, runs[source]["turns"][0]) for source, name in named]
    mapped = runs["mapped"]
    if "failed" in mapped:
        rows.append({"name": "np.memmap", "failed": mapped["failed"]})
    else:
        for readers, turn in zip(figures["training"]["readers"], mapped["turns"], strict=False):
            name = "np.memmap, x[n_id]" if readers == 1 else f"np.memmap, {readers} reader threads"
            rows.append(_row(mapped, name, turn))
    if "pyg" in runs:
        rows.append(_row(runs["pyg"], "PyG's NeighborLoader, in memory", runs["pyg"]["turns"][0]))
    return rows


def _row(run: dict[str, Any], name: str, turn: dict[str, Any]) -> dict[str, Any]:
    budget = run["budget_peak_bytes"]
    return {
        "name": name,
        "source": run["source"],
        "seeds_per_second": turn["seeds_per_second"],
        "waiting_share": turn["waiting_share"],
        "graph_bytes": None if budget is None else budget + run["cached_bytes"],
        "process_bytes": run["peak_anonymous_bytes"] + run["cached_bytes"],
        "first_batch_seconds": run["first_batch_seconds"],
        "accuracy": run["accuracy"],
        "steps": turn["steps"],
    }


def _table(figures: dict[str, Any]) -> Table:
    table = Table()
    table.add_column("features come from")
    for name in (
        "seeds/s",
        "waiting\nfor data",
        "memory:\ngraph",
        "memory:\nprocess",
        "first\nbatch",
        "test\naccuracy",
    ):
        table.add_column(name, justify="right")
    for row in rows_of(figures):
        if "failed" in row:
            table.add_row(Text(row["name"]), "failed")
            continue
        accuracy = row["accuracy"]
        table.add_row(
            Text(row["name"]),
            f"{row['seeds_per_second']:,.0f}",
            f"{100 * row['waiting_share']:.0f} %",
            "-" if row["graph_bytes"] is None else size(row["graph_bytes"]),
            size(row["process_bytes"]),
            f"{row['first_batch_seconds']:.1f} s",
            "-" if accuracy is None else f"{100 * accuracy:.2f} %",
        )
    return table


def notes(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the notes under the table: (subject, one or more sentences)."""
    disk, mapped = figures["runs"]["disk"], figures["runs"]["mapped"]
    alone = size(figures["loader_alone"]["added_bytes"])
    found = [
        ("losses", _of_losses(figures)),
        ("disk", _of_reading(disk, figures["disk_rates"])),
        ("np.memmap", _of_limit(figures, disk, mapped)),
        ("seeds/s", _of_speed(figures)),
        (
            "memory",
            "graph: the most memory that the store counted in its budget, plus mapped pages of the "
            "features. process: peak of anonymous memory, torch included, plus the same pages.",
        ),
        (
            "budget",
            f"Without torch, the loader adds {alone} of anonymous memory to a process. "
            f"The budget is {size(disk['budget_limit_bytes'])}.",
        ),
    ]
    if is_busy(figures):
        machine = figures["machine"]
        found.append(
            (
                "machine",
                f"OTHER PROGRAMS use the {machine['cores']} cores (load average "
                f"{machine['load_average']:.1f} at the start), so the speeds vary.",
            )
        )
    if "pyg" in figures["runs"]:
        found.append(("PyG", "PyG's NeighborLoader draws other neighbours, so its losses differ."))
    return found


def is_busy(figures: dict[str, Any]) -> bool:
    """Whether other programs used the processor when the demo began."""
    machine = figures["machine"]
    return bool(machine["load_average"] > _IDLE_LOAD * machine["cores"])


def _of_losses(figures: dict[str, Any]) -> str:
    comparison = figures["comparison"]
    steps, of_mapped = comparison["steps"], comparison["steps_mapped"]
    if not (comparison["same_losses"] and comparison["same_accuracy"]):
        return (
            "DISK AND MEMORY DIFFER: the largest difference of a loss is "
            f"{comparison['largest_loss_difference']:.3g}. This is a defect; please report it."
        )
    said = f"Disk and memory give the same loss in all {steps} steps, to the last bit."
    if not comparison["same_losses_mapped"]:
        return f"{said} THE LOSSES FROM np.memmap DIFFER. This is a defect; please report it."
    equal = f" The losses of the first {of_mapped} steps from np.memmap are also equal."
    return said + (equal if of_mapped else "")


def _of_reading(disk: dict[str, Any], rates: dict[str, float] | None) -> str:
    steps, chosen = len(disk["losses"]), disk["reading"]
    ahead = (
        f"The loader looked {chosen['window']} batches ahead (reading: {chosen['reading']})."
        if chosen
        else "The budget is too small for look-ahead, so rows were read separately for each batch."
    )
    able = ""
    if rates:
        requests, rate = rates["reads_per_s"], size(rates["bytes_per_s"])
        able = f" The disk delivers {requests:,.0f} random reads or {rate} per second."
    note = disk["backend"]
    is_direct = "O_DIRECT" in note and "O_DIRECT does not work" not in note
    way = "past" if is_direct else "through"
    return (
        f"{ahead} A batch took {size(disk['read_bytes'] / steps)} in "
        f"{disk['reads'] / steps:,.0f} reads, which go {way} the page cache "
        f"({note.split(':')[0]}).{able}"
    )


def _of_limit(figures: dict[str, Any], disk: dict[str, Any], mapped: dict[str, Any]) -> str:
    wanted, peak = size(mapped["wanted_limit_bytes"]), size(disk["peak_anonymous_bytes"])
    if "failed" in mapped:
        return f"{mapped['failed']}. The limit was {wanted}."
    how = (
        "The run with np.memmap has the same draws. It reads with MADV_RANDOM, and starts with a "
        "cold page cache. Each page of 4 KiB that is not cached costs a page fault."
    )
    if mapped["is_limited"]:
        return (
            f"{how} A cgroup limits the process to {wanted}, page cache included. That is 10 % "
            f"more than the run from disk used at its peak ({peak}). The demo stops each "
            f"measurement of np.memmap after {figures['training']['seconds']:.0f} s."
        )
    return (
        f"{how} The process has NO memory limit: {mapped['why_not_limited']}. At the end, the "
        f"kernel cached {size(mapped['cached_bytes'])} of the file, so the rates are those of a "
        "file that fits in memory. If you run the demo as root, the demo limits the process."
    )


def _of_speed(figures: dict[str, Any]) -> str:
    waiting = float(figures["runs"]["disk"]["turns"][0]["waiting_share"])
    bound = "the model" if waiting < _BOUND_SHARE else "reading"
    return (
        f"Excludes the first 10 % of the steps. From disk, {bound} is the bottleneck: the "
        f"training loop waits for data {100 * waiting:.0f} % of the time."
    )
