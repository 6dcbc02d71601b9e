"""PyG's LinkLoader around links between two node types, each end with a subgraph of its own."""

from collections import Counter

import numpy as np
import pytest
from graphs import shop

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.loader import LinkLoader  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")
TIMES = [{}, {"time_attr": "edge_time"}, {"time_attr": "born"}]
GRAPH = shop()
LINKS = np.stack([GRAPH.edges[BUYS].sources, GRAPH.edges[BUYS].destinations])[:, ::4]


def given(how):
    """The links, and their times where sampling looks at times."""
    times = torch.arange(LINKS.shape[1]) % 25 + 3
    found = {"edge_label_index": (BUYS, torch.from_numpy(LINKS)), "batch_size": 8}
    return {**found, "edge_label_time": times} if "time_attr" in how else found


def make(store, fanouts, how, **more):
    sampler = store.sampler(fanouts, disjoint=True, seed=3, **how)
    return LinkLoader(store, sampler, **given(how), **more)


def of_links(batch):
    """The nodes and the edges of each link of a batch, in global ids."""
    found = Counter()
    for name in ("user", "item"):
        part = batch[name]
        found.update(
            zip(part.batch.tolist(), [name] * part.num_nodes, part.n_id.tolist(), strict=True)
        )
    for triple in (BUYS, SOLD):
        row, col = batch[triple].edge_index
        source, destination = batch[triple[0]], batch[triple[2]]
        assert torch.equal(source.batch[row], destination.batch[col])
        ends = source.n_id[row].tolist(), destination.n_id[col].tolist()
        found.update(zip(source.batch[row].tolist(), [triple] * len(row), *ends, strict=True))
    return found


@pytest.mark.parametrize("how", [*TIMES, {"subgraph_type": "induced"}], ids=str)
def test_all_neighbours_of_a_link_are_those_of_neargraphs_loader(shop_store, how):
    counted = "subgraph_type" not in how
    ours = ng.LinkNeighborLoader(shop_store, [-1, -1], **given(how), disjoint=True, **how)
    for theirs, own in zip(make(shop_store, [-1, -1], how), ours, strict=True):
        assert of_links(theirs) == of_links(own)
        assert torch.equal(theirs[BUYS].edge_label_index, own[BUYS].edge_label_index)
        for name in ("user", "item"):
            x = GRAPH.nodes[name].tensors["x"][theirs[name].n_id]
            assert np.array_equal(theirs[name].x, x)
            if counted:
                assert theirs[name].num_sampled_nodes == own[name].num_sampled_nodes
        for triple in (BUYS, SOLD):
            assert ("num_sampled_edges" in own[triple]) == counted
            if counted:
                assert theirs[triple].num_sampled_edges == own[triple].num_sampled_edges


@pytest.mark.parametrize("how", TIMES, ids=str)
@pytest.mark.parametrize(
    ("mode", "amount"), [("binary", 1), ("binary", 0.5), ("triplet", 1), ("triplet", 3)]
)
def test_ends_are_the_first_nodes_and_drawn_edges_are_in_time(shop_store, how, mode, amount):
    edge_times = torch.from_numpy(GRAPH.edges[BUYS].times)
    born = torch.from_numpy(GRAPH.nodes["item"].tensors["born"])
    loader = make(shop_store, [3, 2], how, neg_sampling=NegativeSampling(mode, amount))
    drawn = 0
    for number, batch in enumerate(loader):
        wanted = LINKS[:, 8 * number : 8 * number + 8]
        positives = wanted.shape[1]
        users, items = batch["user"], batch["item"]
        if mode == "binary":
            sources, destinations = batch[BUYS].edge_label_index
            assert len(sources) == positives + int(np.ceil(positives * amount))
        else:
            sources = users.src_index
            negative = items.dst_neg_index.view(positives, -1)
            assert negative.shape[1] == amount
            destinations = torch.cat([items.dst_pos_index, negative.T.flatten()])
        for part, ends, row in ((users, sources, wanted[0]), (items, destinations, wanted[1])):
            assert part.num_sampled_nodes[0] == len(ends)
            assert ends.tolist() == list(range(len(ends)))
            assert np.array_equal(part.n_id[:positives], row)
            assert torch.equal(part.batch[ends], torch.arange(len(ends)) % positives)
            assert len(part.n_id) == sum(part.num_sampled_nodes)
        for triple in (BUYS, SOLD):
            _, col = batch[triple].edge_index
            assert (torch.bincount(col) <= 3).all()
            assert len(col) == sum(batch[triple].num_sampled_edges)
            drawn += len(col)
        of_links(batch)
        if how:
            until = given(how)["edge_label_time"][8 * number :]
            if how["time_attr"] == "edge_time":
                col = batch[BUYS].edge_index[1]
                assert (edge_times[batch[BUYS].e_id] <= until[items.batch[col]]).all()
            else:
                reached = slice(len(destinations), None)
                assert (born[items.n_id] <= until[items.batch])[reached].all()
    assert drawn > 200


def test_the_same_links_have_the_same_draws(shop_store):
    def run():
        return [of_links(batch) for batch in make(shop_store, [2, 2], {})]

    assert run() == run()


@pytest.mark.parametrize("kind", ["bidirectional", "induced"])
def test_subgraphs_that_both_types_share_are_refused(shop_store, kind):
    sampler = shop_store.sampler([2], subgraph_type=kind)
    loader = LinkLoader(shop_store, sampler, edge_label_index=(BUYS, torch.from_numpy(LINKS)))
    with pytest.raises(ng.UnsupportedArgument, match=r"disjoint=True.*LinkNeighborLoader"):
        next(iter(loader))
