"""Which part of each global batch a process takes, where several train together.

What must not live here: talking to the other processes. The invariant: the parts of all ranks are
disjoint and make up the global batch.
"""

import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from neargraph.loader.options import check_count


@dataclass(frozen=True)
class Ranks:
    """This process and its peers: each takes an equal part of every global batch.

    A loader takes ``ranks=(rank, world_size)`` as well. ``ranks="auto"`` asks torch.distributed if
    it is initialised, else the variables ``RANK`` and ``WORLD_SIZE`` that torchrun sets; without
    both there is one process.

    Attributes:
        rank: Number of this process, 0 ... `world_size` - 1.
        world_size: Number of processes. It divides the loader's ``batch_size``.
        pad: Fill the last batch with repeated seeds, counted in ``num_padding``. False leaves a
            smaller last batch out. None does what fits the loader: batches of whole parts of the
            graph are never padded, others are.

    Raises:
        ValueError: A number that is not valid.

    Example:
        >>> loader = ng.NeighborLoader(store, [15, 10], batch_size=1024, ranks="auto")
        >>> loader = ng.NeighborLoader(store, [15, 10], batch_size=1024,
        ...                            ranks=ng.Ranks(0, 4, pad=False))
    """

    rank: int = 0
    world_size: int = 1
    pad: bool | None = None

    def __post_init__(self) -> None:
        check_count("world_size", self.world_size, 1)
        check_count("rank", self.rank, 0, self.world_size - 1)

    @classmethod
    def of(cls, given: "RanksLike") -> "Ranks":
        """What `ranks=` of a loader says.

        Raises:
            ValueError: It is something else.
        """
        if isinstance(given, Ranks):
            return given
        if given is None:
            return cls()
        if isinstance(given, str) and given == "auto":
            return cls(*_of_environment())
        if isinstance(given, tuple) and len(given) == 2:
            return cls(*given)
        raise ValueError(
            f"ranks={given!r} is not valid: expected 'auto', (rank, world_size) or ng.Ranks(...)"
        )


RanksLike = Ranks | tuple[int, int] | Literal["auto"] | None
"""`ranks=` of loaders; None is one process."""


def _of_environment() -> tuple[int, int]:
    """Rank and number of processes, as torch or torchrun know them."""
    distributed = sys.modules.get("torch.distributed")
    # A program that has initialised it has imported it.
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    found: list[Any] = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]
    if found == [None, None]:
        return 0, 1
    try:
        rank, world_size = (int(value) for value in found)
    except (TypeError, ValueError):
        raise ValueError(
            f"ranks='auto' needs whole numbers in RANK and WORLD_SIZE, got {found[0]!r} and "
            f"{found[1]!r}; start the program with torchrun, or give ranks=(rank, world_size)"
        ) from None
    return rank, world_size
