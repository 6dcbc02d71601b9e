"""`neargraph update G.ng --from events.csv`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neargraph.exceptions import UpdateFailed

from .options import BusyTimeout, Memory, StoreArgument, opened
from .settings import Json
from .show import bars, console, pairs_table, print_json


def update(
    store: StoreArgument,
    source: Annotated[
        Path,
        typer.Option("--from", help="File of changes, one per row: .csv, .tsv, .parquet or .npz."),
    ],
    commit_every: Annotated[int, typer.Option(help="Rows per commit.", metavar="ROWS")] = 1000,
    skip_rows: Annotated[
        int,
        typer.Option(
            help="Number of rows to skip at the start of the file, because they are already "
            "applied."
        ),
    ] = 0,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="Action at a row that cannot be applied. stop: end, and keep the earlier commits. "
            "skip: skip the row."
        ),
    ] = "stop",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file, but apply nothing.")
    ] = False,
    memory: Memory = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Json = False,
) -> None:
    """Apply a file of added, changed and deleted nodes and edges to a store.

    Rows of the file that the progress line reports as done are durable. After a crash, skip these
    rows with --skip-rows.
    """
    from neargraph.update.apply import update_from

    with opened(store, memory, busy_timeout=busy_timeout) as handle, bars() as progress:
        report = update_from(
            handle,
            source,
            commit_every=commit_every,
            skip_rows=skip_rows,
            on_error=on_error,
            dry_run=dry_run,
            progress=lambda done, total: progress("update", done, total),
        )
        facts = {
            **report.plain(),
            "dry_run": dry_run,
            "lsn": handle.lsn,
            "num_nodes_live": handle.num_nodes_live,
            "num_edges": handle.num_edges,
        }
    if as_json:
        print_json(facts)
    else:
        _show(store, facts)
    if facts["rows"] and not facts["applied"]:
        first = report.messages[0]
        raise UpdateFailed(
            f"{source}: none of the {report.rows:,} rows can be applied; the first error: {first}"
        )


def _show(store: Path, facts: dict[str, Any]) -> None:
    ops = ", ".join(f"{name} {count:,}" for name, count in facts["ops"].items())
    rate = facts["applied"] / facts["seconds"] if facts["seconds"] else 0.0
    rows: list[tuple[str, Any]] = [
        ("rows", facts["rows"]),
        ("applied", facts["applied"] if not facts["dry_run"] else "none (dry run)"),
        ("skipped", facts["skipped"]),
        ("operations", ops or "none"),
        ("commits", facts["commits"]),
        ("rows/s", f"{rate:,.0f}"),
        ("last commit", facts["lsn"]),
        ("nodes", facts["num_nodes_live"]),
        ("edges", facts["num_edges"]),
    ]
    out = console()
    title = f"Dry run for {store}: nothing was applied" if facts["dry_run"] else f"Updated {store}"
    out.print(pairs_table(title, rows))
    for message in facts["messages"]:
        out.print(f"skipped {message}", markup=False)
    if facts["skipped"] > len(facts["messages"]):
        out.print(f"... and {facts['skipped'] - len(facts['messages']):,} more")
