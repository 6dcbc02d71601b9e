"""Checks for models that cannot be exported, before tracing.

A file of such a model would be wrong, or tracing would fail far from the cause. The invariant: each
error names the module by its path in the model, with a remedy.
"""

from torch import nn
from torch_geometric.nn import aggr

from neargraph.exceptions import ExportFailed

_REDUCTIONS = "use mean, sum, max, min, std or softmax"
_UNTRACEABLE: dict[type[nn.Module], str] = {
    aggr.LSTMAggregation: "its padding depends on the degrees",
    aggr.GRUAggregation: "its padding depends on the degrees",
    aggr.QuantileAggregation: "its sorting depends on the number of edges",
    aggr.SortAggregation: "its padding depends on the degrees",
}


def refuse_unfit(model: nn.Module) -> None:
    """Raises `ExportFailed` for training mode, a filled cache, aggregations that cannot be traced
    (such as lstm and median), or weights that are not finite.

    Example:
        >>> refuse_unfit(nn.Linear(2, 2))                               # doctest: +SKIP
        ExportFailed: the model is in training mode: call model.eval() first
    """
    if model.training:
        raise ExportFailed("the model is in training mode: call model.eval() first")
    for name, module in model.named_modules():
        what = f"{name or 'the model'} ({type(module).__name__})"
        if module.training:
            raise ExportFailed(f"{what} is in training mode: call model.eval() first")
        if _cache_is_filled(module):
            raise ExportFailed(
                f"{what} has cached=True and ignores edge_index, because its cache contains the "
                "edges of the training graph: create the layer with cached=False, or call its "
                "reset_parameters() before loading the trained weights"
            )
        for kind, why in _UNTRACEABLE.items():
            if isinstance(module, kind):
                raise ExportFailed(f"{what} cannot be exported, because {why}: {_REDUCTIONS}")
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ExportFailed(
                f"parameter {name} has no shape yet: run the model once before the export"
            )
        if parameter.device.type != "cpu":
            raise ExportFailed(f"parameter {name} is on {parameter.device}: call model.cpu() first")
        if not parameter.isfinite().all():
            raise ExportFailed(
                f"parameter {name} has NaN or infinite values: train the model again"
            )


def _cache_is_filled(module: nn.Module) -> bool:
    caches = ("_cached_edge_index", "_cached_adj_t", "_cached_x")
    return any(getattr(module, name, None) is not None for name in caches)
