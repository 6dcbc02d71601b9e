"""What the models have in common: a row of PyG's layers, from features to classes.

What must not live here: how a layer computes. The invariant: a layer runs on the nodes and edges
that the seeds still need, and on nothing else, where a batch tells its hops.
"""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear

from .dropout import relu_dropout
from .trim import Hops

Widths = list[tuple[int, int]]


class LayeredModel(torch.nn.Module, ABC):
    """Makes the layers; a subclass says which, and runs them.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width of the hidden layers.
        out_channels: Classes.
        num_layers: Layers; a batch needs that many hops for exact seeds.
        dropout: Share of a layer's inputs dropped in training.
        **layer: More arguments of each layer.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        **layer: Any,
    ) -> None:
        super().__init__()
        check_layers(num_layers)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = torch.nn.ModuleList(self._layers(list(pairwise(widths)), **layer))
        self.dropout = dropout
        self.out_channels = out_channels

    @staticmethod
    @abstractmethod
    def _layers(*args: Any, **kwargs: Any) -> list[torch.nn.Module]:
        """The layers, of a list of (width before, width after)."""

    def _run(self, x: Tensor, edge_index: Tensor, hops: Hops | None, *beside: Tensor) -> Tensor:
        """All layers; ``beside`` are columns of edges, [e] or [e, d]."""
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
                x = self._between(x)
        return x

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        """The new rows of the first ``targets`` nodes."""
        out: Tensor = conv((x, x[:targets]), edge_index, *beside, size=(x.size(0), targets))
        return out

    def _between(self, x: Tensor) -> Tensor:
        """What happens to rows between two layers."""
        return relu_dropout(x, self.dropout, self.training)


def check_layers(num_layers: int) -> None:
    """ValueError unless there is a layer."""
    if num_layers < 1:
        raise ValueError(f"num_layers is {num_layers}; use 1 or more")


def input_layer(in_channels: int, out_channels: int) -> Linear:
    """A linear layer; of no features its bias is left, a row that all nodes share."""
    # torch warns of a weight without elements, which is what is asked for here.
    lin = Linear(max(1, in_channels), out_channels)
    if in_channels == 0:
        lin.weight = torch.nn.Parameter(lin.weight.detach()[:, :0].clone())
        lin.in_features = 0
    return lin
