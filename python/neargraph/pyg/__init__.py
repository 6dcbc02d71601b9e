"""PyG's interfaces for remote backends over a store, so that PyG's own loaders can read it."""

from neargraph._optional import torch_for

with torch_for("neargraph.pyg"):
    import torch_geometric  # noqa: F401

from neargraph.pyg.edge_features import EdgeFeatures
from neargraph.pyg.feature_store import FeatureStore
from neargraph.pyg.graph_store import GraphStore
from neargraph.pyg.inputs import take_stores
from neargraph.pyg.sampler import Sampler

take_stores()

__all__ = ["EdgeFeatures", "FeatureStore", "GraphStore", "Sampler"]
