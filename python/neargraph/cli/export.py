"""`neargraph export G.ng FOLDER`."""

from pathlib import Path
from typing import Annotated

import typer

from neargraph.exceptions import UnsupportedArgument
from neargraph.importers import Note

from .show import Recover, bars, print_report, size


def export(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    folder: Annotated[Path, typer.Argument(help="The new folder.")],
    format: Annotated[str, typer.Option(help="graphbolt.")] = "graphbolt",
    memory: Annotated[str | None, typer.Option(help="Memory to use, like 256MB.")] = None,
    recover: Recover = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Writes a store as a data set of another package: GraphBolt's OnDiskDataset."""
    if format != "graphbolt":
        raise UnsupportedArgument(f"--format {format}: there is graphbolt")
    import neargraph
    from neargraph.datasets import to_graphbolt

    with neargraph.open(store, memory=memory, recover=recover) as handle, bars(as_json) as progress:
        report = to_graphbolt(handle, folder, progress=progress)
    rows = [
        ("nodes", report["num_nodes"]),
        ("edges", report["num_edges"]),
        ("on disk", size(report["bytes"])),
    ]
    print_report(as_json, report, f"Wrote {folder}", rows)
    if not as_json:
        for note in report["notes"]:
            typer.echo(f"note: {Note(**note)}")
