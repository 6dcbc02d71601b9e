"""`neargraph checkpoint G.ng`."""

from pathlib import Path
from typing import Annotated

import typer

from .show import BusyTimeout, print_report


def checkpoint(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    busy_timeout: BusyTimeout = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Puts all commits of the log into the store's own files; opening does it after a crash."""
    import neargraph

    with neargraph.open(store, busy_timeout=busy_timeout) as handle:
        recovered = handle.info()["commits_recovered"]
        report = {"commits_recovered": recovered, **handle.checkpoint()}
    rows = [(name.replace("_", " "), value) for name, value in report.items()]
    print_report(as_json, report, f"Checkpoint of {store}", rows)
