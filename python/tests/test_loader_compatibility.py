"""PyG's own loaders on a store, row by row: a table of docs/reference/compatibility.md."""

import numpy as np
import pytest
from compatibility import TITLES, Table, check_rows, checks_of, tables
from graphs import shop
from sampled import PLAIN, epoch_of, temporal_graph

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric import loader as pyg  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402

BUYS = ("user", "buys", "item")
LOADERS = Table("PyG's loaders on a store")


@LOADERS.row("NodeLoader", "works", "with node_sampler=store.sampler(...)")
def node_loader(one, several):
    found = pyg.NodeLoader(one, one.sampler([3, 2]), input_nodes=torch.arange(60), batch_size=8)
    assert sum(map(check_rows, found)) > 60
    found = pyg.NodeLoader(several, several.sampler([3, 2]), input_nodes="item", batch_size=8)
    assert torch.cat([b["item"].n_id[: b["item"].batch_size] for b in found]).tolist() == list(
        range(25)
    )


@LOADERS.row("NeighborLoader", "works", "with neighbor_sampler=store.sampler(...)")
def neighbor_loader(one, several):
    for store, seeds in ((one, torch.arange(60)), (several, ("user", torch.arange(40)))):
        sampler = store.sampler([3, 2])
        how = {"neighbor_sampler": sampler, "batch_size": 8, "num_workers": 0}
        assert len(list(pyg.NeighborLoader(store, [3, 2], input_nodes=seeds, **how))) == (
            -(-len(seeds if store is one else seeds[1]) // 8)
        )


@LOADERS.row("NeighborLoader, disjoint", "works", "store.sampler(..., disjoint=True)")
def disjoint(one, several):
    sampler = one.sampler([3, 2], disjoint=True)
    how = {"neighbor_sampler": sampler, "batch_size": 8, "disjoint": True}
    for batch in pyg.NeighborLoader(one, [3, 2], input_nodes=torch.arange(60), **how):
        check_rows(batch)
        assert torch.equal(*batch.batch[batch.edge_index])
        assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
    sampler = several.sampler([3, 2], disjoint=True)
    for batch in pyg.NodeLoader(several, sampler, input_nodes="item", batch_size=8):
        row, col = batch[BUYS].edge_index
        assert torch.equal(batch["user"].batch[row], batch["item"].batch[col])


@LOADERS.row("NeighborLoader, temporal", "works", "store.sampler(..., time_attr=...)")
def temporal(one, _):
    times = torch.arange(60) % 45
    for name, given in (("edge_time", times), ("born", times), ("born", None)):
        sampler = one.sampler([4, 3], time_attr=name)
        found = pyg.NodeLoader(
            one, sampler, input_nodes=torch.arange(60), input_time=given, batch_size=8
        )
        graph = temporal_graph()
        born = torch.from_numpy(graph.nodes["node"].tensors["born"])
        edge_times = torch.from_numpy(graph.edges[PLAIN].times)
        for batch in found:
            check_rows(batch)
            seeds = batch.n_id[: batch.batch_size]
            until = (born[seeds] if given is None else times[seeds])[batch.batch]
            if name == "born":
                later = born[batch.n_id] > until
                later[: batch.batch_size] = False
            else:
                later = edge_times[batch.e_id] > until[batch.edge_index[1]]
            assert not later.any()


@LOADERS.row(
    "NeighborLoader, subgraph_type",
    "works",
    "bidirectional between two node types requires an edge type in each direction",
)
def subgraph_type(one, several):
    edges = temporal_graph().edges[PLAIN]
    for kind in ("induced", "bidirectional"):
        sampler = one.sampler([3, 2], subgraph_type=kind)
        found = pyg.NodeLoader(one, sampler, input_nodes=torch.arange(60), batch_size=8)
        for batch in found:
            if kind == "induced":
                inside = np.isin(edges.sources, batch.n_id) & np.isin(
                    edges.destinations, batch.n_id
                )
                assert sorted(batch.e_id.tolist()) == np.flatnonzero(inside).tolist()
            else:
                pairs = set(map(tuple, batch.edge_index.T.tolist()))
                assert pairs == {(b, a) for a, b in pairs}
    sampler = several.sampler([3, 2], subgraph_type="bidirectional")
    for batch in pyg.NodeLoader(several, sampler, input_nodes="item", batch_size=8):
        both_ways(batch)
    # PyG's loader leaves its own words aside where it has a sampler.
    how = {"neighbor_sampler": one.sampler([3, 2]), "batch_size": 8}
    told = {"input_nodes": torch.arange(60), "subgraph_type": "induced"}
    assert all("num_sampled_edges" in b for b in pyg.NeighborLoader(one, [3, 2], **told, **how))


def both_ways(batch):
    """The edges of the two types of a batch of the shop are each other's, turned round."""
    there = set(map(tuple, batch[BUYS].edge_index.T.tolist()))
    back = set(map(tuple, batch["item", "rev_buys", "user"].edge_index.flip(0).T.tolist()))
    assert there
    assert there == back


@LOADERS.row(
    "LinkNeighborLoader, LinkLoader",
    "works",
    "as in PyG, negative links may be edges; those of neargraph.LinkNeighborLoader are not",
)
def link_loaders(one, several):
    links = torch.stack([torch.arange(20), torch.arange(20) + 1])
    for store, given in (
        (one, (None, links)),
        (one, (PLAIN, links)),
        (one, PLAIN),
        (several, (BUYS, links)),
        (several, BUYS),
    ):
        for neg_sampling in (None, "binary", "triplet"):
            sampler = store.sampler([3, 2])
            how = {"edge_label_index": given, "neg_sampling": neg_sampling, "batch_size": 7}
            first = epoch_of(pyg.LinkLoader(store, sampler, **how))
            second = pyg.LinkNeighborLoader(store, [3, 2], neighbor_sampler=sampler, **how)
            assert first == epoch_of(second)
            assert len(first) > 2
    edges = temporal_graph().edges[PLAIN]
    known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    how = {"edge_label_index": (None, links), "neg_sampling": {"mode": "binary", "amount": 20}}
    drawn = {"theirs": [], "ours": []}
    loaders = {
        "theirs": pyg.LinkLoader(one, one.sampler([2]), batch_size=7, **how),
        "ours": ng.LinkNeighborLoader(one, [2], batch_size=7, **how),
    }
    for name, loader in loaders.items():
        for number, batch in enumerate(loader):
            ends, is_link = batch.n_id[batch.edge_label_index], batch.edge_label == 1
            assert torch.equal(ends[:, is_link], links[:, 7 * number : 7 * number + 7])
            drawn[name] += map(tuple, ends[:, ~is_link].T.tolist())
        assert len(drawn[name]) == 400
    assert known & set(drawn["theirs"])
    assert not known & set(drawn["ours"])


@LOADERS.row(
    "LinkNeighborLoader, edge_label_index without a type",
    "works",
    "if the store has one node type and one edge type",
)
def plain_links(one, several):
    links = torch.stack([torch.arange(20), torch.arange(20) + 1])
    expected = [b.n_id.tolist() for b in link_batches(one, (None, links))]
    for given in (links, links.numpy(), list(links), links.tolist()):
        assert [b.n_id.tolist() for b in link_batches(one, given)] == expected
        assert [b.n_id.tolist() for b in link_batches(tuple(one), given)] == expected
    with pytest.raises(ng.NameNotFound, match="edge type must be named"):
        link_batches(several, links)


def link_batches(data, links):
    sampler = (data if isinstance(data, ng.Store) else data[1].snapshot).sampler([3, 2])
    how = {"edge_label_index": links, "batch_size": 7}
    return list(pyg.LinkNeighborLoader(data, [3, 2], neighbor_sampler=sampler, **how))


@LOADERS.row(
    "NodeLoader, LinkLoader without seeds",
    "refused",
    "give 'train', a type, ids, a mask, or links",
)
def no_seeds(one, _):
    with pytest.raises(ng.UnsupportedArgument, match=r"input_nodes=None is not supported.*'node'"):
        pyg.NodeLoader(one, one.sampler([2]))
    with pytest.raises(
        ng.UnsupportedArgument, match=r"edge_label_index=None is not supported.*'to'"
    ):
        pyg.LinkLoader(one, one.sampler([2]))


@LOADERS.row("LinkNeighborLoader, temporal", "works", "with edge_label_time= of PyG's loader")
def link_times(one, several):
    links, times = torch.stack([torch.arange(40), torch.arange(40) + 1]), torch.arange(40)
    edge_times = torch.from_numpy(temporal_graph().edges[PLAIN].times)
    born = torch.from_numpy(temporal_graph().nodes["node"].tensors["born"])
    for neg_sampling in (None, "binary", "triplet"):
        for name, asked in (("edge_time", times + 30), ("born", times + 10)):
            loader = pyg.LinkLoader(
                one,
                one.sampler([4, 3], time_attr=name),
                edge_label_index=(None, links),
                edge_label_time=asked,
                neg_sampling=neg_sampling,
                batch_size=8,
            )
            drawn = 0
            for number, batch in enumerate(loader):
                drawn += check_rows(batch)
                until = asked[8 * number :][batch.batch]
                if name == "edge_time":
                    assert (edge_times[batch.e_id] <= until[batch.edge_index[1]]).all()
                else:
                    later = born[batch.n_id] > until
                    # The ends of links themselves come first.
                    assert not later[batch.num_sampled_nodes[0] :].any()
            assert drawn > 100
    late = one.sampler([4], time_attr="edge_time")
    with pytest.raises(ng.UnsupportedArgument, match="edge_label_time"):
        next(iter(pyg.LinkLoader(one, late, edge_label_index=(None, links))))


@LOADERS.row("LinkNeighborLoader, disjoint", "works", "store.sampler(..., disjoint=True)")
def disjoint_links(one, several):
    for store, triple in ((one, PLAIN), (several, BUYS)):
        sampler = store.sampler([3, 2], disjoint=True)
        for batch in pyg.LinkLoader(store, sampler, edge_label_index=triple, batch_size=50):
            ends = [batch, batch] if store is one else [batch["user"], batch["item"]]
            pairs = (batch if store is one else batch[BUYS]).edge_label_index
            first, second = (end.batch[ids] for end, ids in zip(ends, pairs, strict=True))
            assert torch.equal(first, second)
            assert first.tolist() == list(range(pairs.size(1)))


@LOADERS.row(
    "LinkNeighborLoader, subgraph_type",
    "works",
    "within one node type; between two node types, only with disjoint=True",
)
def link_subgraph_type(one, several):
    links = torch.stack([torch.arange(20), torch.arange(20) + 1])
    for kind in ("induced", "bidirectional"):
        sampler = one.sampler([3, 2], subgraph_type=kind)
        for batch in pyg.LinkLoader(one, sampler, edge_label_index=links, batch_size=7):
            assert check_rows(batch) > 0 if kind == "induced" else batch.num_edges > 0
        sampler = several.sampler([2], subgraph_type=kind)
        with pytest.raises(ng.UnsupportedArgument, match="disjoint=True"):
            next(iter(pyg.LinkLoader(several, sampler, edge_label_index=(BUYS, links))))
        sampler = several.sampler([2], subgraph_type=kind, disjoint=True)
        assert len(list(pyg.LinkLoader(several, sampler, edge_label_index=(BUYS, links)))) == 20


@LOADERS.row(
    "NeighborLoader without neighbor_sampler",
    "refused",
    "PyG expects Data; give neighbor_sampler=store.sampler(...)",
)
def without_sampler(one, _):
    with pytest.raises(ValueError, match="Expected a 'Data'"):
        pyg.NeighborLoader(one, [2], input_nodes=torch.arange(4))


@LOADERS.row("HGTLoader", "refused", "takes only HeteroData; use neargraph.HGTLoader")
def hgt(_, several):
    with pytest.raises((AttributeError, ImportError), match=r"HGTLoader|torch-sparse"):
        next(iter(pyg.HGTLoader(several, [4], input_nodes="item")))
    with pytest.raises(AttributeError, match="HGTLoader"):
        several.edge_items()
    assert len(list(ng.HGTLoader(several, [4], "item", batch_size=5))) == 5


@LOADERS.row(
    "ImbalancedSampler",
    "works",
    "as sampler= of PyG's loaders, made from an int64 tensor of known labels",
)
def imbalanced(one, _):
    labels = torch.arange(60) % 7 // 6
    order = pyg.ImbalancedSampler(labels)
    found = pyg.NodeLoader(
        one, one.sampler([2]), input_nodes=torch.arange(60), sampler=order, batch_size=20
    )
    seeds = torch.cat([b.n_id[: b.batch_size] for b in found])
    assert len(seeds) == 60
    assert labels[seeds].sum() > labels.sum()
    for odd, error in ((labels.float(), AssertionError), (labels - 1, RuntimeError)):
        with pytest.raises(error):
            pyg.ImbalancedSampler(odd)
    with pytest.raises(AttributeError, match=r"store\.labels"):
        pyg.ImbalancedSampler(one)
    with pytest.raises(ng.UnsupportedArgument, match="sampler"):
        ng.NeighborLoader(one, [2], sampler=order)


@LOADERS.row(
    "DataLoader, DataListLoader, DenseDataLoader, DynamicBatchSampler",
    "refused",
    "take lists of graphs; use neargraph.GraphLoader",
)
def data_loader(one, _):
    for name in ("DataLoader", "DataListLoader", "DenseDataLoader"):
        with pytest.raises(TypeError, match="use GraphLoader"):
            next(iter(getattr(pyg, name)(one)))
    for more in ({}, {"num_steps": 2}):
        with pytest.raises(TypeError, match="use GraphLoader"):
            list(pyg.DynamicBatchSampler(one, 100, **more))
    assert one
    assert len(tuple(one)) == 2


@LOADERS.row(
    "TemporalDataLoader",
    "refused",
    "takes TemporalData; use neargraph.NeighborLoader with time_attr",
)
def temporal_data(one, _):
    with pytest.raises(TypeError, match="time_attr"):
        pyg.TemporalDataLoader(one)


@LOADERS.row("ZipLoader", "works", "with PyG's loaders; use zip() for neargraph's")
def zipped(one, several):
    first = pyg.NodeLoader(one, one.sampler([2]), input_nodes=torch.arange(20))
    second = pyg.NodeLoader(several, several.sampler([2]), input_nodes="item")
    seen = []
    for left, right in pyg.ZipLoader([first, second], batch_size=4):
        assert left.batch_size == right["item"].batch_size == 4
        assert right["item"].n_id[:4].tolist() == left.n_id[:4].tolist()
        seen += [check_rows(left)]
    assert len(seen) == 5
    assert sum(seen) > 20
    with pytest.raises(AttributeError, match="zip"):
        pyg.ZipLoader([ng.NeighborLoader(one, [2])])


@LOADERS.row("CachedLoader, PrefetchLoader", "works", "with PyG's loaders and neargraph's")
def wrapped(one, _):
    theirs = pyg.NodeLoader(one, one.sampler([2]), input_nodes=torch.arange(60), batch_size=8)
    for loader in (theirs, ng.NeighborLoader(one, [2], batch_size=8)):
        cached = pyg.CachedLoader(loader)
        first = list(cached)
        assert sum(map(check_rows, first)) > 60
        assert all(one is other for one, other in zip(first, cached, strict=True))
        assert sum(map(check_rows, pyg.PrefetchLoader(loader))) > 60


@LOADERS.row("ClusterData, ClusterLoader", "refused", "use neargraph.ClusterGCNLoader")
def cluster(one, _):
    with pytest.raises(AttributeError, match="ClusterGCNLoader"):
        pyg.ClusterData(one, 4)
    with pytest.raises(TypeError, match="ClusterGCNLoader"):
        pyg.ClusterLoader(one)
    assert len(list(ng.ClusterGCNLoader(one, 4))) == 4


@LOADERS.row(
    "GraphSAINTNodeSampler, GraphSAINTEdgeSampler, GraphSAINTRandomWalkSampler",
    "refused",
    "use the classes of the same names in neargraph",
)
def saint(one, _):
    for name in ("GraphSAINTNodeSampler", "GraphSAINTEdgeSampler"):
        with pytest.raises(AttributeError, match="GraphSAINT"):
            getattr(pyg, name)(one, 6)
    with pytest.raises(AttributeError, match="GraphSAINT"):
        pyg.GraphSAINTRandomWalkSampler(one, 6, 2)
    assert len(list(ng.GraphSAINTNodeSampler(one, 6, 3))) == 3


@LOADERS.row("ShaDowKHopSampler", "refused", "use neargraph.ShaDowKHopSampler")
def shadow(one, _):
    with pytest.raises((AttributeError, ImportError), match=r"ShaDow|torch-sparse"):
        pyg.ShaDowKHopSampler(one, 2, 2)
    assert len(list(ng.ShaDowKHopSampler(one, 2, 2, batch_size=20))) == 3


@LOADERS.row("RandomNodeLoader", "refused", "use neargraph.RandomNodeLoader")
def random_node(one, _):
    with pytest.raises(AttributeError, match="RandomNodeLoader"):
        next(iter(pyg.RandomNodeLoader(one, num_parts=3)))
    assert len(list(ng.RandomNodeLoader(one, 3))) == 3


@LOADERS.row("NeighborSampler (of PyG 1)", "refused", "use neargraph.NeighborLoader")
def old_sampler(one, _):
    for data in (one, one.snapshot()):
        with pytest.raises(AttributeError, match=r"neargraph\.NeighborLoader.*old NeighborSampler"):
            pyg.NeighborSampler(data, sizes=[2], batch_size=4)
        assert not hasattr(data, "to")


@LOADERS.row(
    "BasicGNN.inference",
    "refused",
    "holds all rows in memory; export the model and use neargraph infer",
)
def inference(one, _):
    model = GraphSAGE(4, 8, 1).eval()
    how = {"input_nodes": "node", "neighbor_sampler": one.sampler([-1])}
    for loader in (
        ng.NeighborLoader(one, [-1], batch_size=20),
        pyg.NeighborLoader(one, [-1], **how),
    ):
        for cache in (False, True):
            with pytest.raises(ng.UnsupportedArgument, match="neargraph infer"):
                model.inference(loader, cache=cache)
    # What is not of a store is asserted by PyG, as before.
    with pytest.raises(AssertionError):
        model.inference([])


def test_directions_with_unequal_columns_are_joined_unless_edges_are_chosen_by_time(tmp_path):
    """Of the two directions of the shop one alone has times; PyG joins them, too."""
    graph = shop()
    with ng.open(graph.write(tmp_path / "shop.ng"), memory="64MB") as store:
        how = {"input_nodes": ("item", torch.arange(25)), "batch_size": 25}
        sampler = store.sampler([3, 2], subgraph_type="bidirectional")
        (batch,) = pyg.NodeLoader(store, sampler, **how)
        both_ways(batch)
        edges = graph.edges[BUYS]
        known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
        row, col = batch[BUYS].edge_index
        ends = batch["user"].n_id[row].tolist(), batch["item"].n_id[col].tolist()
        assert set(zip(*ends, strict=True)) <= known
        for refused in (
            lambda: store.sampler([2], subgraph_type="bidirectional", time_attr="edge_time"),
            lambda: ng.NeighborLoader(store, [2], "item", subgraph_type="bidirectional", attrs=[]),
        ):
            with pytest.raises(ng.UnsupportedArgument, match="import both types with times"):
                refused()
    del graph.edges["item", "rev_buys", "user"]
    with (
        ng.open(graph.write(tmp_path / "one_way.ng"), memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="needs exactly one edge type"),
    ):
        store.sampler([2], subgraph_type="bidirectional")


test_a_row_of_the_table_is_right, test_the_page_has_these_rows = checks_of(LOADERS)


def test_the_page_has_the_tables_of_the_tests():
    assert list(tables()) == TITLES
