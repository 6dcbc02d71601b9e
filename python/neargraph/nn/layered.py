"""What the models have in common: a row of PyG's layers, from features to classes."""

from abc import ABC, abstractmethod
from itertools import pairwise

import torch


class LayeredModel(torch.nn.Module, ABC):
    """Makes the layers; a subclass says which, and runs them.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width of the hidden layers.
        out_channels: Classes.
        num_layers: Layers; a batch needs that many hops for exact seeds.
        dropout: Share of a layer's inputs dropped in training.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}; use 1 or more")
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = torch.nn.ModuleList(self._layer(a, b) for a, b in pairwise(widths))
        self.dropout = dropout

    @staticmethod
    @abstractmethod
    def _layer(in_channels: int, out_channels: int) -> torch.nn.Module:
        """One layer."""
