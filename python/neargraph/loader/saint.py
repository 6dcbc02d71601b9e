"""PyG's GraphSAINT samplers over a store on disk (Zeng et al., ICLR 2020).

A batch is the subgraph that drawn nodes induce. The coefficients that correct the bias of the draws
come from draws made beforehand (`neargraph.loader.norms`). The invariant: batches and
coefficients are functions of the arguments and of the version of the store.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.norms import Norms, count_norms
from neargraph.loader.options import LARGEST_DRAWS, check_count
from neargraph.loader.seeds import InputNodes
from neargraph.loader.spreading import Growth, SpreadSampler, only_edge_type
from neargraph.reader import Reader
from neargraph.schema import EdgeType

with torch_for("GraphSAINTNodeSampler"):
    import torch

from neargraph.loader.collate import Collator
from neargraph.loader.sampling import LoaderOptions, SamplingLoader


@dataclass(frozen=True, kw_only=True)
class _Steps(InputNodes):
    """Batches whose seeds are drawn: a place is a batch."""

    count: int

    def __len__(self) -> int:
        return self.count

    def core(self) -> _core.Inputs:
        return _core.Inputs.drawn()

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        return _core.Inputs.drawn()

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places

    def digest(self) -> str:
        return f"{self.node_type.name}:drawn:{self.count}"


_FORMS = ("pyg", "paper")


class _Collator(Collator):
    """Adds the coefficients."""

    norms: Norms | None = None

    def __call__(self, batch: MiniBatch) -> Any:
        data = self.graph(batch)
        if self.norms is not None:
            node, edge = self.norms.of(batch)
            data.node_norm, data.edge_norm = torch.from_numpy(node), torch.from_numpy(edge)
        return data


class _GraphSAINTSampler(SamplingLoader):
    """What the three samplers share; `draws` says which nodes are drawn."""

    def __init__(
        self,
        data: Reader,
        batch_size: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        **options: Any,
    ) -> None:
        for name in ("batch_size", "shuffle", "drop_last"):
            if name in options:
                raise UnsupportedArgument(
                    f"{name} has no effect on subgraphs that are drawn; leave it out "
                    "(batch_size, the number of draws, is the second argument)"
                )
        form = options.pop("norms", "pyg")
        if form not in _FORMS:
            raise ValueError(f"norms is {form!r}; use {' or '.join(_FORMS)}")
        if form != "pyg" and not sample_coverage:
            raise UnsupportedArgument(
                f"norms={form!r} defines coefficients, and sample_coverage=0 counts none; give "
                "sample_coverage=50, or leave norms out"
            )
        given = LoaderOptions.take(type(self).__name__, options)
        if given.peers.pad:
            raise UnsupportedArgument(
                "pad=True has no effect on subgraphs that are drawn; leave it out"
            )
        given.batch_size = given.peers.world_size
        super().__init__(data, given)
        check_count("batch_size", batch_size, 1)
        check_count("num_steps", num_steps, 1)
        check_count("sample_coverage", sample_coverage, 0)
        snapshot = data.snapshot()
        edge_type = only_edge_type(snapshot.schema, "a graph that subgraphs are drawn from")
        rows, x_cast = given.rows(snapshot.schema)
        how, spread = self._draws(edge_type)
        drawn: dict[str, Any] = {"roots": (how, batch_size, edge_type.index), "spread": spread}
        sampler = SpreadSampler(snapshot, seed=given.seed, **drawn, **rows)
        steps = _Steps(
            snapshot.schema.node_types[0], None, False, count=num_steps * given.peers.world_size
        )
        collator = _Collator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        self._words = f"{how}:{batch_size}:{self._extra()}"
        self._form = None if form == "pyg" else form
        self._coverage = sample_coverage or None
        self._start(sampler, steps, collator, given)
        if sample_coverage:
            plain = SpreadSampler(snapshot, seed=given.seed, attrs=(), **drawn)
            counted = count_norms(
                plain,
                steps,
                coverage=sample_coverage,
                num_steps=num_steps,
                folder=save_dir,
                name=f"{type(self).__name__}:{self._words}:{sample_coverage}",
                shown=log,
            )
            collator.norms = replace(counted, form=form)

    @abstractmethod
    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        """How roots are drawn, and what grows from them."""

    def _extra(self) -> str:
        """What else decides the draws, in words."""
        return ""

    def _settings(self) -> dict[str, Any]:
        # None is what states say that were saved without the coefficients, or with PyG's.
        norms = {"sample_coverage": self._coverage, "norms": self._form}
        return {**super()._settings(), "draws": self._words, **norms}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.snapshot.path!r}, steps={len(self)})"


class GraphSAINTNodeSampler(_GraphSAINTSampler):
    """Subgraphs of nodes that are drawn by their number of outgoing edges, with replacement.

    Each batch is a `Data` with the tensors of the store, ``n_id`` [n], ``edge_index`` [2, e] (all
    edges between the nodes), and with `sample_coverage` ``node_norm`` [n] and ``edge_norm`` [e],
    defined as in PyG: ``num_samples / count / num_nodes``, and the count of an edge's source over
    the count of the edge, where counts are those of `sample_coverage` rounds of draws.

    Args:
        data: The open store, or a snapshot, with one node type and one edge type.
        batch_size: Draws of a batch; its nodes are fewer, as some are drawn more than once.
        num_steps: Batches of an epoch; under several ranks each makes so many.
        sample_coverage: How often each node is drawn on average to count the coefficients; 0 leaves
            them out. Needs a store that keeps edge ids.
        save_dir: Keep the counts in this folder, and use those that are there; None counts anew, in
            a temporary file beside the store.
        log: Show a progress bar while counting, on a terminal.
        **options: As of `NeighborLoader`: `seed`, `attrs`, `x_dtype`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others. And ``norms="paper"``: the
            coefficients of the paper (equations 2 and 3), where the count of an edge's destination
            stands over that of the edge, and 1 is added to each count, so that what is rare weighs
            no more than the counts tell.

    Raises:
        UnsupportedArgument: The store has several types, or lacks what is drawn by; or `norms` is
            given without `sample_coverage`.
        ValueError: `norms` is neither "pyg" nor "paper".

    Example:
        >>> loader = ng.GraphSAINTNodeSampler(store, 6000, num_steps=30, sample_coverage=100)
        >>> for batch in loader:
        ...     loss = (loss_of(batch) * batch.node_norm)[batch.train_mask].sum()
    """

    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        return "degrees", None


class GraphSAINTEdgeSampler(_GraphSAINTSampler):
    """Subgraphs of the ends of edges, which are drawn without replacement.

    The chance of an edge is that of the paper (section 3.3): 1 / (in-degree of its destination) + 1
    / (out-degree of its source), up to a factor. PyG's sampler of the same name has the degrees
    themselves there, so that it prefers edges between hubs. Where edges are not undirected, the
    store needs their reverse (``neargraph import --reverse``).

    Batches and arguments are those of `GraphSAINTNodeSampler`; `batch_size` counts edges.
    """

    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        return "edges", None


class GraphSAINTRandomWalkSampler(_GraphSAINTSampler):
    """Subgraphs of the nodes that random walks come by.

    Walks begin at nodes that are drawn uniformly with replacement. A step leads to an in-neighbour,
    as all sampling does; where edges are not undirected, PyG's walks follow them the other way.

    Batches and arguments are those of `GraphSAINTNodeSampler`; `batch_size` counts walks.

    Args:
        walk_length: Steps of each walk.

    Example:
        >>> loader = ng.GraphSAINTRandomWalkSampler(store, batch_size=6000, walk_length=2)
    """

    def __init__(
        self,
        data: Reader,
        batch_size: int,
        walk_length: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        **options: Any,
    ) -> None:
        check_count("walk_length", walk_length, 1, LARGEST_DRAWS)
        self._walk_length = walk_length
        super().__init__(data, batch_size, num_steps, sample_coverage, save_dir, log, **options)

    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        return "nodes", ("walks", [edge_type.index], self._walk_length, None)

    def _extra(self) -> str:
        return str(self._walk_length)
