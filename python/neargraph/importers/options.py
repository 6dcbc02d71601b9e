"""The options of an import, and how their text forms are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from neargraph._core import PAGE_SIZES

SelfLoops = Literal["keep", "remove", "add"]
XDtype = Literal["f32", "f16", "bf16", "i8"]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user asked of an import; the defaults keep what the file says.

    ``memory`` is in bytes and bounds what the import adds to the process. ``split_sizes`` is
    (train, val, test) in percent, drawn over the nodes of ``split_type`` (default: the type that
    has labels).
    ``num_nodes`` sets the id bound of a single node type whose input does not tell it.
    ``reverse`` also stores the reverse of each edge type. ``edge_ids`` keeps the row number of
    every edge even where the input has no edge tensors. ``reuse_ids`` lets the store give the ids
    of deleted nodes to new ones. ``x_dtype`` is what node tensors ``x`` of floats are stored as:
    f16 or bf16, rounded to nearest, or i8 with a scale for each column (its largest magnitude over
    127; rows are read twice). They are read as float32 unless somebody asks for something else.
    ``dense`` stores every row with its zeros; else ``x`` of f32 is stored without them where that
    pays (see `docs/reference/imports.md`), and its rows cannot be changed later. ``relabel``
    makes nodes of the integer ids that edges name and of no others, in ascending order, and keeps
    the ids as names: `Snapshot.names` and `lookup` translate. ``strict`` refuses an import that
    would end with notes that no option asked for.
    """

    memory: int | None = None
    threads: int | None = None
    undirected: bool = False
    self_loops: SelfLoops = "keep"
    unique: bool = False
    reverse: bool = False
    edge_ids: bool = False
    page_bytes: int = 4096
    fill: float = 0.9
    split_sizes: tuple[float, float, float] | str | None = None
    split_type: str | None = None
    seed: int = 0
    num_nodes: int | None = None
    reuse_ids: bool = False
    x_dtype: XDtype | None = None
    dense: bool = False
    relabel: bool = False
    strict: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "split_sizes", parse_split(self.split_sizes))
        if self.self_loops not in ("keep", "remove", "add"):
            raise ValueError(
                f"self_loops={self.self_loops!r} is not valid, expected keep, remove or add"
            )
        if self.x_dtype not in (None, "f32", "f16", "bf16", "i8"):
            raise ValueError(
                f"x_dtype={self.x_dtype!r} is not valid, expected f32, f16, bf16 or i8"
            )
        if self.page_bytes not in PAGE_SIZES:
            raise ValueError(
                f"page_bytes={self.page_bytes} is not valid, expected one of {PAGE_SIZES}"
            )
        if not 0.1 <= self.fill <= 1.0:
            raise ValueError(
                f"fill={self.fill} is not valid, expected a share of a page from 0.1 to 1.0"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads={self.threads} is not valid, expected 1 or more")


def parse_split(
    given: str | Sequence[float] | None,
) -> tuple[float, float, float] | None:
    """(60.0, 20.0, 20.0) of "60,20,20" or (60, 20, 20): percent that add up to at most 100.

    >>> parse_split("60,20,20")
    (60.0, 20.0, 20.0)
    """
    if given is None:
        return None
    try:
        parts = [float(part) for part in (given.split(",") if isinstance(given, str) else given)]
    except (TypeError, ValueError):
        parts = []
    if len(parts) != 3 or min(parts) < 0 or not 0 < sum(parts) <= 100 + 1e-9:
        raise ValueError(
            f"{given!r} is not a valid split, expected train,val,test in percent that add up to "
            "at most 100, e.g. 60,20,20"
        )
    return parts[0], parts[1], parts[2]
