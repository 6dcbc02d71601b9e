"""`neargraph topk G.ng --tensor embedding` and `neargraph topk H.npy`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from neargraph.exceptions import UnsupportedArgument
from neargraph.nearest import Metric
from neargraph.nearest import topk as nearest
from neargraph.store import Store

from .show import console, print_json


def topk(
    table: Annotated[
        Path, typer.Argument(help="The embeddings: a store, or a .npy file of infer.")
    ],
    ids: Annotated[str, typer.Option(help="Nodes, such as 17,4.")],
    k: Annotated[int, typer.Option(help="Neighbours of each.")] = 10,
    tensor: Annotated[
        str | None, typer.Option(help="Of a store: its node tensor, such as embedding.")
    ] = None,
    node_type: Annotated[
        str | None, typer.Option(help="Of a store: may be left out if there is one type.")
    ] = None,
    metric: Annotated[str, typer.Option(help="dot or cosine.")] = "dot",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the nodes whose embeddings are most like those of others."""
    try:
        wanted = [int(one) for one in ids.split(",")]
    except ValueError:
        raise UnsupportedArgument(f"--ids {ids}: wanted numbers with commas between") from None
    if metric not in ("dot", "cosine"):
        raise UnsupportedArgument(f"--metric {metric}: there are dot, cosine")
    kind: Metric = "cosine" if metric == "cosine" else "dot"
    if tensor is None and not table.is_dir():
        found, scores = nearest(table, wanted, k, node_type=node_type, metric=kind)
    else:
        with Store(table) as store:
            found, scores = nearest(
                store, wanted, k, tensor=tensor, node_type=node_type, metric=kind
            )
    if as_json:
        print_json({"ids": found.tolist(), "scores": scores.tolist()})
        return
    shown = Table("node", "nearest (score)")
    for one, line, of_line in zip(wanted, found, scores, strict=True):
        pairs = zip(line, of_line, strict=True)
        shown.add_row(str(one), ", ".join(f"{id_} ({score:.4g})" for id_, score in pairs))
    console().print(shown)
