"""`without_links`: a batch keeps every edge except the links that it predicts."""

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import UnsupportedArgument  # noqa: E402
from neargraph.nn import GraphSAGE, on_batch, without_links  # noqa: E402

BUYS, REV = ("user", "buys", "item"), ("item", "rev_buys", "user")


def global_pairs(source, target, ends):
    return list(zip(source.n_id[ends[0]].tolist(), target.n_id[ends[1]].tolist(), strict=True))


def pair_of_batches(store, fanouts, links=None, **options):
    """The same batch as the loader makes it, and without its links."""
    loaders = [
        ng.LinkNeighborLoader(store, fanouts, links, batch_size=64, shuffle=True, seed=5,
                              transform=transform, **options)
        for transform in (None, without_links)
    ]  # fmt: skip
    return [next(iter(loader)) for loader in loaders]


@pytest.mark.parametrize("mode", ["binary", "triplet", None])
def test_links_of_one_node_type_are_removed_in_both_directions(mode, homo):
    whole, rest = pair_of_batches(homo, [8, 4], neg_sampling=mode)
    if mode == "triplet":
        ends = torch.stack([whole.src_index, whole.dst_pos_index])
    else:
        ends = whole.edge_label_index[:, : len(whole.input_id)]
    links = set(global_pairs(whole, whole, ends))
    links |= {(b, a) for a, b in links}
    edges = global_pairs(whole, whole, whole.edge_index)
    kept = [pair not in links for pair in edges]
    assert not all(kept)
    assert global_pairs(rest, rest, rest.edge_index) == [
        pair for pair, keep in zip(edges, kept, strict=True) if keep
    ]
    assert torch.equal(rest.e_id, whole.e_id[torch.tensor(kept)])
    assert torch.equal(rest.n_id, whole.n_id)
    assert sum(rest.num_sampled_edges) == rest.edge_index.size(1)
    parts = torch.split(torch.tensor(kept), list(whole.num_sampled_edges))
    assert rest.num_sampled_edges == [int(part.sum()) for part in parts]


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_links_between_types_are_removed_with_those_that_lead_back(mode, tmp_path):
    rng = np.random.default_rng(2)
    users, items = rng.integers(0, 40, 300), rng.integers(0, 20, 300)
    graph = Graph(
        {"user": Nodes(40, {}), "item": Nodes(20, {})},
        {
            BUYS: Edges(users, items),
            REV: Edges(items, users),
            ("user", "views", "item"): Edges(users, items),
        },
    )
    with ng.open(graph.write(tmp_path / "shop.ng"), memory="64MB") as store:
        whole, rest = pair_of_batches(store, [4, 4], (BUYS, None), neg_sampling=mode)
    user, item = whole["user"], whole["item"]
    if mode == "triplet":
        ends = torch.stack([user.src_index, item.dst_pos_index])
    else:
        ends = whole[BUYS].edge_label_index[:, : len(whole[BUYS].input_id)]
    links = set(global_pairs(user, item, ends))
    for triple, back in ((BUYS, False), (REV, True)):
        source, target = (item, user) if back else (user, item)
        edges = global_pairs(source, target, whole[triple].edge_index)
        expected = [pair for pair in edges if (pair[::-1] if back else pair) not in links]
        assert len(expected) < len(edges)
        assert global_pairs(source, target, rest[triple].edge_index) == expected
        assert sum(rest[triple].num_sampled_edges) == len(expected)
    views = ("user", "views", "item")
    assert torch.equal(rest[views].edge_index, whole[views].edge_index)


def test_tensors_of_edges_follow_their_edges_even_if_there_are_as_many_nodes():
    batch = Data(
        x=torch.arange(4.0).view(4, 1), n_id=torch.arange(4), input_id=torch.arange(1),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), edge_attr=torch.arange(4.0),
        time=torch.arange(4), edge_label_index=torch.tensor([[1, 0], [2, 2]]),
        edge_label=torch.tensor([1.0, 0.0]),
    )  # fmt: skip
    rest = without_links(batch)
    assert rest.edge_attr.tolist() == rest.time.tolist() == [0, 2, 3]
    assert rest.x.size(0) == rest.n_id.size(0) == 4


def test_a_model_runs_on_a_batch_without_its_links(homo):
    _, rest = pair_of_batches(homo, [8, 4], neg_sampling="binary")
    z = on_batch(GraphSAGE(rest.x.size(1), 8, 8, num_layers=2), rest)
    assert z.size(0) == rest.num_sampled_nodes[0]


def test_batches_without_links_are_refused(homo, shop_store):
    batch = next(iter(ng.NeighborLoader(homo, [2], batch_size=8)))
    with pytest.raises(UnsupportedArgument, match="LinkNeighborLoader"):
        without_links(batch)
    name = shop_store.schema.node_types[0].name
    batch = next(iter(ng.NeighborLoader(shop_store, [2], name, batch_size=8)))
    with pytest.raises(UnsupportedArgument, match="LinkNeighborLoader"):
        without_links(batch)
