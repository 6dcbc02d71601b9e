"""PyG's loaders with their compiled sampler, everything in memory, one for each sampler.

Options: `loader` (a key of `LOADERS`), `batches` (those of an epoch; 1,000 of GraphSAINT if it is
left out), `workers` (processes that sample and gather, of `neighbor` and `link-…`). What
torch-sparse refuses (disjoint and temporal sampling) has no peer here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric import loader as pyg
from torch_geometric.data import Data, HeteroData
from torch_geometric.typing import WITH_PYG_LIB
from torch_sparse import SparseTensor

from ..typed import TYPES, typed_edges
from .drive import Batch, Spec
from .loaders import batch_of, training_ids
from .tasks import learner_of

warnings.filterwarnings("ignore", category=UserWarning)
Make = Callable[[Data, Spec, Any, bool], Any]


def _neighbor(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
    return pyg.NeighborLoader(
        data,
        spec.fanouts,
        torch.from_numpy(ids),
        batch_size=spec.batch_size,
        shuffle=shuffle,
        num_workers=spec.options.get("workers", 0),
    )


def _induced(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
    nodes = torch.from_numpy(ids)
    how: dict[str, Any] = {"batch_size": spec.batch_size, "shuffle": shuffle}
    return pyg.NeighborLoader(data, spec.fanouts, nodes, subgraph_type="induced", **how)


def _links(mode: str) -> Make:
    def make(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
        return pyg.LinkNeighborLoader(
            data,
            spec.fanouts,
            data.edge_index,
            neg_sampling=mode,
            batch_size=spec.batch_size // 4,
            shuffle=shuffle,
            num_workers=spec.options.get("workers", 0),
        )

    return make


def _shadow(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
    nodes = torch.from_numpy(ids)
    return pyg.ShaDowKHopSampler(
        data, 2, 10, nodes, batch_size=spec.batch_size // 4, shuffle=shuffle
    )


def _saint(kind: str, **more: Any) -> Make:
    def make(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
        sampler = getattr(pyg, f"GraphSAINT{kind}Sampler")
        return sampler(data, 6000, num_steps=spec.options.get("batches", 1000), **more)

    return make


def _random_node(data: Data, spec: Spec, ids: Any, shuffle: bool) -> Any:
    return pyg.RandomNodeLoader(data, 250, shuffle=shuffle)


def _hgt(data: Any, spec: Spec, ids: Any, shuffle: bool) -> Any:
    seeds = torch.from_numpy(ids[ids % 2 == 0] // 2)
    layers = [spec.batch_size] * len(spec.fanouts)
    how: dict[str, Any] = {"batch_size": spec.batch_size, "shuffle": shuffle}
    return pyg.HGTLoader(data, layers, ("even", seeds), **how)


def _typed(indptr: Any, indices: Any, x: Any, y: Any) -> HeteroData:
    """The graph with nodes of even and odd ids as two types."""
    data = HeteroData()
    for place, name in enumerate(TYPES):
        data[name].x, data[name].y = x[place::2].contiguous(), y[place::2].contiguous()
    for ends in product((0, 1), (0, 1)):
        parts = [np.stack([sources, own]) for own, sources in typed_edges(indptr, indices, ends)]
        kind = (TYPES[ends[0]], "to", TYPES[ends[1]])
        data[kind].edge_index = torch.from_numpy(np.concatenate(parts, axis=1))
    return data


LOADERS: dict[str, Make] = {
    "neighbor": _neighbor,
    "induced": _induced,
    "link-binary": _links("binary"),
    "link-triplet": _links("triplet"),
    "shadow": _shadow,
    "saint-node": _saint("Node"),
    "saint-edge": _saint("Edge"),
    "saint-walk": _saint("RandomWalk", walk_length=2),
    "random-node": _random_node,
    "hgt": _hgt,
}


class System:
    """Features, topology and labels as PyG's users hold them: `edge_index`, and what its samplers
    make of that."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        home = Path(spec.graph)
        pointers = torch.from_numpy(np.load(home / "indptr.npy"))
        indices = torch.from_numpy(np.load(home / "indices.npy").astype(np.int64))
        nodes = len(pointers) - 1
        self.data = Data(num_nodes=nodes)
        kind = spec.options["loader"]
        if kind == "neighbor":
            self.data.adj_t = SparseTensor(
                rowptr=pointers,
                col=indices,
                sparse_sizes=(nodes, nodes),
                is_sorted=True,
                trust_data=True,
            )
        else:
            ends = torch.repeat_interleave(torch.arange(nodes), pointers.diff())
            self.data.edge_index = torch.stack([indices, ends])
        self.data.x = torch.from_numpy(np.load(home / "feat.npy"))
        self.data.y = torch.from_numpy(spec.labels())
        if kind == "hgt":
            arrays = (pointers.numpy(), indices.numpy(), self.data.x, self.data.y)
            self.data = _typed(*arrays)
        make = LOADERS[kind]
        self.make = lambda ids, shuffle: make(self.data, spec, ids, shuffle)
        self.train = self.make(training_ids(spec), True)

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        torch.manual_seed(self.spec.seed + epoch)
        loader = self.train if split == "train" else self.make(self.spec.ids(split), False)
        for data in loader:
            if "adj_t" in data:
                target, source, _ = data.adj_t.coo()
                data.edge_index = torch.stack([source, target])
            yield batch_of(data)

    def learner(self) -> Any:
        return learner_of(self.spec)

    def reset(self) -> None:
        """PyG counts nothing."""

    def stats(self) -> dict[str, Any]:
        sampler = "pyg-lib" if WITH_PYG_LIB else "torch-sparse"
        return {"torch_threads": torch.get_num_threads(), "sampler": sampler}
