"""The table of models: each is built for the stores that it names, and refused for others."""

import inspect

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import neargraph as ng  # noqa: E402
from neargraph.exceptions import NameNotFound, UnsupportedArgument  # noqa: E402
from neargraph.nn import MODELS, InDegrees, build, kind_of, on_batch, spec_of  # noqa: E402


@pytest.fixture(scope="module")
def stores(tmp_path_factory, homo_path, hetero_path):
    """A store of each kind."""
    rng = np.random.default_rng(30)
    users, items = rng.integers(0, 40, 300), rng.integers(0, 30, 300)
    rows = {
        "user": Nodes(40, {"x": rng.standard_normal((40, 6)).astype(np.float32)}),
        "item": Nodes(30, {"x": rng.standard_normal((30, 6)).astype(np.float32)}),
    }
    edges = {
        ("user", "buys", "item"): Edges(users, items),
        ("item", "bought", "user"): Edges(items, users),
    }
    shop = Graph(rows, edges).write(tmp_path_factory.mktemp("table") / "shop.ng")
    paths = {"homogeneous": homo_path, "bipartite": shop, "heterogeneous": hetero_path}
    opened = {kind: ng.open(path, memory="64MB") for kind, path in paths.items()}
    yield opened
    for store in opened.values():
        store.close()


INPUTS = {"homogeneous": None, "bipartite": "user", "heterogeneous": "paper"}


def given(spec, batch):
    """What loaders of the table put into a batch, made up."""
    edges = batch.edge_index.size(1)
    if spec.loader == "pinsage":
        batch.edge_weight = torch.rand(edges)
    if spec.loader == "temporal":
        batch.edge_time, batch.seed_time = torch.zeros(edges).long(), torch.tensor([5])
        batch.batch = torch.zeros(len(batch.n_id)).long()
    return batch


def test_every_kind_of_store_is_told(stores):
    assert {kind: kind_of(store.schema) for kind, store in stores.items()} == {
        kind: kind for kind in stores
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", INPUTS)
def test_each_model_runs_on_batches_of_the_stores_it_names_and_on_no_other(stores, name, kind):
    spec, store = spec_of(name), stores[kind]
    if kind not in spec.stores:
        with pytest.raises(UnsupportedArgument, match=f"this store is {kind}; use one of"):
            build(name, store.schema, 8)
        return
    torch.manual_seed(31)
    width = {"lightgcn": 6, "ngcf": 6 + 3 * 16}.get(name, 8)
    more = {} if name == "lightgcn" else {"hidden_channels": 16}
    model = build(name, store.schema, width, **more)
    degrees = None if spec.degrees == "none" else InDegrees(store, loops=True)
    (batch, *_) = ng.NeighborLoader(store, [4, 4, 4], INPUTS[kind], batch_size=20)
    if kind == "homogeneous":
        batch = given(spec, batch)
    takes = "in_degree" in inspect.signature(model.forward).parameters
    out = on_batch(model, batch, degrees=degrees if takes else None)
    out = out if kind == "homogeneous" else out[INPUTS[kind]]
    assert out.shape == (20, width)
    assert out.isfinite().all()
    if name != "lightgcn":
        out.square().sum().backward()
        missing = [key for key, p in model.named_parameters() if p.grad is None]
        # The last layer of the other types has no part in rows of this one.
        assert not missing or kind != "homogeneous"


def test_defaults_of_the_table_are_those_that_models_are_built_with(stores):
    assert spec_of("sage").defaults() == {
        "hidden_channels": 64,
        "num_layers": 2,
        "dropout": 0.5,
        "aggr": "mean",
        "norm": "none",
    }
    assert spec_of("sage-pool").defaults()["aggr"] == "pool"
    assert build("sage-pool", stores["homogeneous"].schema, 3).aggr == "pool"
    assert build("sage", stores["homogeneous"].schema, 3, aggr="max").aggr == "max"
    assert build("hetero-gat", stores["heterogeneous"].schema, 3).conv == "gat"
    assert build("rgcn", stores["heterogeneous"].schema, 3).edge_types == [
        t.triple for t in stores["heterogeneous"].schema.edge_types
    ]
    widths = {
        name: lin.in_features
        for name, lin in build(
            "rgcn", stores["heterogeneous"].schema, 3, in_channels={"venue": 9}
        ).lins.items()
    }
    assert widths == {"paper": 4, "author": 3, "venue": 9}


def test_what_the_table_does_not_have_is_refused_with_what_it_has(stores):
    plain, shop = stores["homogeneous"].schema, stores["bipartite"].schema
    typed = stores["heterogeneous"].schema
    for error, message, call in [
        (NameNotFound, "no model 'sages': expected one of sage, s", lambda: spec_of("sages")),
        (
            UnsupportedArgument,
            "no setting 'heads'; its settings are hidden_channels, num_layers",
            lambda: build("gcn", plain, 3, heads=2),
        ),
        (
            UnsupportedArgument,
            "width 6 with these settings, but out_channels=3",
            lambda: build("lightgcn", shop, 3),
        ),
        (UnsupportedArgument, "give out_channels=198", lambda: build("ngcf", shop, 3)),
        (
            UnsupportedArgument,
            "in_channels= is a mapping, but the store has only one node type",
            lambda: build("gcn", plain, 3, in_channels={"node": 3}),
        ),
        (
            NameNotFound,
            "no node type 'nobody'",
            lambda: build("rgcn", typed, 3, in_channels={"nobody": 3}),
        ),
        (ValueError, "num_layers=0 is not valid", lambda: build("gin", plain, 3, num_layers=0)),
    ]:
        with pytest.raises(error, match=message):
            call()
    uneven = {"user": 3, "item": 4}
    for name in ("lightgcn", "ngcf"):
        with pytest.raises(UnsupportedArgument, match=r"rows of one width .* \[3, 4\]"):
            build(name, shop, 8, in_channels=uneven)
    assert build("lightgcn", shop, 32, in_channels=32).num_layers == 3
