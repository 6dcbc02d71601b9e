"""The position of a loader, as plain data for JSON and `torch.save`.

A state counts the batches that the consumer has received, not those made ahead. It also has the
settings that determine the batches. The invariant: only a loader with the same batches accepts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from neargraph.exceptions import StateMismatch

_FORMAT = 1


@dataclass
class Position:
    """An epoch, and the number of its batches that the consumer has received."""

    epoch: int = 0
    batches: int = 0


class LoaderState(TypedDict):
    """The state of a loader.

    Attributes:
        format: Version of this format.
        epoch: Number of the epoch.
        batches: Batches of the epoch that the consumer has received.
        fingerprint: Settings that determine the batches, and the fingerprint of the store.
    """

    format: int
    epoch: int
    batches: int
    fingerprint: dict[str, Any]


def dump_state(position: Position, fingerprint: dict[str, Any]) -> LoaderState:
    """Returns the state of a loader at `position`."""
    return {
        "format": _FORMAT,
        "epoch": position.epoch,
        "batches": position.batches,
        "fingerprint": dict(fingerprint),
    }


def load_state(state: Mapping[str, Any], fingerprint: dict[str, Any], steps: int) -> Position:
    """Returns the position in `state`, for a loader whose epochs have `steps` batches.

    Raises:
        StateMismatch: The format or a setting differs; the message names it.
    """
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise StateMismatch(
            f"the state is not valid: expected a state of format {_FORMAT} from state_dict(), "
            f"got {str(state)[:80]}"
        )
    saved = state.get("fingerprint", {})
    for field, ours in fingerprint.items():
        theirs = saved.get(field)
        if theirs != ours:
            raise StateMismatch(
                f"the state was saved by a loader with {field}={theirs!r}, but this loader has "
                f"{field}={ours!r}; create the loader with the same {field}, or start the epoch "
                "from the beginning"
            )
    position = Position(int(state["epoch"]), int(state["batches"]))
    if position.epoch < 0 or not 0 <= position.batches <= steps:
        raise StateMismatch(
            f"the state is at epoch {position.epoch}, batch {position.batches}, but an epoch of "
            f"this loader has {steps} batches; load a state that state_dict() returned"
        )
    return position
