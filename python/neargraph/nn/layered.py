"""The base class of models: a sequence of PyG's layers, from features to classes.

The computation of a layer must not live here. The invariant: if a batch has counts per hop, a layer
runs only on the nodes and edges that the seeds still need.
"""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Linear, functional

from .dropout import relu_dropout
from .trim import Hops

Widths = list[tuple[int, int]]
Norm = Literal["none", "batch"]


class LayeredModel(torch.nn.Module, ABC):
    """A model with a sequence of layers, which a subclass creates.

    Args:
        in_channels: Number of node features.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of a layer's inputs in training.
        norm: ``"batch"``: batch normalisation of each hidden layer before its activation (Ioffe and
            Szegedy, ICML 2015). ``"none"``: no normalisation. In training, the statistics are those
            of the batch's rows in that layer, so they depend on the sample.
        **layer: Additional arguments of each layer.

    Raises:
        ValueError: `num_layers` is below 1, or `norm` is not valid.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        norm: Norm = "none",
        **layer: Any,
    ) -> None:
        super().__init__()
        check_layers(num_layers)
        if norm not in ("none", "batch"):
            raise ValueError(f"norm={norm!r} is not valid: expected 'none' or 'batch'")
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = torch.nn.ModuleList(self._layers(list(pairwise(widths)), **layer))
        normed = widths[1:-1] if norm == "batch" else []
        self.norms = torch.nn.ModuleList(RowNorm(width) for width in normed)
        self.dropout = dropout
        self.out_channels = out_channels

    @staticmethod
    @abstractmethod
    def _layers(*args: Any, **kwargs: Any) -> list[torch.nn.Module]:
        """Returns the layers for a list of (input width, output width)."""

    def _run(self, x: Tensor, edge_index: Tensor, hops: Hops | None, *beside: Tensor) -> Tensor:
        """Runs all layers. ``beside`` are columns of edges, [e] or [e, d]."""
        layers = len(self.convs)
        for layer, conv in enumerate(self.convs):
            targets = x.size(0)
            if hops is not None:
                nodes, edges = hops.kept(layer, layers)
                x, edge_index = x[:nodes], edge_index[:, :edges]
                beside = tuple(column[:edges] for column in beside)
                targets = hops.kept(layer + 1, layers)[0]
            x = self._convolve(conv, x, targets, edge_index, *beside)
            if layer + 1 < layers:
                x = self._between(self._normed(layer, x))
        return x

    def _normed(self, layer: int, x: Tensor) -> Tensor:
        """Returns the rows of a hidden layer, normalised if the model has normalisation."""
        return self.norms[layer](x) if len(self.norms) else x

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        """Returns the new rows of the first ``targets`` nodes."""
        out: Tensor = conv((x, x[:targets]), edge_index, *beside, size=(x.size(0), targets))
        return out

    def _between(self, x: Tensor) -> Tensor:
        """Returns the rows for the next layer."""
        return relu_dropout(x, self.dropout, self.training)


class RowNorm(torch.nn.BatchNorm1d):
    """Batch normalisation. A single row has no variance and uses the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns normalised rows [n, width]."""
        if not self.training or x.size(0) > 1:
            return super().forward(x)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


def check_layers(num_layers: int) -> None:
    """Raises `ValueError` if `num_layers` is below 1."""
    if num_layers < 1:
        raise ValueError(f"num_layers={num_layers} is not valid: expected 1 or more")


def input_layer(in_channels: int, out_channels: int) -> Linear:
    """Returns a linear layer. Without features it has only the bias, which all nodes share."""
    # torch warns about a weight without elements, so the weight is replaced after creation.
    lin = Linear(max(1, in_channels), out_channels)
    if in_channels == 0:
        lin.weight = torch.nn.Parameter(lin.weight.detach()[:, :0].clone())
        lin.in_features = 0
    return lin
