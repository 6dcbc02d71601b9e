"""The graph of all Debian (or Ubuntu) packages, from apt's own lists on this machine.

Nodes are packages in the order of `apt-cache dumpavail` (first entry of a name). An edge points
from the dependency to the package that names it; version limits, architectures and build
profiles are dropped, `a | b` gives both. A name that no package has is resolved through Provides,
to each provider; names nobody provides are left out and counted. Tensors: `x`, f32, the binary
bag of words of the one-line description (lower case, words met often enough); `y`, i64, the
section without its component ("contrib/net" is "net"), no section merged, -1 where there is none.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from neargraph.exceptions import ImportFailed
from neargraph.importers.chunks import spans
from neargraph.importers.csr import bag_rows
from neargraph.importers.notes import Note
from neargraph.importers.plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

KINDS = (
    "Pre-Depends",
    "Depends",
    "Recommends",
    "Suggests",
    "Enhances",
    "Conflicts",
    "Breaks",
    "Replaces",
)
MIN_PACKAGES = 10_000
APT_COMMAND = "sudo apt-get update"
_FIELDS = {"Package", "Section", "Description", "Provides", *KINDS}
_WORD = re.compile(r"[a-z][a-z0-9+]{2,}")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.+-]*")


class AptListsMissing(ImportFailed):
    """apt is not here, or its lists hold too few packages to be a distribution."""


@dataclass(slots=True)
class Packages:
    """What the lists say, one entry per package; names are resolved later."""

    names: dict[str, int] = field(default_factory=dict)
    sections: list[str] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)
    relations: dict[str, list[tuple[int, str]]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    providers: dict[str, list[int]] = field(default_factory=dict)

    def add(self, stanza: dict[str, str]) -> None:
        """Takes one stanza; a name met before is left as it was."""
        name = stanza.get("Package", "")
        if not name or name in self.names:
            return
        number = len(self.names)
        self.names[name] = number
        self.sections.append(stanza.get("Section", "").rpartition("/")[2])
        self.words.append(sorted(set(_WORD.findall(stanza.get("Description", "").lower()))))
        for kind in KINDS:
            found = _targets(stanza.get(kind, ""))
            self.relations[kind].extend((number, target) for target in found)
        for virtual in _targets(stanza.get("Provides", "")):
            self.providers.setdefault(virtual, []).append(number)


def _targets(value: str) -> list[str]:
    """Package names of a relation field, in order, each once."""
    names: dict[str, None] = {}
    for part in value.replace("|", ",").split(","):
        match = _NAME.match(part.strip())
        if match:
            names[match[0]] = None
    return list(names)


def parse_stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The stanzas of a Packages file, each with the fields that matter here.

    >>> list(parse_stanzas(["Package: a", "Depends: b,", " c", "", "Package: b"]))
    [{'Package': 'a', 'Depends': 'b, c'}, {'Package': 'b'}]
    """
    stanza: dict[str, str] = {}
    current = ""
    for raw in lines:
        line = raw.rstrip("\n")
        if not line:
            if stanza:
                yield stanza
            stanza, current = {}, ""
        elif line[0] in " \t":
            # Description goes on with the long text, which is not the one-line summary.
            if current and current != "Description":
                stanza[current] += " " + line.strip()
        else:
            key, _, value = line.partition(":")
            current = "Description" if key.startswith("Description-") and key[12:] != "md5" else key
            if current in _FIELDS:
                stanza.setdefault(current, value.strip())
            else:
                current = ""
    if stanza:
        yield stanza


def read_apt(command: tuple[str, ...] = ("apt-cache", "dumpavail")) -> Packages:
    """Every package that apt's lists name, streamed from ``command``.

    Raises `AptListsMissing` where apt is not installed, fails, or knows fewer than 10,000
    packages (a machine whose lists were deleted knows only what is installed).
    """
    if shutil.which(command[0]) is None:
        raise AptListsMissing(f"{command[0]}: not found; this demo graph needs Debian or Ubuntu")
    packages = Packages()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for stanza in parse_stanzas(process.stdout):
            packages.add(stanza)
    if process.returncode != 0 or len(packages.names) < MIN_PACKAGES:
        raise AptListsMissing(
            f"{' '.join(command)}: {len(packages.names):,} packages (exit {process.returncode}), "
            f"so apt's lists are not here; fetch them with: {APT_COMMAND}"
        )
    return packages


def _edges(packages: Packages, kinds: Iterable[str]) -> tuple[Array, int]:
    """([E, 2] dependency, dependent; names left out because nobody provides them)."""
    pairs: list[tuple[int, int]] = []
    unknown = 0
    for kind in kinds:
        for dependent, target in packages.relations[kind]:
            number = packages.names.get(target)
            if number is not None:
                pairs.append((number, dependent))
                continue
            providers = packages.providers.get(target, [])
            unknown += not providers
            pairs.extend((provider, dependent) for provider in providers)
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    # A package that conflicts with the virtual name it provides means all others, not itself.
    return table[table[:, 0] != table[:, 1]], unknown


def _stream(table: Array) -> Callable[[], Iterator[EdgeChunk]]:
    def chunks() -> Iterator[EdgeChunk]:
        for span in spans(len(table)):
            yield EdgeChunk(*map(np.ascontiguousarray, table[span].T))

    return chunks


def plan_debian(packages: Packages, min_count: int = 10, typed: bool = False) -> GraphPlan:
    """The plan of the package graph.

    Args:
        packages: From `read_apt`.
        min_count: Words in fewer descriptions than this are dropped.
        typed: One edge type per kind of relation; otherwise all kinds are one edge type, which is
            what the demo trains on.

    Example:
        >>> plan_debian(read_apt())                                   # doctest: +SKIP
    """
    counts = Counter(word for words in packages.words for word in words)
    vocabulary = {
        w: k for k, w in enumerate(sorted(w for w, n in counts.items() if n >= min_count))
    }
    bags = [
        np.array([vocabulary[w] for w in words if w in vocabulary], dtype=np.int32)
        for words in packages.words
    ]
    classes = sorted(set(packages.sections) - {""})
    number = {name: k for k, name in enumerate(classes)}
    labels = np.array([number.get(name, -1) for name in packages.sections], dtype=np.int64)
    count = len(packages.names)
    width = len(vocabulary)
    x = TensorPlan("x", "f32", (width,), lambda: bag_rows(bags, width), count)
    y = TensorPlan("y", "i64", (), lambda: iter([labels]), count)
    node = NodePlan("package", count, tensors=[x, y])
    groups: list[tuple[str, tuple[str, ...]]] = [("relates", KINDS)]
    if typed:
        groups = [(kind.lower().replace("-", "_"), (kind,)) for kind in KINDS]
    edges, unknown = [], 0
    for relation, kinds in groups:
        table, missing = _edges(packages, kinds)
        unknown += missing
        edges.append(EdgePlan("package", relation, "package", _stream(table), num_edges=len(table)))
    origin = "apt-cache dumpavail"
    message = f"{unknown:,} names that no package has or provides are left out"
    notes = [Note("names-dropped", unknown, origin, message)] if unknown else []
    facts = [f"{count:,} packages, {width:,} words, {len(classes)} sections"]
    return GraphPlan(origin, "debian packages", [node], edges, notes, facts)
