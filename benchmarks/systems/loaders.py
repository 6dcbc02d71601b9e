"""This project's loaders as users call them, one for each sampler.

Options: `loader` (a key of `LOADERS`), `store`, `backend`, `reading`, `batches` (those of an epoch,
where they are around nodes or drawn; all by default). Batches are PyG objects with their rows; in
the mode `train` a model of `tasks.py` learns from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import neargraph as ng

from .drive import Batch, Spec
from .ours import figures_of
from .tasks import learner_of

Make = Callable[[Any, Spec, Any, dict[str, Any]], Any]


def _neighbor(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    return ng.NeighborLoader(store, spec.fanouts, ids, batch_size=spec.batch_size, **how)


def _with(**more: Any) -> Make:
    return lambda store, spec, ids, how: _neighbor(store, spec, ids, {**how, **more})


def _timed(strategy: str) -> Make:
    def make(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
        import numpy as np

        # The edges have times that are uniform below 2^20: a seed sees half of them on average.
        times = np.random.default_rng(spec.seed).integers(0, 1 << 20, len(ids))
        more = {"input_time": times, "time_attr": "edge_time", "temporal_strategy": strategy}
        return _neighbor(store, spec, ids, {**how, **more})

    return make


def _links(mode: str) -> Make:
    def make(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
        size = spec.batch_size // 4
        return ng.LinkNeighborLoader(
            store, spec.fanouts, None, neg_sampling=mode, batch_size=size, **how
        )

    return make


def _shadow(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    return ng.ShaDowKHopSampler(store, 2, 10, ids, batch_size=spec.batch_size // 4, **how)


def _saint(kind: str, **more: Any) -> Make:
    def make(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
        how = {key: value for key, value in how.items() if key != "shuffle"}
        sampler = getattr(ng, f"GraphSAINT{kind}Sampler")
        steps = spec.options.get("batches", 1000)
        return sampler(store, 6000, num_steps=steps, **more, **how)

    return make


def _cluster(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    return ng.ClusterGCNLoader(store, 4000, batch_size=16, **how)


def _random_node(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    return ng.RandomNodeLoader(store, 250, **how)


def _pinsage(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    return ng.PinSAGELoader(store, spec.fanouts, ids, batch_size=spec.batch_size, **how)


def _hgt(store: Any, spec: Spec, ids: Any, how: dict[str, Any]) -> Any:
    """As many nodes of each of the two types and layers as the seeds of a batch."""
    seeds = ("even", ids[ids % 2 == 0] // 2)
    attrs = dict.fromkeys(("even", "odd"), how["attrs"])
    layers = [spec.batch_size] * len(spec.fanouts)
    return ng.HGTLoader(store, layers, seeds, batch_size=spec.batch_size, **{**how, "attrs": attrs})


LOADERS: dict[str, Make] = {
    "neighbor": _neighbor,
    "labor": _with(method="labor"),
    "weighted": _with(method="weighted"),
    "disjoint": _with(disjoint=True),
    "induced": _with(subgraph_type="induced"),
    "bidirectional": _with(subgraph_type="bidirectional"),
    "temporal-uniform": _timed("uniform"),
    "temporal-last": _timed("last"),
    "link-binary": _links("binary"),
    "link-triplet": _links("triplet"),
    "shadow": _shadow,
    "saint-node": _saint("Node"),
    "saint-edge": _saint("Edge"),
    "saint-walk": _saint("RandomWalk", walk_length=2),
    "cluster": _cluster,
    "random-node": _random_node,
    "pinsage": _pinsage,
    "hgt": _hgt,
}


class System:
    """A loader over the store, opened with the memory that `training.py` planned."""

    def __init__(self, spec: Spec) -> None:
        options = spec.options
        self.spec = spec
        self.store = ng.open(
            options.get("store", spec.store),
            memory=spec.memory_bytes or None,
            backend=options.get("backend", "auto"),
        )
        how: dict[str, Any] = {"seed": spec.seed, "attrs": ["x", "y"]}
        if "reading" in options:
            how["reading"] = options["reading"]
        make = LOADERS[options["loader"]]
        self.make = lambda ids, shuffle: make(self.store, spec, ids, {**how, "shuffle": shuffle})
        self.ahead = self.make(training_ids(spec), True)

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        loader = self.ahead if split == "train" else self.make(self.spec.ids(split), False)
        loader.set_epoch(epoch)
        for data in loader:
            yield batch_of(data)
            # The budget counts a batch until its last name is gone.
            del data

    def learner(self) -> Any:
        return learner_of(self.spec)

    def reset(self) -> None:
        self.store.reset_stats()

    def stats(self) -> dict[str, Any]:
        return {**figures_of(self.store), "chosen": self.ahead.chosen()}


def training_ids(spec: Spec) -> Any:
    """The training seeds, or as many as the batches of an epoch have."""
    ids, batches = spec.ids("train"), spec.options.get("batches")
    if batches is None:
        return ids
    wanted = batches * spec.batch_size
    return ids[:: max(1, len(ids) // wanted)][:wanted]


def batch_of(data: Any) -> Batch:
    """A batch of one node type or of several, with what is counted of it."""
    if not hasattr(data, "node_types"):
        return Batch(seeds_of(data), nodes_of(data), data.edge_index.size(1), data)
    stores = data.node_stores
    edges = sum(store.edge_index.size(1) for store in data.edge_stores)
    seeds = sum(int(store.batch_size) for store in stores if "batch_size" in store)
    return Batch(seeds, sum(map(nodes_of, stores)), edges, data)


def nodes_of(data: Any) -> int:
    """The nodes of a batch, or of one type of it."""
    return int(data.n_id.numel() if "n_id" in data else data.num_nodes)


def seeds_of(data: Any) -> int:
    """Seeds of a batch: links, roots, seed nodes, or all nodes of a subgraph without seeds."""
    if "src_index" in data:
        return int(data.src_index.numel())
    if "edge_label_index" in data:
        return int(data.input_id.numel())
    if "root_n_id" in data:
        return int(data.root_n_id.numel())
    return int(data.batch_size) if "batch_size" in data else int(data.num_nodes)
