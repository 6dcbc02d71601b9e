"""The table of samplers, with the loader of each.

Tasks must not live here. The invariant: a loader rejects an option that it does not have before
anything is read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.cluster import ClusterGCNLoader
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.hgt import HGTLoader
from neargraph.loader.methods import MethodName
from neargraph.loader.neighbor import NeighborLoader
from neargraph.loader.pinsage import PinSAGELoader
from neargraph.loader.random_node import RandomNodeLoader
from neargraph.loader.reading import Reading
from neargraph.loader.saint import (
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
)
from neargraph.loader.shadow import ShaDowKHopSampler
from neargraph.store import Store

from .config import TrainConfig
from .directions import fanouts_by_type

# The settings of reading.
_READING = ("reading", "temporary_writes")


@dataclass(frozen=True)
class Feed:
    """The common arguments of a run's loaders. ``attrs`` are the tensors of batches."""

    store: Store
    config: TrainConfig
    attrs: Any
    transform: Callable[[Any], Any] | None = None
    device: torch.device | None = None

    def options(self, *, train: bool) -> dict[str, Any]:
        """Returns the options of all loaders; those of reading only if they are not defaults."""
        config, default = self.config, TrainConfig()
        given: dict[str, Any] = {}
        if any(getattr(config, name) != getattr(default, name) for name in _READING):
            reading = Reading(config.reading, temporary_writes=config.temporary_writes)
            # Compiled epochs contain training batches only.
            given["reading"] = reading if train or reading.compiled is False else "auto"
        if config.x_dtype is not None:
            given["x_dtype"] = config.x_dtype
        given |= {"shuffle": train, "seed": config.seed, "attrs": self.attrs}
        return given | {"transform": self.transform, "device": self.device}

    def with_mask(self) -> dict[str, Any]:
        """Returns `options` for parts of the graph, with the mask of training nodes."""
        return {**self.options(train=True), "attrs": ["train_mask", *self.attrs]}

    @property
    def fanouts(self) -> Any:
        """The fanouts for loaders: by edge type if reverses are sampled."""
        return fanouts_by_type(self.store.schema, self.config.fanouts)

    def sampled(
        self, seeds: Any, *, train: bool, method: MethodName | None = None
    ) -> NeighborLoader:
        """Returns a `NeighborLoader` around `seeds`."""
        return NeighborLoader(
            self.store,
            num_neighbors=self.fanouts,
            input_nodes=seeds,
            batch_size=self.config.batch_size,
            method=method or self.config.method,
            **self.options(train=train),
        )


Make = Callable[[Feed, Any, bool], EpochLoader]
"""A function that returns the loader of seeds, for training or evaluation."""


@dataclass(frozen=True)
class Source:
    """One sampler.

    Attributes:
        make: Function that returns its loader.
        tasks: The tasks that it supports.
        is_whole: Whether its batches are parts of the graph with a mask of the training nodes.
            Validation and test then use sampled neighbourhoods.
        kinds: The kinds of stores that it supports.
        fuller: A remedy if many batches contain no training node.
    """

    make: Make
    tasks: tuple[str, ...] = ("node",)
    is_whole: bool = False
    kinds: tuple[str, ...] = ("homogeneous",)
    fuller: str = "a larger batch_size= makes such batches rare"

    def loader(self, feed: Feed, seeds: Any, *, train: bool) -> EpochLoader:
        """Returns the loader around seeds. Only training uses parts of the graph."""
        make = _neighbor if self.is_whole and not train else self.make
        return make(feed, seeds, train)


def _neighbor(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return feed.sampled(seeds, train=train)


def _labor(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return feed.sampled(seeds, train=train, method="labor")


def _cluster(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    parts, size = min(feed.config.parts, feed.store.num_nodes), feed.config.batch_parts
    return ClusterGCNLoader(feed.store, parts, batch_size=size, **feed.with_mask())


def _random_node(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return RandomNodeLoader(feed.store, feed.config.parts, **feed.with_mask())


def _saint(kind: Any, feed: Feed, **more: Any) -> EpochLoader:
    config, options = feed.config, feed.with_mask()
    del options["shuffle"]
    coverage: dict[str, Any] = {"sample_coverage": config.coverage, "log": False}
    if config.coverage:
        # PyG's norms use the counts of sources, and 10,000 for an edge that was never drawn.
        coverage["norms"] = "paper"
    made: EpochLoader = kind(
        feed.store, config.batch_size, num_steps=config.steps, **coverage, **more, **options
    )
    return made


def _saint_node(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return _saint(GraphSAINTNodeSampler, feed)


def _saint_edge(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return _saint(GraphSAINTEdgeSampler, feed)


def _saint_walk(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    return _saint(GraphSAINTRandomWalkSampler, feed, walk_length=feed.config.walk_length)


def _shadow(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    config = feed.config
    if len(set(config.fanouts)) != 1:
        raise UnsupportedArgument(
            f"fanouts={list(config.fanouts)} is not valid for the sampler 'shadow': expected the "
            "same number in each hop, such as 10,10"
        )
    options = {**feed.options(train=train), "batch_size": config.batch_size}
    depth = len(config.fanouts)
    return ShaDowKHopSampler(feed.store, depth, config.fanouts[0], seeds, **options)


def _hgt(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    config, options = feed.config, feed.options(train=train)
    return HGTLoader(
        feed.store, list(config.fanouts), seeds, batch_size=config.batch_size, **options
    )


def _pinsage(feed: Feed, seeds: Any, train: bool) -> EpochLoader:
    config, options = feed.config, feed.options(train=train)
    options["batch_size"] = config.batch_size
    return PinSAGELoader(feed.store, list(config.fanouts), seeds, **options)


_ALL_KINDS = ("homogeneous", "bipartite", "heterogeneous")
SAMPLERS: dict[str, Source] = {
    "neighbor": Source(_neighbor, tasks=("node", "link"), kinds=_ALL_KINDS),
    "labor": Source(_labor, kinds=_ALL_KINDS),
    "cluster": Source(
        _cluster,
        is_whole=True,
        fuller="`neargraph reorganize STORE --by locality` distributes adjacent training nodes "
        "over the clusters, and a larger batch_parts= makes such batches rare",
    ),
    "saint-node": Source(_saint_node, is_whole=True),
    "saint-edge": Source(_saint_edge, is_whole=True),
    "saint-walk": Source(_saint_walk, is_whole=True),
    "random-node": Source(
        _random_node, is_whole=True, fuller="a smaller parts= makes such batches rare"
    ),
    "shadow": Source(_shadow),
    "hgt": Source(_hgt, kinds=("bipartite", "heterogeneous")),
    "pinsage": Source(_pinsage, tasks=("node", "link")),
    # The task creates the loader of whole graphs.
    "graph": Source(_neighbor, tasks=("graph",)),
}


def check_method(config: TrainConfig, sampler: str) -> None:
    """Rejects a sampling method that the sampler would ignore.

    Raises:
        UnsupportedArgument: The method is not the default, and the sampler is not "neighbor".
    """
    if config.method != "uniform" and sampler != "neighbor":
        raise UnsupportedArgument(
            f"method={config.method!r} applies only to the sampler 'neighbor', not to "
            f"{sampler!r}; leave out method=, or use sampler='neighbor'"
        )
