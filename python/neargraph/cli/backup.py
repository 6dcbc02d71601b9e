"""`neargraph backup G.ng BACKUP` and `neargraph restore BACKUP G.ng`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json
from .show import bars, print_report
from .verify import report_rows

_Base = Annotated[
    Path | None,
    typer.Option(
        help="Earlier backup, in the same parent directory as the new backup. The new backup "
        "then contains only the pages that were written after the earlier backup. "
        "Restoring needs both backups.",
        metavar="BACKUP",
    ),
]


def backup(
    store: StoreArgument,
    target: Annotated[
        Path,
        typer.Argument(help="Directory of the backup to create; must not exist.", metavar="BACKUP"),
    ],
    base: _Base = None,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Back up a store while it is in use.

    The command copies the newest checkpoint and compares every page with its checksum. Meanwhile,
    other processes can read and write the store.
    """
    with opened(store, memory, recover=recover) as handle, bars() as progress:
        report = handle.backup(
            target, base=base, progress=lambda done, total: progress("backup", done, total)
        )
        newest = handle.snapshot().lsn
    rows = report_rows(report)
    print_report(as_json, report, f"Backed up {store} as {target}", rows)
    if report["log_goes_on"] and not as_json:
        _warn(report["lsn"], newest)


def _warn(last: int, newest: int) -> None:
    """Says which commits a backup lacks. Those of another process are not counted."""
    missing = f"{newest - last:,} commits" if newest > last else "the commits"
    typer.echo(
        f"warning: the backup lacks {missing} after commit {last}: no checkpoint contains them "
        "yet. Make the backup in the process that writes to the store: with client.backup(NAME) on "
        "a server, with store.backup(PATH) in a Python program",
        err=True,
    )


def restore(
    backup: Annotated[
        Path, typer.Argument(help="Directory of the backup to restore.", metavar="BACKUP")
    ],
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
    print_report(as_json, report, f"Restored {store} from {backup}", report_rows(report))
