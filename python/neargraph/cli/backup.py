"""`neargraph backup G.ng BACKUP` and `neargraph restore BACKUP G.ng`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.units import format_bytes

from .show import Recover, bars, print_report


def backup(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    target: Annotated[Path, typer.Argument(help="The backup to make; it must not exist.")],
    base: Annotated[
        Path | None,
        typer.Option(
            help="A backup of an earlier state, in the same directory as the new one: copy only "
            "what was written since. Restoring needs both."
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory to use, like 256MB.")] = None,
    recover: Recover = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copies the newest checkpoint of a store, checked, while others read it and write to it."""
    import neargraph

    with neargraph.open(store, memory=memory, recover=recover) as handle, bars(as_json) as progress:
        report = handle.backup(
            target, base=base, progress=lambda done, total: progress("backup", done, total)
        )
    rows = _rows(report)
    if report["log_goes_on"]:
        rows.append(("not in it", "later commits, which no checkpoint has written yet"))
    print_report(as_json, report, f"Backed up {store} as {target}", rows)


def restore(
    backup: Annotated[Path, typer.Argument(help="The backup.")],
    store: Annotated[Path, typer.Argument(help="The store to make, NAME.ng; it must not exist.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Makes the store that was backed up; `neargraph verify BACKUP` only checks."""
    import neargraph

    with bars(as_json) as progress:
        report = neargraph.restore(
            backup, store, progress=lambda done, total: progress("restore", done, total)
        )
    print_report(as_json, report, f"Restored {store} from {backup}", _rows(report))


def _rows(report: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A report for people: bytes with units, and nothing that is not there."""
    return [
        (name.replace("_", " "), format_bytes(value) if "bytes" in name else value)
        for name, value in report.items()
        if value is not None and name != "log_goes_on"
    ]
