"""Real sets as a host gets them: edges in no order as text and as an array, rows as an array.

`edges.txt` and `edge_index.npy` have the same directed edges, `x.npy` a row for each node: what the
set says, or drawn where it says nothing (as HolisticGNN does it for graphs of SNAP). Files are made
once, under `.bench/raw_sets/`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .places import BENCH, ROOT, data_folder

sys.path.insert(0, str(ROOT / "python" / "tests"))

HOME = BENCH / "raw_sets"
WIDTH = 1024
PART_BYTES = 64 << 20
ABOUT = "about.json"
# The publication's sets (Table 4) that are not among the data, and what is left out of the data.
LEFT_OUT = {
    "pubmed": "the file ind.pubmed.allx is not among the data",
    "corafull, dblpfull, road-tx, road-pa, youtube, road-ca, wikitalk, ljournal": "not among the "
    "data; cnr-2000 stands for large graphs",
    "planetoid_cora, planetoid_citeseer": "the graphs of cora and citeseer once more",
    "debian": "several types of nodes; the publication's graphs have one",
    "MUTAG, ENZYMES, PROTEINS, bbbp, hiv": "many small graphs, which are not sampled",
}
_SAME = ("planetoid_cora", "planetoid_citeseer")


def names() -> list[str]:
    """The sets with one type of nodes, those with rows of their own first."""
    from export_sets import EDGES_ALONE, WITH_ROWS

    return [name for name in (*WITH_ROWS, *EDGES_ALONE) if name not in _SAME]


@dataclass(frozen=True)
class RawSet:
    """The files of a set and its sizes."""

    name: str
    folder: Path
    nodes: int
    edges: int
    width: int
    own_rows: bool

    @property
    def text(self) -> Path:
        """Pairs of decimal numbers, one a line."""
        return self.folder / "edges.txt"

    @property
    def pairs(self) -> Path:
        """The same, i64 [2, edges]."""
        return self.folder / "edge_index.npy"

    @property
    def rows(self) -> Path:
        """f32 [nodes, width]."""
        return self.folder / "x.npy"

    @property
    def files(self) -> list[Path]:
        """All of them."""
        return [self.text, self.pairs, self.rows]


def raw_set(name: str, width: int = WIDTH) -> RawSet:
    """The files of a set, made at the first call; `width` is that of drawn rows."""
    places = (HOME / name, HOME / f"{name}_{width}")
    folder = next((place for place in places if (place / ABOUT).exists()), None)
    if folder is None:
        from export_sets import WITH_ROWS

        own = name in WITH_ROWS
        folder = places[0] if own else places[1]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        sizes = _write(name, folder, None if own else width)
        (folder / ABOUT).write_text(json.dumps(sizes))
    sizes = json.loads((folder / ABOUT).read_text())
    return RawSet(name=name, folder=folder, own_rows=folder == places[0], **sizes)


def _write(name: str, folder: Path, width: int | None) -> dict[str, int]:
    from export_sets import store_of

    import neargraph as ng

    with ng.open(store_of(name, data_folder("."), folder), memory="1GB") as store:
        nodes = store.num_nodes
        snapshot = store.snapshot()
        kind = store.schema.edge_type(None).triple
        lists = snapshot.neighbors(kind, np.arange(nodes))
        ends = np.repeat(np.arange(nodes), np.diff(lists.indptr))
        edges = np.stack([lists.indices, ends]).astype(np.int64)
        edges = edges[:, np.random.default_rng(1).permutation(edges.shape[1])]
        if width is None:
            wide = snapshot.features("node", [0], "x").shape[1]
            _write_rows(
                folder / "x.npy", (nodes, wide), lambda ids: snapshot.features("node", ids, "x")
            )
        else:
            draws = np.random.default_rng(7)
            wide = width
            _write_rows(
                folder / "x.npy",
                (nodes, wide),
                lambda ids: draws.standard_normal((len(ids), wide), np.float32),
            )
    for made in (*folder.glob("*.ng"), *folder.glob("*_arrays")):
        shutil.rmtree(made)
    np.save(folder / "edge_index.npy", edges)
    _write_text(folder / "edges.txt", edges)
    return {"nodes": nodes, "edges": edges.shape[1], "width": wide}


def _write_text(path: Path, edges: Any) -> None:
    import polars

    frame = polars.DataFrame({"source": edges[0], "destination": edges[1]})
    frame.write_csv(path, include_header=False, separator=" ")


def _write_rows(path: Path, shape: tuple[int, int], of: Callable[[Any], Any]) -> None:
    rows = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    step = max(1, PART_BYTES // (4 * shape[1]))
    for first in range(0, shape[0], step):
        rows[first : first + step] = of(np.arange(first, min(first + step, shape[0])))
    rows.flush()
