"""Training for node classification: mini-batches from disk, metrics, checkpoints. Needs torch."""

from neargraph._optional import torch_for

with torch_for("training"):
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401

from .config import TrainConfig
from .engine import fit
from .passes import Pass
from .result import TrainResult

__all__ = ["Pass", "TrainConfig", "TrainResult", "fit"]
