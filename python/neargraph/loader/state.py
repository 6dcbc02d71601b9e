"""Where a loader stands, as plain data that json and torch.save take.

A state counts batches handed to the caller, not those prefetched, and carries the settings that
decide what the batches are. The invariant: a state is taken only by a loader that would have
produced the same batches.
"""

from dataclasses import dataclass
from typing import Any

from neargraph.exceptions import StateMismatch

_FORMAT = 1


@dataclass
class Position:
    """The next batch to hand over."""

    epoch: int = 0
    batches: int = 0


def dump_state(position: Position, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The state of a loader at `position`."""
    return {
        "format": _FORMAT,
        "epoch": position.epoch,
        "batches": position.batches,
        "fingerprint": dict(fingerprint),
    }


def load_state(state: dict[str, Any], fingerprint: dict[str, Any], steps: int) -> Position:
    """The position in `state`, if it was saved under the same settings; an epoch has `steps`.

    Raises:
        StateMismatch: Another format, or a setting differs; the message names it.
    """
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise StateMismatch(f"not a loader state of format {_FORMAT}: {str(state)[:80]}")
    saved = state.get("fingerprint", {})
    for field, ours in fingerprint.items():
        theirs = saved.get(field)
        if theirs != ours:
            raise StateMismatch(
                f"the state was saved with {field} = {theirs!r}, this loader has {ours!r}; "
                f"build the loader with the same {field}, or start the epoch anew"
            )
    position = Position(int(state["epoch"]), int(state["batches"]))
    if position.epoch < 0 or not 0 <= position.batches <= steps:
        raise StateMismatch(f"an epoch has {steps} batches, the state stands at {position}")
    return position
