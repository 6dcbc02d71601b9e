"""The tables of docs/reference/compatibility.md: the rows of each, and a function for every row.

A test module makes a `Table` for each heading that it checks, registers its rows, and takes its two
tests from `checks_of`. Invariant: a row of the page has a function, and a function has a row.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sampled import PLAIN, temporal_graph

import neargraph as ng

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/compatibility.md"
TITLES = [
    "PyG's loaders on a store",
    "Arguments of NeighborLoader",
    "Arguments of LinkNeighborLoader",
    "neargraph's loaders with PyG's names",
    "PyG's data, transforms and models",
    "Lightning",
    "DGL and GraphBolt",
]
VERDICTS = ("works", "differs", "refused")
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


class Table:
    """The rows under one heading: a name, one verdict or two, and a note."""

    def __init__(self, title: str) -> None:
        assert title in TITLES
        self.title = title
        self.rows: dict[str, tuple[tuple[str, ...], Callable[..., object]]] = {}

    def row(self, name: str, *cells: str) -> Callable[..., object]:
        """Registers the function that checks a row; it is called with two stores."""
        *verdicts, _note = cells
        assert set(verdicts) <= set(VERDICTS)

        def register(function: Callable[..., object]) -> Callable[..., object]:
            self.rows[name] = cells, function
            return function

        return register

    def check(self, name: str, tmp_path: Path, shop_path: str) -> None:
        """Calls the function of a row with a store of one type and a store of several types."""
        path = temporal_graph().write(tmp_path / "dated.ng")
        with ng.open(path, memory="64MB") as one, ng.open(shop_path, memory="64MB") as several:
            self.rows[name][1](one, several)

    def check_page(self) -> None:
        """Compares the names and cells with those of the page."""
        assert tables()[self.title] == {name: cells for name, (cells, _) in self.rows.items()}


def checks_of(*group: Table) -> tuple[Callable[..., None], Callable[..., None]]:
    """The tests of a module: each row by its function, and each table against the page."""
    rows = [(table, name) for table in group for name in table.rows]

    @pytest.mark.parametrize(("table", "name"), rows, ids=[name for _, name in rows])
    def row(table, name, tmp_path, shop_path):
        table.check(name, tmp_path, shop_path)

    @pytest.mark.parametrize("table", group, ids=lambda table: table.title)
    def page(table):
        table.check_page()

    return row, page


def tables() -> dict[str, dict[str, tuple[str, ...]]]:
    """The tables of the page that have verdicts, by heading."""
    found = {title: dict(_rows(text)) for title, text in _sections(PAGE.read_text())}
    return {title: rows for title, rows in found.items() if rows}


def _sections(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _rows(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        plain = _LINK.sub(r"\1", line).replace("`", "")
        name, *cells = (cell.strip() for cell in plain.split("|"))
        if cells[0] in VERDICTS:
            yield name, tuple(cells)


def check_rows(batch, graph=None):
    """Rows and edges of a batch of the homogeneous store; returns the number of edges."""
    graph = graph or temporal_graph()
    edges, n_id, e_id = graph.edges[PLAIN], batch.n_id.numpy(), batch.e_id.numpy()
    assert np.array_equal(batch.x.numpy(), graph.nodes["node"].tensors["x"][n_id])
    assert np.array_equal(n_id[batch.edge_index[0].numpy()], edges.sources[e_id])
    assert np.array_equal(n_id[batch.edge_index[1].numpy()], edges.destinations[e_id])
    return len(e_id)
