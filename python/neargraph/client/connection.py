"""How a client is made: certificates, and the compiled client of its settings."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument


@dataclass(frozen=True)
class Tls:
    """Certificates of a client, as paths of PEM files.

    Attributes:
        ca: Who signs the certificate of the server.
        cert: The certificate of the client, if the server wants one.
        key: Its key.
        server_name: The name in the server's certificate, where it is not that of the address.
    """

    ca: str | os.PathLike[str]
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    server_name: str | None = None


def core(
    address: str,
    token: str | None,
    timeout: float | None,
    retry: float,
    tls: "Tls | Mapping[str, Any] | None",
) -> _core.Client:
    """The compiled client."""
    if tls is None:
        return _core.Client(address, token, timeout, retry, None)
    files = tls if isinstance(tls, Tls) else Tls(**tls)
    if (files.cert is None) != (files.key is None):
        raise UnsupportedArgument("a certificate of the client and its key go together")
    identity = None
    if files.cert is not None and files.key is not None:
        identity = (Path(files.cert).read_bytes(), Path(files.key).read_bytes())
    given = (Path(files.ca).read_bytes(), identity, files.server_name)
    return _core.Client(address, token, timeout, retry, given)
