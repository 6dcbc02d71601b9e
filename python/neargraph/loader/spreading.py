"""Samplers around links, and samplers whose batches grow otherwise than by hops or are drawn.

Each class says what the compiled core is asked for, and nothing else. The invariant: they are
`NumpySampler`s, so that pipelines, processes and checks treat them alike, and they hold only
what can be pickled: objects of the core are made again in each process.
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
        fanouts: As of `NumpySampler`.
        links: (edge type, negatives, whether they are given by number); None samples around nodes.
        **how: As of `NumpySampler`.
    """

    def __init__(self, store: Reader, fanouts: Any, *, links: Joined | None, **how: Any) -> None:
        self._joined = links
        self._made_links: _core.Links | None = None
        super().__init__(store, fanouts, **how)

    def _links(self) -> _core.Links | None:
        # Degrees of all nodes are read for it, so that each process makes it once.
        if self._joined is not None and self._made_links is None:
            self._made_links = _core.Links(self.snapshot.version, *self._joined)
        return self._made_links

    @property
    def is_compilable(self) -> bool:
        """Never: epochs are compiled of hops around nodes."""
        return False

    @property
    def num_edges(self) -> int:
        """How many edges there are, where links are given by number."""
        links = self._links()
        return 0 if links is None else links.num_edges or 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made_links": None}


class SpreadSampler(LinkSampler):
    """A sampler without hops of neighbours.

    Args:
        store: The open store, or a snapshot.
        spread: How batches grow from their seeds: the name of a constructor of `_core.Spread` and
            what it takes. None leaves the seeds.
        roots: (how, count, edge type) of seeds that are drawn.
        links: (edge type, negatives, whether they are given by number) of seeds that are links.
        induced: Batches have all edges between their nodes.
        **how: `seed`, `attrs`, `x_dtype` and the others that say which rows are read.
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
        # What the core makes cannot be pickled, and this is made in no time.
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
    """The edge type that subgraphs grow over: it joins a node type with itself.

    Raises:
        UnsupportedArgument: It does not, or the store has several types.
    """
    if not schema.is_homogeneous:
        raise UnsupportedArgument(
            f"{what} has one node type and one edge type, this store has "
            f"{len(schema.node_types)} and {len(schema.edge_types)}; use NeighborLoader or "
            "HGTLoader"
        )
    return schema.edge_type()


def path_of(schema: Schema, names: Sequence[Any] | Any) -> list[EdgeType]:
    """The edge types of a walk: one name, or a list of them (PyG's metapath).

    A step leads from a node to a source of its list, so that the steps of the walk user, item, user
    over ("user", "buys", "item") are its reverse and itself.
    """
    is_one = isinstance(names, str) or (
        isinstance(names, tuple) and all(isinstance(part, str) for part in names)
    )
    given = [names] if names is None or is_one else list(names)
    return [schema.edge_type(name) for name in given]


def counts_by_type(schema: Schema, given: Any) -> list[list[int]]:
    """Numbers by node type and layer, from a list for all types or a dictionary.

    Raises:
        ValueError: Lists of different lengths, or numbers below 0.
        NameNotFound: No such node type.
    """
    counts = given.values() if isinstance(given, Mapping) else [given]
    if not all(isinstance(one, list | tuple) for one in counts):
        raise ValueError(
            f"num_samples is a list with a number for each layer, or a dictionary of them by node "
            f"type; got {given!r}"
        )
    if isinstance(given, Mapping):
        known = {schema.node_type(name).index: list(counts) for name, counts in given.items()}
        layers = max((len(counts) for counts in known.values()), default=0)
        lists = [known.get(t.index, [0] * layers) for t in schema.node_types]
    else:
        lists = [list(given) for _ in schema.node_types]
    if len({len(counts) for counts in lists}) != 1 or not lists[0]:
        raise ValueError(f"num_samples needs one number for each layer and type, got {given!r}")
    for count in (count for counts in lists for count in counts):
        is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not is_whole or not 0 <= count < 2**32:
            raise ValueError(f"num_samples holds counts from 0 on, got {count!r}")
    return lists
