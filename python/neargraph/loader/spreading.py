"""Samplers around links, and samplers whose batches do not grow by hops.

Each class only describes the work for the compiled core. The invariant: they are `NumpySampler`s,
so that pipelines, processes and checks treat them alike. They hold only objects that can be
pickled; each process makes the objects of the core again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.sampler import NumpySampler
from neargraph.reader import Reader
from neargraph.schema import EdgeType, Schema

Growth = tuple[Any, ...]
Joined = tuple[int, tuple[str, float] | None, bool]


class LinkSampler(NumpySampler):
    """Samples around both ends of links.

    Args:
        store: The open store, or a snapshot.
        fanouts: As in `NumpySampler`.
        links: (edge type, negatives, whether links are edge numbers); None samples around nodes.
        **how: As in `NumpySampler`.
    """

    def __init__(self, store: Reader, fanouts: Any, *, links: Joined | None, **how: Any) -> None:
        self._joined = links
        self._made_links: _core.Links | None = None
        super().__init__(store, fanouts, **how)

    def _links(self) -> _core.Links | None:
        # This reads the degrees of all nodes, so each process does it once.
        if self._joined is not None and self._made_links is None:
            self._made_links = _core.Links(self.snapshot.version, *self._joined)
        return self._made_links

    @property
    def is_compilable(self) -> bool:
        """Always False: only batches that grow by hops around nodes are compiled."""
        return False

    @property
    def num_edges(self) -> int:
        """Number of edges, if links are edge numbers; else 0."""
        links = self._links()
        return 0 if links is None else links.num_edges or 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made_links": None}


class SpreadSampler(LinkSampler):
    """A sampler whose batches do not grow by hops.

    Args:
        store: The open store, or a snapshot.
        spread: How batches grow from their seeds: the name of a constructor of `_core.Spread` and
            its arguments. None: batches are the seeds.
        roots: (how, count, edge type) of drawn seeds.
        links: (edge type, negatives, whether links are edge numbers) of links as seeds.
        induced: Batches have all edges between their nodes.
        **how: `seed`, `attrs`, `x_dtype` and the other settings of rows.
    """

    def __init__(
        self,
        store: Reader,
        *,
        spread: Growth | None = None,
        roots: tuple[str, int, int] | None = None,
        links: Joined | None = None,
        induced: bool = True,
        **how: Any,
    ) -> None:
        self._grows, self._drawn = spread, roots
        self._made_roots: _core.Roots | None = None
        subgraph = "induced" if induced else "directional"
        super().__init__(store, [], links=links, subgraph_type=subgraph, **how)

    def _spread(self) -> _core.Spread | None:
        if self._grows is None:
            return None
        # Objects of the core cannot be pickled, and this one is cheap.
        name, *given = self._grows
        made: _core.Spread = getattr(_core.Spread, name)(*given)
        return made

    def _roots(self) -> _core.Roots | None:
        if self._drawn is not None and self._made_roots is None:
            self._made_roots = _core.Roots(self.snapshot.version, *self._drawn)
        return self._made_roots

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_made_roots": None}


def only_edge_type(schema: Schema, what: str) -> EdgeType:
    """Returns the only edge type of a store, for `what`, a loader that supports no others.

    Raises:
        UnsupportedArgument: The store has several types.
    """
    if not schema.is_homogeneous:
        raise UnsupportedArgument(
            f"{what} needs a store with one node type and one edge type, but this store has "
            f"{len(schema.node_types)} node types and {len(schema.edge_types)} edge types; use "
            "NeighborLoader or HGTLoader"
        )
    return schema.edge_type()


def path_of(schema: Schema, names: Sequence[Any] | Any) -> list[EdgeType]:
    """Returns the edge types of a walk, from one name or a list of names (PyG's metapath).

    A step goes from a node to a source in its list. So the walk user, item, user over ("user",
    "buys", "item") takes first the reverse of this type, then the type itself.
    """
    is_one = isinstance(names, str) or (
        isinstance(names, tuple) and all(isinstance(part, str) for part in names)
    )
    given = [names] if names is None or is_one else list(names)
    return [schema.edge_type(name) for name in given]


def counts_by_type(schema: Schema, given: Any) -> list[list[int]]:
    """Returns counts by node type and layer, from one list for all types or a dictionary.

    Raises:
        ValueError: Lists have different lengths, or a count is negative.
        NameNotFound: A node type does not exist.
    """
    counts = given.values() if isinstance(given, Mapping) else [given]
    if not all(isinstance(one, list | tuple) for one in counts):
        raise ValueError(
            "num_samples= must be a list with one count per layer, or a dictionary of such "
            f"lists by node type, got {given!r}"
        )
    if isinstance(given, Mapping):
        known = {schema.node_type(name).index: list(counts) for name, counts in given.items()}
        layers = max((len(counts) for counts in known.values()), default=0)
        lists = [known.get(t.index, [0] * layers) for t in schema.node_types]
    else:
        lists = [list(given) for _ in schema.node_types]
    if len({len(counts) for counts in lists}) != 1 or not lists[0]:
        raise ValueError(
            "num_samples= must have the same number of layers for all node types, and at least "
            f"one layer, got {given!r}"
        )
    for count in (count for counts in lists for count in counts):
        is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not is_whole or not 0 <= count < 2**32:
            raise ValueError(f"num_samples= must hold counts from 0 to 2^32 - 1, got {count!r}")
    return lists
