"""Exported models on real graphs: the engine and onnxruntime give what PyG gives on a batch.

These are some cells of the table layer x set; `python -m benchmarks.export_matrix` does them all,
and `make long-tier` runs it.
"""

import pytest
from realdata import data

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from export_cells import VARIANTS, compare, layers_of
from export_sets import NODE_SETS, OF_GRAPHS, SETS, store_of

import neargraph as ng
from neargraph.modelfile.comparing import BOUND

# For each set layers of another kind, so that all sets and most kinds are seen.
CELLS = [
    ("cora", "RGCN"),
    ("cora_ml", "GATv2"),
    ("amazon_photo", "PNA"),
    ("planetoid_citeseer", "Transformer"),
    ("actor", "GINE"),
    ("minesweeper", "SAGE std"),
    ("chameleon", "HeteroConv"),
    ("dblp_coauthor", "EdgeConv"),
    ("gowalla", "LightGCN + dot"),
    ("MUTAG", "pool mean"),
    ("ENZYMES", "pool attention"),
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("export_sets")


@pytest.mark.parametrize(("name", "layer"), CELLS, ids=lambda part: part)
def test_the_engine_gives_what_pyg_gives(name, layer, stores, tmp_path):
    data(*SETS[name].split("/"))
    path = store_of(name, data(), stores)
    with ng.open(path, memory="256MB") as store:
        found = compare(name, layer, store, tmp_path / "m")
    assert found["largest"] > 0
    done = {variant: found[variant] for variant in ("onnxruntime", *VARIANTS) if variant in found}
    assert len(done) >= len(VARIANTS)
    assert {variant: worst for variant, worst in done.items() if not worst <= BOUND} == {}


def test_the_table_has_each_kind_of_layer_and_each_set():
    assert {name for name, _ in CELLS} < set(SETS)
    assert all(layer in layers_of(name) for name, layer in CELLS)
    # Sets of nodes have all layers but pooling; sets of graphs have pooling.
    assert {len(layers_of(name)) for name in NODE_SETS} == {49, 52, 58}
    assert {len(layers_of(name)) for name in OF_GRAPHS} == {4}
