"""PyG's remote-backend interfaces over a store, so that PyG's own loaders run on it."""

from neargraph.exceptions import MissingDependency

try:
    import torch_geometric  # noqa: F401
except ImportError as missing:
    raise MissingDependency(
        f"neargraph.pyg needs torch and PyG ({missing.name} is missing): "
        "pip install 'neargraph[torch]'"
    ) from missing

from neargraph.pyg.edge_features import EdgeFeatures
from neargraph.pyg.feature_store import FeatureStore
from neargraph.pyg.graph_store import GraphStore
from neargraph.pyg.sampler import Sampler

__all__ = ["EdgeFeatures", "FeatureStore", "GraphStore", "Sampler"]
