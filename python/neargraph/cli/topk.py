"""`neargraph topk G.ng --tensor embedding` and `neargraph topk H.npy`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import NodeType, complete_stores, opened
from .settings import Json
from .show import console, print_json

Metric = Literal["dot", "cosine"]


def topk(
    table: Annotated[
        Path,
        typer.Argument(
            help="Embeddings: a store (needs --tensor), or a .npy file that `neargraph infer` "
            "wrote.",
            metavar="TABLE",
            autocompletion=complete_stores,
        ),
    ],
    ids: Annotated[str, typer.Option(help="Ids of the query nodes, e.g. 17,4.")],
    k: Annotated[int, typer.Option(help="Number of nearest nodes for each query node.")] = 10,
    tensor: Annotated[
        str | None,
        typer.Option(help="Node tensor of the store that holds the embeddings, e.g. embedding."),
    ] = None,
    node_type: NodeType = None,
    metric: Annotated[
        Metric, typer.Option(help="Similarity of two embeddings: dot product or cosine.")
    ] = "dot",
    as_json: Json = False,
) -> None:
    """Find the nodes whose embeddings are most similar to those of query nodes."""
    from rich.table import Table

    from neargraph.nearest import topk as nearest

    try:
        wanted = [int(one) for one in ids.split(",")]
    except ValueError:
        raise UnsupportedArgument(
            f"--ids {ids!r} is not a valid list of ids: expected e.g. 17,4"
        ) from None
    if tensor is None and not table.is_dir():
        found, scores = nearest(table, wanted, k, node_type=node_type, metric=metric)
    else:
        with opened(table) as store:
            found, scores = nearest(
                store, wanted, k, tensor=tensor, node_type=node_type, metric=metric
            )
    if as_json:
        print_json({"ids": found.tolist(), "scores": scores.tolist()})
        return
    shown = Table("node", "nearest (score)")
    for one, line, of_line in zip(wanted, found, scores, strict=True):
        pairs = zip(line, of_line, strict=True)
        shown.add_row(str(one), ", ".join(f"{id_} ({score:.4g})" for id_, score in pairs))
    console().print(shown)
