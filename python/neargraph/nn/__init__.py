"""Models for node classification, built from PyG's layers. Needs torch and PyG."""

from neargraph._optional import torch_for

with torch_for("neargraph.nn"):
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401

from .degrees import InDegrees
from .gcn import GCN
from .sage import GraphSAGE

__all__ = ["GCN", "GraphSAGE", "InDegrees"]
