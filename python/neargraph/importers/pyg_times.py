"""Which edge attribute of PyG data becomes the time that neighbour lists carry.

PyG samples by any attribute that `time_attr` names, and `time` is its usual name. A store has one
time for each edge. Invariant: an attribute that does not become the time stays an edge tensor.
"""

from collections.abc import Iterable

from .notes import Note

_PYG_TIME = "time"


def time_name(names: Iterable[str]) -> str:
    """The attribute that may become the time: `edge_time` where ``names`` have it, else `time`."""
    return "edge_time" if "edge_time" in names else _PYG_TIME


def time_notes(name: str | None, num_edges: int | None, where: str) -> list[Note]:
    """The note that the attribute ``name`` became the time; none if batches keep its name."""
    if name != _PYG_TIME:
        return []
    message = (
        "the attribute 'time' is stored as the time of the edges, not as an edge tensor; batches "
        "have it as edge_time, and loaders with time_attr='time' also as time"
    )
    return [Note("time-of-edges", num_edges or 0, where, message)]
