"""Stores that many tests read; none of them writes to one."""

import os
from pathlib import Path

import pytest
from graphs import Graph, heterogeneous, homogeneous, shop

import neargraph as ng


def pytest_configure() -> None:
    # Threads of torch that spin while they wait would take the processor from the threads that read
    # and sample, and from tests beside these. Torch has not been loaded yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


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


@pytest.fixture(scope="session")
def shop_graph() -> Graph:
    return shop(both_timed=True)


@pytest.fixture(scope="session")
def shop_path(shop_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> str:
    return shop_graph.write(tmp_path_factory.mktemp("stores") / "shop.ng")


@pytest.fixture
def shop_store(shop_path: str):
    with ng.open(shop_path, memory="64MB") as store:
        yield store
