"""What an export of neargraph says of an edge type beside what GraphBolt reads.

``neargraph`` of an edge type in metadata.yaml names the features that are inline columns of the
store, the number of edge ids, and how the type was imported, so that an import gives the same
store. GraphBolt ignores it. Invariant: what a mark says is checked against the edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import drop_pages
from .check import fail
from .chunks import spans
from .memory import hold
from .plan import Array, EdgeChunk

MARKS = "neargraph"
"""The key of an edge type in metadata.yaml."""
EDGE_ID = "edge_id"
"""The feature that holds the edge ids of the store."""
EXPORT_AGAIN = "export the store again"

_FLAGS = ("undirected", "unique", "reverse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of one edge type; those of a folder that neargraph did not write are empty."""

    inline: tuple[str, ...] = ()
    num_edge_ids: int = 0
    undirected: bool = False
    unique: bool = False
    reverse: bool = False

    @classmethod
    def of(cls, found: Any, where: str) -> "Marks":
        """Those of metadata.yaml; ImportFailed where they are not what an export writes."""
        if found is None:
            return cls()
        names = found.get("inline", []) if isinstance(found, dict) else None
        count = found.get("num_edge_ids", 0) if isinstance(found, dict) else None
        if (
            not isinstance(names, list)
            or any(name not in ("weight", "time", EDGE_ID) for name in names)
            or type(count) is not int
            or not set(found) <= {"inline", "num_edge_ids", *_FLAGS}
            or any(type(found.get(flag, False)) is not bool for flag in _FLAGS)
        ):
            what = f"the entry {MARKS!r} is not valid: {str(found)[:80]}"
            fail(where, what, f"{EXPORT_AGAIN}, or remove the entry")
        flags = {flag: found.get(flag, False) for flag in _FLAGS}
        return cls(inline=tuple(names), num_edge_ids=count, **flags)

    def entry(self) -> dict[str, Any]:
        """The entry of metadata.yaml; empty where there is nothing to say."""
        said: dict[str, Any] = {flag: True for flag in _FLAGS if getattr(self, flag)}
        if self.inline:
            said["inline"] = list(self.inline)
        if EDGE_ID in self.inline:
            said["num_edge_ids"] = self.num_edge_ids
        return {MARKS: said} if said else {}

    def check_ids(self, ids: Array, where: str) -> None:
        """Refuses edge ids that the mark does not know."""
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= self.num_edge_ids):
            bad = int(ids[(ids < 0) | (ids >= self.num_edge_ids)][0])
            what = f"has edge id {bad}, but num_edge_ids in metadata.yaml is {self.num_edge_ids}"
            fail(where, what, EXPORT_AGAIN)


def row_of_ids(marks: Marks, ids: Array, where: str) -> Array:
    """The row of each edge id, from 0 to the largest; -1 where an id has no edge any more.

    The entries of both directions of an edge have one id, and equal rows.
    """
    top = -1
    for span in spans(len(ids)):
        part = np.asarray(ids[span])
        marks.check_ids(part, where)
        top = max(top, int(part.max()))
        drop_pages(ids)
    hold(where, 8 * (top + 1))
    rows = np.full(top + 1, -1, dtype=np.int64)
    for span in spans(len(ids)):
        rows[np.asarray(ids[span])] = np.arange(span.start, span.stop)
        drop_pages(ids)
    entries = int((rows >= 0).sum()) * (2 if marks.undirected else 1)
    if entries < len(ids):
        most = "twice" if marks.undirected else "once"
        fail(where, f"an edge id occurs more than {most}", EXPORT_AGAIN)
    return rows


def one_direction(chunks: Iterator[EdgeChunk], where: str) -> Iterator[EdgeChunk]:
    """Each edge once, of a list that has both directions; `ImportFailed` where one is missing."""
    balance = 0
    for chunk in chunks:
        ends = np.asarray(chunk.sources), np.asarray(chunk.destinations)
        balance += _sum_of_pairs(*ends) - _sum_of_pairs(*ends[::-1])
        keep = ends[0] <= ends[1]
        columns = (chunk.edge_ids, chunk.times, chunk.weights)
        kept = (None if column is None else column[keep] for column in columns)
        yield EdgeChunk(ends[0][keep], ends[1][keep], *kept)
    if balance % (1 << 64):
        what = "has an edge in only one direction, but metadata.yaml marks the type as undirected"
        fail(where, what, EXPORT_AGAIN)


def _sum_of_pairs(left: Array, right: Array) -> int:
    """A sum over hashes of pairs, which two lists share if they have the same pairs."""
    mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + right.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return int((mixed * np.uint64(0x94D049BB133111EB)).sum())
