"""How commands reach a server: address, token and certificates, the same for each of them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import neargraph

Address = Annotated[
    str, typer.Option(help="Address of the server: HOST:PORT or unix:PATH.", show_default=True)
]
GraphName = Annotated[
    str, typer.Option(help="Name of the graph on the server. Default: the only graph.")
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the answer.", metavar="SECONDS")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the access token. Default: the token in the environment variable "
        "NEARGRAPH_TOKEN."
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        help="PEM file with the certificate of the CA that signed the server's certificate. "
        "Default: no TLS."
    ),
]
Cert = Annotated[
    Path | None,
    typer.Option(
        help="PEM file with the client certificate, for servers that require one. Needs --ca "
        "and --key."
    ),
]
Key = Annotated[Path | None, typer.Option(help="PEM file with the private key of --cert.")]
ServerName = Annotated[
    str | None,
    typer.Option(
        help="Name in the server's certificate, if it differs from --address. Needs --ca."
    ),
]


def token_of(file: Path | None) -> str | None:
    """The token of a command: of the file that was given, or of the environment."""
    return os.environ.get("NEARGRAPH_TOKEN") if file is None else file.read_text().strip()


def client(
    address: str,
    timeout: float,
    token_file: Path | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
) -> "neargraph.Client":
    """The client of a command.

    Raises:
        BadParameter: Certificates that do not go together.
    """
    import neargraph

    if ca is None and (cert or key or server_name):
        raise typer.BadParameter("--cert, --key and --server-name need --ca")
    if (cert is None) != (key is None):
        raise typer.BadParameter("give both --cert and --key, or neither")
    given = {"ca": ca, "cert": cert, "key": key, "server_name": server_name}
    tls = None if ca is None else given
    return neargraph.Client(address, token=token_of(token_file), timeout=timeout, tls=tls)
