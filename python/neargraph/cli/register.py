"""`neargraph register`: serves a model on a graph of a server."""

from pathlib import Path
from typing import Annotated

import typer

from .connecting import Address, Ca, Cert, Key, ServerName, TokenFile, client
from .show import print_report


def register(
    name: Annotated[str, typer.Argument(help="The name that requests call it.")],
    model: Annotated[Path, typer.Argument(help="The model file, NAME.ngm; it is sent.")],
    address: Address = "127.0.0.1:7400",
    graph: Annotated[str, typer.Option(help="Graph. Default: the only one.")] = "",
    prepare: Annotated[
        str, typer.Option(help="Brought into memory: metadata, hot or all.")
    ] = "metadata",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 60.0,
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    server_name: ServerName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Serves a model; a name that is taken already gets a new version."""
    with client(address, timeout, token_file, ca, cert, key, server_name) as server:
        made = server.register_model(name, model, graph=graph, prepare=prepare)
    report = {key: made[key] for key in ("name", "version", "graph", "sha256")}
    title = f"Served as {made['name']}@{made['version']}"
    print_report(as_json, report, title, list(report.items()))
