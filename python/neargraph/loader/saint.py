"""PyG's GraphSAINT samplers over a store on disk (Zeng et al., ICLR 2020).

A batch is the subgraph that drawn nodes induce. Draws in advance determine the coefficients that
correct the bias of the draws (`neargraph.loader.norms`). The invariant: batches and coefficients
are functions of the arguments and of the version of the store.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

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


_Form = Literal["pyg", "paper"]


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
    """The base of the three samplers; `_draws` defines how nodes are drawn."""

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
        for name in ("shuffle", "drop_last"):
            if name in options:
                raise UnsupportedArgument(
                    f"{name}={options[name]!r} has no effect in {type(self).__name__}, which "
                    f"draws each subgraph at random; leave out {name}="
                )
        form: _Form = options.pop("norms", "pyg")
        if form not in get_args(_Form):
            raise ValueError(f"norms={form!r} is not valid: expected 'pyg' or 'paper'")
        if form != "pyg" and not sample_coverage:
            raise UnsupportedArgument(
                f"norms={form!r} has no effect with sample_coverage=0, which computes no "
                "coefficients; give sample_coverage=50, or leave out norms="
            )
        given = LoaderOptions.take(type(self).__name__, options)
        if given.peers.pad:
            raise UnsupportedArgument(
                f"pad=True has no effect in {type(self).__name__}, which draws each subgraph at "
                "random; leave out pad="
            )
        given.batch_size = given.peers.world_size
        super().__init__(data, given)
        check_count("batch_size", batch_size, 1)
        check_count("num_steps", num_steps, 1)
        check_count("sample_coverage", sample_coverage, 0)
        snapshot = data.snapshot()
        edge_type = only_edge_type(snapshot.schema, type(self).__name__)
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
        """Returns how roots are drawn, and how a subgraph grows from them."""

    def _extra(self) -> str:
        """Returns other settings that determine the draws, in words."""
        return ""

    def _settings(self) -> dict[str, Any]:
        # States that were saved without coefficients, or with PyG's, have None.
        norms = {"sample_coverage": self._coverage, "norms": self._form}
        return {**super()._settings(), "draws": self._words, **norms}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.snapshot.path!r}, steps={len(self)})"


class GraphSAINTNodeSampler(_GraphSAINTSampler):
    """Subgraphs of nodes that are drawn in proportion to their out-degree, with replacement.

    Each batch is a `Data` with the tensors of the store, ``n_id`` [n] and ``edge_index`` [2, e]
    (all edges between the nodes). With `sample_coverage` it also has ``node_norm`` [n] and
    ``edge_norm`` [e], which are defined as in PyG. They come from counts of nodes and edges in
    drawn subgraphs: ``node_norm`` is ``num_samples / count / num_nodes``, and ``edge_norm`` is the
    count of an edge's source divided by the count of the edge.

    Args:
        data: The open store or a snapshot, with one node type and one edge type.
        batch_size: Draws per batch. A batch has fewer nodes, as some are drawn more than once.
        num_steps: Batches per epoch, on each rank.
        sample_coverage: Average count of a node when counts are made; 0 leaves the coefficients
            out. Needs a store with edge ids.
        save_dir: Folder in which counts are kept. Existing counts are used. None: count again, in
            an unlinked temporary file beside the store.
        log: Show a progress bar while counting, on a terminal.
        **options: As in `NeighborLoader`: `seed`, `attrs`, `x_dtype`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others. In addition, ``norms="paper"`` gives
            the coefficients of the paper (equations 2 and 3): ``edge_norm`` is the count of the
            edge's destination divided by the count of the edge, and 1 is added to each count, so
            that rare nodes and edges are not overweighted. Default: ``"pyg"``.

    Raises:
        UnsupportedArgument: The store has several types or lacks the required degrees or edge ids,
            or `norms` is given without `sample_coverage`.
        ValueError: `norms` or a count is not valid.

    Example:
        >>> loader = ng.GraphSAINTNodeSampler(store, 6000, num_steps=30, sample_coverage=100)
        >>> for batch in loader:
        ...     loss = (loss_of(batch) * batch.node_norm)[batch.train_mask].sum()
    """

    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        return "degrees", None


class GraphSAINTEdgeSampler(_GraphSAINTSampler):
    """Subgraphs of the ends of edges that are drawn without replacement.

    The probability of an edge is that of the paper (section 3.3). It is proportional to 1 /
    (in-degree of its destination) + 1 / (out-degree of its source). PyG's sampler of this name
    uses the sum of the degrees instead, and so prefers edges between hubs. If edges are not
    undirected, the store needs their reverse (``neargraph import --reverse``).

    Batches and arguments are as in `GraphSAINTNodeSampler`; `batch_size` is a number of edges.
    """

    def _draws(self, edge_type: EdgeType) -> tuple[str, Growth | None]:
        return "edges", None


class GraphSAINTRandomWalkSampler(_GraphSAINTSampler):
    """Subgraphs of the nodes that random walks visit.

    Walks begin at nodes that are drawn uniformly with replacement. A step goes to an in-neighbour,
    as in all sampling. If edges are not undirected, PyG's walks follow them in the other direction.

    Batches and arguments are as in `GraphSAINTNodeSampler`; `batch_size` is a number of walks.

    Args:
        walk_length: Steps per walk.

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
