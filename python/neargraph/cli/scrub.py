"""`neargraph scrub G.ng`."""

from pathlib import Path
from typing import Annotated

import typer

from .show import Recover, bars
from .verify import conclude


def scrub(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    max_rate: Annotated[
        str | None, typer.Option(help="Read at most so much a second, like 200MB.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory to use, like 256MB.")] = None,
    recover: Recover = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compares every checksum of a store and of what was compiled from it, while it is in use; exit
    code 1 where it is damaged."""
    import neargraph

    with neargraph.open(store, memory=memory, recover=recover) as handle, bars(as_json) as progress:
        report = handle.scrub(max_rate, lambda done, total: progress("scrub", done, total))
    conclude(store, report, as_json)
