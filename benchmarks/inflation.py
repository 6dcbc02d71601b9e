"""Inflation of the direct layout, and its reads beside those of the paged layout.

    NEARGRAPH_DATA=... python -m benchmarks.inflation            # both tables of direct.md
    NEARGRAPH_DATA=... python -m benchmarks.inflation --no-reads # the first alone

Imports the real sets that are there, lays each out with pages of 4 to 64 KiB (which needs degrees
alone, so nothing of it is written), and prints bytes over N x (4 + 4 x mean degree + bytes of
rows). Sets without rows get generated ones. Then compiles some sets and counts reads of
batches from either layout, of a store that was just opened and of one that goes on.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.importers import import_graph
from neargraph.loader.direct import compile_direct

from .graphs import Array, Graph, split_ids, write_store
from .places import data_folder

PAGES = [4096, 8192, 16384, 32768, 65536]
FANOUTS = [15, 10]
BATCH = 128
BATCHES = 30
MEMORY = "24MB"
READ_SETS = ("PubMed", "Amazon Photo", "cnr-2000, 64 f32")

Make = Callable[[Path], Any]


def npz(name: str, dense: bool = False) -> Make:
    """A set of `npz_graphs`; bags of words are stored sparse unless `dense`."""
    return lambda out: import_graph(data_folder("npz_graphs") / f"{name}.npz", out, dense=dense)


def generated(indptr: Array, indices: Array, width: int, out: Path) -> Any:
    """A store of lists alone, with rows of random numbers."""
    nodes = len(indptr) - 1

    def rows() -> Iterator[Array]:
        numbers = np.random.default_rng(1)
        for first in range(0, nodes, 1 << 14):
            count = min(1 << 14, nodes - first)
            yield numbers.standard_normal((count, width), dtype=np.float32)

    graph = Graph(indptr, indices, np.zeros(nodes, dtype=np.int64), width, rows)
    return write_store(graph, split_ids(nodes, 1), rows, out)


def pubmed(out: Path) -> Any:
    """The lists of PubMed, with generated rows of its width: the file of its own is not there."""
    with (data_folder("planetoid_raw") / "ind.pubmed.graph").open("rb") as file:
        lists = pickle.load(file, encoding="latin1")
    indptr = np.cumsum([0, *(len(lists[node]) for node in range(len(lists)))])
    indices = np.concatenate([np.array(lists[node], dtype=np.int64) for node in range(len(lists))])
    return generated(indptr, indices, 500, out)


def web(width: int) -> Make:
    """cnr-2000 as it is, with generated rows."""

    def make(out: Path) -> Any:
        with np.load(data_folder("cnr-2000") / "cnr-2000_csr.npz") as file:
            indptr, indices = file["indptr"].astype(np.int64), file["indices"].astype(np.int64)
        return generated(indptr, indices, width, out)

    return make


SETS: dict[str, Make] = {
    "Cora": npz("cora"),
    "CiteSeer": npz("citeseer"),
    "PubMed": pubmed,
    "Amazon Photo": npz("amazon_electronics_photo", dense=True),
    "Coauthor CS": npz("ms_academic_cs"),
    "Coauthor Physics": npz("ms_academic_phy"),
    "cnr-2000, 16 f32": web(16),
    "cnr-2000, 64 f32": web(64),
}


def inflation(path: Path) -> dict[str, Any]:
    """What the layout of a store is with each size of page."""
    with ng.open(path, memory="512MB") as store:
        snapshot = store.snapshot()
        found = [
            compile_direct(snapshot, attrs=["x"], page_bytes=page, dry_run=True) for page in PAGES
        ]
    first = found[0]
    return {
        "nodes": first["num_nodes"],
        "mean_degree": first["num_edges"] / first["num_nodes"],
        "row_bytes": first["row_bytes"],
        "address_bytes": first["address_bytes"],
        "pages_per_section": first["pages_per_section"],
        "inflation": {facts["page_bytes"]: facts["inflation"] for facts in found},
        "secondary_share": first["secondary_pages"]
        / max(1, first["primary_pages"] + first["secondary_pages"]),
    }


def reads(path: Path) -> list[dict[str, Any]]:
    """Reads and bytes of batches from either layout, with `x` alone and with all tensors."""
    found = []
    for attrs in (["x"], None):
        with ng.open(path, memory="512MB") as store:
            compile_direct(store.snapshot(), attrs=attrs, overwrite=True)
        found += [count_reads(path, layout, attrs) for layout in ("paged", "direct")]
    return found


def count_reads(path: Path, layout: str, attrs: list[str] | None) -> dict[str, Any]:
    """Those of the first batch, and the mean of later ones."""
    counts = []
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=7, attrs=attrs, layout=layout)
        nodes = np.random.default_rng(3).permutation(store.num_nodes).astype(np.int64)
        for batch in range(BATCHES):
            store.reset_stats()
            made = sampler.sample(nodes[batch * BATCH : (batch + 1) * BATCH], stream=batch)
            stats = store.stats()
            counts.append((stats["reads"], stats["read_bytes"], len(made.nodes())))
            del made
    array = np.array(counts, dtype=float)
    return {
        "reading": layout,
        "tensors": ", ".join(attrs or ["all"]),
        "first_reads": array[0, 0],
        "first_read_bytes": array[0, 1],
        "reads_per_batch": array[1:, 0].mean(),
        "read_bytes_per_batch": array[1:, 1].mean(),
        "nodes_per_batch": array[:, 2].mean(),
    }


def show_inflation(found: dict[str, dict[str, Any]]) -> None:
    """The first table, as it is in the page."""
    sizes = " | ".join(f"{page // 1024} KiB" for page in PAGES)
    print(f"| set | nodes | mean degree | row bytes | {sizes} |")
    print("|---|---|---|---|" + "---|" * len(PAGES))
    for name, facts in found.items():
        values = " | ".join(f"{value:.2f}" for value in facts["inflation"].values())
        nodes, degree = facts["nodes"], facts["mean_degree"]
        print(f"| {name} | {nodes:,} | {degree:.1f} | {facts['row_bytes']:,} | {values} |")


def show_reads(found: dict[str, list[dict[str, Any]]]) -> None:
    """The second table."""
    print("| set | nodes a batch | tensors | layout | first reads | MB | later reads | MB |")
    print("|---|---|---|---|---|---|---|---|")
    for name, rows in found.items():
        for counts in rows:
            print(
                f"| {name} | {counts['nodes_per_batch']:,.0f} | {counts['tensors']} "
                f"| {counts['layout']} "
                f"| {counts['first_reads']:,.0f} | {counts['first_read_bytes'] / 1e6:.1f} "
                f"| {counts['reads_per_batch']:,.0f} | {counts['read_bytes_per_batch'] / 1e6:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names of sets, with ; between them")
    parser.add_argument("--no-reads", action="store_true", help="the first table alone")
    parser.add_argument("--json", type=Path, help="write all numbers here, too")
    args = parser.parse_args()
    names = args.sets.split(";") if args.sets else list(SETS)
    tables: dict[str, dict[str, Any]] = {"inflation": {}, "reads": {}}
    with tempfile.TemporaryDirectory(prefix="inflation") as folder:
        for number, name in enumerate(names):
            path = Path(folder) / f"{number}.ng"
            SETS[name](path)
            tables["inflation"][name] = inflation(path)
            if name in READ_SETS and not args.no_reads:
                tables["reads"][name] = reads(path)
    show_inflation(tables["inflation"])
    if tables["reads"]:
        print()
        show_reads(tables["reads"])
    if args.json:
        args.json.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
