"""PyG's side of temporal links: its `LastNeighborLoader` in memory, links in order of time.

PyG samples by the times of edges with pyg-lib alone; what it has without is the loader of its TGN,
which keeps the last neighbours of each node. Edges of a time are put in after all links of that
time were scored. The layers are PyG's `TransformerConv` and `TimeEncoder`, as in our model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import TransformerConv
from torch_geometric.nn.models.tgn import LastNeighborLoader, TimeEncoder

from .dated import Links, links_of, loss_of, reciprocal_ranks, time_unit
from .rows import Row
from .sets import DATA

_HEADS, _TIME_CHANNELS, _DECADES = 2, 32, 9


class _Attention(torch.nn.Module):
    """One layer of attention over past edges, whose keys and values have the time since."""

    def __init__(self, before: int, width: int, unit: float) -> None:
        super().__init__()
        self.lin, self.time = torch.nn.Linear(before, width), TimeEncoder(_TIME_CHANNELS)
        with torch.no_grad():
            steps = torch.linspace(0, _DECADES, _TIME_CHANNELS)
            self.time.lin.weight.copy_((10**-steps)[:, None])
            self.time.lin.bias.zero_()
        self.conv = TransformerConv(width, width // _HEADS, _HEADS, edge_dim=_TIME_CHANNELS)
        self.unit = unit

    def forward(self, x: Tensor, edge_index: Tensor, ago: Tensor) -> Tensor:
        """Rows of all nodes, [n, width]; ``ago`` int64 [e]."""
        beside = self.time(ago.float() / self.unit)
        out: Tensor = self.conv(self.lin(x).relu(), edge_index, beside)
        return out


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    torch.manual_seed(seed)
    data = torch.load(folder / DATA, weights_only=False)
    return _Run(row, data).best()


class _Run:
    def __init__(self, row: Row, data: Any) -> None:
        self.settings, self.data = row.settings, data
        self.links = links_of(data.edge_index, data.edge_time)
        unit = time_unit(data.edge_time)
        self.model = _Attention(data.x.size(1), self.settings["hidden"], unit)
        once = data.edge_index[0] < data.edge_index[1]
        times, order = data.edge_time[once].sort(stable=True)
        self.events = Links(data.edge_index[:, once][:, order], times)
        self.last = LastNeighborLoader(data.num_nodes, self.settings["fanouts"][0])
        self.places = torch.empty(data.num_nodes, dtype=torch.long)

    def best(self) -> dict[str, Any]:
        """Trains, and tests the parameters of the best validation."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.settings["lr"])
        best, best_epoch, kept = -1.0, 0, copy.deepcopy(self.model.state_dict())
        for epoch in range(self.settings["epochs"]):
            self.model.train()
            for ends, time in self._batches("train"):
                optimizer.zero_grad()
                loss_of(*self._scores(ends, time, self.settings["num_negatives"])).backward()
                optimizer.step()
            value = self._ranked("val")
            if value > best:
                best, best_epoch, kept = value, epoch + 1, copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(kept)
        return {"value": self._ranked("test"), "best_epoch": best_epoch}

    def _batches(self, name: str) -> Iterator[tuple[Tensor, int]]:
        """Links of one time, (ends [2, n], time), while the loader has all before that time."""
        self.last.reset_state()
        links, done = self.links[name], 0
        for time in links.times.unique().tolist():
            until = int(torch.searchsorted(self.events.times, time))
            if until > done:
                self.last.insert(*self.events.ends[:, done:until])
                done = until
            ends = links.ends[:, links.times == time]
            for part in ends.split(self.settings["batch_size"], dim=1):
                yield part, time

    @torch.no_grad()
    def _ranked(self, name: str) -> float:
        self.model.eval()
        amount = self.settings["eval_negatives"]
        ranks = [
            reciprocal_ranks(*self._scores(ends, time, amount))
            for ends, time in self._batches(name)
        ]
        return float(torch.cat(ranks).mean())

    def _scores(self, ends: Tensor, time: int, amount: int) -> tuple[Tensor, Tensor]:
        """Scores [n] of links and [n, amount] of pairs with drawn destinations."""
        drawn = torch.randint(self.data.num_nodes, (ends.size(1), amount))
        asked = torch.cat([ends.reshape(-1), drawn.reshape(-1)]).unique()
        n_id, edge_index, e_id = self.last(asked)
        # Just before the links, as on our side.
        ago = time - 1 - self.events.times[e_id]
        z = self.model(self.data.x[n_id], edge_index, ago)
        self.places[n_id] = torch.arange(len(n_id))
        source, target = z[self.places[ends[0]]], z[self.places[ends[1]]]
        negative = z[self.places[drawn]]
        return (source * target).sum(-1), (source[:, None] * negative).sum(-1)
