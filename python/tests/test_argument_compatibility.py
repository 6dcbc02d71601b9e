"""PyG's arguments and class names, row by row: three tables of docs/reference/compatibility.md.

The first verdict of an argument is that of PyG's loader on a store, with a sampler of the store.
The second is that of neargraph's loader of the same name.
"""

import warnings

import pytest
from compatibility import Table, check_rows, checks_of
from sampled import PLAIN, temporal_graph

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric import loader as pyg  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NumNeighbors  # noqa: E402

NODES = Table("Arguments of NeighborLoader")
LINKS = Table("Arguments of LinkNeighborLoader")
CLASSES = Table("neargraph's loaders with PyG's names")
IDS = torch.arange(20)
ENDS = torch.stack([IDS, IDS + 1])


def theirs(store, drawn_by=None, **more):
    """A batch of PyG's loader."""
    drawn_by = drawn_by or store.sampler([3, 2])
    how = {"input_nodes": IDS, "batch_size": 8, "neighbor_sampler": drawn_by, **more}
    return next(iter(pyg.NeighborLoader(store, [3, 2], **how)))


def ours(store, fanouts=(3, 2), **more):
    """A batch of neargraph's loader."""
    how = {"input_nodes": IDS, "batch_size": 8, **more}
    return next(iter(ng.NeighborLoader(store, [*fanouts], **how)))


def ignored(store, **more):
    """Whether PyG's loader returns the same batch with and without an argument."""
    return torch.equal(theirs(store, **more).e_id, theirs(store).e_id)


def refused(store, **more):
    (name,) = more
    with pytest.raises(ng.UnsupportedArgument, match=f"{name}=.* is not supported"):
        ours(store, **more)


@NODES.row("num_neighbors", "differs", "works", "PyG's loader uses those of the sampler")
def num_neighbors(one, several):
    assert theirs(one, one.sampler([1])).num_edges <= 8
    assert ours(one, [1]).num_edges <= 8
    each = {triple: [2] for triple in several.edge_types}
    for given in ([2], each, NumNeighbors([2])):
        assert len(list(ng.NeighborLoader(several, given, "item", batch_size=25))) == 1


@NODES.row("input_nodes", "works", "works", "None is all nodes; PyG's loader refuses it")
def input_nodes(one, several):
    mask = torch.arange(60) < 20
    for given in (IDS, IDS.tolist(), mask, ("node", IDS)):
        for make in (theirs, ours):
            assert make(one, input_nodes=given).n_id[:8].tolist() == list(range(8))
    with pytest.raises(ng.UnsupportedArgument, match="input_nodes=None"):
        theirs(one, input_nodes=None)
    assert len(ng.NeighborLoader(one, [2], batch_size=60)) == 1


@NODES.row("input_time, time_attr", "works", "works", "give time_attr to store.sampler too")
def times(one, _):
    edge_times = torch.from_numpy(temporal_graph().edges[PLAIN].times)
    when = {"input_time": torch.full((20,), 25), "time_attr": "edge_time"}
    for batch in (theirs(one, one.sampler([3], time_attr="edge_time"), **when), ours(one, **when)):
        assert check_rows(batch) > 0
        assert edge_times[batch.e_id].max() <= 25
    with pytest.raises(ng.UnsupportedArgument, match="no effect on a sampler without time_attr"):
        theirs(one, **when)
    for make, error in ((theirs, ValueError), (ours, ng.UnsupportedArgument)):
        with pytest.raises(error, match="input_time"):
            make(one, input_time=when["input_time"])


@NODES.row("replace", "differs", "works", "give it to store.sampler")
def replace(one, _):
    assert ignored(one, replace=True)
    assert theirs(one, one.sampler([700], replace=True)).num_edges > 700
    assert ours(one, [700], replace=True).num_edges > 700


@NODES.row("subgraph_type, directed", "differs", "works", "give subgraph_type to store.sampler")
def subgraph_type(one, _):
    assert ignored(one, subgraph_type="induced")
    assert ignored(one, directed=False)
    for more in ({"subgraph_type": "induced"}, {"directed": False}):
        assert "num_sampled_edges" not in ours(one, **more)
    assert "num_sampled_edges" not in theirs(one, one.sampler([2], subgraph_type="induced"))


@NODES.row("disjoint", "differs", "works", "give it to store.sampler")
def disjoint(one, _):
    assert ignored(one, disjoint=True)
    for batch in (theirs(one, one.sampler([2], disjoint=True)), ours(one, disjoint=True)):
        assert batch.batch[:8].tolist() == list(range(8))


@NODES.row("temporal_strategy", "differs", "works", "give it to store.sampler")
def temporal_strategy(one, _):
    how = {"time_attr": "edge_time", "temporal_strategy": "last"}
    when = {"input_time": torch.full((20,), 25), "time_attr": "edge_time"}
    last = one.sampler([1], **how)
    plain = one.sampler([1], time_attr="edge_time")
    found = [theirs(one, plain, **when, temporal_strategy=s).e_id for s in ("uniform", "last")]
    assert torch.equal(*found)
    edge_times = torch.from_numpy(temporal_graph().edges[PLAIN].times)
    newest = [
        edge_times[batch.e_id].sum()
        for batch in (
            theirs(one, plain, **when),
            theirs(one, last, **when),
            ours(one, [1], **when, temporal_strategy="last"),
        )
    ]
    assert newest[0] < newest[1] == newest[2]


@NODES.row(
    "weight_attr",
    "differs",
    "works",
    "PyG's loader samples uniformly; neargraph's takes only edge_weight",
)
def weight_attr(one, _):
    assert ignored(one, weight_attr="edge_weight")
    with pytest.raises(TypeError, match="weight_attr"):
        one.sampler([2], weight_attr="edge_weight")
    with pytest.raises(ng.UnsupportedArgument, match="store only 'edge_weight'"):
        ours(one, weight_attr="score")
    with pytest.raises(ng.UnsupportedArgument, match="have no weights for sampling"):
        ours(one, weight_attr="edge_weight")


def test_weight_attr_draws_by_weight(tmp_path):
    data = Data(num_nodes=3, edge_index=torch.tensor([[1, 2], [0, 0]]))
    data.edge_weight = torch.tensor([0.0, 1.0])
    ng.from_pyg(data, tmp_path / "weighted.ng")
    with ng.open(tmp_path / "weighted.ng", memory="64MB") as store:
        loader = ng.NeighborLoader(store, [1], [0], weight_attr="edge_weight")
        assert [next(iter(loader)).n_id.tolist() for _ in range(5)] == [[0, 2]] * 5


@NODES.row("transform", "works", "works", "applied to each batch")
def transform(one, _):
    for make in (theirs, ours):
        assert make(one, transform=lambda batch: batch.num_nodes) > 8


@NODES.row("transform_sampler_output", "works", "refused", "use transform")
def transform_sampler_output(one, _):
    seen = []
    theirs(one, transform_sampler_output=lambda out: seen.append(out) or out)
    assert len(seen) == 1
    refused(one, transform_sampler_output=print)


@NODES.row("is_sorted", "works", "works", "no effect: lists are sorted in the store")
def is_sorted(one, _):
    assert ignored(one, is_sorted=True)
    assert torch.equal(ours(one, is_sorted=True).e_id, ours(one).e_id)


@NODES.row(
    "filter_per_worker", "works", "works", "neargraph refuses False together with num_workers"
)
def filter_per_worker(one, _):
    for value in (True, False):
        assert ignored(one, filter_per_worker=value)
        assert torch.equal(ours(one, filter_per_worker=value).e_id, ours(one).e_id)
    with pytest.raises(ng.UnsupportedArgument, match="filter_per_worker=False"):
        ours(one, filter_per_worker=False, num_workers=1)


@NODES.row("neighbor_sampler", "works", "refused", "neargraph's loader needs none")
def neighbor_sampler(one, _):
    assert check_rows(theirs(one)) > 0
    refused(one, neighbor_sampler=one.sampler([2]))


class Mine(HeteroData):
    """A class of a user."""


@NODES.row("custom_cls", "works", "refused", "use transform")
def custom_cls(one, several):
    how = {"input_nodes": "item", "custom_cls": Mine, "batch_size": 4}
    (batch, *_) = pyg.NodeLoader(several, several.sampler([2]), **how)
    assert type(batch) is Mine
    refused(one, custom_cls=Mine)


@NODES.row("input_id", "works", "works", "")
def input_id(one, _):
    for make in (theirs, ours):
        assert make(one, input_id=IDS + 5).input_id.tolist() == list(range(5, 13))


@NODES.row("batch_size, drop_last", "works", "works", "")
def batch_size(one, _):
    for loader in (
        pyg.NodeLoader(one, one.sampler([2]), IDS, batch_size=8, drop_last=True),
        ng.NeighborLoader(one, [2], IDS, batch_size=8, drop_last=True),
    ):
        assert [batch.batch_size for batch in loader] == [8, 8]


@NODES.row(
    "shuffle", "works", "works", "PyG's order depends on torch's generator, neargraph's on seed="
)
def shuffle(one, _):
    found = []
    for make in (theirs, ours):
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            more = {"seed": seed} if make is ours else {}
            found.append(make(one, shuffle=True, **more).n_id[:8].tolist())
    assert found[0] == found[1] != found[2]
    assert found[3] == found[4] != found[5]


@NODES.row("generator", "works", "refused", "the order depends on seed=")
def generator(one, _):
    found = [
        theirs(one, shuffle=True, generator=torch.Generator().manual_seed(seed)).n_id[:8].tolist()
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    refused(one, generator=torch.Generator())


@NODES.row("sampler, batch_sampler", "works", "refused", "give the ids in order as input_nodes=")
def samplers(one, _):
    assert theirs(one, sampler=[3, 4]).n_id[:2].tolist() == [3, 4]
    how = {"input_nodes": IDS, "batch_sampler": [[3, 4], [5]]}
    (batch, _) = pyg.NodeLoader(one, one.sampler([2]), **how)
    assert batch.n_id[:2].tolist() == [3, 4]
    refused(one, sampler=[3, 4])
    refused(one, batch_sampler=[[3, 4]])


@NODES.row("collate_fn", "differs", "refused", "PyG's loader ignores it; use transform")
def collate_fn(one, _):
    assert ignored(one, collate_fn=print)
    refused(one, collate_fn=print)


@NODES.row("num_workers", "works", "works", "neargraph's batches do not depend on it")
def num_workers(one, _):
    assert theirs(one, num_workers=1).n_id[:8].tolist() == list(range(8))
    assert torch.equal(ours(one, num_workers=1).e_id, ours(one).e_id)


@NODES.row(
    "persistent_workers, prefetch_factor, multiprocessing_context, timeout, worker_init_fn",
    "works",
    "works",
    "only with num_workers",
)
def worker_options(one, _):
    how = {"num_workers": 1, "persistent_workers": True, "prefetch_factor": 3, "timeout": 60}
    how |= {"multiprocessing_context": "fork", "worker_init_fn": torch.manual_seed}
    for make in (theirs, ours):
        assert make(one, **how).batch_size == 8
    with pytest.raises(ng.UnsupportedArgument, match="no effect with num_workers=0"):
        ours(one, prefetch_factor=3)


@NODES.row("pin_memory", "works", "works", "without CUDA, plain memory and a warning")
def pin_memory(one, _):
    for make in (theirs, ours):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch = make(one, pin_memory=True)
        assert batch.x.is_pinned() == torch.cuda.is_available()


@NODES.row(
    "pin_memory_device, in_order, dataset", "works", "refused", "arguments of torch's DataLoader"
)
def of_torch(one, _):
    assert ignored(one, in_order=False)
    assert ignored(one, dataset=[1])
    for more in ({"pin_memory_device": "cuda"}, {"in_order": False}, {"dataset": [1]}):
        refused(one, **more)


def link_batch(store, make, **more):
    """A batch of links by PyG's loader or by neargraph's."""
    more = {"edge_label_index": ENDS, "batch_size": 8, **more}
    if make is pyg.LinkNeighborLoader:
        when = {"time_attr": "edge_time"} if "edge_label_time" in more else {}
        more |= {"neighbor_sampler": store.sampler([3], **when)}
    return next(iter(make(store, [3], **more)))


BOTH = (pyg.LinkNeighborLoader, ng.LinkNeighborLoader)


@LINKS.row("edge_label_index", "works", "works", "None is all edges; PyG's loader refuses it")
def edge_label_index(one, _):
    for make in BOTH:
        for given in (ENDS, ENDS.tolist(), (PLAIN, ENDS), PLAIN):
            pairs = link_batch(one, make, edge_label_index=given).edge_label_index
            assert pairs.shape == (2, 8)
    with pytest.raises(ng.UnsupportedArgument, match="edge_label_index=None"):
        link_batch(one, pyg.LinkNeighborLoader, edge_label_index=None)
    assert len(ng.LinkNeighborLoader(one, [2], batch_size=600)) == 1


@LINKS.row("edge_label", "works", "works", "with binary negatives, labels from 0 are raised by 1")
def edge_label(one, _):
    for make in BOTH:
        given = {"edge_label": IDS % 3}
        assert link_batch(one, make, **given).edge_label.tolist() == (IDS[:8] % 3).tolist()
        found = link_batch(one, make, **given, neg_sampling="binary").edge_label
        assert found.tolist() == [*(IDS[:8] % 3 + 1).tolist(), *[0] * 8]


@LINKS.row(
    "edge_label_time",
    "works",
    "works",
    "neargraph's loader does not need it for all edges of a type",
)
def edge_label_time(one, _):
    edge_times = torch.from_numpy(temporal_graph().edges[PLAIN].times)
    when = {"edge_label_time": torch.full((20,), 25), "time_attr": "edge_time"}
    for make in BOTH:
        batch = link_batch(one, make, **when)
        assert edge_times[batch.e_id].max() <= 25
    batch = next(iter(ng.LinkNeighborLoader(one, [3], time_attr="edge_time", batch_size=8)))
    assert batch.edge_label_time.shape == (8,)


@LINKS.row("neg_sampling", "works", "differs", "neargraph's negative links are never edges")
def neg_sampling(one, _):
    edges = temporal_graph().edges[PLAIN]
    known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    drawn = []
    for make in BOTH:
        batch = link_batch(one, make, neg_sampling={"mode": "binary", "amount": 40})
        pairs = batch.n_id[batch.edge_label_index[:, batch.edge_label == 0]]
        drawn.append(set(map(tuple, pairs.T.tolist())))
    assert known & drawn[0]
    assert not known & drawn[1]


@LINKS.row("neg_sampling_ratio", "works", "works", "the former spelling of binary neg_sampling")
def neg_sampling_ratio(one, _):
    for make in BOTH:
        assert len(link_batch(one, make, neg_sampling_ratio=2.0).edge_label) == 24


@CLASSES.row("NeighborLoader", "works", "reads ahead and needs no sampler")
def neighbor_loader(one, _):
    for name in ("x", "edge_index", "n_id", "e_id", "input_id", "num_sampled_nodes"):
        assert name in ours(one)
        assert name in theirs(one)


@CLASSES.row("LinkNeighborLoader", "differs", "negative links are looked up and are never edges")
def link_neighbor_loader(one, several):
    neg_sampling(one, several)


@CLASSES.row("HGTLoader", "works", "needs a store of several types, as in PyG")
def hgt_loader(one, several):
    (batch, *_) = ng.HGTLoader(several, [4, 4], "item", batch_size=5)
    assert batch["item"].batch_size == 5
    with pytest.raises(ng.UnsupportedArgument, match="use NeighborLoader"):
        ng.HGTLoader(one, [4], "node")


@CLASSES.row("ClusterGCNLoader", "differs", "PyG's ClusterLoader(ClusterData(...)) in one class")
def cluster_loader(one, _):
    batches = list(ng.ClusterGCNLoader(one, 4, batch_size=2))
    assert sum(batch.num_nodes for batch in batches) == 60
    assert not hasattr(ng, "ClusterData")


@CLASSES.row(
    "GraphSAINTNodeSampler, GraphSAINTEdgeSampler, GraphSAINTRandomWalkSampler",
    "differs",
    "draws of edges follow the paper; walks go to in-neighbours",
)
def saint(one, _):
    assert len(list(ng.GraphSAINTNodeSampler(one, 6, 3))) == 3
    assert len(list(ng.GraphSAINTRandomWalkSampler(one, 6, 2, 3))) == 3
    # Draws of edges need out-degrees.
    with pytest.raises(ng.UnsupportedArgument, match="reverse"):
        ng.GraphSAINTEdgeSampler(one, 6, 3)
    (batch, *_) = ng.GraphSAINTRandomWalkSampler(one, 1, 1, 9)
    edges = temporal_graph().edges[PLAIN]
    known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    pairs = batch.n_id[batch.edge_index].T.tolist()
    assert set(map(tuple, pairs)) <= known


@CLASSES.row("ShaDowKHopSampler", "works", "root_n_id is the place of each root in the batch")
def shadow(one, _):
    (batch, *_) = ng.ShaDowKHopSampler(one, 2, 2, node_idx=IDS, batch_size=4)
    assert batch.n_id[batch.root_n_id].tolist() == [0, 1, 2, 3]


@CLASSES.row("RandomNodeLoader", "differs", "needs one node type and one edge type")
def random_node(one, several):
    assert sum(batch.num_nodes for batch in ng.RandomNodeLoader(one, 3)) == 60
    with pytest.raises(ng.UnsupportedArgument):
        ng.RandomNodeLoader(several, 3)


@CLASSES.row("GraphLoader", "differs", "PyG's DataLoader; the store is the data set")
def graph_loader(one, _):
    with pytest.raises(ng.NeargraphError, match="graph_id"):
        ng.GraphLoader(one)
    assert not hasattr(ng, "DataLoader")


test_a_row_of_the_table_is_right, test_the_page_has_these_rows = checks_of(NODES, LINKS, CLASSES)
