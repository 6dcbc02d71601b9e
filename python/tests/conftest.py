"""Stores that many tests read; none of them writes to one."""

from pathlib import Path

import pytest
from graphs import Graph, heterogeneous, homogeneous

import neargraph as ng


@pytest.fixture(scope="session")
def homo_graph() -> Graph:
    return homogeneous()


@pytest.fixture(scope="session")
def homo_path(homo_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> str:
    return homo_graph.write(tmp_path_factory.mktemp("stores") / "homo.ng")


@pytest.fixture
def homo(homo_path: str):
    with ng.open(homo_path, memory="64MB") as store:
        yield store


@pytest.fixture(scope="session")
def hetero_graph() -> Graph:
    return heterogeneous()


@pytest.fixture(scope="session")
def hetero_path(hetero_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hetero_graph.write(tmp_path_factory.mktemp("stores") / "hetero.ng", mask_width=2)


@pytest.fixture
def hetero(hetero_path: str):
    with ng.open(hetero_path, memory="64MB") as store:
        yield store
