"""GLIST's Figures 8 and 10 (section 5.2) in the simulator: what order, groups and caches are worth.

    python -m benchmarks.glist              # two minutes, after a first run that makes two stores

cnr-2000 with 256 generated f32 columns and ids in random order, GList with the preset `glist` in
mode `detailed`. R is a store whose rows are in the order of locality, S reads a page once for all
requests of a group, G makes a group of several batches, C keeps pages in the SSD's memory; N has
none of them. Streams are of 1,024 requests that arrive shuffled; "ordered" is the rest of S, all
requests by affinity. A batch visits a node once, so order helps without S, too. Cells are medians
(least-most) over seeds 0 to 4 of targets, draws and streams. `benchmarks.serving.glist` measures
the same through the server. Writes `.bench/glist.json`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import neargraph as ng
from neargraph.loader.direct import compile_direct
from neargraph.sim.requests import Requests
from neargraph.sim.runs import in_parallel

from .graphs import make_cnr, split_ids, write_store
from .machine import about
from .places import BENCH
from .training_tables import spread, table

SEEDS = range(5)
FANOUTS = [15, 10]
PAGE_BYTES = 16384
WINDOW = 64
HOME = BENCH / "glist"
# Those of the publication's Figure 10c.
COMBINATIONS = ["N", "C", "S", "R", "G", "RS", "CS", "CG", "CR", "GS", "CRS", "CGS", "CGR", "CGRS"]
GROUP = 16
SHARES = [0.1, 0.3]
REQUESTS = 1024
STREAM_GROUP = 4
SCHEDULED = ["S", "RS", "CGRS"]
LOCALITIES = [0.0, 0.2, 0.4, 0.6, 0.8]
GROUPS = [1, 4, 16, 64]
REPEATS = [0.0, 0.2, 0.5]
KEPT = [64, REQUESTS]
CACHES = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5]

Figures = dict[str, list[float]]
"""Of one seed: the figures of each row of a table, by the name of the row."""


class Web:
    """The two stores, and what they take on pages."""

    def __init__(self, plain: ng.Store, ordered: ng.Store) -> None:
        self.plain = plain
        self.ordered = ordered
        size = compile_direct(plain.snapshot(), attrs=["x"], page_bytes=PAGE_BYTES, dry_run=True)
        self.pages = size["primary_pages"] + size["secondary_pages"]

    def traces(self, record: Callable[[ng.Store], ng.sim.Trace]) -> dict[bool, ng.sim.Trace]:
        """The same requests on both; True has rows by locality."""
        return {False: record(self.plain), True: record(self.ordered)}

    def speed(
        self, trace: ng.sim.Trace, letters: str, share: float = 0.1, group: int = GROUP
    ) -> tuple[float, float, float]:
        """Requests a second, pages a batch and hit rate, with a cache of a share of all pages."""
        runs = ng.sim.simulate(
            trace,
            platforms=["GList"],
            mode="detailed",
            device=ng.sim.preset("glist"),
            merged="S" in letters,
            grouped=group if "G" in letters else 1,
            cache_pages=int(share * self.pages) if "C" in letters else 0,
        )
        counts = trace.about.get("requests", {"count": 1, "computed": 1})
        rate = runs["targets_per_s"][0] * counts["count"] / counts["computed"]
        return float(rate), float(runs["reads"][0]), float(runs["hit_rate"][0])


@contextmanager
def web() -> Iterator[Web]:
    """The stores, which the first run makes."""
    plain, ordered = HOME / "web.ng", HOME / "web_locality.ng"
    if not ordered.exists():
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        graph = make_cnr(256, 1, natural=False)
        write_store(graph, split_ids(graph.nodes, 1), graph.rows, plain)
        # A copy gets its name when it is complete.
        half = HOME / "half.ng"
        shutil.copytree(plain, half)
        with ng.open(half, memory="2GB") as store:
            store.reorganize("locality", num_neighbors=FANOUTS, batch_size=WINDOW)
        half.rename(ordered)
    with ng.open(plain, memory="512MB") as one, ng.open(ordered, memory="512MB") as two:
        yield Web(one, two)


def combinations(known: Web, seed: int) -> Figures:
    """Times N, pages and hit rate of each combination with each cache, for random targets."""
    how = {"fanouts": FANOUTS, "seed": seed, "batches": 32, "batch_size": WINDOW}
    traces = known.traces(
        lambda store: ng.sim.Trace.from_sampler(store, page_bytes=PAGE_BYTES, **how)
    )
    base = known.speed(traces[False], "")[0]
    found: Figures = {}
    for letters in COMBINATIONS:
        found[letters] = []
        for share in SHARES:
            trace = traces["R" in letters]
            rate, reads, hits = known.speed(trace, letters, share)
            found[letters] += [rate / base, reads, hits]
    found["N, targets/s"] = [base]
    return found


def drawn(known: Web, seed: int, **how: Any) -> Requests:
    """A stream that arrives shuffled."""
    return Requests.draw(
        known.plain, REQUESTS, fanouts=FANOUTS, shuffle_within=REQUESTS, seed=seed, **how
    )


def recorded(known: Web, requests: Requests, **how: Any) -> dict[bool, ng.sim.Trace]:
    """Its traces on both stores."""
    return known.traces(lambda store: requests.trace(store, page_bytes=PAGE_BYTES, **how))


def localities(known: Web, seed: int) -> Figures:
    """Equation 7 as drawn, shuffled and ordered; then times N of that stream."""
    found: Figures = {}
    for wanted in LOCALITIES:
        requests = drawn(known, seed, locality=wanted, window=WINDOW)
        arrived = recorded(known, requests)
        ordered = recorded(known, requests, reorder_within=REQUESTS)
        base = known.speed(arrived[False], "")[0]
        told = ordered[False].about["requests"]
        names = ("locality", "locality_arrived", "locality_served")
        found[f"{100 * wanted:.0f} %"] = [100 * told[name] for name in names]
        for letters in SCHEDULED:
            for traces in (arrived, ordered):
                rate = known.speed(traces["R" in letters], letters, group=STREAM_GROUP)[0]
                found[f"{100 * wanted:.0f} %"].append(rate / base)
    return found


def groups(known: Web, seed: int) -> Figures:
    """Times one request at a time in order of arrival, by the requests of a group."""
    requests = drawn(known, seed, locality=0.2, window=1)
    arrived, ordered = recorded(known, requests), recorded(known, requests, reorder_within=REQUESTS)
    base = known.speed(arrived[False], "")[0]
    found: Figures = {}
    for group in GROUPS:
        runs = [(arrived, "G"), (arrived, "GS"), (ordered, "GS"), (ordered, "GRS")]
        runs.append((ordered, "CGRS"))
        speeds = [known.speed(on["R" in how], how, group=group)[0] for on, how in runs]
        found[f"{group}"] = [speed / base for speed in speeds]
    found["N, requests/s"] = [base]
    return found


def repeats(known: Web, seed: int) -> Figures:
    """Share that is answered from results kept, and speed over no results kept."""
    found: Figures = {}
    for share in REPEATS:
        requests = drawn(known, seed, repeats=share, window=WINDOW)
        none = recorded(known, requests)

        def speed(traces: dict[bool, ng.sim.Trace], letters: str) -> float:
            return known.speed(traces["R" in letters], letters, group=STREAM_GROUP)[0]

        base = {letters: speed(none, letters) for letters in ("N", "CGRS")}
        row = [float(len(set(requests.targets.tolist())))]
        for keep in KEPT:
            kept = recorded(known, requests, keep_results=keep)
            row.append(100 * kept[False].about["requests"]["answered"] / REQUESTS)
            row += [speed(kept, letters) / before for letters, before in base.items()]
        found[f"{100 * share:.0f} %"] = row
    return found


def caches(known: Web, seed: int) -> Figures:
    """Times N with a cache of each size, and hit rates, on streams of 40 % locality."""
    requests = drawn(known, seed, locality=0.4, window=WINDOW)
    arrived, ordered = recorded(known, requests), recorded(known, requests, reorder_within=REQUESTS)
    base = known.speed(arrived[False], "")[0]
    found: Figures = {}
    for share in CACHES:
        row = []
        for traces, letters in ((arrived, "C"), (arrived, "CR"), (ordered, "CRS")):
            rate, _, hits = known.speed(traces["R" in letters], letters, share)
            row += [rate / base, hits]
        found[f"{100 * share:.0f} %"] = row
    return found


TABLES: dict[str, tuple[Callable[[Web, int], Figures], list[str], list[str]]] = {
    "Combinations, groups of 16 batches of 64 targets, cache of 10 % and of 30 % of the pages": (
        combinations,
        ["", "times N", "pages", "hit rate", "30 %: times N", "pages", "hit rate"],
        ["{:.2f}", "{:,.0f}", "{:.3f}"] * 2,
    ),
    "Locality (equation 7), % reached, shuffled, ordered; times N, groups of 4 batches of 64": (
        localities,
        ["wanted", "reached", "shuffled", "ordered"]
        + [text for letters in SCHEDULED for text in (letters, f"{letters}, ordered")],
        ["{:.0f}"] * 3 + ["{:.2f}"] * 6,
    ),
    "Requests of a group, batches of one request, locality 20 %: times one, in order of arrival": (
        groups,
        ["requests", "G", "GS", "GS, ordered", "GRS, ordered", "CGRS, ordered"],
        ["{:.2f}"] * 5,
    ),
    "Repeats, % answered from results kept; times none kept, groups of 4 batches of 64": (
        repeats,
        ["repeat", "targets"]
        + [text for keep in KEPT for text in (f"{keep} kept: %", "N", "CGRS")],
        ["{:,.0f}"] + ["{:.0f}", "{:.2f}", "{:.2f}"] * len(KEPT),
    ),
    "Cache by its share of the pages, locality 40 %: times N, hit rate": (
        caches,
        ["cache", "C", "hit rate", "CR", "hit rate", "CRS, ordered", "hit rate"],
        ["{:.2f}", "{:.3f}"] * 3,
    ),
}


def markdown(head: list[str], forms: list[str], found: list[Figures]) -> str:
    """A table of what all seeds found, with base rates below it."""
    rows, below = [], []
    for name in found[0]:
        columns = list(zip(*(figures[name] for figures in found), strict=True))
        if len(columns) == 1 and len(forms) > 1:
            below.append(f"{name}: {cell('{:,.0f}', columns[0])}")
        else:
            cells = [cell(form, column) for form, column in zip(forms, columns, strict=True)]
            rows.append([name, *cells])
    return "\n".join([*table(head, rows), *([""] if below else []), *below])


def cell(form: str, values: tuple[float, ...]) -> str:
    """The median, and the range where it differs from it."""
    middle, least, most = (form.format(value) for value in spread(list(values)))
    return middle if least == most else f"{middle} ({least}-{most})"


def main() -> None:
    with web() as known:
        record: dict[str, Any] = {"about": about(HOME), "pages": known.pages, "requests": REQUESTS}
        print(f"{known.pages:,} pages of {PAGE_BYTES // 1024} KiB, commit", end=" ")
        print(record["about"].get("commit", "unknown"), "\n", flush=True)
        for title, (measure, head, forms) in TABLES.items():
            found = in_parallel(partial(measure, known), SEEDS)
            record[title] = found
            print(f"{title}\n\n{markdown(head, forms, found)}\n", flush=True)
    (BENCH / "glist.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
