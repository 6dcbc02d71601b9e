"""What an input file says, before a byte of it is stored.

A parser turns one input into a `GraphPlan`: node types, edge types and tensors, each with a
function that streams its content in bounded chunks. Nothing here touches the store; `run.py` is
the only consumer. Invariant: a stream function may be called again and gives the same chunks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.schema import NUMPY_OF

from .notes import Note

Array = NDArray[Any]

HOMOGENEOUS_NODE = "node"
HOMOGENEOUS_EDGE = ("node", "to", "node")
"""Type names that inputs without types of their own are stored under."""


@dataclass(frozen=True, slots=True)
class EdgeChunk:
    """A piece of an edge list; row ``i`` of every column belongs to one edge.

    ``sources`` and ``destinations`` are integer arrays of node ids, or lists of strings where the
    node types have string ids.
    """

    sources: Array | list[str]
    destinations: Array | list[str]
    edge_ids: Array | None = None
    times: Array | None = None
    weights: Array | None = None


@dataclass(frozen=True, slots=True)
class CsrChunk:
    """Rows of f32 without their zeros; row ``i`` has places ``indptr[i]`` up to ``indptr[i + 1]``.

    ``values=None`` stands for ones. Columns come in any order; equal ones are added up.
    """

    indptr: Array
    columns: Array
    values: Array | None = None


@dataclass(frozen=True, slots=True)
class TextColumns:
    """Where the columns of a text edge list are: arguments of the extension, which reads it.

    The delimiter " " stands for any run of blanks and tabs. ``shown`` is what messages call the
    file; text whose ``encoding`` is not UTF-8 (None) is converted before the extension reads it.
    """

    path: str
    shown: str
    encoding: str | None = None
    delimiter: str = " "
    comment: str | None = "#"
    header: bool = False
    source_column: int = 0
    destination_column: int = 1
    time_column: int | None = None
    weight_column: int | None = None
    time_scale: float | None = None

    def arguments(self, path: str | None = None) -> dict[str, Any]:
        """What the extension takes; ``path`` is that of a copy of the text as UTF-8."""
        known = asdict(self)
        del known["encoding"]
        return known if path is None else {**known, "path": path}


@dataclass(frozen=True, slots=True)
class NpyFile:
    """A .npy edge list as arguments of the extension; ``layout`` is "pairs" or "rows"."""

    path: str
    layout: str


@dataclass(slots=True)
class TensorPlan:
    """One tensor: ``shape`` is that of a row (dimension 0 left out), ``dtype`` a store dtype.

    ``num_rows`` is checked against the owner where it is known. With ``stored`` the chunks are f32,
    and f16, bf16 or i8 (with a scale for each column) is made of them. ``csr`` streams the same
    rows without their zeros, where the input has them so; ``num_values`` is about how many entries
    are not 0, where that is known. ``narrowed_from`` names the wider dtype of the input.
    ``class_names`` are what the integers of an i64 tensor stand for; -1 is none of them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Callable[[], Iterator[Array]]
    num_rows: int | None = None
    mask_width: int | None = None
    stored: str | None = None
    csr: Callable[[], Iterator[CsrChunk]] | None = None
    num_values: int | None = None
    narrowed_from: str | None = None
    class_names: list[str] | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a chunk."""
        return np.dtype(NUMPY_OF[self.dtype]).itemsize * self.columns

    @property
    def stored_bytes(self) -> int:
        """Bytes of one row in the store."""
        return np.dtype(NUMPY_OF[self.stored or self.dtype]).itemsize * self.columns

    @property
    def columns(self) -> int:
        """Elements of one row."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(slots=True)
class NodePlan:
    """One node type. ``num_nodes=None``: the largest id met, plus one.

    ``keys`` streams the names of the nodes in order, where edges name them by strings. ``relabel``:
    only the ids that edges name become nodes.
    """

    name: str = HOMOGENEOUS_NODE
    num_nodes: int | None = None
    strings: bool = False
    keys: Callable[[], Iterator[list[str]]] | None = None
    relabel: bool = False
    tensors: list[TensorPlan] = field(default_factory=list)


@dataclass(slots=True)
class EdgePlan:
    """One edge type. Exactly one of ``chunks`` and ``files`` is given; files are read in order.

    ``num_edges`` is the number of input rows where the input tells it, for the estimate.
    ``undirected``, ``unique`` and ``reverse`` are options of the import that the input itself asks
    for.
    """

    source: str = HOMOGENEOUS_EDGE[0]
    relation: str = HOMOGENEOUS_EDGE[1]
    destination: str = HOMOGENEOUS_EDGE[2]
    chunks: Callable[[], Iterator[EdgeChunk]] | None = None
    files: Sequence[TextColumns | NpyFile] = ()
    num_edges: int | None = None
    has_edge_ids: bool = False
    has_time: bool = False
    has_weight: bool = False
    undirected: bool = False
    unique: bool = False
    reverse: bool = False
    tensors: list[TensorPlan] = field(default_factory=list)


@dataclass(slots=True)
class GraphPlan:
    """Everything one input holds. ``origin`` names it in messages, ``format`` names its layout.

    ``notes`` and ``facts`` are shown to the user: what is dropped or odd, and what else is worth
    knowing. A stream may add notes while it is read. ``held_bytes`` is what the plan keeps of the
    input in memory until the import ends. ``kept`` has to exist until then, such as temporary
    copies of input, which take ``spooled_bytes`` of disk.
    """

    origin: str
    format: str
    nodes: list[NodePlan]
    edges: list[EdgePlan]
    notes: list[Note] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    held_bytes: int = 0
    kept: list[object] = field(default_factory=list)
    spooled_bytes: int = 0

    def node(self, name: str) -> NodePlan:
        """The node type called ``name``; KeyError where there is none."""
        for plan in self.nodes:
            if plan.name == name:
                return plan
        raise KeyError(name)
