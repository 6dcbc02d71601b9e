"""Replaces PyG's helpers by marked operators while a model is traced.

Without this, a softmax over edges becomes ten arithmetic nodes that no engine recognises. Names
change in every loaded module that imported a helper, including the user's modules. `ops.py` defines
the operators. The invariant: after the context every name has its old value, even after an error,
and only one thread is inside at a time.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
import torch_geometric
from torch import Tensor
from torch_geometric import utils
from torch_geometric.nn.conv import gcn_conv
from torch_geometric.utils import loop

from . import ops
from .replaced import REPLACED

# Versions of PyG (major.minor) whose helpers were compared with those of `ops.py`.
TESTED_VERSIONS = ("2.8",)

_LOCK = threading.Lock()
_REDUCES = {"sum": "sum", "add": "sum", "mean": "mean", "mul": "mul"} | {
    name: name[-3:] for name in ("max", "amax", "min", "amin")
}


@contextmanager
def marked() -> Iterator[None]:
    """Context in which PyG's helpers call the operators of the namespace ``neargraph``.

    It warns if the version of PyG was not tested. Other threads should not run PyG models
    meanwhile: they get the same values, but more slowly.

    Example:
        >>> with marked():                                              # doctest: +SKIP
        ...     program = torch.export.export(model, (x, edge_index))
    """
    version = torch_geometric.__version__
    if ".".join(version.split(".")[:2]) not in TESTED_VERSIONS:
        warnings.warn(
            f"export was tested with PyG {', '.join(TESTED_VERSIONS)}, not {version}: "
            "the export is still compared with the model, but some layers may fail to export",
            stacklevel=3,
        )
    with _LOCK:
        undo: list[tuple[Any, str, Any]] = []
        try:
            _put(_helpers(), undo)
            yield
        finally:
            for place, name, before in reversed(undo):
                setattr(place, name, before)


def _put(helpers: dict[int, Callable[..., Any]], undo: list[tuple[Any, str, Any]]) -> None:
    """Sets the new functions, and adds (object, name, old value) of each one to `undo`."""
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in helpers and not name.startswith("__"):
                undo.append((module, name, value))
                setattr(module, name, helpers[id(value)])
    for layer, name, value in REPLACED:
        undo.append((layer, name, getattr(layer, name)))
        setattr(layer, name, value)


def _helpers() -> dict[int, Callable[..., Any]]:
    """Returns the new functions by the id of the function that each one replaces."""
    pairs = [
        (utils.scatter, _scatter(utils.scatter)),
        (utils.softmax, _softmax(utils.softmax)),
        (utils.degree, _degree(utils.degree)),
        (utils.one_hot, _one_hot),
        (utils.remove_self_loops, _remove(utils.remove_self_loops)),
        (utils.add_self_loops, _add(utils.add_self_loops)),
        (utils.add_remaining_self_loops, _add_remaining(utils.add_remaining_self_loops)),
        (gcn_conv.gcn_norm, _gcn_norm(gcn_conv.gcn_norm)),
    ]
    return {id(before): after for before, after in pairs}


def _scatter(before: Callable[..., Any]) -> Callable[..., Any]:
    def scatter(
        src: Tensor, index: Tensor, dim: int = 0, dim_size: Any = None, reduce: str = "sum"
    ) -> Any:
        known = reduce in _REDUCES and src.is_floating_point() and index.dim() == 1
        if dim_size is None or not known:
            return before(src, index, dim, dim_size, reduce)
        dim = dim % src.dim()
        if dim:
            src = src.movedim(dim, 0)
        out = ops.scatter(src, index, dim_size, _REDUCES[reduce])
        return out.movedim(0, dim) if dim else out

    return scatter


def _softmax(before: Callable[..., Any]) -> Callable[..., Any]:
    def softmax(
        src: Tensor, index: Any = None, ptr: Any = None, num_nodes: Any = None, dim: int = 0
    ) -> Any:
        if index is None or ptr is not None or num_nodes is None or dim % src.dim():
            return before(src, index, ptr, num_nodes, dim)
        return ops.edge_softmax(src, index, num_nodes)

    return softmax


def _degree(before: Callable[..., Any]) -> Callable[..., Any]:
    def degree(index: Tensor, num_nodes: Any = None, dtype: Any = None) -> Any:
        if num_nodes is None:
            return before(index, num_nodes, dtype)
        out = ops.degree(index, num_nodes)
        return out if dtype in (None, torch.float32) else out.to(dtype)

    return degree


def _one_hot(index: Tensor, num_classes: Any = None, dtype: Any = None) -> Tensor:
    """Computes one-hot rows by a comparison instead of a scatter."""
    if num_classes is None:
        num_classes = int(index.max()) + 1
    return (index.view(-1, 1) == torch.arange(num_classes)).to(dtype or torch.float32)


def _remove(before: Callable[..., Any]) -> Callable[..., Any]:
    def remove_self_loops(edge_index: Any, edge_attr: Any = None) -> Any:
        if not _is_plain(edge_index):
            return before(edge_index, edge_attr)
        if edge_attr is None:
            return ops.remove_self_loops(edge_index), None
        return ops.remove_self_loops_attr(edge_index, edge_attr)

    return remove_self_loops


def _add(before: Callable[..., Any]) -> Callable[..., Any]:
    def add_self_loops(
        edge_index: Any, edge_attr: Any = None, fill_value: Any = None, num_nodes: Any = None
    ) -> Any:
        if not _is_plain(edge_index) or num_nodes is None:
            return before(edge_index, edge_attr, fill_value, num_nodes)
        size = min(num_nodes) if isinstance(num_nodes, tuple | list) else num_nodes
        if edge_attr is not None:
            own = loop.compute_loop_attr(edge_index, edge_attr, size, False, fill_value)
            edge_attr = torch.cat([edge_attr, own])
        return ops.add_self_loops(edge_index, size), edge_attr

    return add_self_loops


def _add_remaining(before: Callable[..., Any]) -> Callable[..., Any]:
    def add_remaining_self_loops(
        edge_index: Any, edge_attr: Any = None, fill_value: Any = None, num_nodes: Any = None
    ) -> Any:
        if not _is_plain(edge_index) or num_nodes is None:
            return before(edge_index, edge_attr, fill_value, num_nodes)
        if edge_attr is None:
            return ops.add_self_loops(ops.remove_self_loops(edge_index), num_nodes), None
        fill = loop.compute_loop_attr(edge_index, edge_attr, num_nodes, False, fill_value)
        own = ops.self_loop_attr(edge_index, edge_attr, fill)
        edge_index, edge_attr = ops.remove_self_loops_attr(edge_index, edge_attr)
        return ops.add_self_loops(edge_index, num_nodes), torch.cat([edge_attr, own])

    return add_remaining_self_loops


def _gcn_norm(before: Callable[..., Any]) -> Callable[..., Any]:
    def gcn_norm(
        edge_index: Any,
        edge_weight: Any = None,
        num_nodes: Any = None,
        improved: bool = False,
        add_self_loops: bool = True,
        flow: str = "source_to_target",
        dtype: Any = None,
    ) -> Any:
        if not _is_plain(edge_index) or num_nodes is None or flow != "source_to_target":
            return before(edge_index, edge_weight, num_nodes, improved, add_self_loops, flow, dtype)
        if add_self_loops:
            fill = 2.0 if improved else 1.0
            edge_index, edge_weight = gcn_conv.add_remaining_self_loops(
                edge_index, edge_weight, fill, num_nodes
            )
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.size(1), dtype=dtype)
        return edge_index, ops.gcn_norm(edge_index, edge_weight, num_nodes)

    return gcn_norm


def _is_plain(edge_index: Any) -> bool:
    """Whether edges are a dense tensor [2, e], not a sparse matrix."""
    return isinstance(edge_index, Tensor) and edge_index.layout == torch.strided
