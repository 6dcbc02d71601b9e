"""Training: mini-batches from disk, tasks, metrics, states, run directories. Needs torch."""

from neargraph._optional import torch_for

with torch_for("training"):
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401

from .config import TrainConfig
from .passes import Pass
from .result import TrainResult
from .runs import Evaluation, evaluate, fit, resume

__all__ = ["Evaluation", "Pass", "TrainConfig", "TrainResult", "evaluate", "fit", "resume"]
