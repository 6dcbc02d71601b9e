"""`neargraph query`: what a served model gives for nodes, pairs or graphs."""

from typing import Annotated, Any

import typer

from .connecting import Address, Ca, Cert, GraphName, Key, ServerName, Timeout, TokenFile, client
from .options import Seed
from .settings import Json
from .show import console, print_json, titled

_COLUMNS = 8


def query(
    model: Annotated[str, typer.Option(help="Model to run: its name, its alias, or NAME@VERSION.")],
    address: Address = "127.0.0.1:7400",
    graph: GraphName = "",
    nodes: Annotated[str | None, typer.Option(help="Node ids, e.g. 1,2,3.")] = None,
    edges: Annotated[str | None, typer.Option(help="Pairs of node ids, e.g. 1-2,3-4.")] = None,
    graph_ids: Annotated[str | None, typer.Option(help="Graph ids, e.g. 5,6.")] = None,
    seed: Seed = 0,
    timeout: Timeout = 60.0,
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    server_name: ServerName = None,
    as_json: Json = False,
) -> None:
    """Ask a server for the output of a model.

    Give exactly one of --nodes, --edges and --graph-ids.
    """
    from rich.table import Table

    if sum(given is not None for given in (nodes, edges, graph_ids)) != 1:
        raise typer.BadParameter("give exactly one of --nodes, --edges and --graph-ids")
    targets: dict[str, Any] = {}
    if nodes is not None:
        targets["nodes"] = _numbers("--nodes", nodes)
    elif graph_ids is not None:
        targets["graph_ids"] = _numbers("--graph-ids", graph_ids)
    elif edges is not None:
        pairs = [_numbers("--edges", pair, "-") for pair in edges.split(",")]
        if any(len(pair) != 2 for pair in pairs):
            raise typer.BadParameter(
                f"--edges {edges!r} is not valid: expected pairs such as 1-2,3-4"
            )
        targets["edges"] = list(zip(*pairs, strict=True))
    made = client(address, timeout, token_file, ca, cert, key, server_name)
    with made as server:
        answer = server.answer(model, graph=graph, seed=seed, **targets)
    asked = (nodes or edges or graph_ids or "").split(",")
    if as_json:
        rows = answer.rows.tolist()
        print_json(
            {
                "model": answer.model,
                "commit": answer.snapshot.commit,
                "fingerprint": f"{answer.snapshot.fingerprint:016x}",
                "rows_cached": answer.rows_cached,
                "targets": asked,
                "rows": rows,
            }
        )
        return
    table = Table("target", "row")
    for target, row in zip(asked, answer.rows.reshape(len(asked), -1), strict=True):
        shown = " ".join(f"{value:.4g}" for value in row[:_COLUMNS])
        rest = f" ... ({len(row)})" if len(row) > _COLUMNS else ""
        table.add_row(target, shown + rest)
    console().print(titled(f"{answer.model}, commit {answer.snapshot.commit}", table))


def _numbers(option: str, text: str, between: str = ",") -> list[int]:
    try:
        return [int(part) for part in text.split(between)]
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text!r} is not valid: expected ids such as 1{between}2"
        ) from None
