"""PyG's own loaders where types and splits are named: batches are whole, or it raises."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import (  # noqa: E402
    LinkLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NodeLoader,
)

TO = ("node", "to", "node")
IDS = torch.arange(0, 60, 2)


def check(batch, graph, num_seeds=None):
    """A batch of the homogeneous graph, with rows and edges."""
    assert type(batch) is Data
    raw, edges = graph.nodes["node"].tensors, graph.edges[TO]
    n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
    assert np.array_equal(batch.x.numpy(), raw["x"][n_id])
    assert np.array_equal(batch.y.numpy(), raw["y"][n_id])
    assert np.array_equal(batch.train_mask.numpy(), raw["split_0"][n_id] == 1)
    row, col = batch.edge_index.numpy()
    assert len(row) > 0
    assert np.array_equal(n_id[row], edges.sources[e_id])
    assert np.array_equal(n_id[col], edges.destinations[e_id])
    if num_seeds is not None:
        assert batch.batch_size == num_seeds == len(batch.input_id)


@pytest.mark.parametrize(
    "given", [IDS, ("node", IDS), ["node", IDS.tolist()]], ids=["ids", "pair", "lists"]
)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_node_loaders_take_ids_with_the_name_of_the_only_type(homo, homo_graph, given, num_workers):
    sampler = homo.sampler([4, 2], seed=3)
    how = {"input_nodes": given, "batch_size": 10, "num_workers": num_workers}
    for loader in (
        NodeLoader(homo, sampler, **how),
        NeighborLoader(homo, [4, 2], neighbor_sampler=sampler, **how),
    ):
        sampler.set_epoch(0)
        seen = []
        for batch in loader:
            check(batch, homo_graph, 10)
            seen += batch.n_id[:10].tolist()
        assert seen == IDS.tolist()


def test_node_loaders_take_the_only_type_for_all_its_nodes(homo, homo_graph):
    loader = NodeLoader(homo, homo.sampler([2]), input_nodes="node", batch_size=150)
    seen = []
    for batch in loader:
        check(batch, homo_graph, 150)
        seen += batch.n_id[:150].tolist()
    assert seen == list(range(300))


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_node_loaders_take_a_split_by_its_name(homo, homo_graph, split):
    ids = homo.split(split)
    sampler = homo.sampler([4, 2], seed=3)
    sampler.set_epoch(0)
    mask = torch.from_numpy(homo.mask(split))
    named, masked = (
        list(NodeLoader(homo, sampler, input_nodes=given, batch_size=16)) for given in (split, mask)
    )
    assert torch.cat([batch.n_id[: batch.batch_size] for batch in named]).tolist() == ids.tolist()
    for one, other in zip(named, masked, strict=True):
        check(one, homo_graph)
        assert one.input_id.tolist() == other.input_id.tolist()
        assert one.n_id.tolist() == other.n_id.tolist()
        assert one.e_id.tolist() == other.e_id.tolist()


def test_node_loaders_take_the_splits_of_several_types(hetero):
    ids = hetero.split("train").tolist()
    for given in ("train", ("paper", "train"), ["paper", torch.tensor(ids)]):
        loader = NodeLoader(hetero, hetero.sampler([2]), input_nodes=given, batch_size=16)
        seeds = [batch["paper"].n_id[: batch["paper"].batch_size] for batch in loader]
        assert torch.cat(seeds).tolist() == ids


@pytest.mark.parametrize("given", [[1, 2, 3], np.arange(1, 4), (None, torch.arange(1, 4))], ids=str)
def test_node_loaders_take_ids_in_every_form(homo, given):
    (batch,) = NodeLoader(homo, homo.sampler([2]), input_nodes=given, batch_size=3)
    assert batch.n_id[:3].tolist() == [1, 2, 3]


def test_seeds_that_the_store_does_not_have_are_refused(homo, hetero):
    for store, given, named in (
        (homo, "paper", "paper"),
        (homo, "valid", "valid"),
        (hetero, "pappers", "pappers"),
        (homo, ("paper", IDS), "paper"),
        (hetero, IDS, "a node type must be named"),
        (hetero, ("author", "train"), "no splits"),
        (homo, [300], "300"),
        (homo, torch.ones(3, dtype=torch.bool), "mask"),
    ):
        with pytest.raises((ng.NeargraphError, ValueError), match=named):
            NodeLoader(store, store.sampler([2]), input_nodes=given)
    with pytest.raises(ValueError, match="input_id"):
        NodeLoader(homo, homo.sampler([2]), input_nodes=IDS, input_id=IDS[:3])


@pytest.mark.parametrize("given", ["ids", "name", "name and None", "None and None"])
@pytest.mark.parametrize("neg_sampling", [None, "binary", "triplet"])
def test_link_loaders_take_the_only_edge_type_by_name(homo, homo_graph, given, neg_sampling):
    edges = homo_graph.edges[TO]
    pairs = torch.from_numpy(np.stack([edges.sources, edges.destinations]))
    index = {
        "ids": (TO, pairs),
        "name": TO,
        "name and None": (TO, None),
        "None and None": (None, None),
    }[given]
    sampler = homo.sampler([3], seed=1)
    how = {"edge_label_index": index, "neg_sampling": neg_sampling, "batch_size": 300}
    for loader in (
        LinkLoader(homo, sampler, **how),
        LinkNeighborLoader(homo, [3], neighbor_sampler=sampler, **how),
    ):
        found = []
        for batch in loader:
            check(batch, homo_graph)
            if neg_sampling == "triplet":
                ends = torch.stack([batch.src_index, batch.dst_pos_index])
            else:
                ends = batch.edge_label_index[:, :300]
            found += batch.n_id[ends].T.tolist()
        assert sorted(found) == sorted(pairs.T.tolist())


def test_links_that_the_store_does_not_have_are_refused(homo, hetero):
    pairs = torch.zeros((2, 4), dtype=torch.int64)
    for store, given, named in (
        (homo, (("paper", "cites", "paper"), pairs), "cites"),
        (homo, ("paper", "cites", "paper"), "cites"),
        (hetero, (("paper", "author"), pairs), "author"),
        (hetero, (None, pairs), "an edge type must be named"),
        (homo, pairs + 300, "300"),
        (homo, pairs[0], "with sources in row 0"),
    ):
        with pytest.raises((ng.NeargraphError, ValueError), match=named):
            LinkLoader(store, store.sampler([2]), edge_label_index=given)


def test_link_loaders_take_a_part_of_a_triple_that_names_one_edge_type(hetero):
    pairs = torch.arange(5).repeat(2, 1)
    for name in ("writes", ("author", "paper")):
        loader = LinkLoader(hetero, hetero.sampler([2]), edge_label_index=(name, pairs))
        for number, batch in enumerate(loader):
            ends = batch["author", "writes", "paper"].edge_label_index
            assert batch["author"].n_id[ends[0]] == batch["paper"].n_id[ends[1]] == number


def test_the_graph_store_of_one_edge_type_gives_it_by_name(homo):
    row, col, _ = homo.graph_store.coo()
    rows, cols, _ = homo.graph_store.coo([TO])
    assert torch.equal(rows[TO], row)
    assert torch.equal(cols[TO], col)
    [attr] = homo.graph_store.get_all_edge_attrs()
    assert [attr.edge_type] == [None]
    assert attr.size == (300, 300)
