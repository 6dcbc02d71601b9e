"""The arguments of a model as a flat list, with names and variable sizes.

A size is a count of the graph: of nodes, of edges, of pairs. Sizes that are equal in the example,
under the same key of a dictionary, are the same count. The invariant: `resized` returns valid
values: rows are rows of the example, and edges join existing nodes.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from neargraph.exceptions import ExportFailed

# A count: (key of the dictionary that the tensor is in, size in the example).
Count = tuple[Any, int]


class Inputs:
    """The example of an export as a flat list.

    Attributes:
        names: Names of the tensors and integers: "argument", or "argument.key".
        values: The tensors and integers.
        counts: For each value, {dimension: count}.
    """

    def __init__(self, model: nn.Module, example: Sequence[Any]) -> None:
        leaves, self._spec = pytree.tree_flatten_with_path(tuple(example))
        arguments = _argument_names(model, len(example))
        self.names: list[str] = []
        self.values: list[Any] = []
        self.counts: list[dict[int, Count]] = []
        self._keys: list[Any] = []
        self._fixed: list[Any] = []
        for path, leaf in leaves:
            is_input = isinstance(leaf, Tensor) or type(leaf) is int
            self._fixed.append(None if is_input else leaf)
            if is_input:
                keys = [_key(part) for part in path]
                self.names.append(_joined(arguments[keys[0]], keys[1:]))
                # For non-contiguous tensors, torch creates guards on strides and then fails.
                self.values.append(leaf.contiguous() if isinstance(leaf, Tensor) else leaf)
                # An index in a list does not identify a type.
                of_type = len(keys) > 1 and not isinstance(keys[-1], int)
                self._keys.append(keys[-1] if of_type else None)
                self.counts.append(_counts(leaf, self._keys[-1]))
        self._places = [i for i, (_, leaf) in enumerate(leaves) if _is_input(leaf)]
        self._check()

    def _check(self) -> None:
        """Rejects examples whose sizes are ambiguous."""
        for name, value, counts in zip(self.names, self.values, self.counts, strict=True):
            if isinstance(value, Tensor) and value.device.type != "cpu":
                raise ExportFailed(
                    f"input {name!r} of the example is on {value.device}: give CPU tensors"
                )
            for dimension, (_, size) in counts.items():
                if size < 2:
                    raise ExportFailed(
                        f"input {name!r} of the example has size {size} in dimension {dimension}: "
                        "give an example with at least 2 nodes and 2 edges"
                    )
        for count in self.edge_counts & self.node_counts:
            raise ExportFailed(
                f"the example has {count[1]} nodes and {count[1]} edges, so sizes are ambiguous: "
                "give an example with different numbers of nodes and edges"
            )

    @property
    def edge_counts(self) -> set[Count]:
        """The second sizes of integer tensors [2, e]."""
        found = zip(self.values, self.counts, strict=True)
        return {counts[1] for value, counts in found if _is_pairs(value)}

    @property
    def node_counts(self) -> set[Count]:
        """The first sizes of tables of node types; without types, that of the first table only.

        If no argument is a table of floats, such as ``x``, the first ids are used as one.
        """
        found = zip(self.values, self.counts, strict=True)
        rows = [(value, counts[0]) for value, counts in found if 0 in counts]
        tables = [n for value, n in rows if value.is_floating_point() and value.dim() > 1]
        of_types = {n for n in tables if n[0] is not None and _ends(n[0]) is None}
        plain = [n for n in (*tables, *(n for _, n in rows)) if n[0] is None]
        return of_types | set(plain[:1])

    def count_names(self) -> dict[Count, str]:
        """Returns a name for each count, such as ``nodes`` or ``edges_a__to__b``."""
        names: dict[Count, str] = {}
        for counts in self.counts:
            for count in counts.values():
                nodes, edges = count in self.node_counts, count in self.edge_counts
                kind = "nodes" if nodes else "edges" if edges else "count"
                name = kind if count[0] is None else f"{kind}_{_text(count[0])}"
                name = re.sub(r"\W", "_", name)
                while name in [known for other, known in names.items() if other != count]:
                    name += "_"
                names[count] = name
        return names

    def restored(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the arguments of the model for flat values."""
        leaves = list(self._fixed)
        for place, value in zip(self._places, values, strict=True):
            leaves[place] = value
        arguments: tuple[Any, ...] = pytree.tree_unflatten(leaves, self._spec)
        return arguments

    def resized(self, sizes: Mapping[Count, int], seed: int) -> list[Any]:
        """Returns values of other sizes: rows drawn from the example, edges between existing nodes.

        Integers grow by one, because an integer argument is a size.
        """
        draws = torch.Generator().manual_seed(seed)
        found = zip(self.values, self.counts, self._keys, strict=True)
        return [self._one(value, counts, key, sizes, draws) for value, counts, key in found]

    def _one(
        self,
        value: Any,
        counts: dict[int, Count],
        key: Any,
        sizes: Mapping[Count, int],
        draws: torch.Generator,
    ) -> Any:
        if not counts:
            return value + 1 if isinstance(value, int) else value
        ((dimension, count),) = counts.items()
        size = sizes[count]
        if _is_pairs(value):
            bounds = [self._bound(end, sizes) for end in _ends(key) or (None, None)]
            if all(bounds):
                return torch.stack(
                    [torch.randint(bound, (size,), generator=draws) for bound in bounds]
                ).to(value.dtype)
        drawn = torch.randint(value.size(dimension), (size,), generator=draws)
        if value.dim() == 1 and bool((value[1:] >= value[:-1]).all()):
            drawn = drawn.sort().values
        return value.index_select(dimension, drawn)

    def _bound(self, node_type: Any, sizes: Mapping[Count, int]) -> int:
        """Returns the number of nodes of a type; 0 if unknown."""
        return next((sizes[c] for c in sorted(self.node_counts, key=str) if c[0] == node_type), 0)


class Flat(nn.Module):
    """The model as a module with flat inputs and flat outputs."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        self._inputs = inputs

    def forward(self, *values: Any) -> tuple[Tensor, ...]:
        """Returns the tensors of the model's output, in the order of `output_names`."""
        out = self.model(*self._inputs.restored(values))
        return tuple(leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, Tensor))


def output_names(out: Any) -> list[str]:
    """Returns the names of the tensors of an output: "out", or "out.key".

    Example:
        >>> output_names({"paper": torch.zeros(2)})
        ['out.paper']
    """
    leaves, _ = pytree.tree_flatten_with_path(out)
    return [
        _joined("out", [_key(part) for part in path])
        for path, leaf in leaves
        if isinstance(leaf, Tensor)
    ]


def _argument_names(model: nn.Module, count: int) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(model.forward).parameters.values()
    names = [p.name for p in known if p.kind in kinds][:count]
    return names + [f"input_{i}" for i in range(len(names), count)]


def _counts(leaf: Any, key: Any) -> dict[int, Count]:
    if not isinstance(leaf, Tensor) or leaf.dim() == 0:
        return {}
    dimension = 1 if _is_pairs(leaf) else 0
    return {dimension: (key, leaf.size(dimension))}


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) or type(leaf) is int


def _is_pairs(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and not value.is_floating_point()
        and value.dim() == 2
        and value.size(0) == 2
    )


def _ends(key: Any) -> tuple[Any, Any] | None:
    """Returns the two node types if a key is an edge type, else None."""
    parts = tuple(key.split("__")) if isinstance(key, str) else key
    return (parts[0], parts[-1]) if isinstance(parts, tuple) and len(parts) == 3 else None


def _key(part: Any) -> Any:
    """Returns the key, index or name in an entry of a pytree path."""
    return getattr(part, "key", getattr(part, "idx", getattr(part, "name", None)))


def _text(key: Any) -> str:
    return "__".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _joined(first: str, keys: Sequence[Any]) -> str:
    return ".".join([first, *map(_text, keys)])
