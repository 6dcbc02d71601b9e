"""Importers: every input neargraph reads, and the one function that writes a store from it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neargraph.exceptions import ImportFailed
from neargraph.remedies import in_python
from neargraph.units import parse_bytes

from .detect import FORMATS, detect_format, plan_source
from .hints import TextHints, parse_columns
from .inputs import Source
from .notes import Note, in_words
from .options import ImportOptions, parse_split
from .plan import EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan
from .run import Progress, check_target, estimate_import, run_import
from .tables import Tables

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

__all__ = [
    "FORMATS",
    "EdgeChunk",
    "EdgePlan",
    "GraphPlan",
    "ImportOptions",
    "NodePlan",
    "Note",
    "Progress",
    "Tables",
    "TensorPlan",
    "TextHints",
    "check_target",
    "detect_format",
    "estimate_import",
    "from_pyg",
    "import_graph",
    "parse_columns",
    "parse_split",
    "plan_source",
    "run_import",
]


def import_graph(
    source: Source | Sequence[Source] | Tables,
    out: Path | str,
    *,
    format: str | None = None,
    hints: TextHints | None = None,
    progress: Progress | None = None,
    memory: str | int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Imports files into the store ``out``.

    Args:
        source: Any input of `FORMATS`: a file, a folder, a pattern such as "part-*.csv", or a
            stream of bytes. Several text files or tables are one edge list, in the order given.
            `Tables` name node and edge tables of several types.
        out: The new store, by custom NAME.ng.
        format: One of `FORMATS`; None looks at the input.
        hints: Delimiter, header, columns, string ids, encoding and types of text and tables.
        progress: Called with (phase, done, total).
        memory: Bound of what the import adds to the process, bytes or like "256MB". Default: a
            quarter of RAM.
        **options: Fields of `ImportOptions`.

    Returns:
        The report: edges, seconds, peak memory, bytes on disk, hidden share, and ``notes``:
        what was dropped, doubled, replaced or odd, each a dictionary of ``code``, ``count``,
        ``where``, ``message`` and ``requested`` (an option asked for it).

    Raises:
        ImportFailed: Bad input, named by file and row; nothing is left behind.
        BudgetTooSmall: ``memory`` is too small for the input; the message says what would do.
        StoreBusy: Somebody writes to the store that ``overwrite=True`` would replace.

    Example:
        >>> import_graph("cora.npz", "cora.ng", undirected=True)     # doctest: +SKIP
    """
    folder = Path(out).absolute().parent
    return _imported(
        lambda budget: plan_source(source, format, hints, budget, folder),
        out,
        memory,
        options,
        progress,
    )


def from_pyg(
    data: "Data | HeteroData",
    path: Path | str,
    *,
    progress: Progress | None = None,
    memory: str | int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Imports a PyG graph into the store ``path``, streamed: the tensors are never copied whole.

    Args:
        data: `Data` or `HeteroData` with ``edge_index``, int64 [2, num_edges], row 0 the sources.
            Node attributes, masks [N] or [N, k] and edge attributes come along; `e_id` of a
            sampled edge is its column in ``edge_index``. Whole numbers [num_edges] in
            ``edge_time``, or else in ``time``, become the time that loaders sample by.
        path: The new store, by custom NAME.ng.
        progress: Called with (phase, done, total).
        memory: Bound of what the import adds to the process, bytes or like "256MB". Default: a
            quarter of RAM.
        **options: Fields of `ImportOptions`.

    Returns:
        The report, as of `import_graph`.

    Raises:
        ImportFailed: An id is out of range, a column has the wrong length or dtype.
        StoreBusy: Somebody writes to the store that ``overwrite=True`` would replace.
        MissingDependency: PyG is not installed.

    Example:
        >>> ng.from_pyg(data, "cora.ng")                              # doctest: +SKIP
        >>> store = ng.open("cora.ng", memory="256MB")                # doctest: +SKIP
    """
    from .pyg import plan_pyg

    return _imported(lambda _: plan_pyg(data), path, memory, options, progress)


def _imported(
    plan: Callable[[int | None], GraphPlan],
    out: Path | str,
    memory: str | int | None,
    options: dict[str, Any],
    progress: Progress | None,
) -> dict[str, Any]:
    """Imports what ``plan`` makes of a budget, with messages in the words of Python."""
    budget = None if memory is None else parse_bytes(memory)
    settings = ImportOptions(memory=budget, **options)
    try:
        report = run_import(plan(budget), out, settings, progress)
    except ImportFailed as error:
        error.notes = in_words(error.notes, in_python)
        raise
    return {**report, "notes": in_words(report["notes"], in_python)}
