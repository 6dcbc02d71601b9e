"""Train graph neural networks on graphs larger than memory, straight from an SSD.

This module only lists names. Importing it requires NumPy alone. Names that need torch or PyG are
imported on first use, so `NumpySampler` works without torch.

Example:
    >>> import neargraph as ng
    >>> store = ng.open("papers.ng", memory="4GB")
    >>> loader = ng.NeighborLoader(store, num_neighbors=[15, 10], batch_size=1024,
    ...                            input_nodes="train", shuffle=True, seed=7)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neargraph import exceptions
from neargraph.exceptions import *  # noqa: F403

if TYPE_CHECKING:
    from neargraph import nn, plugins, pyg, reports, sim, train
    from neargraph.backups import restore, verify_backup
    from neargraph.client import AsyncClient, Client, Updates
    from neargraph.dfg import Dfg
    from neargraph.dtypes import SparseRows
    from neargraph.engine import Engine
    from neargraph.importers import Tables, TextHints, from_pyg, import_graph
    from neargraph.layerwise import Inference, infer
    from neargraph.loader.cluster import ClusterGCNLoader
    from neargraph.loader.graph import GraphLoader
    from neargraph.loader.hgt import HGTLoader
    from neargraph.loader.link import LinkNeighborLoader
    from neargraph.loader.minibatch import MiniBatch
    from neargraph.loader.neighbor import NeighborLoader
    from neargraph.loader.pinsage import PinSAGELoader
    from neargraph.loader.random_node import RandomNodeLoader
    from neargraph.loader.ranks import Ranks
    from neargraph.loader.reading import Reading
    from neargraph.loader.saint import (
        GraphSAINTEdgeSampler,
        GraphSAINTNodeSampler,
        GraphSAINTRandomWalkSampler,
    )
    from neargraph.loader.sampler import NumpySampler
    from neargraph.loader.shadow import ShaDowKHopSampler
    from neargraph.loader.walks import RandomWalkSampler
    from neargraph.modelfile.export import export
    from neargraph.nearest import topk
    from neargraph.plugins import Devices
    from neargraph.quantisation import quantise
    from neargraph.serving import serve
    from neargraph.snapshot import Snapshot
    from neargraph.store import Store, open
    from neargraph.tuning import tune_process
    from neargraph.update.transaction import Transaction

__version__ = "0.1.0"

# The module of each name that is imported on first use.
_LAZY = {
    "AsyncClient": "neargraph.client",
    "Client": "neargraph.client",
    "ClusterGCNLoader": "neargraph.loader.cluster",
    "Devices": "neargraph.plugins",
    "Dfg": "neargraph.dfg",
    "Engine": "neargraph.engine",
    "GraphLoader": "neargraph.loader.graph",
    "GraphSAINTEdgeSampler": "neargraph.loader.saint",
    "GraphSAINTNodeSampler": "neargraph.loader.saint",
    "GraphSAINTRandomWalkSampler": "neargraph.loader.saint",
    "HGTLoader": "neargraph.loader.hgt",
    "Inference": "neargraph.layerwise",
    "LinkNeighborLoader": "neargraph.loader.link",
    "MiniBatch": "neargraph.loader.minibatch",
    "NeighborLoader": "neargraph.loader.neighbor",
    "NumpySampler": "neargraph.loader.sampler",
    "PinSAGELoader": "neargraph.loader.pinsage",
    "RandomNodeLoader": "neargraph.loader.random_node",
    "RandomWalkSampler": "neargraph.loader.walks",
    "Ranks": "neargraph.loader.ranks",
    "Reading": "neargraph.loader.reading",
    "ShaDowKHopSampler": "neargraph.loader.shadow",
    "Snapshot": "neargraph.snapshot",
    "SparseRows": "neargraph.dtypes",
    "Store": "neargraph.store",
    "Tables": "neargraph.importers",
    "TextHints": "neargraph.importers",
    "Transaction": "neargraph.update.transaction",
    "Updates": "neargraph.client",
    "export": "neargraph.modelfile",
    "from_pyg": "neargraph.importers",
    "import_graph": "neargraph.importers",
    "infer": "neargraph.layerwise",
    "nn": "neargraph.nn",
    "open": "neargraph.store",
    "plugins": "neargraph.plugins",
    "pyg": "neargraph.pyg",
    "quantise": "neargraph.quantisation",
    "reports": "neargraph.reports",
    "restore": "neargraph.backups",
    "serve": "neargraph.serving",
    "sim": "neargraph.sim",
    "topk": "neargraph.nearest",
    "train": "neargraph.train",
    "tune_process": "neargraph.tuning",
    "verify_backup": "neargraph.backups",
}

__all__ = [
    "AsyncClient",
    "Client",
    "ClusterGCNLoader",
    "Devices",
    "Dfg",
    "Engine",
    "GraphLoader",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "HGTLoader",
    "Inference",
    "LinkNeighborLoader",
    "MiniBatch",
    "NeighborLoader",
    "NumpySampler",
    "PinSAGELoader",
    "RandomNodeLoader",
    "RandomWalkSampler",
    "Ranks",
    "Reading",
    "ShaDowKHopSampler",
    "Snapshot",
    "SparseRows",
    "Store",
    "Tables",
    "TextHints",
    "Transaction",
    "Updates",
    "__version__",
    "export",
    "from_pyg",
    "import_graph",
    "infer",
    "nn",
    "open",
    "plugins",
    "pyg",
    "quantise",
    "reports",
    "restore",
    "serve",
    "sim",
    "topk",
    "train",
    "tune_process",
    "verify_backup",
]
__all__ += exceptions.__all__


def __getattr__(name: str) -> Any:
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'neargraph' has no attribute {name!r}")
    module = import_module(home)
    return module if home == f"neargraph.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
