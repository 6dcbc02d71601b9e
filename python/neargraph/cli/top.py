"""`neargraph top`: what a server does now, from its metrics.

What must not live here: what is counted. The invariant: rates are differences of two looks, and a
metric that the server does not have is shown as "-".
"""

import http.client
import ipaddress
import math
import re
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .connecting import Address, Ca, Cert, Key, ServerName, TokenFile, client, token_of
from .show import console, titled

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Sample = tuple[str, dict[str, str], float]


class Metrics:
    """One look at the metrics of a server."""

    def __init__(self, text: str) -> None:
        self.samples = list(parsed(text))

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of all samples of a name that have the labels."""
        found = [
            value
            for sample, given, value in self.samples
            if sample == name and all(given.get(label) == want for label, want in labels.items())
        ]
        return sum(found) if found else None

    def buckets(self, name: str, **labels: str) -> dict[float, float]:
        """The counts of a histogram by upper bound."""
        counts: dict[float, float] = {}
        for sample, given, value in self.samples:
            if sample == f"{name}_bucket" and all(given.get(k) == v for k, v in labels.items()):
                bound = float(given["le"].replace("+Inf", "inf"))
                counts[bound] = counts.get(bound, 0.0) + value
        return counts


def parsed(text: str) -> Iterable[Sample]:
    """The samples of the Prometheus text format."""
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            name, labels, value = match.groups()
            yield name, dict(_LABEL.findall(labels or "")), float(value)


def quantile(before: dict[float, float], now: dict[float, float], share: float) -> str:
    """A quantile of what a histogram counted between two looks, in milliseconds.

    Prometheus estimates it in the same way, except below the lowest bound and above the highest.
    """
    counts = {bound: count - before.get(bound, 0.0) for bound, count in sorted(now.items())}
    total = counts.get(math.inf, 0.0)
    if total <= 0.0:
        return "-"
    low, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= share * total:
            if math.isinf(bound):
                return f"> {1e3 * low:g} ms"
            if low == 0.0:
                return f"< {1e3 * bound:g} ms"
            inside = max(count - below, 1e-12)
            return f"{1e3 * (low + (bound - low) * (share * total - below) / inside):.2f} ms"
        low, below = bound, count
    return "-"


def rows(before: Metrics, now: Metrics, seconds: float) -> list[tuple[str, str]]:
    """What is shown, by name."""

    def rate(name: str, **labels: str) -> str:
        last = now.total(name, **labels)
        if last is None:
            return "-"
        return f"{(last - (before.total(name, **labels) or 0.0)) / seconds:,.0f}"

    def value(name: str, unit: str = "") -> str:
        found = now.total(name)
        if found is None:
            return "-"
        return f"{found / 1e6:,.1f} MB" if unit == "bytes" else f"{found:,.0f}"

    request = ("neargraph_request_seconds", {"method": _run_method(now)})
    earlier, later = (look.buckets(request[0], **request[1]) for look in (before, now))
    times = (quantile(earlier, later, share) for share in (0.5, 0.99))
    reads = rate("neargraph_reads_total")
    answered = [
        (now.total("neargraph_answers_total", source=source) or 0.0)
        - (before.total("neargraph_answers_total", source=source) or 0.0)
        for source in ("cache", "computed", "duplicate")
    ]
    hits = f"{100 * answered[0] / sum(answered):.0f} %" if sum(answered) else "-"
    return [
        ("requests/s", rate("neargraph_requests_total")),
        ("p50, p99 of Run", ", ".join(times)),
        ("requests waiting", value("neargraph_queue_requests")),
        ("shed requests/s", rate("neargraph_shed_total")),
        ("answers from the cache", hits),
        ("answer cache", value("neargraph_cache_bytes", "bytes")),
        ("reads/s", reads),
        # The server averages it over all reads since its start.
        ("disk queue depth", "-" if reads == "0" else value("neargraph_device_depth")),
        ("commits/s", rate("neargraph_commits_total")),
        ("memory of the process", value("process_resident_memory_bytes", "bytes")),
    ]


def _run_method(metrics: Metrics) -> str:
    names = {labels.get("method", "") for _, labels, _ in metrics.samples}
    return next((name for name in sorted(names) if name.endswith("/Run") or name == "Run"), "Run")


class Encrypted(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may have another name than its address."""

    def __init__(self, address: str, tls: ssl.SSLContext, name: str | None) -> None:
        super().__init__(address, timeout=5.0, context=tls)
        self.tls, self.name = tls, name or self.host

    def connect(self) -> None:
        """Connects, and checks the certificate for the name."""
        http.client.HTTPConnection.connect(self)
        self.sock = self.tls.wrap_socket(self.sock, server_hostname=self.name)


@dataclass(frozen=True)
class Side:
    """A side port, and the certificates for it if it is encrypted."""

    address: str
    token: str | None = None
    tls: ssl.SSLContext | None = None
    name: str | None = None

    def connection(self) -> http.client.HTTPConnection:
        """A connection to it, which is not made yet."""
        if self.tls is None:
            return http.client.HTTPConnection(self.address, timeout=5.0)
        return Encrypted(self.address, self.tls, self.name)


def side_of(
    said: str,
    given: str | None,
    address: str,
    token: str | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
) -> Side:
    """The side port of a server that says that it listens at `said`, and is asked at `address`.

    It is encrypted where other machines can reach it.
    """
    host, _, port = said.rpartition(":")
    listens = ipaddress.ip_address(host.strip("[]"))
    if listens.is_unspecified:
        host = "127.0.0.1" if address.startswith("unix:") else address.rpartition(":")[0]
    place = given or f"{host}:{port}"
    if ca is None or listens.is_loopback:
        return Side(place, token)
    tls = ssl.create_default_context(cafile=ca)
    if cert is not None:
        tls.load_cert_chain(cert, key)
    return Side(place, token, tls, server_name)


def fetched(side: Side) -> Metrics:
    """Asks the side port for its metrics."""
    connection = side.connection()
    try:
        headers = {} if side.token is None else {"authorization": f"Bearer {side.token}"}
        connection.request("GET", "/metrics", headers=headers)
        reply = connection.getresponse()
        text = reply.read().decode()
    except http.client.HTTPException as error:
        raise OSError(
            f"{side.address} does not answer over HTTP ({error}); check --side"
        ) from error
    except OSError as error:
        why = error.strerror or error
        raise OSError(f"{side.address}: cannot read the metrics ({why}); check --side") from error
    finally:
        connection.close()
    if reply.status != 200:
        raise OSError(f"{side.address}: GET /metrics returned status {reply.status}")
    return Metrics(text)


def top(
    address: Address = "127.0.0.1:7400",
    side: Annotated[
        str | None,
        typer.Option(
            help="Address of the server's side port (HTTP), HOST:PORT. "
            "Default: ask the server for it."
        ),
    ] = None,
    every: Annotated[
        float, typer.Option(help="Seconds between two updates of the table.", metavar="SECONDS")
    ] = 1.0,
    count: Annotated[
        int, typer.Option(help="Number of updates of the table; 0 = update until Ctrl-C.")
    ] = 0,
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    server_name: ServerName = None,
) -> None:
    """Show the requests, latencies, caches and disk reads of a server."""
    from rich.live import Live

    with client(address, 60.0, token_file, ca, cert, key, server_name) as server:
        info = server.server_info()
    said, token = info["side_address"], token_of(token_file)
    place = side_of(said, side, address, token, ca, cert, key, server_name)
    before, then = fetched(place), time.monotonic()
    looks = 0
    with Live(console=console(), auto_refresh=False) as live:
        while count == 0 or looks < count:
            time.sleep(max(every, 0.1))
            now, at = fetched(place), time.monotonic()
            table = Table(show_header=False)
            for row in rows(before, now, at - then):
                table.add_row(*row)
            heading = f"neargraph {info['version']} at {', '.join(info['addresses'])}"
            live.update(titled(heading, table), refresh=True)
            before, then = now, at
            looks += 1
