"""Models, decoders and learned embeddings, built from PyG's layers. Needs torch and PyG."""

from neargraph._optional import torch_for

with torch_for("neargraph.nn"):
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401

from .batches import features_of, on_batch
from .decoders import (
    DotDecoder,
    GraphDecoder,
    MLPDecoder,
    NodeDecoder,
    RelationDecoder,
    predictions,
    task_loss,
)
from .degrees import InDegrees
from .gat import GAT
from .gcn import GCN
from .gin import GIN
from .hetero import HeteroGNN
from .links import without_links
from .models import MODELS, ModelSpec, build, embedding_width, kind_of, spec_of
from .pinsage import PinSAGE
from .recommend import NGCF, LightGCN
from .rgcn import RGCN
from .sage import GraphSAGE
from .saint import saint_loss, saint_weights
from .store_embedding import StoreEmbedding
from .temporal import TemporalGAT

__all__ = [
    "GAT",
    "GCN",
    "GIN",
    "MODELS",
    "NGCF",
    "RGCN",
    "DotDecoder",
    "GraphDecoder",
    "GraphSAGE",
    "HeteroGNN",
    "InDegrees",
    "LightGCN",
    "MLPDecoder",
    "ModelSpec",
    "NodeDecoder",
    "PinSAGE",
    "RelationDecoder",
    "StoreEmbedding",
    "TemporalGAT",
    "build",
    "embedding_width",
    "features_of",
    "kind_of",
    "on_batch",
    "predictions",
    "saint_loss",
    "saint_weights",
    "spec_of",
    "task_loss",
    "without_links",
]
