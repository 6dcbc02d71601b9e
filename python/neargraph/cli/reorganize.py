"""`neargraph reorganize G.ng`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.units import format_bytes

from .seeds import Seeds, input_nodes, named_or_default
from .show import BusyTimeout, bars, print_report


def reorganize(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    by: Annotated[
        Literal["heat", "locality"], typer.Option(help="heat: hottest rows first; locality.")
    ] = "heat",
    visits: Annotated[
        Path | None, typer.Option(help="Node ids as they were sampled, .npy or text: counts them.")
    ] = None,
    fanouts: Annotated[str, typer.Option(help="Of the batches to come, by hop.")] = "15,10",
    batch_size: Annotated[int, typer.Option(help="Seeds of a batch.")] = 1024,
    seeds: Seeds = None,
    node_type: Annotated[str | None, typer.Option(help="Of the seeds; if there are many.")] = None,
    batches: Annotated[int, typer.Option(help="Batches to count pages on.")] = 32,
    dry_run: Annotated[bool, typer.Option(help="Only say what it is worth and needs.")] = False,
    memory: Annotated[str | None, typer.Option(help="Memory to use, like 256MB.")] = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Puts rows into an order that batches reward. Ids and batches stay as they are."""
    import neargraph

    opened = neargraph.open(store, memory=memory, busy_timeout=busy_timeout)
    with opened as handle, bars(as_json) as progress:
        named = named_or_default(seeds, handle.schema, node_type)
        found = handle.reorganize(
            by,
            num_neighbors=_fanouts(fanouts),
            batch_size=batch_size,
            input_nodes=input_nodes(named, node_type),
            visits=None if visits is None else read_visits(visits),
            batches=batches,
            dry_run=dry_run,
            progress=progress,
        )
    order = {"by": "visits" if visits else by, "seeds": named}
    report: dict[str, Any] = {**order, **found}
    is_dry = report["written"] is None
    title = f"Reorganising {store} would change (nothing was written)"
    print_report(as_json, report, title if is_dry else f"Reorganised {store}", _rows(report))


def _fanouts(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UnsupportedArgument(
            f"--fanouts {text!r}: give a number for each hop, like 15,10"
        ) from None


def read_visits(path: Path) -> NDArray[np.int64]:
    """The node ids in a file: an array of NumPy, or text with white space or commas between."""
    if path.suffix == ".npy":
        found: NDArray[Any] = np.load(path).reshape(-1)
    else:
        text = path.read_text().replace(",", " ").split()
        try:
            found = np.array([int(word) for word in text], dtype=np.int64)
        except ValueError as error:
            raise UnsupportedArgument(f"--visits {path}: {error}; give node ids") from None
    if found.dtype.kind not in "iu":
        raise UnsupportedArgument(f"--visits {path}: {found.dtype} are no node ids")
    return np.asarray(found, dtype=np.int64)


def _rows(report: dict[str, Any]) -> list[tuple[str, Any]]:
    together = report["batches_together"]
    rows: list[tuple[str, Any]] = [("order", report["by"]), ("seeds", report["seeds"])]
    for counts in report["pages"]:
        name = f"{counts['node_type']}.{counts['tensor']}"
        rows += [
            (f"{name}: rows a batch", f"{counts['rows_per_batch']:,.0f}"),
            ("  pages a batch", _change(counts, "pages")),
            (f"  of {together} batches read together", _change(counts, "pages_together")),
        ]
    rows.append(("disk space needed meanwhile", format_bytes(report["space_bytes"])))
    if (written := report["written"]) is not None:
        rows += [
            ("before", format_bytes(written["bytes_before"])),
            ("after", format_bytes(written["bytes_after"])),
            ("checkpoint", written["checkpoint_id"]),
        ]
    return rows


def _change(counts: dict[str, Any], name: str) -> str:
    before, after = counts[f"{name}_before"], counts[f"{name}_after"]
    share = (after - before) / before * 100 if before else 0.0
    return f"{before:,.0f} -> {after:,.0f} ({share:+.1f} %)"
