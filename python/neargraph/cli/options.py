"""Options and arguments that several commands share: their names, help, units and completion.

What must not live here: options of one command. The invariant: a shared option has the same name,
type and words in every command.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from neargraph.exceptions import UnsupportedArgument
from neargraph.units import format_bytes

from .settings import settings

if TYPE_CHECKING:
    from neargraph.store import Store


def complete_stores(incomplete: str) -> list[str]:
    """The stores that a path may be; none where the shell shall complete files itself."""
    return _beside(incomplete, ".ng")


def complete_models(incomplete: str) -> list[str]:
    """The model files that a path may be."""
    return _beside(incomplete, ".ngm")


def _beside(incomplete: str, ending: str) -> list[str]:
    head, _, start = incomplete.rpartition("/")
    folder = Path(f"{head}/" if head or incomplete.startswith("/") else ".")
    prefix = incomplete[: len(incomplete) - len(start)]
    try:
        names = sorted(found.name for found in folder.iterdir())
    except OSError:
        return []
    return [prefix + name for name in names if name.startswith(start) and name.endswith(ending)]


StoreArgument = Annotated[
    Path,
    typer.Argument(
        help="Store directory, NAME.ng.", metavar="STORE", autocompletion=complete_stores
    ),
]
"""The store that a command reads or changes."""

ModelArgument = Annotated[
    Path,
    typer.Argument(help="Model file, NAME.ngm.", metavar="MODEL", autocompletion=complete_models),
]
"""The model file that a command runs."""

Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory budget of the store, e.g. 256MB or 2GiB. Default: a quarter of RAM.",
        metavar="SIZE",
    ),
]
"""How much memory an open store may take."""

BackendName = Literal["auto", "uring", "odirect", "pread", "mmap", "memory"]

Backend = Annotated[
    BackendName,
    typer.Option(help="I/O back end that reads the store; auto = the fastest that works here."),
]
"""How the files of a store are read."""

Recover = Annotated[
    bool,
    typer.Option(
        help="Recover the commits of a crashed writer when the store is opened. --no-recover "
        "opens the last checkpoint instead."
    ),
]
"""The option of commands that only read."""

BusyTimeout = Annotated[
    float,
    typer.Option(
        help="Seconds to wait if another process is writing to the store.", metavar="SECONDS"
    ),
]
"""The option of commands that write."""

NodeType = Annotated[
    str | None,
    typer.Option(help="Node type. Default: the only node type.", metavar="TYPE"),
]
"""Which of several node types."""

Prepare = Annotated[
    Literal["metadata", "hot", "all"],
    typer.Option(
        help="Data to load into memory. metadata: indexes. hot: also neighbour lists and the "
        "most used rows. all: everything that the model reads."
    ),
]
"""What an engine loads before the first request."""

Seed = Annotated[int, typer.Option(help="Random seed.")]
"""The seed of whatever is drawn."""


@contextmanager
def opened(path: Path | str, memory: str | int | None = None, **how: Any) -> Iterator["Store"]:
    """An open store; with ``--verbose``, its back end and what was read go to stderr."""
    import neargraph

    with neargraph.open(path, memory=memory, **how) as store:
        if settings.verbose:
            info = store.core
            budget = format_bytes(info.memory_bytes)
            typer.echo(f"{path}: {info.backend_note}; memory budget {budget}", err=True)
        yield store
        if settings.verbose:
            typer.echo(f"{path}: {reads_line(store.stats())}", err=True)


def reads_line(stats: Mapping[str, Any]) -> str:
    """What a store has read, in one line.

    >>> reads_line({"reads": 2, "read_bytes": 131072, "useful_bytes": 4096, "rows_served": 0,
    ...             "hit_rate": 0.0, "budget_peak": 8_260_000})
    '131 kB in 2 reads, 4.1 kB of it used; budget peak 8.26 MB'
    """
    hits = f", {100 * stats['hit_rate']:.0f} % of rows cached" if stats["rows_served"] else ""
    read, used = format_bytes(stats["read_bytes"]), format_bytes(stats["useful_bytes"])
    peak = format_bytes(stats["budget_peak"])
    return f"{read} in {stats['reads']:,} reads, {used} of it used{hits}; budget peak {peak}"


def parse_fanouts(text: str) -> tuple[int, ...]:
    """(15, 10) of "15,10".

    >>> parse_fanouts("15,-1")
    (15, -1)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UnsupportedArgument(
            f"--fanouts {text!r} is not valid: expected comma-separated counts, e.g. 15,10 "
            "(-1 = all)"
        ) from None
