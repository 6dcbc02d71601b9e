"""How batches are to be read: one set of arguments, checked in one place.

The invariant: every combination that passes is honoured. What some way of reading would ignore is
refused by name, before anything is read.
"""

import math
import os
import re
from dataclasses import dataclass
from numbers import Real
from typing import Any

from neargraph.exceptions import UnsupportedArgument

READINGS = (
    "auto",
    "on_demand",
    "window",
    "scan",
    "distribute",
    "naive-uring",
    "naive-uring+sieve",
)

Compiled = bool | str | os.PathLike[str]
"""`compiled=` of loaders: False, True, ``"auto"``, or the directory of the files."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The arguments of loaders and of `NeighborSampler.batches` that say how rows are read.

    Raises:
        ValueError: A value that no argument of that name takes.
        UnsupportedArgument: An argument that another one leaves without effect.
    """

    reading: str = "auto"
    window: int | None = None
    two_phase: bool | None = None
    temporary_writes: str = "auto"
    prefetch: int | None = None
    threads: int | None = None
    compiled: Compiled = False

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            known = ", ".join(map(repr, READINGS))
            raise ValueError(f"reading={self.reading!r} is not one of {known}")
        for name in ("window", "prefetch", "threads"):
            check_count(name, getattr(self, name), 1, optional=True)
        if not isinstance(self.compiled, bool | str | os.PathLike):
            raise ValueError(
                f"compiled={self.compiled!r} is not True, False, 'auto' or the path of a directory"
            )
        self._check_writes()
        if self.reading == "on_demand" or self.reading.startswith("naive"):
            does = f"reading={self.reading!r} does not look ahead"
            self._refuse(does, "reading another way", "window", "two_phase", "temporary_writes")
        if self.reading == "window" and self.two_phase is True:
            raise UnsupportedArgument(
                "reading='window' reads rows at random, so two_phase=True has no effect; leave it "
                "out, or use reading='scan'"
            )
        if self.reading == "distribute" and self.two_phase is False:
            raise UnsupportedArgument(
                "reading='distribute' samples batches first and writes to disk, which "
                "two_phase=False forbids; leave one of them out"
            )
        if self.replays:
            does = f"compiled={self.compiled!r} reads compiled epochs from front to back"
            ahead = ("reading", "window", "two_phase", "temporary_writes", "threads")
            self._refuse(does, "compiled=False", *ahead)

    def _check_writes(self) -> None:
        """Refuses a limit of writing that is not one, or that another argument contradicts."""
        limit = self.write_limit()
        if limit is None:
            return
        if self.reading == "distribute":
            raise UnsupportedArgument(
                f"reading='distribute' writes what it needs, so temporary_writes="
                f"{self.temporary_writes!r} has no effect; leave it out, or use reading='auto'"
            )
        if limit == 0 and self.two_phase is True:
            raise UnsupportedArgument(
                "two_phase=True keeps samples on disk, which temporary_writes='never' forbids; "
                "leave one of them out"
            )

    def write_limit(self) -> float | None:
        """Bytes that an epoch may write, as a multiple of the tensors' bytes; None is the default.

        Raises:
            ValueError: `temporary_writes` is not one of the values that its documentation names.
        """
        if self.temporary_writes == "auto":
            return None
        if self.temporary_writes == "never":
            return 0.0
        text = self.temporary_writes if isinstance(self.temporary_writes, str) else ""
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})?x", text):
            raise ValueError(
                f"temporary_writes={self.temporary_writes!r} is not 'auto', 'never' or a multiple "
                "of the tensors' bytes such as '2x'"
            )
        return float(text[:-1])

    @property
    def replays(self) -> bool:
        """Whether compiled epochs are replayed, or it is an error."""
        return self.compiled is not False and self.compiled != "auto"

    def check_layout(self, layout: str) -> None:
        """Refuses what the direct layout does not have; it never replays with ``"auto"``."""
        if layout == "direct":
            self._refuse_ahead("layout='direct' reads each batch by itself", "layout='paged'")

    def check_workers(self, num_workers: int) -> None:
        """Refuses what processes would ignore; they never replay with ``"auto"``."""
        if not num_workers:
            return
        does = f"num_workers={num_workers} makes batches one by one, in processes"
        self._refuse_ahead(does, "num_workers=0", "threads")
        self._refuse(does, "prefetch_factor=", "prefetch")

    def of_core(self) -> dict[str, Any]:
        """What the compiled loader takes."""
        names = ("reading", "window", "two_phase", "prefetch", "threads")
        core = {name: getattr(self, name) for name in names}
        return {**core, "temporary_writes": self.write_limit()}

    def _refuse_ahead(self, does: str, instead: str, *names: str) -> None:
        """Refuses `names`, and what batches that are made one by one ignore."""
        ahead = ["window", "two_phase", "temporary_writes", *names]
        if self.reading != "on_demand":
            ahead.insert(0, "reading")
        if self.replays:
            ahead.append("compiled")
        self._refuse(does, instead, *ahead)

    def _refuse(self, does: str, instead: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value != type(self).__dataclass_fields__[name].default:
                raise UnsupportedArgument(
                    f"{does}, so {name}={value!r} has no effect; leave it out, or use {instead}"
                )


# What the compiled core takes of counts; those of draws and steps are narrower.
_LARGEST = 2**63 - 1
LARGEST_DRAWS = 2**32 - 1


def check_count(
    name: str, value: Any, least: int, most: int = _LARGEST, *, optional: bool = False
) -> None:
    """Refuses what is not a whole number from `least` to `most`, or None where it is `optional`.

    Raises:
        ValueError: It is something else.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"from {least} on" if most == _LARGEST else f"in {least} ... {most}"
        raise ValueError(f"{name} must be a whole number {span}, got {value!r}")


def is_number(value: Any) -> bool:
    """Whether it is one finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
