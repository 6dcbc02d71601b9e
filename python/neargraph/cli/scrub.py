"""`neargraph scrub G.ng`."""

from typing import Annotated

import typer

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json
from .show import bars
from .verify import conclude


def scrub(
    store: StoreArgument,
    max_rate: Annotated[
        str | None,
        typer.Option(
            help="Maximum number of bytes to read per second, e.g. 200MB. Default: no limit.",
            metavar="SIZE",
        ),
    ] = None,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Check every page of a store against its checksum while the store is in use.

    The command also checks the files that were compiled from the store. The exit code is 1 if
    anything is damaged.
    """
    with opened(store, memory, recover=recover) as handle, bars() as progress:
        report = handle.scrub(max_rate, lambda done, total: progress("scrub", done, total))
    conclude(store, report, as_json)
