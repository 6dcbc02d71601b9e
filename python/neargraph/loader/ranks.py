"""The part of each global batch that one process takes, where several processes train together.

What must not live here: communication with the other processes. The invariant: the parts of all
ranks are disjoint, and together they are the global batch.
"""

import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from neargraph.loader.options import check_count


@dataclass(frozen=True)
class Ranks:
    """The rank of this process among the processes that train together.

    Each rank takes an equal part of every global batch. Loaders also accept
    ``ranks=(rank, world_size)``, which leaves `pad` at its default. With ``ranks="auto"`` a loader
    reads both numbers from torch.distributed if that is initialised, and otherwise from the
    environment variables ``RANK`` and ``WORLD_SIZE``, which torchrun sets. If neither variable is
    set, the process trains alone.

    Attributes:
        rank: Number of this process, from 0 to `world_size` - 1.
        world_size: Number of processes. The loader's ``batch_size`` is a multiple of it.
        pad: With several ranks, how a last batch that is smaller than the others is handled. True
            repeats seeds until all ranks have equally many, and counts them in
            ``batch.num_padding``. False drops the batch. None is False in `ClusterGCNLoader` and
            `RandomNodeLoader`, whose epochs contain each node at most once, with
            ``drop_last=True``, and else True. A process that trains alone pads nothing.

    Raises:
        ValueError: A value is not valid.

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
        if self.pad is not None and not isinstance(self.pad, bool):
            raise ValueError(f"pad={self.pad!r} is not valid: expected True, False or None")

    @classmethod
    def of(cls, given: "RanksLike") -> "Ranks":
        """Returns the `Ranks` for the value of a loader's `ranks=`.

        Raises:
            ValueError: The value is not valid, or ``"auto"`` finds numbers that are not.
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
"""The values of `ranks=`. None is one process."""


def _of_environment() -> tuple[int, int]:
    """Returns rank and world size from torch.distributed or from torchrun's variables."""
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
            "ranks='auto' needs whole numbers in the environment variables RANK and WORLD_SIZE, "
            f"got {found[0]!r} and {found[1]!r}; start the program with torchrun, or give "
            "ranks=(rank, world_size)"
        ) from None
    return rank, world_size
