"""Exported models on real graphs: the engine and onnxruntime give what PyG gives on a batch.

These are some cells of the table layer x set; `python -m benchmarks.export_matrix` does them all,
and `make long-tier` runs it.
"""

from pathlib import Path

import pytest
from realdata import data

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import export_tasks
from export_cells import VARIANTS, compare, layers_of
from export_sets import LEFT_OUT, NODE_SETS, OF_GRAPHS, SETS, store_of

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


@pytest.mark.parametrize(
    ("name", "model"), [("MUTAG", "GIN, add"), ("ENZYMES", "GAT, attention")], ids=lambda part: part
)
def test_the_engine_answers_for_whole_graphs_as_pyg_does(name, model, stores, tmp_path):
    data(*SETS[name].split("/"))
    graphs = export_tasks.Graphs(name, data(), stores)
    with ng.open(store_of(name, data(), stores), memory="256MB") as store:
        found = export_tasks.compare_graphs(model, name, store, graphs, tmp_path / "m")
    assert found.pop("answers") == {"MUTAG": 188, "ENZYMES": 600}[name]
    assert {key: worst for key, worst in found.items() if not worst <= BOUND} == {}


def test_the_engine_scores_check_ins_as_pyg_does(stores, tmp_path):
    data(*SETS["gowalla"].split("/"))
    with ng.open(store_of("gowalla", data(), stores), memory="256MB") as store:
        for number, model in enumerate(("LightGCN, none", "NGCF, DistMult")):
            found = export_tasks.compare_pairs(model, store, tmp_path / str(number))
            assert found.pop("answers") == 300
            assert {key: worst for key, worst in found.items() if not worst <= BOUND} == {}


def test_each_set_of_the_data_is_in_the_table_or_left_out_by_name():
    folder = Path(data())
    known = {str(Path(path)) for path in SETS.values()}
    found = {
        str(path.relative_to(folder))
        for pattern in (
            "*/*.npz",
            "*/*_edges.csv.gz",
            "*/ind.*.graph",
            "*/*_train.txt.gz",
            "tu*/*/",
        )
        for path in folder.glob(pattern)
        if path.is_dir() == pattern.endswith("/")
    }
    others = {"gowalla_checkins/gowalla_time_train.txt.gz", "planetoid_raw/ind.pubmed.graph"}
    assert "planetoid_pubmed" in LEFT_OUT
    assert {folder.name for folder in folder.iterdir()} <= {Path(path).parts[0] for path in known}
    assert found - known <= others
