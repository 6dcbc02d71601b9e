"""The table: what decides a batch (contents), what must not (settings), and what is refused.

Everything that the settings of one content give has one digest. A way that the product refuses has
the class of the refusal in place of a digest, by the first rule of REFUSED that fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import neargraph as ng

from .stores import ROWS

Options = dict[str, Any]


@dataclass(frozen=True)
class Content:
    """Arguments that decide which batches come, and their bytes."""

    options: Options = field(default_factory=dict)
    fanouts: tuple[int, ...] | None = None
    batch_size: int | None = None
    # "ids", or what loaders take as `input_nodes`.
    seeds: str | None = "ids"
    # Whether an epoch of it is compiled; such a set serves all that differ in `x` alone.
    is_compiled: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether it is one rank's part, which only loaders make."""
        return "ranks" in self.options


SHUFFLED: Options = {"shuffle": True}
LABOR: Options = {"shuffle": True, "method": "labor"}
CONTENTS: dict[str, Content] = {
    "plain": Content(is_compiled=True),
    "shuffled": Content(SHUFFLED, is_compiled=True),
    "replaced": Content(SHUFFLED | {"replace": True}, is_compiled=True),
    "labor": Content(LABOR, is_compiled=True),
    "labor, dependent": Content(LABOR | {"dependent_batches": 3}, is_compiled=True),
    "all neighbours": Content(SHUFFLED, fanouts=(-1,), is_compiled=True),
    # So few lists that they are streamed instead of read hop by hop.
    "few": Content(SHUFFLED, fanouts=(3, 2), batch_size=4),
    "few, replaced": Content(SHUFFLED | {"replace": True}, fanouts=(3, 2), batch_size=4),
    "whole batches": Content(SHUFFLED | {"drop_last": True}),
    "no tensors": Content(SHUFFLED | {"attrs": []}),
    "x as f16": Content(SHUFFLED | {"x_dtype": "f16"}),
    "x as bf16": Content(SHUFFLED | {"x_dtype": "bf16"}),
    "x as stored": Content(SHUFFLED | {"x_dtype": "stored"}),
    "x sparse": Content(SHUFFLED | {"x_format": "sparse"}),
    "rank 0 of 2": Content(SHUFFLED | {"ranks": (0, 2)}),
    "rank 1 of 2": Content(SHUFFLED | {"ranks": (1, 2)}),
    "rank 1 of 2, no padding": Content(SHUFFLED | {"ranks": ng.Ranks(1, 2, pad=False)}),
    "train": Content(SHUFFLED, seeds="train"),
    "all nodes": Content(SHUFFLED, seeds=None),
    "labor with replacement": Content(LABOR | {"replace": True}),
}

# Settings of `ng.Reading`.
READINGS: dict[str, Options] = {
    "default": {},
    "caches": {"way": "on_demand"},
    "scan": {"way": "scan", "two_phase": False},
    "scan, two phases": {"way": "scan", "two_phase": True},
    "window": {"way": "window", "two_phase": False, "window": 3},
    "scan, nothing written": {"way": "scan", "temporary_writes": "never"},
    "distribute": {"way": "distribute"},
    "distribute, one phase": {"way": "distribute", "two_phase": False},
    "caches, window": {"way": "on_demand", "window": 3},
    "naive": {"way": "naive-uring"},
    "naive, sieve": {"way": "naive-uring+sieve"},
    "auto, window": {"window": 3},
    "auto, two phases": {"two_phase": True},
    "compiled": {"way": "compiled"},
    "compiled if there": {"way": "compiled", "otherwise": "auto"},
    "direct layout": {"way": "direct_layout"},
}
BACKENDS = ("uring", "odirect", "pread", "mmap", "memory")
MEMORY = ("small", "large")
FACES = ("sampler", "loader", "resumed", "processes", "one by one")
THREADS: dict[str, Options] = {
    "any": {},
    "1 thread": {"threads": 1, "prefetch": 1},
    "4 threads": {"threads": 4, "prefetch": 8},
}


@dataclass(frozen=True)
class Way:
    """One way to make the batches of a content."""

    content: str
    face: str = "loader"
    reading: str = "default"
    rows: str = "natural"
    backend: str = "uring"
    memory: str = "small"
    threads: str = "any"

    @property
    def settings(self) -> str:
        """All but the content, as one text."""
        parts = (self.face, self.reading, self.rows, self.backend, self.memory, self.threads)
        return " / ".join(parts)


ALL = tuple(CONTENTS)
FULL = tuple(READINGS)
OWN = ("plain", "labor", "few", "all neighbours", "replaced")
RANKS = ("rank 0 of 2", "rank 1 of 2", "rank 1 of 2, no padding")
SAMPLED = ("default", "caches", "scan", "direct layout")
ONE = ("shuffled",)
NATURAL, URING, SMALL, LARGE, ANY = ("natural",), ("uring",), ("small",), ("large",), ("any",)
SHAPED = ("default", "scan, two phases", "compiled", "direct layout")
Product = tuple[tuple[str, ...], ...]
# Each line is a full product: (contents, faces, readings, rows, backends, memory, threads).
EVERYWHERE: tuple[Product, ...] = (
    (ALL, ("loader",), SHAPED, NATURAL, URING, SMALL, ANY),
    (ONE, ("sampler",), FULL, NATURAL, BACKENDS, SMALL, ANY),
    (ONE, ("sampler", "loader"), SAMPLED, ROWS, URING, MEMORY, ANY),
    (ONE + RANKS, ("resumed", "one by one", "processes"), SHAPED, NATURAL, URING, SMALL, ANY),
)
WIDE: tuple[Product, ...] = (
    (ALL, ("loader",), FULL, NATURAL, URING, SMALL, ANY),
    (ALL, ("one by one",), SAMPLED, NATURAL, URING, SMALL, ANY),
    (ONE, ("sampler",), FULL, NATURAL, BACKENDS, MEMORY, ANY),
    (ONE, ("sampler",), SAMPLED, ROWS, BACKENDS, SMALL, ANY),
    (OWN, ("sampler",), SAMPLED, NATURAL, BACKENDS, SMALL, ANY),
    (ONE, ("loader",), FULL, NATURAL, URING, LARGE, tuple(THREADS)),
    (("plain", "labor, dependent", "rank 1 of 2"), ("resumed",), FULL, NATURAL, URING, LARGE, ANY),
    (ONE, ("processes",), FULL, NATURAL, URING, SMALL, ANY),
    (OWN, ("processes",), ("default", "direct layout"), NATURAL, URING, SMALL, ANY),
)


def ways(is_wide: bool) -> Iterator[Way]:
    """Every way of the products, once; without those for which a face has no argument."""
    seen = set()
    for product in EVERYWHERE + WIDE if is_wide else EVERYWHERE:
        for content, face, *others in itertools.product(*product):
            way = Way(content, face, *others)
            if CONTENTS[content].is_ranked and face in ("sampler", "one by one"):
                continue
            if face == "one by one" and way.reading not in ("default", "direct layout"):
                continue
            if way not in seen:
                seen.add(way)
                yield way


@dataclass(frozen=True)
class Facts:
    """What of a graph decides what is refused."""

    is_homogeneous: bool
    has_x: bool
    has_sparse_x: bool
    has_split: bool


Rule = Callable[[Way, Content, Options, Facts], bool]
NO_AHEAD = ("on_demand", "naive-uring", "naive-uring+sieve")
AHEAD = ("window", "scan", "distribute", "naive-uring", "naive-uring+sieve")


def _asks_to_look_ahead(options: Options) -> bool:
    return any(name in options for name in ("window", "two_phase", "threads"))


def _must_replay(options: Options) -> bool:
    return options.get("way") == "compiled" and "otherwise" not in options


def _is_direct(options: Options) -> bool:
    return options.get("way") == "direct_layout"


# In the order in which the product looks: the first rule that fits names the exception.
REFUSED: tuple[tuple[str, Rule], ...] = (
    ("UnsupportedArgument", lambda w, c, o, f: o.get("way") in NO_AHEAD and "window" in o),
    (
        "UnsupportedArgument",
        lambda w, c, o, f: o.get("way") == "distribute" and o.get("two_phase") is False,
    ),
    ("UnsupportedArgument", lambda w, c, o, f: _must_replay(o) and _asks_to_look_ahead(o)),
    ("UnsupportedArgument", lambda w, c, o, f: w.face == "processes" and _must_replay(o)),
    (
        "UnsupportedArgument",
        lambda w, c, o, f: (
            w.face == "processes"
            and (o.get("way") in AHEAD or "window" in o or "two_phase" in o or "threads" in o)
        ),
    ),
    ("UnsupportedArgument", lambda w, c, o, f: o.get("method") == "labor" and "replace" in o),
    ("UnsupportedArgument", lambda w, c, o, f: _is_direct(o) and o.get("method") == "labor"),
    ("UnsupportedArgument", lambda w, c, o, f: "x_dtype" in o and not f.has_x),
    ("UnsupportedArgument", lambda w, c, o, f: "x_format" in o and not f.has_sparse_x),
    ("CompiledMismatch", lambda w, c, o, f: _is_direct(o) and not f.is_homogeneous),
    ("NameNotFound", lambda w, c, o, f: c.seeds == "train" and not f.has_split),
    ("CompiledMismatch", lambda w, c, o, f: _must_replay(o) and not _has_compiled(c)),
)


def _has_compiled(content: Content) -> bool:
    """Whether the epoch of a content is among those that were compiled: `x` may differ."""
    if content.is_compiled:
        return True
    shaping = {k: v for k, v in content.options.items() if k not in ("x_dtype", "x_format")}
    shaping.pop("attrs", None)
    is_same = content.fanouts is None and content.batch_size is None and content.seeds == "ids"
    return is_same and shaping == SHUFFLED


def refusal(way: Way, options: Options, facts: Facts) -> str | None:
    """The exception class that a way shall raise; None where it shall make batches."""
    content = CONTENTS[way.content]
    for name, fits in REFUSED:
        if fits(way, content, options, facts):
            return name
    return None
