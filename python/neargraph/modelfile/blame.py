"""The place in a model where an export failed: lines of the user's code and of PyG, for messages.

The invariant: these functions never raise an error, because they run while one is handled.
"""

import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch_geometric

_TORCH = str(Path(torch.__file__).parent)
_PYG = str(Path(torch_geometric.__file__).parent)
_HERE = str(Path(__file__).parent)


def line_of(error: BaseException) -> str:
    """Returns "file:line (code)" of the last lines of PyG and of the user's code; "" if none."""
    frames = [frame for trace in _traces(error) for frame in traceback.extract_tb(trace)]
    own = [f for f in frames if not f.filename.startswith((_TORCH + "/", _PYG, _HERE, "<"))]
    pyg = [f for f in frames if f.filename.startswith(_PYG)]
    if not _in_model(frames, own):
        own = []
    return ", called from ".join(
        f"{frame.filename}:{frame.lineno} ({frame.line})"
        for found in (pyg, own)
        for frame in found[-1:]
    )


def line_of_node(node: Any) -> str:
    """Returns the last line of the recorded stack of a traced node; "" if there is none."""
    lines = str(node.meta.get("stack_trace") or "").strip().splitlines()
    starts = [i for i, line in enumerate(lines) if line.lstrip().startswith("File ")]
    if not starts:
        return ""
    return " ".join(line.strip() for line in lines[starts[-1] : starts[-1] + 2])


def cause_of(error: BaseException) -> str:
    """Returns the first line of the innermost cause's message, and the list items after it."""
    said = type(error).__name__
    link: BaseException | None = error
    while link is not None:
        lines = [line.strip() for line in str(link).splitlines() if line.strip()]
        if lines:
            listed = [line for line in lines[1:] if line.startswith("- ")]
            said = f"{type(link).__name__}: {' '.join([lines[0], *listed])}"
        link = link.__cause__
    return said


def _traces(error: BaseException) -> list[TracebackType]:
    link: BaseException | None = error
    found = []
    while link is not None:
        if link.__traceback__ is not None:
            found.append(link.__traceback__)
        link = link.__cause__
    return found


def _in_model(frames: list[Any], own: list[Any]) -> bool:
    """Whether torch called the user's last line. Otherwise this line is the call of `export`."""
    return bool(own) and any(f.filename.startswith(_TORCH) for f in frames[: frames.index(own[-1])])
