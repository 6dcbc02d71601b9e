"""`neargraph update G.ng --from events.csv`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UpdateFailed

from .show import BusyTimeout, bars, console, pairs_table, print_json


def update(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    source: Annotated[Path, typer.Option("--from", help="Events: .csv, .tsv, .parquet, .npz.")],
    commit_every: Annotated[int, typer.Option(help="Rows of one commit.")] = 1000,
    skip_rows: Annotated[int, typer.Option(help="Rows that are done already.")] = 0,
    on_error: Annotated[str, typer.Option(help="stop at a bad row, or skip it.")] = "stop",
    dry_run: Annotated[bool, typer.Option(help="Only check the file.")] = False,
    memory: Annotated[str | None, typer.Option(help="Memory of the store, like 256MB.")] = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Adds, deletes and updates nodes and edges; every commit is durable when it is counted."""
    import neargraph
    from neargraph.update.apply import update_from

    opened = neargraph.open(store, memory=memory, busy_timeout=busy_timeout)
    with opened as handle, bars(as_json) as progress:
        report = update_from(
            handle,
            source,
            commit_every=commit_every,
            skip_rows=skip_rows,
            on_error=on_error,  # type: ignore[arg-type]
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
            f"{source}: none of the {report.rows:,} rows can be applied, all were skipped: {first}"
        )


def _show(store: Path, facts: dict[str, Any]) -> None:
    ops = ", ".join(f"{name} {count:,}" for name, count in facts["ops"].items())
    rate = facts["applied"] / facts["seconds"] if facts["seconds"] else 0.0
    rows: list[tuple[str, Any]] = [
        ("rows", facts["rows"]),
        ("applied", facts["applied"] if not facts["dry_run"] else "none, this is a dry run"),
        ("skipped", facts["skipped"]),
        ("operations", ops or "none"),
        ("commits", facts["commits"]),
        ("rows/s", f"{rate:,.0f}"),
        ("last commit", facts["lsn"]),
        ("nodes", facts["num_nodes_live"]),
        ("edges", facts["num_edges"]),
    ]
    out = console()
    out.print(pairs_table(f"Updated {store}", rows))
    for message in facts["messages"]:
        out.print(f"skipped {message}", markup=False)
    if facts["skipped"] > len(facts["messages"]):
        out.print(f"... and {facts['skipped'] - len(facts['messages']):,} more")
