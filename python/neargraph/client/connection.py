"""The connection of a client: its certificates, and the compiled client."""

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
        ca: The certificate authority that signed the server's certificate.
        cert: The client's certificate, if the server requires one.
        key: The private key of `cert`.
        server_name: The name in the server's certificate, if it differs from the address.
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
    """Returns the compiled client."""
    if tls is None:
        return _core.Client(address, token, timeout, retry, None)
    files = tls if isinstance(tls, Tls) else Tls(**tls)
    if (files.cert is None) != (files.key is None):
        given, missing = ("key", "cert") if files.cert is None else ("cert", "key")
        raise UnsupportedArgument(
            f"tls= has {given!r} without {missing!r}; give both for a client certificate, or "
            "neither"
        )
    identity = None
    if files.cert is not None and files.key is not None:
        identity = (Path(files.cert).read_bytes(), Path(files.key).read_bytes())
    settings = (Path(files.ca).read_bytes(), identity, files.server_name)
    return _core.Client(address, token, timeout, retry, settings)
