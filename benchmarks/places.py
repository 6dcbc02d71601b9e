"""Where benchmarks keep what they make: one folder, which `NEARGRAPH_BENCH` may move.

Nothing here knows a graph or a system.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = Path(os.environ.get("NEARGRAPH_BENCH", ROOT / ".bench"))
GRAPHS = BENCH / "graphs"
VENVS = BENCH / "venvs"


def data_folder(name: str) -> Path:
    """The folder of a real graph under `NEARGRAPH_DATA`."""
    folder = os.environ.get("NEARGRAPH_DATA")
    if folder is None:
        raise SystemExit(f"set NEARGRAPH_DATA to the folder that holds {name}/")
    return Path(folder) / name
