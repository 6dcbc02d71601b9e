"""Models for node classification, built from PyG's layers. Needs torch and PyG."""

from neargraph.exceptions import MissingDependency

try:
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401
except ImportError as missing:
    raise MissingDependency(
        f"neargraph.nn needs torch and PyG ({missing.name} is missing): "
        "pip install 'neargraph[torch]'"
    ) from missing

from .degrees import InDegrees
from .gcn import GCN
from .sage import GraphSAGE

__all__ = ["GCN", "GraphSAGE", "InDegrees"]
