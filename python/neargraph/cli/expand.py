"""`neargraph expand G.ng OUT.ng --factor 8`."""

from pathlib import Path
from typing import Annotated

import typer

from neargraph._room import minimum_of
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers import ImportOptions, Note, check_target

from .show import Recover, bars, print_report, readable


@minimum_of(lambda minimum: 2 * minimum)
def expand(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    out: Annotated[Path, typer.Argument(help="The new store, NAME.ng.")],
    factor: Annotated[
        int | None, typer.Option(help="Copies of each node; may be left out with --seed-graph.")
    ] = None,
    density: Annotated[
        float | None,
        typer.Option(
            help="Mean degree of the seed graph, made of the graph. Default: 3, or less "
            "for a smaller factor."
        ),
    ] = None,
    seed_graph: Annotated[
        Path | None,
        typer.Option(help="The seed graph: a .npy file [2, E] or [E, 2] of its edges."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory of the store and of the import together, like 1GB.")
    ] = None,
    reverse: Annotated[bool, typer.Option(help="Also store the reverse edge types.")] = False,
    threads: Annotated[int | None, typer.Option(help="Threads to use.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a store that nobody writes to.")] = False,
    recover: Recover = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Writes the Kronecker product of a store with a small seed graph: the same graph, larger."""
    import neargraph
    from neargraph.datasets import Seed
    from neargraph.datasets import expand as product
    from neargraph.remedies import on_command_line
    from neargraph.units import parse_bytes

    if (factor is None) == (seed_graph is None):
        raise UnsupportedArgument("give one of --factor and --seed-graph")
    check_target(out, ImportOptions(overwrite=overwrite))
    half = None if memory is None else parse_bytes(memory) // 2
    given = None if seed_graph is None else Seed.read(seed_graph)
    with neargraph.open(store, memory=half, recover=recover) as handle, bars(as_json) as progress:
        report = product(
            handle,
            out,
            factor,
            density=density,
            seed=given,
            progress=progress,
            memory=half,
            words=on_command_line,
            reverse=reverse,
            threads=threads,
            overwrite=overwrite,
        )
    rows = [
        (key.replace("_", " "), readable(key, value))
        for key, value in report.items()
        if key != "notes"
    ]
    print_report(as_json, {"out": str(out), **report}, f"Wrote {out}", rows)
    if not as_json:
        for note in report["notes"]:
            typer.echo(f"note: {Note(**note)}")
