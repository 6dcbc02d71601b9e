"""PyG's NeighborLoader with a compiled sampler: pyg-lib's if it is installed, else torch-sparse's.

Options: `rows`: `memory`, `mmap` (np.memmap as users write it) or `mmap-random` (the same with the
advice that accesses are random); `workers`: of the DataLoader, which then gather too. The topology
is a CSC of int64 in memory, as the sampler wants it.
"""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.typing import WITH_PYG_LIB
from torch_sparse import SparseTensor

from .drive import Batch, Spec
from .sage import Block, Sage, counted

warnings.filterwarnings("ignore", category=UserWarning)


class Gather:
    """Adds the rows of a batch; runs where the batch is made."""

    def __init__(self, rows: Any, labels: Any) -> None:
        self.rows, self.labels = rows, labels

    def __call__(self, data: Any) -> Any:
        n_id = data.n_id.numpy()
        data.x = torch.from_numpy(np.asarray(self.rows[n_id]))
        data.y = self.labels[data.n_id[: data.batch_size]]
        return data


class System:
    """Features, topology and labels as PyG's users hold them."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        home = Path(spec.graph)
        kind = spec.options.get("rows", "memory")
        self.workers = int(spec.options.get("workers", 0))
        pointers = torch.from_numpy(np.load(home / "indptr.npy"))
        indices = np.load(home / "indices.npy", mmap_mode="r")
        wide = torch.empty(len(indices), dtype=torch.int64)
        step = 1 << 22
        for first in range(0, len(indices), step):
            part = np.asarray(indices[first : first + step])
            wide[first : first + len(part)] = torch.from_numpy(part)
        nodes = len(pointers) - 1
        adjacency = SparseTensor(
            rowptr=pointers, col=wide, sparse_sizes=(nodes, nodes), is_sorted=True, trust_data=True
        )
        self.data = Data(adj_t=adjacency, num_nodes=nodes)
        self.labels = torch.from_numpy(spec.labels())
        if kind == "memory":
            self.data.x = torch.from_numpy(np.load(home / "feat.npy"))
            self.transform = None
            return
        rows = np.load(home / "feat.npy", mmap_mode="r")
        if kind == "mmap-random":
            base = rows
            while not isinstance(base, mmap.mmap):
                base = base.base if base.base is not None else base._mmap
            base.madvise(mmap.MADV_RANDOM)
        self.transform = Gather(rows, self.labels)

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        torch.manual_seed(self.spec.seed + epoch)
        loader = NeighborLoader(
            self.data,
            num_neighbors=self.spec.fanouts,
            input_nodes=torch.from_numpy(self.spec.ids(split)),
            batch_size=self.spec.batch_size,
            shuffle=split == "train",
            transform=self.transform,
            num_workers=self.workers,
            filter_per_worker=self.workers > 0,
        )
        for data in loader:
            edges = int(data.adj_t.nnz())
            yield Batch(data.batch_size, len(data.n_id), edges, self._block(data))

    def _block(self, data: Any) -> Any:
        if self.spec.mode == "gather":
            return data
        target, source, _ = data.adj_t.coo()
        edge_index = torch.stack([source, target])
        hops = len(self.spec.fanouts)
        nodes, edges = counted(edge_index, len(data.n_id), data.batch_size, hops)
        y = data.y if "y" in data else self.labels[data.n_id[: data.batch_size]]
        return Block(data.x, edge_index, nodes, edges, y)

    def learner(self) -> Any:
        return Sage(self.spec)

    def reset(self) -> None:
        """PyG counts nothing."""

    def stats(self) -> dict[str, Any]:
        sampler = "pyg-lib" if WITH_PYG_LIB else "torch-sparse"
        return {"torch_threads": torch.get_num_threads(), "sampler": sampler}
