"""Models over a store equal PyG's layers on the full graph, with and without trimming."""

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.nn import GATConv, GINConv, SAGEConv, TransformerConv  # noqa: E402
from torch_geometric.utils import scatter  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import UnsupportedArgument  # noqa: E402
from neargraph.nn import (  # noqa: E402
    GAT,
    GIN,
    DotDecoder,
    GraphSAGE,
    InDegrees,
    PinSAGE,
    TemporalGAT,
    on_batch,
)

FULL = [-1, -1, -1]


def full_graph(store):
    """(x, edge_index) of a homogeneous store, by node id."""
    indptr, sources, *_ = store.snapshot().neighbors(None, np.arange(store.num_nodes))
    targets = np.repeat(np.arange(store.num_nodes), np.diff(indptr))
    edge_index = torch.from_numpy(np.stack([sources, targets]))
    return torch.from_numpy(np.array(store.column("x"))), edge_index


def worst_on_batches(store, model, wanted, trim=True, degrees=None, **more):
    """The largest difference of the seeds' rows of full-neighbourhood batches from `wanted`."""
    worst = 0.0
    for batch in ng.NeighborLoader(store, num_neighbors=FULL, batch_size=64):
        for name, make in more.items():
            batch[name] = make(batch)
        if not trim:
            del batch.num_sampled_nodes, batch.num_sampled_edges
        out = on_batch(model, batch, degrees=degrees)
        assert not trim or out.size(0) == batch.batch_size
        seeds = batch.n_id[: batch.batch_size]
        worst = max(worst, float((out[: batch.batch_size] - wanted[seeds]).abs().max()))
    return worst


def plain(convs, x, edge_index, activation=torch.relu):
    for layer, conv in enumerate(convs):
        x = conv(x if layer == 0 else activation(x), edge_index)
    return x


CASES = {
    "sage": (GraphSAGE, {}, lambda a, b, last: SAGEConv(a, b)),
    "sage-max": (GraphSAGE, {"aggr": "max"}, lambda a, b, last: SAGEConv(a, b, aggr="max")),
    "sage-pool": (
        GraphSAGE,
        {"aggr": "pool"},
        lambda a, b, last: SAGEConv(a, b, aggr="max", project=True),
    ),
    "gat": (
        GAT,
        {"heads": 4},
        lambda a, b, last: GATConv(a, b if last else b // 4, heads=4, concat=not last),
    ),
}


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_full_neighbour_batches_give_what_pygs_layers_give_on_the_full_graph(homo, name, trim):
    kind, settings, make = CASES[name]
    torch.manual_seed(3)
    model = kind(6, 8, 5, num_layers=3, **settings).eval()
    widths = [(6, 8, False), (8, 8, False), (8, 5, True)]
    layers = torch.nn.ModuleList(make(*width) for width in widths)
    layers.load_state_dict(model.convs.state_dict())
    x, edge_index = full_graph(homo)
    activation = torch.nn.functional.elu if name == "gat" else torch.relu
    wanted = plain(layers, x, edge_index, activation)
    assert (model(x, edge_index) - wanted).abs().max() < 1e-5
    assert worst_on_batches(homo, model, wanted, trim) < 1e-5


@pytest.mark.parametrize("trim", [False, True])
@torch.no_grad()
def test_gin_equals_pygs_layers_and_degrees_change_nothing_with_all_neighbours(homo, trim):
    torch.manual_seed(4)
    model = GIN(6, 8, 5, num_layers=3).eval()
    for conv in model.convs:
        conv.eps.fill_(0.3)
    layers = [GINConv(conv.nn, eps=0.3) for conv in model.convs]
    x, edge_index = full_graph(homo)
    wanted = plain(layers, x, edge_index)
    scale = float(wanted.abs().max())
    assert worst_on_batches(homo, model, wanted, trim) < 1e-5 * scale
    degrees = InDegrees(homo, loops=True)
    assert worst_on_batches(homo, model, wanted, trim, degrees) < 1e-5 * scale


@torch.no_grad()
def test_sums_of_samples_are_those_of_all_neighbours_in_expectation(homo):
    torch.manual_seed(5)
    model, degrees = GIN(6, 4, 4, num_layers=1).eval(), InDegrees(homo, loops=True)
    model.convs[0].nn = torch.nn.Identity()
    seeds = torch.arange(100)

    def sums(fanout, seed, with_degrees=True):
        (batch,) = ng.NeighborLoader(homo, [fanout], seeds, batch_size=100, seed=seed)
        return on_batch(model, batch, degrees=degrees if with_degrees else None)

    exact = sums(-1, 0)
    print("seeds 0 ... 299")
    mean = torch.stack([sums(2, seed) for seed in range(300)]).mean(0)
    biased = torch.stack([sums(2, seed, False) for seed in range(300)]).mean(0)
    once = (sums(2, 0) - exact).abs().mean()
    assert (mean - exact).abs().mean() < 0.12 * once
    assert (biased - exact).abs().mean() > 0.25 * once


def visits(batch):
    """Counts that depend on the ends of an edge alone, so that every batch has the same."""
    ends = batch.n_id[batch.edge_index]
    return (ends[0] * 7 + ends[1]) % 5 + 1.0


@pytest.mark.parametrize("trim", [False, True])
@torch.no_grad()
def test_pinsage_is_algorithm_1_with_algorithm_2_on_top(homo, trim):
    torch.manual_seed(6)
    model = PinSAGE(6, 8, 5, num_layers=3).eval()
    x, edge_index = full_graph(homo)
    weight = (edge_index[0] * 7 + edge_index[1]) % 5 + 1.0
    h = x
    for conv in model.convs:
        messages = conv.neighbor(h).relu()[edge_index[0]] * weight[:, None]
        total = scatter(weight, edge_index[1], 0, len(x), "sum").clamp(min=1)
        pooled = scatter(messages, edge_index[1], 0, len(x), "sum") / total[:, None]
        h = conv.both(torch.cat([h, pooled], 1)).relu()
        h = h / h.norm(dim=1, keepdim=True).clamp(min=1e-12)
    wanted = model.out(model.lin(h).relu())
    assert worst_on_batches(homo, model, wanted, trim, edge_weight=visits) < 1e-5
    shares = worst_on_batches(homo, model, wanted, trim, edge_weight=lambda b: visits(b) / 10)
    assert shares < 1e-5
    assert worst_on_batches(homo, model, wanted, trim, edge_weight=lambda b: 1 / visits(b)) > 1e-3


@torch.no_grad()
def test_pinsage_runs_on_visits_of_walks(homo):
    torch.manual_seed(19)
    model = PinSAGE(6, 8, 5).eval()
    (batch, *_) = ng.PinSAGELoader(homo, [5, 3], batch_size=16)
    out = on_batch(model, batch)
    assert out.shape == (len(batch.n_id), 5)
    batch.edge_weight = torch.ones_like(batch.edge_weight)
    assert (on_batch(model, batch)[:16] - out[:16]).abs().max() > 1e-4


def test_a_batch_without_what_a_model_needs_is_refused(homo):
    (batch, *_) = ng.NeighborLoader(homo, [2], batch_size=64)
    with pytest.raises(UnsupportedArgument, match="PinSAGE needs the attribute 'edge_weight'"):
        on_batch(PinSAGE(6, 8, 5), batch)
    with pytest.raises(UnsupportedArgument, match="GraphSAGE does not use degrees"):
        on_batch(GraphSAGE(6, 8, 5), batch, degrees=InDegrees(homo))
    (batch, *_) = ng.NeighborLoader(homo, [2], batch_size=64, attrs=["y"])
    with pytest.raises(UnsupportedArgument, match="the batch has no tensor 'x'"):
        on_batch(GraphSAGE(6, 8, 5), batch)
    for make, message in [
        (lambda: GAT(6, 9, 5, heads=4), "hidden_channels=9 and heads=4"),
        (
            lambda: GraphSAGE(6, 8, 5, aggr="sum"),
            "'sum' is not valid: expected 'mean', 'max' or 'pool'",
        ),
        (lambda: GIN(6, 8, 5, num_layers=0), "num_layers=0 is not valid"),
        (lambda: TemporalGAT(6, 8, 5), "out_channels=5 and heads=2"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def temporal_batch(seed=7, edge_width=0):
    """A disjoint batch of two seeds: a chain and a star into each."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.tensor([[2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 4]])
    return {
        "x": torch.rand(8, 6, generator=generator),
        "edge_index": edge_index,
        "edge_time": torch.tensor([50, 99, 400, 7, 20, 300]),
        "seed_time": torch.tensor([100, 500]),
        "batch": torch.tensor([0, 1, 0, 0, 1, 1, 0, 1]),
        "edge_attr": torch.rand(6, 3, generator=generator) if edge_width else None,
    }


@pytest.mark.parametrize("edge_width", [0, 3])
@torch.no_grad()
def test_the_temporal_model_is_attention_over_time_before_the_seed(edge_width):
    torch.manual_seed(8)
    model = TemporalGAT(6, 8, 4, num_layers=2, edge_channels=edge_width, time_unit=10.0).eval()
    batch = temporal_batch(edge_width=edge_width)
    ago = torch.tensor([50, 1, 100, 493, 80, 200]) / 10.0
    beside = torch.cos(ago[:, None] * model.time.lin.weight.T + model.time.lin.bias)
    if edge_width:
        beside = torch.cat([beside, batch["edge_attr"]], dim=1)
    h = model.lin(batch["x"]).relu()
    for layer, conv in enumerate(model.convs):
        other = TransformerConv(8, 4 if layer == 0 else 2, 2, edge_dim=32 + edge_width)
        other.load_state_dict(conv.state_dict())
        h = other(h if layer == 0 else h.relu(), batch["edge_index"], beside)
    assert (model(**batch) - h).abs().max() < 1e-6
    trimmed = model(**batch, num_sampled_nodes=[2, 4, 2], num_sampled_edges=[4, 2])
    assert trimmed.shape == (2, 4)
    assert (trimmed - h[:2]).abs().max() < 1e-6
    later = {**batch, "seed_time": torch.tensor([100, 501])}
    assert (model(**later)[1] - h[1]).abs().max() > 1e-6


def test_an_edge_after_the_time_of_its_seed_is_refused():
    model, batch = TemporalGAT(6, 8, 4), temporal_batch()
    batch["edge_time"][3] = 503
    with pytest.raises(UnsupportedArgument, match="3 later than the time of its seed"):
        model(**batch)
    with pytest.raises(UnsupportedArgument, match=r"expected shape \[edges, 3\]"):
        TemporalGAT(6, 8, 4, edge_channels=3)(**temporal_batch())


@torch.no_grad()
def test_the_temporal_model_runs_on_batches_of_seeds_and_of_links_with_times(tmp_path):
    rng = np.random.default_rng(17)
    ends, times = rng.integers(0, 80, (2, 600)), rng.integers(0, 1000, 600)
    nodes = Nodes(80, {"x": rng.standard_normal((80, 6)).astype(np.float32)})
    edges = Edges(*ends, times=times)
    path = Graph({"node": nodes}, {("node", "to", "node"): edges}).write(tmp_path / "g.ng")
    torch.manual_seed(18)
    model = TemporalGAT(6, 8, 4).eval()
    with ng.open(path, memory="64MB") as store:
        how = {"time_attr": "edge_time", "batch_size": 16}
        asked = torch.from_numpy(rng.integers(300, 900, 80))
        (batch, *_) = ng.NeighborLoader(store, [5, 5], input_time=asked, **how)
        assert on_batch(model, batch).shape == (16, 4)
        batch.seed_time = torch.zeros_like(batch.seed_time)
        with pytest.raises(UnsupportedArgument, match="later than the time of its seed"):
            on_batch(model, batch)
        links = {"edge_label_index": torch.from_numpy(ends), "neg_sampling": "binary"}
        links |= {"edge_label_time": torch.from_numpy(times)}
        (batch, *_) = ng.LinkNeighborLoader(store, [5, 5], **links, **how)
        z = on_batch(model, batch)
        assert z.size(0) == 64  # Both ends of 16 links, and of 16 that are no edges.
        assert DotDecoder()(z, z, batch.edge_label_index).shape == (32,)


def test_time_alone_can_be_learned_where_nodes_have_no_features():
    torch.manual_seed(9)
    model = TemporalGAT(0, 8, 4)
    batch = temporal_batch() | {"x": torch.zeros(8, 0)}
    model(**batch).square().sum().backward()
    assert model.time.lin.weight.grad.abs().sum() > 0
    assert model.lin.bias.grad.abs().sum() > 0


@torch.no_grad()
def test_a_weighted_sum_takes_the_place_of_the_mean():
    torch.manual_seed(10)
    x, edge_index = torch.rand(30, 6), torch.randint(0, 30, (2, 200))
    model = GraphSAGE(6, 8, 5).eval()
    degree = scatter(torch.ones(200), edge_index[1], 0, 30, "sum")
    weight = 1 / degree[edge_index[1]]
    assert torch.allclose(model(x, edge_index, sum_weight=weight), model(x, edge_index), atol=1e-5)
    assert not torch.allclose(model(x, edge_index, sum_weight=2 * weight), model(x, edge_index))
    with pytest.raises(ValueError, match="only for aggr='mean'"):
        GraphSAGE(6, 8, 5, aggr="max")(x, edge_index, sum_weight=weight)


def test_on_batch_reads_the_arguments_of_a_model_in_distributed_data_parallel(homo, tmp_path):
    # `DistributedDataParallel.forward` takes any arguments, so its signature names none.
    store = torch.distributed.FileStore(str(tmp_path / "rendezvous"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        batch = next(iter(ng.NeighborLoader(homo, [4, 4], batch_size=32)))
        model = GraphSAGE(batch.x.size(1), 8, 3, num_layers=2).eval()
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        assert torch.equal(on_batch(wrapped, batch), on_batch(model, batch))
        with pytest.raises(UnsupportedArgument, match="GraphSAGE does not use degrees"):
            on_batch(wrapped, batch, degrees=InDegrees(homo))
    finally:
        torch.distributed.destroy_process_group()
