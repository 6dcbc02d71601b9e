"""PyG's side: plain PyG in memory, as its users write it; nothing of neargraph is imported.

The layers are those of the model on our side, put together from PyG's own. The invariant: both
sides have the same settings, and both test the parameters of the first best validation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader, NeighborLoader

from .peer_models import Graphs, Typed, made
from .rows import Row
from .sets import DATA

Batches = Callable[[str], Iterable[tuple[Tensor, Tensor]]]
"""(outputs, labels) of the batches of a split; the model is what the caller set it to."""


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed of a row of nodes or graphs."""
    torch.manual_seed(seed)
    data = torch.load(folder / DATA, weights_only=False)
    split = seed if row.is_folded else 0
    make = {"full": _full, "sampled": _sampled, "graphs": _graphs}[row.in_memory]
    model, batches = make(row, data, split)
    return run(row, model, batches)


def run(row: Row, model: torch.nn.Module, batches: Batches) -> dict[str, Any]:
    """Trains all epochs and tests the best one."""
    settings = row.settings
    optimizer = torch.optim.Adam(
        model.parameters(), lr=settings["lr"], weight_decay=settings.get("weight_decay", 0.0)
    )
    best, best_epoch, kept = float("-inf"), 0, copy.deepcopy(model.state_dict())
    for epoch in range(settings["epochs"]):
        model.train()
        for outputs, labels in batches("train"):
            optimizer.zero_grad()
            functional.cross_entropy(outputs, labels).backward()
            optimizer.step()
        value = _measured(row.metric, model, batches, "val")
        if value > best:
            best, best_epoch, kept = value, epoch + 1, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return {"value": _measured(row.metric, model, batches, "test"), "best_epoch": best_epoch}


@torch.no_grad()
def _measured(metric: str, model: torch.nn.Module, batches: Batches, split: str) -> float:
    from torchmetrics.functional.classification import binary_auroc

    model.eval()
    outputs, labels = zip(*batches(split), strict=True)
    out, y = torch.cat(outputs), torch.cat(labels)
    if metric == "accuracy":
        return float((out.argmax(dim=1) == y).float().mean())
    return float(binary_auroc(out.softmax(dim=1)[:, 1], y))


def _mask(part: Any, name: str, split: int) -> Tensor:
    mask: Tensor = part[f"{name}_mask"]
    return mask if mask.dim() == 1 else mask[:, split]


def _full(row: Row, data: Any, split: int) -> tuple[torch.nn.Module, Batches]:
    """The whole graph in each step."""
    if row.settings.get("row_normalize"):
        data.x = data.x / data.x.sum(dim=1, keepdim=True).clamp(min=1e-12)
    model = made(row, data.x.size(1), int(data.y.max()) + 1)

    def batches(name: str) -> Iterable[tuple[Tensor, Tensor]]:
        ids = torch.nonzero(_mask(data, name, split)).flatten()
        size = row.settings["batch_size"]
        if name != "train" or size >= len(ids):
            yield model(data.x, data.edge_index)[ids], data.y[ids]
            return
        for part in ids[torch.randperm(len(ids))].split(size):
            yield model(data.x, data.edge_index)[part], data.y[part]

    return model, batches


def _sampled(row: Row, data: Any, split: int) -> tuple[torch.nn.Module, Batches]:
    """Sampled neighbourhoods of one node type, of one graph or of a typed one."""
    target = row.settings.get("target")
    part = data if target is None else data[target]
    classes = int(part.y.max()) + 1
    model: torch.nn.Module
    if target is None:
        model = made(row, data.x.size(1), classes)
    else:
        widths = {name: data[name].x.size(1) for name in data.node_types}
        model = Typed(row, widths, data.edge_types, classes)

    def loader(name: str) -> NeighborLoader:
        mask = _mask(part, name, split)
        return NeighborLoader(
            data,
            list(row.settings["fanouts"]),
            input_nodes=mask if target is None else (target, mask),
            batch_size=row.settings["batch_size"],
            shuffle=name == "train",
        )

    loaders = {name: loader(name) for name in ("train", "val", "test")}

    def batches(name: str) -> Iterable[tuple[Tensor, Tensor]]:
        for batch in loaders[name]:
            if target is None:
                out, seeds = model(batch.x, batch.edge_index), batch
            else:
                out, seeds = model(batch.x_dict, batch.edge_index_dict)[target], batch[target]
            size = seeds.batch_size
            yield out[:size], seeds.y[:size]

    return model, batches


def _graphs(row: Row, data: Any, split: int) -> tuple[torch.nn.Module, Batches]:
    """Whole graphs in batches of PyG's `DataLoader`."""
    graphs = _apart(data)
    codes = {name: _mask(data, name, split) for name in ("train", "val", "test")}
    first = torch.cat([torch.zeros(1, dtype=torch.long), data.graph_id.bincount().cumsum(0)[:-1]])
    classes = int(data.graph_y.max()) + 1
    model = Graphs(row, data.x.size(1), classes)
    loaders = {
        name: DataLoader(
            [graphs[at] for at in torch.nonzero(mask[first]).flatten().tolist()],
            batch_size=row.settings["batch_size"],
            shuffle=name == "train",
        )
        for name, mask in codes.items()
    }

    def batches(name: str) -> Iterable[tuple[Tensor, Tensor]]:
        for batch in loaders[name]:
            out = model(batch.x.float(), batch.edge_index, batch.batch, batch.num_graphs)
            known = batch.y >= 0
            yield out[known], batch.y[known]

    return model, batches


def _apart(data: Any) -> list[Data]:
    """The graphs of a block-diagonal one, in order."""
    sizes = data.graph_id.bincount()
    ends = sizes.cumsum(0)
    order = torch.argsort(data.graph_id[data.edge_index[0]], stable=True)
    edges = data.edge_index[:, order]
    edge_sizes = data.graph_id[edges[0]].bincount(minlength=len(sizes))
    labels = data.graph_y.reshape(len(data.graph_id)).nan_to_num(nan=-1.0).long()
    found = []
    parts = zip(
        data.x.split(sizes.tolist()),
        edges.split(edge_sizes.tolist(), dim=1),
        (ends - sizes).tolist(),
        strict=True,
    )
    for x, ends_of, start in parts:
        found.append(Data(x=x, edge_index=ends_of - start, y=labels[start].reshape(1)))
    return found
