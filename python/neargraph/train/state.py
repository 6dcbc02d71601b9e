"""Training states: written atomically, and read without running code from the file.

A training state is written to a temporary file, synced and renamed, so a kill leaves the last one
intact. It is loaded with `weights_only`, which rejects pickled code.
"""

import os
from pathlib import Path
from typing import Any

import torch

from neargraph.exceptions import StateMismatch

_FORMAT = 1


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Writes ``state`` atomically to ``path``."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            torch.save({"format": _FORMAT, **state}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_state(path: Path) -> dict[str, Any] | None:
    """Returns the training state at ``path``; None if the file does not exist.

    Raises:
        StateMismatch: The file is not a training state of this version.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise StateMismatch(
            f"{path} is not a readable training state ({error}); remove this file"
        ) from error
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise StateMismatch(f"{path} is not a training state of this version; remove this file")
    return state
