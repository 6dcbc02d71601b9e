"""A Planetoid set of 507 nodes as Python 3 pickles it: 3 to train, 500 to validate, 2 to test."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

NODES = 507


def write(folder: Path) -> None:
    """Writes ind.tiny.* into a folder."""
    csr = pytest.importorskip("scipy.sparse").csr_matrix
    parts = {
        "allx": csr(np.eye(NODES - 2, 5, dtype=np.float32)),
        "tx": csr(np.ones((2, 5), dtype=np.float32)),
        "x": csr(np.eye(3, 5, dtype=np.float32)),
        "ally": np.eye(NODES - 2, 4, dtype=np.int32),
        "ty": np.eye(2, 4, dtype=np.int32),
        "y": np.eye(3, 4, dtype=np.int32),
        "graph": defaultdict(list, {k: [(k + 1) % NODES] for k in range(NODES)}),
    }
    for name, part in parts.items():
        (folder / f"ind.tiny.{name}").write_bytes(pickle.dumps(part, protocol=3))
    (folder / "ind.tiny.test.index").write_text("506\n505\n")
