"""Metrics of predictions, computed over batches, and rankings of all items.

This package needs torch and torchmetrics.
"""

from neargraph._optional import torch_for
from neargraph.exceptions import MissingDependency

with torch_for("neargraph.metrics"):
    import torch  # noqa: F401

try:
    import torchmetrics  # noqa: F401
except ImportError as missing:
    raise MissingDependency(
        f"neargraph.metrics needs torchmetrics ({missing.name} is missing): "
        "pip install 'neargraph[train]'"
    ) from missing

from .all_items import RankingTable, rank_all_items
from .collection import Metrics
from .names import METRICS, Kind, MetricName, metric_names
from .ranks import LinkRanks

__all__ = [
    "METRICS",
    "Kind",
    "LinkRanks",
    "MetricName",
    "Metrics",
    "RankingTable",
    "metric_names",
    "rank_all_items",
]
