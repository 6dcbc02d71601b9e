"""Each model of the table becomes a model file that gives what the model gives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

from torch_geometric.data import Data  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.nn import (  # noqa: E402
    GAT,
    GCN,
    GIN,
    NGCF,
    RGCN,
    GraphSAGE,
    HeteroGNN,
    LightGCN,
    PinSAGE,
    TemporalGAT,
)

BUYS, BOUGHT = ("user", "buys", "item"), ("item", "bought", "user")
WIDTHS = {"user": 6, "item": 6}
NODES, EDGES = 120, 300


def draws(bound, count):
    return torch.randint(0, bound, (count,))


def pairs(sources, targets, count):
    return torch.stack([draws(sources, count), draws(targets, count)])


def by_type():
    x = {"user": torch.rand(50, 6), "item": torch.rand(70, 6)}
    return x, {BUYS: pairs(50, 70, EDGES), BOUGHT: pairs(70, 50, EDGES + 7)}


def plain(*more):
    return torch.rand(NODES, 6), pairs(NODES, NODES, EDGES), *more


def with_statistics(model):
    """The model with running statistics of its own, as after training."""
    for _ in range(3):
        model.train()(*plain())
    return model


CASES = {
    "pool": lambda: (GraphSAGE(6, 8, 3, aggr="pool"), plain()),
    "gat": lambda: (GAT(6, 8, 3), plain()),
    "gin": lambda: (GIN(6, 8, 3), plain(torch.rand(NODES) * 9)),
    "sage, batch norm": lambda: (with_statistics(GraphSAGE(6, 8, 3, norm="batch")), plain()),
    "gcn, batch norm": lambda: (with_statistics(GCN(6, 8, 3, norm="batch")), plain()),
    "gat, batch norm": lambda: (with_statistics(GAT(6, 8, 3, norm="batch")), plain()),
    "gin, batch norm": lambda: (with_statistics(GIN(6, 8, 3, norm="batch")), plain()),
    "pinsage": lambda: (PinSAGE(6, 8, 3), plain(torch.rand(EDGES))),
    "rgcn": lambda: (RGCN(6, 8, 3, 4), plain(draws(4, EDGES))),
    "temporal": lambda: (
        TemporalGAT(6, 8, 4),
        plain(draws(50, EDGES), 50 + draws(40, 7), draws(7, NODES)),
    ),
    "hetero-sage": lambda: (HeteroGNN(WIDTHS, [BUYS, BOUGHT], 8, 3), by_type()),
    "hetero-gat": lambda: (HeteroGNN(WIDTHS, [BUYS, BOUGHT], 8, 3, conv="gat"), by_type()),
    "rgcn by type": lambda: (RGCN(WIDTHS, 8, 3, [BUYS, BOUGHT]), by_type()),
    "lightgcn": lambda: (LightGCN(2), by_type()),
    "ngcf": lambda: (NGCF(6, 4, 2), by_type()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_a_file_that_gives_the_same(name, tmp_path):
    torch.manual_seed(60)
    model, example = CASES[name]()
    # Comparing with the model, on graphs of other sizes too, is part of an export.
    result = ng.export(model.eval(), example, tmp_path / "model.ngm")
    assert result.largest_difference < 1e-5
    assert (tmp_path / "model.ngm").exists()


@pytest.mark.parametrize("kind", ["gin", "lightgcn"])
def test_a_new_model_is_computed_for_all_nodes_of_a_store(kind, tmp_path):
    torch.manual_seed(61)
    model = (GIN(6, 8, 3) if kind == "gin" else LightGCN(2)).eval()
    x, edge_index = plain()
    ng.from_pyg(Data(x=x, edge_index=edge_index), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        ng.export(model, store, tmp_path / "model.ngm", fanouts=[-1, -1, -1])
    with torch.no_grad():
        wanted = model(x, edge_index).numpy()
    found = ng.infer(tmp_path / "g.ng", tmp_path / "model.ngm", memory="64MB").arrays["out"]
    assert np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())
