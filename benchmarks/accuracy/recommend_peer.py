"""PyG's side of recommendations: how models are trained and ranked, all in memory.

What must not live here: the models and their batches (`ngcf_peer.py`, `pinsage_peer.py`). The
invariant: an item that a visit is compared with is none of the user's own, as on our side.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .rows import Row
from .sets import DATA
from .visits import METRICS, bpr, first_visits

# `StoreEmbedding` has the same deviation of initial rows.
DEVIATION = 0.1


class Recommender(torch.nn.Module, ABC):
    """A model with its batches; rows of nodes are in `embeddings`, all else in `layers`.

    Attributes:
        visits: Visits of training, (user, item) [2, n].
        num_items: Items from 0 on.
    """

    embeddings: torch.nn.Module
    layers: torch.nn.Module
    visits: Tensor
    num_items: int

    @abstractmethod
    def scores(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores of visits and of others [n], batch by batch of an epoch."""

    @abstractmethod
    def all_rows(self) -> tuple[Tensor, Tensor]:
        """The rows of all users and of all items."""


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    torch.manual_seed(seed)
    data = torch.load(folder / DATA, weights_only=False)
    module = importlib.import_module(f".{row.model}_peer", __package__)
    model: Recommender = module.Model(row.settings, data)
    optimizers = [
        torch.optim.Adam(model.layers.parameters(), lr=row.settings["lr"]),
        # Rows without a gradient stay as they are, as in a sparse optimiser.
        torch.optim.Adagrad(model.embeddings.parameters(), lr=row.settings["embedding_lr"]),
    ]
    model.train()
    for _ in range(row.settings["epochs"]):
        for positive, negative in model.scores():
            for optimizer in optimizers:
                optimizer.zero_grad()
            bpr(positive, negative).backward()
            for optimizer in optimizers:
                optimizer.step()
    model.eval()
    with torch.no_grad():
        users, items = model.all_rows()
    test = first_visits(model.visits.numpy(), model.num_items)
    found = ranked(users, items, model.visits, test)
    return {"value": found[row.metric], "metrics": found}


def learned(num_nodes: int, width: int) -> torch.nn.Embedding:
    """Rows to be learned, [num_nodes, width]."""
    made = torch.nn.Embedding(num_nodes, width)
    torch.nn.init.normal_(made.weight, std=DEVIATION)
    return made


def ranked(users: Tensor, items: Tensor, visits: Tensor, test: Any) -> dict[str, float]:
    """Recall and NDCG of the best 20 of all items, dense, means over users with a test."""
    scores = users @ items.T
    scores[visits[0], visits[1]] = float("-inf")
    wanted = torch.zeros(scores.shape, dtype=torch.bool)
    owners, visited = map(torch.from_numpy, test)
    wanted[owners, visited] = True
    best = scores.topk(20, dim=1).indices
    hits = wanted.gather(1, best).float()
    counts = wanted.sum(dim=1)
    gains = 1 / torch.arange(2, 22).float().log2()
    ideal = torch.cat([torch.zeros(1), gains.cumsum(0)])[counts.clamp(max=20)]
    tested = counts > 0
    recall = hits.sum(dim=1)[tested] / counts[tested]
    ndcg = (hits * gains).sum(dim=1)[tested] / ideal[tested]
    return dict(zip(METRICS, (float(recall.mean()), float(ndcg.mean())), strict=True))
