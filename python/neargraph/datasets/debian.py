"""The graph of all Debian (or Ubuntu) packages, from apt's own lists on this machine.

Nodes are packages in the order of `apt-cache dumpavail`; of entries with the same name, the first
counts. An edge points from a dependency to the package that depends on it. Version limits,
architectures and build profiles are ignored. `a | b` gives an edge from each. A name of no package
is resolved through Provides to each provider. Names without a provider are left out and counted.

Tensors: `x`, f32, is the binary bag of words of the one-line description (lower case, frequent
words only). `y`, i64, is the section without its component ("contrib/net" is "net"), or -1 if there
is none. Sections are not merged.
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
    """apt is not installed, or its lists have fewer packages than a distribution."""


@dataclass(slots=True)
class Packages:
    """The content of apt's lists, one entry per package. Names are not resolved yet."""

    names: dict[str, int] = field(default_factory=dict)
    sections: list[str] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)
    relations: dict[str, list[tuple[int, str]]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    providers: dict[str, list[int]] = field(default_factory=dict)

    def add(self, stanza: dict[str, str]) -> None:
        """Adds one stanza, unless its package was added before."""
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
    """The package names of a relation field, in order and without repeats."""
    names: dict[str, None] = {}
    for part in value.replace("|", ",").split(","):
        match = _NAME.match(part.strip())
        if match:
            names[match[0]] = None
    return list(names)


def parse_stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yields the stanzas of a Packages file, each with the fields that the graph needs.

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
            # The lines after the first one of Description are the long text, which is not used.
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
    """Reads all packages of apt's lists from the output of ``command``.

    Raises:
        AptListsMissing: apt is not installed, or it fails, or it lists fewer than 10,000 packages.
            Without its lists, apt lists the installed packages only.
    """
    if shutil.which(command[0]) is None:
        raise AptListsMissing(
            f"{command[0]} is not installed; the graph of packages needs Debian or Ubuntu"
        )
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
            f"apt's lists are missing: `{' '.join(command)}` printed {len(packages.names):,} "
            f"packages (exit code {process.returncode}); fetch the lists with: {APT_COMMAND}"
        )
    return packages


def _edges(packages: Packages, kinds: Iterable[str]) -> tuple[Array, int]:
    """Returns ([E, 2] dependency and dependent, number of names without a provider)."""
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
    # A package that conflicts with a virtual name that it provides itself excludes the others only.
    return table[table[:, 0] != table[:, 1]], unknown


def _stream(table: Array) -> Callable[[], Iterator[EdgeChunk]]:
    def chunks() -> Iterator[EdgeChunk]:
        for span in spans(len(table)):
            yield EdgeChunk(*map(np.ascontiguousarray, table[span].T))

    return chunks


def plan_debian(packages: Packages, min_count: int = 10, typed: bool = False) -> GraphPlan:
    """Returns the plan of the package graph, for an import.

    Args:
        packages: The result of `read_apt`.
        min_count: Drop words that are in fewer descriptions.
        typed: Make one edge type per kind of relation. Default: one edge type for all kinds, on
            which the demo trains.

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
    message = f"{unknown:,} dependencies that no package provides were left out"
    notes = [Note("names-dropped", unknown, origin, message)] if unknown else []
    facts = [f"{count:,} packages, {width:,} words, {len(classes)} sections"]
    return GraphPlan(origin, "debian packages", [node], edges, notes, facts)
