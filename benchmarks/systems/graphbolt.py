"""GraphBolt of the dgl 2.1.0 wheel, with dgl's SAGEConv on its blocks.

Options: `rows`: `memory`, `mmap` (as its on-disk data sets map features) or `mmap-random` (with the
advice that accesses are random); `workers`: processes that sample; features are fetched by the
main process, as GraphBolt does it; `prefetch`: 0 leaves out `copy_to`. The topology is in memory,
indices as int32. As in GraphBolt's own examples the pipeline ends with `copy_to`: the loader runs
what comes before it in a thread of its own, two batches ahead. Its other overlaps are of CUDA.
"""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")
warnings.filterwarnings("ignore")

import dgl.graphbolt as gb  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from dgl.nn import SAGEConv  # noqa: E402
from torch.nn import functional  # noqa: E402

from .drive import Batch, Spec  # noqa: E402


class Model(torch.nn.Module):
    """Mean-aggregating GraphSAGE with ReLU and dropout between layers."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(SAGEConv(a, b, "mean") for a, b in pairwise(widths))

    def forward(self, blocks: Any, x: Any) -> Any:
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x)
            if number + 1 < len(self.layers):
                x = functional.dropout(x.relu(), 0.5, self.training)
        return x


class Sage:
    """The same training as `sage.py`, on blocks."""

    def __init__(self, spec: Spec) -> None:
        torch.manual_seed(spec.seed)
        about = spec.about()
        hidden = [spec.hidden] * (len(spec.fanouts) - 1)
        self.model = Model([about["width"], *hidden, about["classes"]])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)

    def step(self, data: Any) -> None:
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(self._out(data), data.labels).backward()
        self.optimizer.step()

    @torch.no_grad()
    def correct(self, data: Any) -> int:
        self.model.eval()
        return int((self._out(data).argmax(1) == data.labels).sum())

    def _out(self, data: Any) -> Any:
        return self.model(data.blocks, data.node_features["feat"])


class System:
    """A graph, a feature store and item sets."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        home = Path(spec.graph)
        kind = spec.options.get("rows", "memory")
        self.workers = int(spec.options.get("workers", 0))
        self.prefetches = bool(int(spec.options.get("prefetch", 1)))
        self.graph = gb.fused_csc_sampling_graph(
            torch.from_numpy(np.load(home / "indptr.npy")),
            torch.from_numpy(np.load(home / "indices.npy")),
        )
        if kind == "memory":
            rows = np.load(home / "feat.npy")
        else:
            # Mapped for writing, as torch wants it; nothing is ever written.
            rows = np.load(home / "feat.npy", mmap_mode="r+")
            if kind == "mmap-random":
                base: Any = rows
                while not isinstance(base, mmap.mmap):
                    base = base.base if base.base is not None else base._mmap
                base.madvise(mmap.MADV_RANDOM)
        feature = gb.TorchBasedFeature(torch.from_numpy(rows))
        self.features = gb.BasicFeatureStore({("node", None, "feat"): feature})
        self.labels = torch.from_numpy(spec.labels())

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        torch.manual_seed(self.spec.seed + epoch)
        # GraphBolt draws in its input's id type.
        ids = torch.from_numpy(self.spec.ids(split)).to(torch.int32)
        items = gb.ItemSet((ids, self.labels[ids.long()]), names=("seed_nodes", "labels"))
        pipe = gb.ItemSampler(items, self.spec.batch_size, shuffle=split == "train")
        # Its fanouts go from the outermost hop to the seeds' own.
        fanouts = [torch.LongTensor([n]) for n in reversed(self.spec.fanouts)]
        pipe = pipe.sample_neighbor(self.graph, fanouts)
        pipe = pipe.fetch_feature(self.features, node_feature_keys=["feat"])
        if self.prefetches:
            pipe = pipe.copy_to(torch.device("cpu"))
        for data in gb.DataLoader(pipe, num_workers=self.workers):
            edges = sum(int(s.sampled_csc.indices.numel()) for s in data.sampled_subgraphs)
            yield Batch(len(data.labels), len(data.input_nodes), edges, data)

    def learner(self) -> Any:
        return Sage(self.spec)

    def reset(self) -> None:
        """GraphBolt counts nothing."""

    def stats(self) -> dict[str, Any]:
        return {"torch_threads": torch.get_num_threads()}
