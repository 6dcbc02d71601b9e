"""`neargraph register`: serves a model on a graph of a server."""

from typing import Annotated

import typer

from .connecting import Address, Ca, Cert, GraphName, Key, ServerName, Timeout, TokenFile, client
from .options import ModelArgument, Prepare
from .settings import Json
from .show import print_report


def register(
    name: Annotated[str, typer.Argument(help="Name of the model in requests.", metavar="NAME")],
    model: ModelArgument,
    address: Address = "127.0.0.1:7400",
    graph: GraphName = "",
    prepare: Prepare = "metadata",
    timeout: Timeout = 60.0,
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    server_name: ServerName = None,
    as_json: Json = False,
) -> None:
    """Register a model file with a server.

    The command sends the file to the server. If NAME is already registered, the server adds a new
    version of the model.
    """
    with client(address, timeout, token_file, ca, cert, key, server_name) as server:
        # Waits for a server that is starting: a client repeats this call, and no registration.
        server.server_info()
        made = server.register_model(name, model, graph=graph, prepare=prepare)
    report = {key: made[key] for key in ("name", "version", "graph", "sha256")}
    title = f"Registered {made['name']}@{made['version']}"
    print_report(as_json, report, title, list(report.items()))
