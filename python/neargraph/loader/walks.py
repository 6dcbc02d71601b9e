"""Random walks over a store: uniform, biased as in node2vec, or along a path of edge types.

This module does not need torch. The invariant: a walk is a pure function of (store, path, p, q,
seed, stream, place among the starts).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.options import LARGEST_DRAWS, check_count, is_number
from neargraph.loader.seeds import resolve_input_nodes
from neargraph.loader.spreading import SpreadSampler, path_of
from neargraph.reader import Reader


class RandomWalkSampler:
    """Random walks (node2vec: Grover and Leskovec, KDD 2016; metapath2vec: Dong et al., KDD 2017).

    A step goes from a node to one of its in-neighbours, as in all sampling. To follow edges
    forwards, name a reverse that the store keeps.

    Args:
        store: The open store or a snapshot. The sampler is pinned to the commit that is current
            when it is created.
        walk_length: Steps per walk.
        p: Return parameter of node2vec: a return to the previous node has weight 1 / p.
        q: In-out parameter of node2vec: a node that is not adjacent to the previous node has weight
            1 / q. With p = q = 1, walks are uniform.
        path: The edge types of the steps, which repeat: one name, or a list that ends at the node
            type where it begins. None: the only edge type.
        seed: Random seed of all draws, from 0 to 2^64 - 1.

    Raises:
        NameNotFound: An edge type does not exist.
        UnsupportedArgument: The steps of `path` are not consecutive, or `p` and `q` are given with
            several edge types.
        ValueError: A number is not valid.

    Example:
        >>> walks = ng.RandomWalkSampler(store, 20, p=0.25, q=4.0, seed=7)
        >>> walks.sample([0, 1, 2]).shape
        (3, 21)
    """

    def __init__(
        self,
        store: Reader,
        walk_length: int,
        *,
        p: float = 1.0,
        q: float = 1.0,
        path: str | Sequence[Any] | None = None,
        seed: int = 0,
    ) -> None:
        check_count("walk_length", walk_length, 1, LARGEST_DRAWS)
        for name, value in (("p", p), ("q", q)):
            if not is_number(value) or value <= 0:
                raise ValueError(f"{name}={value!r} is not valid: expected a finite number above 0")
        self.snapshot = store.snapshot()
        types = path_of(self.snapshot.schema, path)
        self._path = [t.index for t in types]
        self._start = types[0].destination
        self._length = walk_length
        self._bias = None if p == q == 1 else (float(p), float(q))
        self._sampler = SpreadSampler(self.snapshot, seed=seed, attrs=(), induced=False)

    def sample(self, ids: Any, *, stream: int = 0) -> NDArray[np.int64]:
        """Returns a walk from each of `ids`.

        Each occurrence of a repeated id has its own walk. At a node without in-neighbours, a walk
        along one edge type stays, and a walk along several ends; the rest of its row is -1.

        Args:
            ids: The starts, as `input_nodes` of `NeighborLoader`. Plain ids, a mask and None are
                nodes of the type where the path begins, the destination of its first edge type.
            stream: Number that, with the seed, determines the draws.

        Returns:
            Node ids, int64 [n, walk_length + 1]. Column 0 has the starts. Column k has nodes of the
            source type of step k, by their ids in this type.

        Raises:
            NodeOutOfRange: An id is out of range.
            UnsupportedArgument: The path begins at another node type.
            ValueError: `stream` is not in 0 ... 2^64 - 1.
            BudgetTooSmall: The walks do not fit into the memory budget.

        Example:
            >>> shop = ng.RandomWalkSampler(store, 4, path=["buys", "rev_buys"])
            >>> shop.sample([0, 1]).shape  # item, user, item, user, item
            (2, 5)
        """
        check_count("stream", stream, 0, 2**64 - 1)
        is_pair = isinstance(ids, tuple) and len(ids) == 2 and isinstance(ids[0], str)
        given = ids if is_pair or isinstance(ids, str) else (self._start, ids)
        inputs = resolve_input_nodes(self.snapshot, given)
        if inputs.node_type.name != self._start:
            raise UnsupportedArgument(
                f"walks along path= begin at nodes of type {self._start!r}, got nodes of type "
                f"{inputs.node_type.name!r}; give nodes of type {self._start!r}, or another path="
            )
        starts = inputs.nodes(np.arange(len(inputs), dtype=np.int64))
        core = self._sampler.core
        walks = core.walk(self._path, self._length, self._bias, starts, stream)
        return walks.reshape(len(starts), self._length + 1)
