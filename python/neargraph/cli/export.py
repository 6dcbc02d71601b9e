"""`neargraph export G.ng OUT`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json, settings
from .show import bars, print_notes, print_report, size

_Format = Annotated[
    Literal["graphbolt", "parquet", "pyg", "npz"],
    typer.Option(
        help="Output format. graphbolt: a folder that GraphBolt reads. parquet: a folder of "
        "tables. pyg: a .pt file with a PyG Data or HeteroData. npz: a .npz file of NumPy "
        "arrays."
    ),
]


def export(
    store: StoreArgument,
    out: Annotated[
        Path, typer.Argument(help="Folder or file to create; must not exist.", metavar="OUT")
    ],
    format: _Format = "graphbolt",
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Export a store to GraphBolt, Parquet, PyG or NumPy.

    Data that the format cannot hold is left out, and the command lists it. With --format pyg, the
    whole graph must fit into memory. The other formats are written in pieces of a few megabytes.
    """
    from neargraph import datasets

    writers: dict[str, Any] = {
        "graphbolt": datasets.to_graphbolt,
        "parquet": datasets.to_parquet,
        "pyg": datasets.to_pyg,
        "npz": datasets.to_npz,
    }
    more = {"memory": memory} if format == "pyg" else {}
    with opened(store, memory, recover=recover) as handle, bars() as progress:
        report = writers[format](handle, out, progress=progress, **more)
    rows = [
        ("nodes", report["num_nodes"]),
        ("edges", report["num_edges"]),
        ("on disk", size(report["bytes"])),
    ]
    print_report(as_json, report, f"Wrote {out}", rows)
    print_notes(report["notes"])
    if not settings.silent:
        needed = report["import_options"]
        typer.echo(
            " ".join(["import again with: neargraph import", str(out), "--out", "NEW.ng", *needed])
        )
