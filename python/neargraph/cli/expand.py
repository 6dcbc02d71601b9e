"""`neargraph expand G.ng OUT.ng --factor 8`."""

from pathlib import Path
from typing import Annotated

import typer

from neargraph._room import minimum_of
from neargraph.exceptions import UnsupportedArgument

from .import_ import import_words, row_label
from .options import Recover, StoreArgument, opened
from .settings import Json
from .show import bars, print_notes, print_report, readable

_Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory budget for reading STORE and writing OUT together, e.g. 1GB. Default: "
        "half of RAM.",
        metavar="SIZE",
    ),
]
_Density = Annotated[
    float | None,
    typer.Option(
        help="With --factor: mean degree of the seed graph. Default: 3, or less for small factors."
    ),
]


@minimum_of(lambda minimum: 2 * minimum)
def expand(
    store: StoreArgument,
    out: Annotated[Path, typer.Argument(help="Store to create, NAME.ng.", metavar="OUT")],
    factor: Annotated[
        int | None,
        typer.Option(
            help="Number of copies of each node. The seed graph is then derived from STORE. Give "
            "either --factor or --seed-graph."
        ),
    ] = None,
    density: _Density = None,
    seed_graph: Annotated[
        Path | None,
        typer.Option(
            help="Edges of the seed graph: a .npy file with an array of shape [2, E] or [E, 2]."
        ),
    ] = None,
    memory: _Memory = None,
    reverse: Annotated[
        bool, typer.Option(help="Also store the reverse of each edge type.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads. Default: one for each core.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace OUT if it exists and no process writes to it.")
    ] = False,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Write a larger graph: the Kronecker product of a store and a small seed graph."""
    from neargraph.datasets import Seed
    from neargraph.datasets import expand as product
    from neargraph.importers import ImportOptions, check_target
    from neargraph.units import parse_bytes

    if (factor is None) == (seed_graph is None):
        raise UnsupportedArgument("give either --factor or --seed-graph")
    check_target(out, ImportOptions(overwrite=overwrite))
    half = None if memory is None else parse_bytes(memory) // 2
    given = None if seed_graph is None else Seed.read(seed_graph)
    with opened(store, half, recover=recover) as handle, bars() as progress:
        report = product(
            handle,
            out,
            factor,
            density=density,
            seed=given,
            progress=progress,
            memory=half,
            reverse=reverse,
            threads=threads,
            overwrite=overwrite,
            words=import_words,
        )
    rows = [
        (row_label(key), readable(key, value)) for key, value in report.items() if key != "notes"
    ]
    print_report(as_json, {"out": str(out), **report}, f"Wrote {out}", rows)
    print_notes(report["notes"])
