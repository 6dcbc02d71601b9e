"""Models by type equal PyG's layers on the full graph, on any schema, with and without trimming."""

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.nn import GATConv, HeteroConv, LGConv, RGCNConv, SAGEConv  # noqa: E402
from torch_geometric.nn.models import LightGCN as PygLightGCN  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import UnsupportedArgument  # noqa: E402
from neargraph.nn import (  # noqa: E402
    NGCF,
    RGCN,
    HeteroGNN,
    InDegrees,
    LightGCN,
    build,
    features_of,
    on_batch,
)

BUYS, BOUGHT = ("user", "buys", "item"), ("item", "bought", "user")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Users and items with edges in both directions; the last user has none."""
    rng = np.random.default_rng(11)
    users, items = rng.integers(0, 79, 600), rng.integers(0, 50, 600)
    rows = {
        "user": Nodes(80, {"x": rng.standard_normal((80, 6)).astype(np.float32)}),
        "item": Nodes(50, {"x": rng.standard_normal((50, 6)).astype(np.float32)}),
    }
    edges = {BUYS: Edges(users, items), BOUGHT: Edges(items, users)}
    path = Graph(rows, edges).write(tmp_path_factory.mktemp("shop") / "shop.ng")
    with ng.open(path, memory="64MB") as store:
        yield store


def full_graph(store):
    """(x, edge_index) by type and by node id; [n, 0] where a type has no features."""
    x, edge_index = {}, {}
    for owner in store.schema.node_types:
        names = [meta.name for meta in owner.tensors]
        rows = store.column("x", owner.name, np.float32) if "x" in names else None
        x[owner.name] = torch.zeros(owner.num_nodes, 0) if rows is None else torch.tensor(rows)
    for owner in store.schema.edge_types:
        ids = np.arange(store.schema.node_type(owner.destination).num_nodes)
        indptr, sources, *_ = store.snapshot().neighbors(owner.triple, ids)
        ends = np.stack([sources, np.repeat(ids, np.diff(indptr))])
        edge_index[owner.triple] = torch.from_numpy(ends)
    return x, edge_index


def worst_on_batches(store, model, wanted, input_type, trim=True, degrees=None):
    worst = 0.0
    for batch in ng.NeighborLoader(store, [-1] * 3, input_type, batch_size=32):
        if not trim:
            for part in batch.stores:
                for name in ("num_sampled_nodes", "num_sampled_edges"):
                    part.pop(name, None)
        out = on_batch(model, batch, degrees=degrees)[input_type]
        seeds = batch[input_type].n_id[: batch[input_type].batch_size]
        assert not trim or len(out) == len(seeds)
        worst = max(worst, float((out[: len(seeds)] - wanted[input_type][seeds]).abs().max()))
    return worst


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("conv", ["sage", "gat"])
@torch.no_grad()
def test_the_model_of_any_schema_is_pygs_heteroconv_with_a_product_of_the_own_row(
    hetero, conv, trim
):
    torch.manual_seed(12)
    x, edge_index = full_graph(hetero)
    widths = {name: rows.size(1) for name, rows in x.items()}
    model = HeteroGNN(widths, list(edge_index), 8, 5, num_layers=3, conv=conv).eval()
    h = {name: model.lins[name](rows).relu() for name, rows in x.items()}
    for layer, (convs, owns) in enumerate(zip(model.convs, model.owns, strict=True)):
        width = 5 if layer == 2 else 8
        if conv == "sage":
            made = {t: SAGEConv((8, 8), width, root_weight=False, bias=False) for t in edge_index}
        else:
            more = {"heads": 2, "concat": False, "add_self_loops": False, "bias": False}
            made = {t: GATConv((8, 8), width, **more) for t in edge_index}
        theirs = HeteroConv(made, aggr="sum")
        theirs.load_state_dict(convs.state_dict())
        summed = theirs(h, edge_index)
        h = {name: owns[name](rows) + summed.get(name, 0) for name, rows in h.items()}
        h = {name: rows.relu() if layer < 2 else rows for name, rows in h.items()}
    assert set(h) == {"paper", "author", "venue"}
    assert all((out - h[name]).abs().max() < 1e-5 for name, out in model(x, edge_index).items())
    assert worst_on_batches(hetero, model, h, "paper", trim) < 1e-5


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("num_bases", [None, 2])
@torch.no_grad()
def test_rgcn_by_type_is_pygs_rgcnconv_on_all_types_as_one_graph(hetero, num_bases, trim):
    torch.manual_seed(13)
    x, edge_index = full_graph(hetero)
    widths = {name: rows.size(1) for name, rows in x.items()}
    triples = list(edge_index)
    model = RGCN(widths, 8, 5, triples, num_layers=3, num_bases=num_bases).eval()
    begin, starts = 0, {}
    for name, rows in x.items():
        starts[name], begin = begin, begin + len(rows)
    ends = [edge_index[t] + torch.tensor([[starts[t[0]]], [starts[t[2]]]]) for t in triples]
    kinds = [torch.full((edges.size(1),), i) for i, edges in enumerate(ends)]
    # In another order than ours, which must not matter.
    mixed = torch.randperm(sum(len(kind) for kind in kinds))
    merged, relation = torch.cat(ends, 1)[:, mixed], torch.cat(kinds)[mixed]
    h = torch.cat([model.lins[name](rows).relu() for name, rows in x.items()])
    for layer, conv in enumerate(model.convs):
        theirs = RGCNConv(8, 5 if layer == 2 else 8, 3, num_bases=num_bases)
        theirs.load_state_dict(conv.state_dict())
        h = theirs(h if layer == 0 else h.relu(), merged, relation)
    wanted = dict(zip(x, h.split([len(rows) for rows in x.values()]), strict=True))
    assert all((out - wanted[n]).abs().max() < 1e-5 for n, out in model(x, edge_index).items())
    assert worst_on_batches(hetero, model, wanted, "paper", trim) < 1e-5


@torch.no_grad()
def test_rgcn_takes_a_column_of_relations_where_there_is_one_edge_type():
    torch.manual_seed(14)
    x, edge_index = torch.rand(40, 6), torch.randint(0, 40, (2, 300))
    relation = torch.randint(0, 4, (300,))
    model = RGCN(6, 8, 5, 4).eval()
    h = x
    for layer, conv in enumerate(model.convs):
        theirs = RGCNConv(*((6, 8) if layer == 0 else (8, 5)), 4)
        theirs.load_state_dict(conv.state_dict())
        h = theirs(h if layer == 0 else h.relu(), edge_index, relation)
    assert (model(x, edge_index, relation) - h).abs().max() < 1e-5
    for wrong in [(x, edge_index), ({"": x}, {("", "", ""): edge_index})]:
        with pytest.raises(ValueError, match="give x=, edge_index= and edge_type= as tensors"):
            model(*wrong)
    with pytest.raises(ValueError, match="or two integers"):
        RGCN(6, 8, 5, [("a", "to", "a")])


def as_one_graph(x, edge_index):
    """(rows, edges) with the users first."""
    ends = {BUYS: [[0], [80]], BOUGHT: [[80], [0]]}
    edges = [edge_index[triple] + torch.tensor(shift) for triple, shift in ends.items()]
    return torch.cat([x["user"], x["item"]]), torch.cat(edges, 1)


def by_type(rows):
    return {"user": rows[:80], "item": rows[80:]}


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("input_type", ["user", "item"])
@torch.no_grad()
def test_lightgcn_on_users_and_items_is_pygs_on_one_graph_of_both(shop, input_type, trim):
    x, edge_index = full_graph(shop)
    rows, edges = as_one_graph(x, edge_index)
    theirs = PygLightGCN(130, 6, 3)
    theirs.embedding.weight.copy_(rows)
    wanted = theirs.get_embedding(edges)
    model, degrees = LightGCN(3), InDegrees(shop, loops=True)
    assert (model(rows, edges) - wanted).abs().max() < 1e-6
    found = worst_on_batches(shop, model, by_type(wanted), input_type, trim, degrees)
    assert found < 1e-6
    if trim:
        # Without the degrees of the store the outer nodes have those of the sample.
        assert worst_on_batches(shop, model, by_type(wanted), input_type, trim) > 1e-4


@pytest.mark.parametrize("trim", [False, True])
@torch.no_grad()
def test_ngcf_sums_messages_of_neighbours_and_of_how_alike_both_are(shop, trim):
    torch.manual_seed(15)
    model, degrees = NGCF(6, 4, num_layers=3).eval(), InDegrees(shop, loops=True)
    x, edge_index = full_graph(shop)
    rows, (source, target) = as_one_graph(x, edge_index)
    degree = torch.bincount(target, minlength=130).float()
    weight = 1 / (degree[source] * degree[target]).sqrt()
    steps, h = [rows], rows
    for own, alike in zip(model.own, model.alike, strict=True):
        messages = own(h[source]) + alike(h[source] * h[target])
        summed = torch.zeros(130, 4).index_add_(0, target, messages * weight[:, None])
        h = torch.nn.functional.leaky_relu(own(h) + summed, 0.2)
        steps.append(h)
    wanted = torch.cat(steps, 1)
    assert wanted.size(1) == model.out_channels == 18
    assert (model(rows, torch.stack([source, target])) - wanted).abs().max() < 1e-5
    assert worst_on_batches(shop, model, by_type(wanted), "user", trim, degrees) < 1e-5


@torch.no_grad()
def test_recommenders_run_on_one_type_of_node(homo):
    x = torch.tensor(homo.column("x"))
    ends = homo.snapshot().neighbors(None, np.arange(300))
    targets = np.repeat(np.arange(300), np.diff(ends.indptr))
    edge_index = torch.from_numpy(np.stack([ends.indices, targets]))
    h, steps = x, [x]
    for _ in range(3):
        h = LGConv()(h, edge_index)
        steps.append(h)
    wanted, degrees = torch.stack(steps).mean(0), InDegrees(homo, loops=True)
    worst = 0.0
    for batch in ng.NeighborLoader(homo, [-1] * 3, batch_size=64):
        out = on_batch(LightGCN(3), batch, degrees=degrees)
        worst = max(worst, float((out - wanted[batch.n_id[: batch.batch_size]]).abs().max()))
    assert worst < 1e-5


@torch.no_grad()
def test_two_sampled_propagations_are_the_full_ones_in_expectation(shop):
    model, degrees = LightGCN(2), InDegrees(shop, loops=True)

    def embedded(fanout, seed, **more):
        (batch,) = ng.NeighborLoader(shop, [fanout] * 2, "user", batch_size=80, seed=seed)
        return on_batch(model, batch, **more)["user"]

    exact = embedded(-1, 0, degrees=degrees)
    print("seeds 0 ... 199")
    mean = torch.stack([embedded(2, seed, degrees=degrees) for seed in range(200)]).mean(0)
    once = (embedded(2, 0, degrees=degrees) - exact).abs().mean()
    assert (mean - exact).abs().mean() < 0.12 * once
    of_sample = torch.stack([embedded(2, seed) for seed in range(200)]).mean(0)
    assert (of_sample - exact).abs().mean() > 0.15 * once


def test_degrees_come_by_type_and_count_loops_only_where_asked(hetero, hetero_graph):
    degrees = InDegrees(hetero)
    ids = {"paper": torch.arange(120), "author": torch.arange(60), "venue": torch.arange(5)}
    found, with_loops = degrees(ids), InDegrees(hetero, loops=True)(ids)
    assert set(found) == set(hetero_graph.edges)
    for triple, edges in hetero_graph.edges.items():
        whole = np.bincount(edges.destinations, minlength=120)
        loops = edges.destinations[edges.sources == edges.destinations]
        of_loops = np.bincount(loops, minlength=120) if triple[0] == triple[2] else 0
        assert np.array_equal(with_loops[triple], whole)
        assert np.array_equal(found[triple], whole - of_loops)
    one = InDegrees(hetero, ("author", "writes", "paper"))
    assert np.array_equal(one(torch.arange(120)), found[("author", "writes", "paper")])
    with pytest.raises(UnsupportedArgument, match="the degrees are those of 3 edge types"):
        degrees(torch.arange(3))


def test_a_type_without_features_learns_one_row(hetero):
    torch.manual_seed(16)
    (batch, *_) = ng.NeighborLoader(hetero, [-1, -1], "paper", batch_size=20)
    widths = {name: rows.size(1) for name, rows in features_of(batch).items()}
    assert widths == {"paper": 4, "author": 3, "venue": 0}
    for model in (
        HeteroGNN(widths, hetero.edge_types, 8, 5),
        RGCN(widths, 8, 5, hetero.edge_types),
    ):
        on_batch(model, batch)["paper"].square().sum().backward()
        assert model.lins["venue"].bias.grad.abs().sum() > 0
    rows = {"venue": torch.ones(batch["venue"].num_nodes, 2)}
    model = HeteroGNN(widths | {"venue": 2}, hetero.edge_types, 8, 5)
    assert on_batch(model, batch, x=rows)["paper"].shape == (20, 5)


def test_what_a_typed_model_cannot_run_on_is_refused(shop):
    with pytest.raises(ValueError, match="needs in_channels= for node type 'item'"):
        HeteroGNN({"user": 6}, [BUYS], 8, 5)
    with pytest.raises(ValueError, match="no rows of node type 'item'"):
        HeteroGNN({"user": 6, "item": 6}, [BUYS], 8, 5)({"user": torch.rand(3, 6)}, {})
    x, edge_index = full_graph(shop)
    with pytest.raises(ValueError, match="no edge type leads to 'user'"):
        LightGCN()(x, {BUYS: edge_index[BUYS]})
    with pytest.raises(ValueError, match="'sum' is not valid: expected 'sage' or 'gat'"):
        HeteroGNN({"user": 6}, [], 8, 5, conv="sum")


@pytest.mark.parametrize("name", ["hetero-sage", "rgcn"])
def test_a_model_for_fewer_edge_types_than_a_batch_has_is_refused(name, tmp_path):
    rng = np.random.default_rng(3)
    data = HeteroData()
    for owner in ("user", "item"):
        data[owner].x = torch.tensor(rng.standard_normal((40, 6)), dtype=torch.float32)
    data[BUYS].edge_index = torch.tensor(rng.integers(0, 40, (2, 200)))
    ng.from_pyg(data, path := tmp_path / "s.ng", reverse=True)
    with ng.open(path, memory="64MB") as store:
        fanouts = {BUYS: [2], ("item", "rev_buys", "user"): [2]}
        loader = ng.NeighborLoader(store, fanouts, ("user", range(9)), batch_size=9)
        (batch,) = loader
        with pytest.raises(UnsupportedArgument, match=r"'rev_buys'.*loader\.schema"):
            on_batch(build(name, store.schema, 4, num_layers=1), batch)
        model = build(name, loader.schema, 4, num_layers=1)
        assert on_batch(model, batch)["user"].shape == (9, 4)
