"""`neargraph compact G.ng`."""

from pathlib import Path
from typing import Annotated

import typer

from neargraph.units import format_bytes

from .show import BusyTimeout, bars, print_report


def compact(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    memory: Annotated[str | None, typer.Option(help="Memory to use, like 256MB.")] = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rewrites a store into fresh files: lists in order, nothing unused between them."""
    import neargraph

    opened = neargraph.open(store, memory=memory, busy_timeout=busy_timeout)
    with opened as handle, bars(as_json) as progress:
        report = handle.compact(lambda done, total: progress("compact", done, total))
    rows = [
        ("before", format_bytes(report["bytes_before"])),
        ("after", format_bytes(report["bytes_after"])),
        ("checkpoint", report["checkpoint_id"]),
    ]
    print_report(as_json, report, f"Compacted {store}", rows)
