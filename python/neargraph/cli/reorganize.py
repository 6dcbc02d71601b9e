"""`neargraph reorganize G.ng`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neargraph.exceptions import UnsupportedArgument
from neargraph.units import format_bytes

from .options import BusyTimeout, Memory, NodeType, StoreArgument, opened, parse_fanouts
from .seeds import Seeds, input_nodes, named_or_default
from .settings import Json
from .show import bars, print_report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Visits = Annotated[
    Path | None,
    typer.Option(
        help="File of node ids (.npy or text), one id each time that a batch used the node. "
        "With --visits, the most used nodes come first on disk."
    ),
]
_By = Annotated[
    Literal["heat", "locality"],
    typer.Option(
        help="Order of the rows on disk. heat: the rows that batches read most often come "
        "first. locality: rows of neighbours lie together."
    ),
]


def reorganize(
    store: StoreArgument,
    by: _By = "heat",
    visits: _Visits = None,
    fanouts: Annotated[
        str,
        typer.Option(
            help="Neighbours per node at each hop of the batches to optimise for; -1 = all."
        ),
    ] = "15,10",
    batch_size: Annotated[int, typer.Option(help="Seed nodes per batch.")] = 1024,
    seeds: Seeds = None,
    node_type: NodeType = None,
    batches: Annotated[
        int, typer.Option(help="Number of batches to sample, to count the pages that batches read.")
    ] = 32,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the expected effect and the disk space needed; write nothing."
        ),
    ] = False,
    memory: Memory = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Json = False,
) -> None:
    """Reorder features on disk so that batches read fewer pages.

    Node ids and batches do not change. While the command runs, it needs disk space for a second
    copy of the store.
    """
    with (
        opened(store, memory, busy_timeout=busy_timeout) as handle,
        bars() as progress,
    ):
        named = named_or_default(seeds, handle.schema, node_type)
        found = handle.reorganize(
            by,
            num_neighbors=list(parse_fanouts(fanouts)),
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
    title = f"Effect of reorganising {store} (nothing was written)"
    print_report(as_json, report, title if is_dry else f"Reorganised {store}", _rows(report))


def read_visits(path: Path) -> "NDArray[np.int64]":
    """The node ids in a file: an array of NumPy, or text with white space or commas between."""
    import numpy as np

    if path.suffix == ".npy":
        found: NDArray[Any] = np.load(path).reshape(-1)
    else:
        text = path.read_text().replace(",", " ").split()
        try:
            found = np.array([int(word) for word in text], dtype=np.int64)
        except ValueError as error:
            raise UnsupportedArgument(f"--visits {path}: expected node ids ({error})") from None
    if found.dtype.kind not in "iu":
        raise UnsupportedArgument(f"--visits {path}: expected integer node ids, got {found.dtype}")
    return np.asarray(found, dtype=np.int64)


def _rows(report: dict[str, Any]) -> list[tuple[str, Any]]:
    together = report["batches_together"]
    rows: list[tuple[str, Any]] = [("order", report["by"]), ("seeds", report["seeds"])]
    for counts in report["pages"]:
        name = f"{counts['node_type']}.{counts['tensor']}"
        rows += [
            (f"{name}: rows per batch", f"{counts['rows_per_batch']:,.0f}"),
            ("  pages per batch", _change(counts, "pages")),
            (
                f"  pages per batch if {together} are read together",
                _change(counts, "pages_together"),
            ),
        ]
    rows.append(("disk space needed", format_bytes(report["space_bytes"])))
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
