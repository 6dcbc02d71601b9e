"""`Reading`: the settings of how a loader reads its batches, checked in one place.

The invariant: every setting of an accepted combination has an effect. A setting that a way of
reading would ignore raises an error that names it, before anything is read.
"""

import os
import re
from dataclasses import dataclass
from typing import Any, Literal

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.options import check_count

DIRECT_SUFFIX = ".direct"
"""The suffix of files of the direct layout."""

RowReading = Literal["auto", "on_demand", "window", "scan", "distribute"]
"""The ways of reading rows that are not in memory."""
ReadingName = Literal[RowReading, "compiled", "direct_layout"]
"""The names that `reading=` accepts."""

_BASELINES = ("naive-uring", "naive-uring+sieve")
ROW_READINGS = ("auto", "on_demand", "window", "scan", "distribute", *_BASELINES)
NAMES = ("auto", "on_demand", "window", "scan", "distribute", "compiled", "direct_layout")
_AHEAD = ("window", "two_phase", "temporary_writes")


@dataclass(frozen=True)
class Reading:
    """How a loader reads its batches. The batches are the same with every setting.

    Loaders also accept a name or a path: ``reading="scan"`` is ``Reading("scan")``.

    Attributes:
        way: A name or a path.

            - ``"auto"`` chooses the way that is expected to take the least time of the disk.
            - ``"on_demand"`` reads the rows of a batch when the batch is made, through the caches.
            - ``"window"`` looks ahead and reads the rows of many batches in the order of the file.
            - ``"scan"`` looks ahead and reads the file from front to back, again and again.
            - ``"distribute"`` reads the file once, and writes each row to the regions of its
              batches in a temporary file.
            - ``"compiled"`` replays the store's compiled epochs (`neargraph compile`).
            - ``"direct_layout"`` reads the store's direct layout
              (`neargraph compile --layout direct`).
            - The path of a directory replays the compiled epochs in it.
            - The path of a file ``NAME.direct`` reads this direct layout.
        window: Number of batches to look ahead. None: as many as memory has room for.
        two_phase: Sample many batches ahead (up to 1,024, or eight windows), keep the samples on
            disk (about 1 MiB each, beside the store), and then use the memory of the topology for
            rows. None: where this saves time. False also excludes ``"distribute"``.
        temporary_writes: Limit on the rows that an epoch writes to temporary files: a multiple of
            the bytes of the tensors that are read, such as ``"2x"``. ``"auto"`` is ``"1x"``.
            ``"never"`` writes neither rows nor samples.
        prefetch: Maximum number of batches to make ahead of the consumer. Fewer are made if memory
            is short. None: 1 with look-ahead or compiled epochs, else 4.
        threads: Number of background threads. None: one per core, at most 4.
        otherwise: With compiled epochs: how rows are read if no compiled epochs match the loader,
            or memory is too small for a replay. None raises `CompiledMismatch` or `BudgetTooSmall`
            instead.
        check_rows: Read every row of every batch a second time, through other caches, and raise
            `WrongRow` if the two differ. Batches take several times as long, and the check uses
            32 MB outside the store's budget.

    Raises:
        ValueError: A value is not valid for its setting.
        UnsupportedArgument: A setting has no effect in combination with another one.

    Example:
        >>> loader = ng.NeighborLoader(store, [15, 10], reading=ng.Reading("scan", window=64))
    """

    way: ReadingName | str | os.PathLike[str] = "auto"
    window: int | None = None
    two_phase: bool | None = None
    temporary_writes: str = "auto"
    prefetch: int | None = None
    threads: int | None = None
    otherwise: RowReading | None = None
    check_rows: bool = False

    @classmethod
    def of(cls, given: "ReadingLike") -> "Reading":
        """Returns the `Reading` for the value of a loader's `reading=`."""
        return given if isinstance(given, Reading) else cls(given)

    def __post_init__(self) -> None:
        self._check_way()
        for name in ("window", "prefetch", "threads"):
            check_count(name, getattr(self, name), 1, optional=True)
        if self.two_phase not in (None, True, False):
            raise ValueError(f"two_phase={self.two_phase!r} is not valid: expected True or False")
        if self.check_rows not in (True, False):
            raise ValueError(f"check_rows={self.check_rows!r} is not valid: expected True or False")
        self._check_writes()
        if self.rows == "on_demand" or self.rows.startswith("naive"):
            self._refuse(f"reading={self.rows!r} does not look ahead", "another reading=", *_AHEAD)
        if self.rows == "window" and self.two_phase is True:
            raise UnsupportedArgument(
                "two_phase=True has no effect with reading='window'; leave out two_phase=, or use "
                "reading='scan'"
            )
        if self.rows == "distribute" and self.two_phase is False:
            raise UnsupportedArgument(
                "reading='distribute' writes rows to disk in a first phase, which "
                "two_phase=False forbids; leave out two_phase=, or use another reading="
            )
        if self.must_replay:
            does = f"reading={self._shown!r} reads compiled epochs from front to back"
            self._refuse(does, "otherwise='auto'", *_AHEAD, "threads")
        if self.layout != "paged":
            does = f"reading={self._shown!r} reads the batches one by one"
            self._refuse(does, "reading='auto'", *_AHEAD)

    def _check_way(self) -> None:
        way = self.way
        if not isinstance(way, str | os.PathLike):
            raise ValueError(f"reading={way!r} is not a valid reading: expected {_EXPECTED}")
        is_path = way not in NAMES and way not in _BASELINES
        is_there = os.path.isdir(way) or os.fspath(way).endswith(DIRECT_SUFFIX)
        if is_path and isinstance(way, str) and not is_there:
            raise ValueError(f"reading={way!r} is not a valid reading: expected {_EXPECTED}")
        if self.otherwise is not None and self.otherwise not in ROW_READINGS:
            known = ", ".join(map(repr, NAMES[:5]))
            raise ValueError(f"otherwise={self.otherwise!r} is not valid: expected {known}")
        if self.otherwise is not None and self.compiled is False:
            raise UnsupportedArgument(
                f"otherwise={self.otherwise!r} has no effect with reading={self._shown!r}, which "
                "does not replay compiled epochs; leave out otherwise="
            )

    def _check_writes(self) -> None:
        """Rejects a limit that is not valid, or that contradicts another setting."""
        limit = self.write_limit()
        if limit is None:
            return
        if self.rows == "distribute":
            raise UnsupportedArgument(
                "reading='distribute' writes as many rows as it needs, so "
                f"temporary_writes={self.temporary_writes!r} has no effect; leave "
                "out temporary_writes=, or use reading='auto'"
            )
        if limit == 0 and self.two_phase is True:
            raise UnsupportedArgument(
                "two_phase=True keeps samples on disk, which temporary_writes='never' forbids; "
                "leave out two_phase= or temporary_writes="
            )

    @property
    def _shown(self) -> str:
        return os.fspath(self.way)

    @property
    def layout(self) -> str:
        """``"paged"``, ``"direct"``, or the path of a file of the direct layout."""
        if self.way == "direct_layout":
            return "direct"
        return self._shown if self._shown.endswith(DIRECT_SUFFIX) else "paged"

    @property
    def compiled(self) -> bool | str:
        """Whether compiled epochs are replayed: True for those of the store, or a directory."""
        if self.way in ROW_READINGS or self.layout != "paged":
            return False
        return True if self.way == "compiled" else self._shown

    @property
    def must_replay(self) -> bool:
        """Whether it is an error if compiled epochs cannot be replayed."""
        return self.compiled is not False and self.otherwise is None

    @property
    def rows(self) -> str:
        """The way of reading rows, if neither compiled epochs nor the direct layout are used."""
        if self.compiled is not False:
            return self.otherwise or "auto"
        return "on_demand" if self.layout != "paged" else self._shown

    def write_limit(self) -> float | None:
        """Returns `temporary_writes` as a multiple of the tensors' bytes; None is the default.

        Raises:
            ValueError: `temporary_writes` is not valid.
        """
        if self.temporary_writes == "auto":
            return None
        if self.temporary_writes == "never":
            return 0.0
        text = self.temporary_writes if isinstance(self.temporary_writes, str) else ""
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})?x", text):
            raise ValueError(
                f"temporary_writes={self.temporary_writes!r} is not valid: expected 'auto', "
                "'never' or a multiple of the size of the tensors, e.g. '2x'"
            )
        return float(text[:-1])

    def check_layout(self, layout: str) -> None:
        """Rejects settings that have no effect on a sampler of this layout."""
        if layout == "direct" and self.layout == "paged":
            self._refuse_ahead("layout='direct' reads the batches one by one", "layout='paged'")
        if layout == "paged" and self.layout != "paged":
            raise UnsupportedArgument(
                f"reading={self._shown!r} has no effect on a sampler with layout='paged'; create "
                "the sampler with layout='direct'"
            )

    def check_workers(self, num_workers: int) -> None:
        """Rejects settings that worker processes ignore. They never replay compiled epochs."""
        if not num_workers:
            return
        does = f"with num_workers={num_workers}, each worker process makes its batches one by one"
        self._refuse_ahead(does, "num_workers=0", "threads")
        self._refuse(does, "prefetch_factor=", "prefetch")

    def of_core(self) -> dict[str, Any]:
        """Returns the arguments of the compiled loader."""
        names = ("window", "two_phase", "prefetch", "threads")
        core = {name: getattr(self, name) for name in names}
        return {**core, "reading": self.rows, "temporary_writes": self.write_limit()}

    def _refuse_ahead(self, does: str, instead: str, *names: str) -> None:
        """Rejects `names`, and every setting that has no effect without look-ahead."""
        if self.must_replay or self.rows not in ("auto", "on_demand"):
            raise UnsupportedArgument(
                f"{does}, so reading={self._shown!r} has no effect; leave out reading=, or use "
                f"{instead}"
            )
        self._refuse(does, instead, *_AHEAD, *names)

    def _refuse(self, does: str, instead: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value != type(self).__dataclass_fields__[name].default:
                raise UnsupportedArgument(
                    f"{does}, so {name}={value!r} has no effect; leave out {name}=, or use "
                    f"{instead}"
                )


ReadingLike = Reading | ReadingName | str | os.PathLike[str]
"""The values of `reading=`: a name, a path, or all settings."""

_EXPECTED = (
    f"{', '.join(map(repr, NAMES))}, a directory of compiled epochs, or a file NAME{DIRECT_SUFFIX}"
)
