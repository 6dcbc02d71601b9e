"""`neargraph backup G.ng BACKUP` and `neargraph restore BACKUP G.ng`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.units import format_bytes

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json
from .show import bars, print_report

_Base = Annotated[
    Path | None,
    typer.Option(
        help="Copy only pages written since this earlier backup, in the same directory as the new "
        "one. Restoring needs both backups.",
        metavar="BACKUP",
    ),
]


def backup(
    store: StoreArgument,
    target: Annotated[
        Path, typer.Argument(help="Backup to create; must not exist.", metavar="BACKUP")
    ],
    base: _Base = None,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Back up a store while it is in use.

    Copies the newest checkpoint and compares every page with its checksum. Other processes can read
    and write the store meanwhile.
    """
    with opened(store, memory, recover=recover) as handle, bars() as progress:
        report = handle.backup(
            target, base=base, progress=lambda done, total: progress("backup", done, total)
        )
    rows = _rows(report)
    if report["log_goes_on"]:
        rows.append(("not included", "later commits, which no checkpoint contains yet"))
    print_report(as_json, report, f"Backed up {store} as {target}", rows)


def restore(
    backup: Annotated[Path, typer.Argument(help="Backup to read.", metavar="BACKUP")],
    store: Annotated[
        Path,
        typer.Argument(help="Store to create, NAME.ng; must not exist.", metavar="STORE"),
    ],
    as_json: Json = False,
) -> None:
    """Restore a store from a backup.

    To check a backup without restoring it, run `neargraph verify BACKUP`.
    """
    import neargraph

    with bars() as progress:
        report = neargraph.restore(
            backup, store, progress=lambda done, total: progress("restore", done, total)
        )
    print_report(as_json, report, f"Restored {store} from {backup}", _rows(report))


def _rows(report: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A report for people: bytes with units, without entries that have no value."""
    return [
        (name.replace("_", " "), format_bytes(value) if "bytes" in name else value)
        for name, value in report.items()
        if value is not None and name != "log_goes_on"
    ]
