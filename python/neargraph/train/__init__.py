"""Training for node classification: mini-batches from disk, metrics, checkpoints. Needs torch."""

from neargraph.exceptions import MissingDependency

try:
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401
except ImportError as missing:
    raise MissingDependency(
        f"training needs torch and PyG ({missing.name} is missing): pip install 'neargraph[torch]'"
    ) from missing

from .config import TrainConfig
from .engine import fit
from .result import TrainResult

__all__ = ["TrainConfig", "TrainResult", "fit"]
