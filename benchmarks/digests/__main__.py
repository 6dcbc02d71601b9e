"""Digests of batches over every way of making them.

    python -m benchmarks.digests --out before.json      # writes them down
    python -m benchmarks.digests --against before.json  # 1, and what differs, if anything does
    python -m benchmarks.digests --quick                # three graphs

Ways that must give equal batches are compared with each other in every run. What a table calls
refused must be refused, with that class of exception. Stores are kept in `.bench/digests`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import neargraph as ng

from ..places import BENCH
from .digest import Flat, digest_of
from .make import Maker, compile_all, options_of
from .others import OTHERS, Make, group_of, is_made, refusal_of
from .stores import GRAPHS, QUICK, ROWS, WIDELY, Graph, make_stores, seed_ids, standard_at
from .ways import BACKENDS, MEMORY, Facts, Way, refusal, ways

# group -> settings -> digest and number of batches, or the refusal.
Found = dict[str, dict[str, str]]


class Failed(list[str]):
    """What is wrong, one line each, which is said at once."""

    def append(self, line: str) -> None:
        print(line, flush=True)
        super().append(line)


def outcome(start: Callable[[], Any], make: Callable[[Any], Iterable[Flat]]) -> str:
    """The digest with the number of batches, or the class of what was raised.

    Every way opens the store for itself: nothing is in the caches, and nobody else has memory.
    """
    try:
        with start() as store:
            digest, count = digest_of(make(store))
    except Exception as error:
        return f"refused: {type(error).__name__}: {error}"
    return f"{digest} {count}"


def record(
    found: Found, failed: Failed, where: tuple[str, str, str], got: str, wanted: Any
) -> None:
    """Writes an outcome down, and complains where it is not what the table says."""
    graph, group, settings = where
    refused = got.startswith("refused: ")
    name = got.split(": ")[1] if refused else None
    if name != wanted:
        failed.append(f"{graph}: {group}: {settings}: wanted {wanted or 'batches'}, got {got}")
    known = found.setdefault(group, {})
    if not refused:
        made = [text for text in known.values() if not text.startswith("refused: ")]
        if made and got != made[0]:
            failed.append(f"{graph}: {group}: {settings}: differs from the others of its group")
    known[settings] = f"refused: {name}" if refused else got


def facts_of(store: Any, graph: Graph) -> Facts:
    """What of the graph decides what is refused."""
    owners = store.schema.node_types
    x = [t for owner in owners for t in owner.tensors if t.name == "x"]
    splits = [t for owner in owners for t in owner.tensors if t.is_split]
    return Facts(store.schema.is_homogeneous, bool(x), any(t.sparse for t in x), bool(splits))


def openings() -> Iterator[tuple[str, str, str]]:
    """Every (rows, back end, memory)."""
    for rows in ROWS:
        for backend in BACKENDS:
            for memory in MEMORY:
                yield rows, backend, memory


def run_graph(name: str, graph: Graph, folder: Path, times: float, failed: Failed) -> Found:
    """The digests of all ways of one graph."""
    stores = make_stores(name, graph, folder)
    with ng.open(stores["natural"], memory="1GB") as store:
        ids, facts = seed_ids(store, graph), facts_of(store, graph)
    for path in stores.values():
        compile_all(path, graph, ids, facts.is_homogeneous)
    by_opening: dict[tuple[str, str, str], list[Way]] = {opening: [] for opening in openings()}
    for way in ways(is_wide=name in WIDELY):
        by_opening[way.rows, way.backend, way.memory].append(way)
    found: Found = {}
    for opening, some in by_opening.items():
        rows, backend, memory = opening
        budget = int(graph.memory_mb[memory] * 1e6 * times)
        start = partial(ng.open, stores[rows], memory=budget, backend=backend)
        for way in some:
            wanted = refusal(way, options_of(way), facts)
            got = outcome(start, lambda store, way=way: Maker(store, graph, ids).batches(way))
            record(found, failed, (name, way.content, way.settings), got, wanted)
        for face, how, make in other_ways(opening):
            where = (name, group_of(face, rows), " / ".join((how, *opening)))
            got = outcome(start, lambda store, make=make: make(store, graph, ids))
            record(found, failed, where, got, refusal_of(face, facts.is_homogeneous))
    return found


def other_ways(opening: tuple[str, str, str]) -> Iterator[tuple[str, str, Make]]:
    """(group, way, how it is made) of what is no `Way`."""
    for face, makes in OTHERS.items():
        for how, make in makes.items():
            if is_made(how, opening):
                yield face, how, make


def differences(before: dict[str, Found], after: dict[str, Found]) -> Iterator[str]:
    """What two runs do not have in common, of the graphs of the second."""
    for name, groups in after.items():
        old = before.get(name, {})
        for group in sorted(old.keys() | groups.keys()):
            theirs, ours = old.get(group, {}), groups.get(group, {})
            for settings in sorted(theirs.keys() | ours.keys()):
                one, other = theirs.get(settings, "missing"), ours.get(settings, "missing")
                if one != other:
                    yield f"{name}: {group}: {settings}: {one} before, {other} now"


def packed(found: dict[str, Found]) -> dict[str, Any]:
    """The same for a file: of each group its outcomes, and of each outcome its ways."""
    out: dict[str, Any] = {}
    for name, groups in found.items():
        for group, outcomes in groups.items():
            by_outcome = out.setdefault(name, {}).setdefault(group, {})
            for settings, got in sorted(outcomes.items()):
                by_outcome.setdefault(got, []).append(settings)
    return out


def unpacked(file: dict[str, Any]) -> dict[str, Found]:
    """What `packed` was made of."""
    return {
        name: {
            group: {way: got for got, some in by_outcome.items() for way in some}
            for group, by_outcome in groups.items()
        }
        for name, groups in file.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="where to write the digests")
    parser.add_argument("--against", type=Path, help="an earlier file to compare with")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--graphs", help="only these, like cora,cnr")
    parser.add_argument("--standard", help="also this, of `benchmarks.graphs`, like planted_4m")
    parser.add_argument("--memory-times", type=float, default=1.0, help="larger budgets")
    parser.add_argument("--folder", type=Path, default=BENCH / "digests")
    args = parser.parse_args()
    chosen = args.graphs.split(",") if args.graphs else list(QUICK if args.quick else GRAPHS)
    table = dict(GRAPHS)
    if args.standard is not None:
        table[args.standard] = standard_at(BENCH / "graphs" / f"{args.standard}.ng")
        chosen.append(args.standard)
    args.folder.mkdir(parents=True, exist_ok=True)
    failed, found = Failed(), {}
    for name in chosen:
        start = time.perf_counter()
        found[name] = run_graph(name, table[name], args.folder, args.memory_times, failed)
        count = sum(map(len, found[name].values()))
        print(f"{name}: {count} ways, {time.perf_counter() - start:.0f} s", flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(packed(found), indent=1, sort_keys=True) + "\n")
    if args.against is not None:
        for line in differences(unpacked(json.loads(args.against.read_text())), found):
            failed.append(line)
    print(f"{sum(len(g) for f in found.values() for g in f.values())} ways, {len(failed)} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
