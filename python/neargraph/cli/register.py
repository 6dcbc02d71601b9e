"""`neargraph register`: serves a model on a graph of a server."""

import os
from pathlib import Path
from typing import Annotated

import typer

from .query import Address
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Serves a model; a name that is taken already gets a new version.

    The token, where the server asks for one, is what NEARGRAPH_TOKEN holds.
    """
    import neargraph

    token = os.environ.get("NEARGRAPH_TOKEN")
    with neargraph.Client(address, token=token, timeout=timeout) as client:
        made = client.register_model(name, model, graph=graph, prepare=prepare)
    report = {key: made[key] for key in ("name", "version", "graph", "sha256")}
    title = f"Served as {made['name']}@{made['version']}"
    print_report(as_json, report, title, list(report.items()))
