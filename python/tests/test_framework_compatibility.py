"""PyG's data, Lightning, DGL and GraphBolt: three tables of docs/reference/compatibility.md.

DGL is not installed here. The rows about it check neargraph's side: the message for a graph of
another library, the replacement, and the folders that both read.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compatibility import Table, check_rows, checks_of
from sampled import PLAIN, temporal_graph

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
import torch_geometric.transforms as T  # noqa: E402
from torch_geometric.data import Batch, Data  # noqa: E402
from torch_geometric.nn import GraphSAGE, to_hetero  # noqa: E402

PYG = Table("PyG's data, transforms and models")
LIGHTNING = Table("Lightning")
DGL = Table("DGL and GraphBolt")
IDS = torch.arange(20)


# PyG


@PYG.row("Data, HeteroData", "refused", "as data=; ng.from_pyg writes them to a store")
def data(one, _):
    with pytest.raises(TypeError, match=r"neargraph\.from_pyg writes Data and HeteroData"):
        ng.NeighborLoader(Data(x=IDS), [2])
    path = Path(one.path).with_name("written.ng")
    ng.from_pyg(Data(x=IDS[:, None].float(), edge_index=IDS[:2, None]), path)
    with ng.open(path, memory="64MB") as store:
        assert store.num_nodes == 20


@PYG.row("batches", "works", "are Data, HeteroData or Batch")
def batches(one, several):
    (batch, *_) = ng.NeighborLoader(one, [2], batch_size=8)
    assert isinstance(batch, Data)
    assert batch.to("cpu").num_nodes == batch.num_nodes
    assert batch.validate()
    (batch, *_) = ng.NeighborLoader(several, [2], "item", batch_size=8)
    assert sum(part.size(0) for part in batch.x_dict.values()) == batch.num_nodes
    graph = Data(x=torch.ones(4, 1), graph_id=torch.tensor([0, 0, 1, 1]))
    graph.edge_index = torch.tensor([[0, 2], [1, 3]])
    path = Path(one.path).with_name("graphs.ng")
    ng.from_pyg(graph, path)
    with ng.open(path, memory="64MB") as store:
        (batch,) = ng.GraphLoader(store, batch_size=2)
        assert isinstance(batch, Batch)
        assert [part.num_nodes for part in batch.to_data_list()] == [2, 2]


@PYG.row("FeatureStore.get_tensor, FeatureStore.view", "works", "store.feature_store")
def feature_store(one, _):
    x = torch.from_numpy(temporal_graph().nodes["node"].tensors["x"])[IDS]
    features = one.feature_store
    assert torch.equal(features.get_tensor(group_name=None, attr_name="x", index=IDS), x)
    assert torch.equal(features.view(group_name=None, attr_name="x")[IDS], x)


@PYG.row(
    "FeatureStore.put_tensor, update_tensor, remove_tensor",
    "refused",
    "read-only; use store.write()",
)
def put_tensor(one, _):
    where = {"group_name": None, "attr_name": "x", "index": None}
    features = one.feature_store
    for change in (
        lambda: features.put_tensor(torch.ones(2), **where),
        lambda: features.update_tensor(torch.ones(2), **where),
        lambda: features.remove_tensor(**where),
    ):
        with pytest.raises(ng.UnsupportedArgument, match=r"store\.write"):
            change()


@PYG.row(
    "GraphStore.csc, coo, csr", "works", "store.graph_store; get_edge_index only as CSC or COO"
)
def graph_store(one, _):
    graph = one.graph_store
    for found in (graph.csc(), graph.coo(), graph.csr()):
        assert len(found) == 3
    for layout in ("csc", "coo"):
        assert len(graph.get_edge_index(edge_type=None, layout=layout)) == 2
    with pytest.raises(ng.UnsupportedArgument, match=r"graph_store\.csr"):
        graph.get_edge_index(edge_type=None, layout="csr")


@PYG.row("GraphStore.put_edge_index, remove_edge_index", "refused", "read-only; use store.write()")
def put_edges(one, _):
    where = {"edge_type": None, "layout": "coo"}
    for change in (
        lambda: one.graph_store.put_edge_index((IDS, IDS), **where),
        lambda: one.graph_store.remove_edge_index(edge_type=None, layout="csc"),
    ):
        with pytest.raises(ng.UnsupportedArgument, match=r"store\.write"):
            change()


@PYG.row("transforms on batches", "works", "as transform=, alone or with Compose")
def transforms(one, _):
    changes = T.Compose([T.ToUndirected(), T.NormalizeFeatures()])
    (batch, *_) = ng.NeighborLoader(one, [2], batch_size=8, transform=changes)
    assert batch.is_undirected()


@PYG.row("transforms on a store", "refused", "apply them to batches, or before the import")
def transforms_of_stores(one, _):
    for change in (T.NormalizeFeatures(), T.ToUndirected(), T.RandomNodeSplit()):
        with pytest.raises(AttributeError, match="apply a transform to each"):
            change(one)
    with pytest.raises(AssertionError):
        T.RandomLinkSplit()(one)


@PYG.row("to_hetero", "works", "with store.metadata()")
def hetero_models(_, several):
    model = to_hetero(GraphSAGE(-1, 4, 1), several.metadata())
    (batch, *_) = ng.NeighborLoader(several, [2], "item", batch_size=8)
    assert model(batch.x_dict, batch.edge_index_dict)["item"].shape == (batch["item"].num_nodes, 4)


@PYG.row("models of torch_geometric.nn", "works", "batches have the counts that trim layers by hop")
def models(one, _):
    (batch, *_) = ng.NeighborLoader(one, [3, 2], batch_size=8)
    model = GraphSAGE(4, 8, 2, 3).eval()
    whole = model(batch.x, batch.edge_index)[:8]
    hops = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes}
    hops |= {"num_sampled_edges_per_hop": batch.num_sampled_edges}
    trimmed = model(batch.x, batch.edge_index, **hops)[:8]
    assert torch.allclose(whole, trimmed, atol=1e-6)


# Lightning

SILENT = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")


def parts(of_batch):
    """(lightning, a module that collects the seeds of its batches)."""
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen, self.checked = GraphSAGE(4, 8, 1, 2), [], 0

        def validation_step(self, batch, _number):
            self.checked += of_batch(batch)

        test_step = predict_step = validation_step

        def training_step(self, batch, _number):
            out, count = self.model(batch.x, batch.edge_index), of_batch(batch)
            self.seen.append(batch.n_id[:count].tolist())
            return torch.nn.functional.cross_entropy(out[:count], batch.born[:count] % 2)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    return lightning, Model()


def trained(data, of_batch=lambda batch: batch.batch_size, resume=None, **how):
    """(model, trainer) after training on `data`."""
    lightning, model = parts(of_batch)
    how = {"max_epochs": 2, "accelerator": "cpu", **dict.fromkeys(SILENT, False), **how}
    trainer = lightning.Trainer(**how)
    trainer.fit(model, data, ckpt_path=resume)
    return model, trainer


def count(model):
    return sum(map(len, model.seen))


@LIGHTNING.row("Trainer with neargraph's loaders", "works", "for fit, validate, test and predict")
def trainer_with_loaders(one, _):
    loader = ng.NeighborLoader(one, [3, 2], batch_size=8)
    model, trainer = trained(loader)
    assert count(model) == 120
    for call in (trainer.validate, trainer.test, trainer.predict):
        call(model, ng.NeighborLoader(one, [3, 2], batch_size=8))
    assert model.checked == 180


@LIGHTNING.row(
    "resume with ckpt_path=", "works", "also in the middle of an epoch, with the same bits"
)
def resume(one, _):
    def run(steps, checkpoint=None):
        torch.manual_seed(1)
        loader = ng.NeighborLoader(one, [3, 2], batch_size=8, shuffle=True, seed=3)
        return trained(loader, resume=checkpoint, max_epochs=-1, max_steps=steps)

    whole, _ = run(14)
    first, trainer = run(5)
    trainer.save_checkpoint(path := Path(one.path).with_name("middle.ckpt"))
    second, _ = run(14, path)
    assert first.seen + second.seen == whole.seen
    for left, right in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)


ON_TWO_RANKS = """
import sys
import lightning, torch
import neargraph as ng

class Model(lightning.LightningModule):
    def __init__(self, store):
        super().__init__()
        self.store, self.layer, self.seen = [store], torch.nn.Linear(4, 2), []

    def train_dataloader(self):
        return ng.NeighborLoader(self.store[0], [3], batch_size=8, ranks="auto")

    def training_step(self, batch, _):
        self.seen += batch.n_id[:batch.batch_size].tolist()
        seeds = slice(batch.batch_size)
        return torch.nn.functional.cross_entropy(self.layer(batch.x[seeds]), batch.born[seeds] % 2)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

with ng.open(sys.argv[1], memory="64MB") as store:
    model = Model(store)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1,
                                logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model)
    with open(f"{sys.argv[2]}/{trainer.global_rank}.txt", "w") as file:
        file.write(" ".join(map(str, model.seen)))
"""


@LIGHTNING.row(
    'strategy="ddp"',
    "works",
    'with ranks="auto" and loaders made in train_dataloader(); batch_size is that of all ranks',
)
def ddp(one, _):
    pytest.importorskip("lightning", reason="lightning is not installed")
    folder = Path(one.path).parent
    (script := folder / "ddp.py").write_text(ON_TWO_RANKS)
    command = [sys.executable, str(script), one.path, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    seen = [list(map(int, (folder / f"{rank}.txt").read_text().split())) for rank in (0, 1)]
    assert seen[0][:4] == [0, 1, 2, 3]
    assert seen[1][:4] == [4, 5, 6, 7]
    assert sorted({*seen[0], *seen[1]}) == list(range(60))


@LIGHTNING.row("LightningNodeData", "works", "with node_sampler= and the input nodes of all splits")
def lightning_nodes(one, _):
    pytest.importorskip("lightning", reason="lightning is not installed")
    from torch_geometric.data.lightning import LightningNodeData

    seeds = torch.arange(60)
    nodes = {f"input_{part}_nodes": seeds for part in ("train", "val", "test", "pred")}
    how = {"batch_size": 8, "pin_memory": False}
    data = LightningNodeData(one, **nodes, node_sampler=one.sampler([3, 2]), **how)
    assert count(trained(data)[0]) == 120
    with pytest.raises(ng.UnsupportedArgument, match="input_nodes=None is not supported"):
        LightningNodeData(one, node_sampler=one.sampler([2])).train_dataloader()
    (batch,) = LightningNodeData(one, loader="full").train_dataloader()
    assert batch is one


@LIGHTNING.row("LightningLinkData", "works", "with link_sampler= and the input edges of all splits")
def lightning_links(one, _):
    pytest.importorskip("lightning", reason="lightning is not installed")
    from torch_geometric.data.lightning import LightningLinkData

    links = torch.stack([torch.arange(40), torch.arange(40) + 1])
    edges = {f"input_{part}_edges": links for part in ("train", "val", "test", "pred")}
    how = {"batch_size": 8, "pin_memory": False}
    data = LightningLinkData(one, **edges, link_sampler=one.sampler([3, 2]), **how)
    assert count(trained(data, lambda batch: batch.edge_label_index.size(1))[0]) == 80
    with pytest.raises(ng.UnsupportedArgument, match="edge_label_index=None is not supported"):
        LightningLinkData(one, link_sampler=one.sampler([2])).train_dataloader()


@LIGHTNING.row("LightningDataset", "refused", "takes lists of graphs; use neargraph.GraphLoader")
def lightning_graphs(one, _):
    pytest.importorskip("lightning", reason="lightning is not installed")
    from torch_geometric.data.lightning import LightningDataset

    with pytest.raises(TypeError, match="use GraphLoader"):
        next(iter(LightningDataset(one).train_dataloader()))


# DGL and GraphBolt


class DGLGraph:
    """The part of a `dgl.graph` that its users read."""

    ndata = {"x": torch.arange(4.0)[:, None]}  # noqa: RUF012

    def edges(self):
        return torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])


def refuses(make):
    with pytest.raises(TypeError, match=r"data must be a store .* got DGLGraph"):
        make(DGLGraph())


@DGL.row(
    "dgl.graph objects", "refused", "ng.from_pyg(Data(edge_index=torch.stack(g.edges())), out)"
)
def dgl_graph(one, _):
    refuses(lambda graph: ng.NeighborLoader(graph, [2]))
    graph, path = DGLGraph(), Path(one.path).with_name("dgl.ng")
    ng.from_pyg(Data(edge_index=torch.stack(graph.edges()), **graph.ndata), path)
    with ng.open(path, memory="64MB") as store:
        assert store.snapshot().neighbors(None, [1, 2, 3]).indices.tolist() == [0, 1, 2]
        assert store.column("x").ravel().tolist() == [0, 1, 2, 3]


@DGL.row(
    "dgl.heterograph objects",
    "refused",
    "fill a HeteroData from g.edges(etype=...), then ng.from_pyg",
)
def dgl_heterograph(one, several):
    refuses(lambda graph: ng.HGTLoader(graph, [2], "item"))
    assert several.metadata()[0] == ["user", "item"]


@DGL.row("files of dgl.save_graphs", "refused", "load them with DGL first")
def saved_graphs(one, _):
    (file := Path(one.path).with_name("graph.bin")).write_bytes(bytes(range(250)) * 4)
    with pytest.raises(ng.ImportFailed, match="is binary, not text"):
        ng.import_graph(file, file.with_name("never.ng"))


@DGL.row("dgl.dataloading.DataLoader, NeighborSampler", "refused", "use neargraph.NeighborLoader")
def neighbor_sampler(one, _):
    refuses(lambda graph: ng.NeighborLoader(graph, [2]))
    (batch, *_) = ng.NeighborLoader(one, [3, 2], IDS, batch_size=8, shuffle=True)
    assert check_rows(batch) > 0


@DGL.row(
    "MultiLayerFullNeighborSampler", "refused", "use neargraph.NeighborLoader with fanouts of -1"
)
def full_neighbors(one, _):
    (batch,) = ng.NeighborLoader(one, [-1], batch_size=60)
    assert batch.num_edges == 600


@DGL.row("LaborSampler", "refused", 'use neargraph.NeighborLoader(method="labor")')
def labor(one, _):
    (batch, *_) = ng.NeighborLoader(one, [3, 2], method="labor", batch_size=8)
    assert check_rows(batch) > 0


@DGL.row("as_edge_prediction_sampler", "refused", "use neargraph.LinkNeighborLoader")
def edge_prediction(one, _):
    refuses(lambda graph: ng.LinkNeighborLoader(graph, [2]))
    (batch, *_) = ng.LinkNeighborLoader(one, [2], neg_sampling="binary", batch_size=8)
    assert batch.edge_label.tolist() == [1] * 8 + [0] * 8


@DGL.row(
    "ClusterGCNSampler, SAINTSampler, ShaDowKHopSampler",
    "refused",
    "use ClusterGCNLoader, GraphSAINT samplers, ShaDowKHopSampler of neargraph",
)
def subgraphs(one, _):
    refuses(lambda graph: ng.ClusterGCNLoader(graph, 4))
    assert len(list(ng.ClusterGCNLoader(one, 4))) == 4
    assert len(list(ng.GraphSAINTRandomWalkSampler(one, 6, 2, 3))) == 3
    assert len(list(ng.ShaDowKHopSampler(one, 2, 2, batch_size=20))) == 3


@DGL.row(
    "PinSAGESampler, dgl.sampling.random_walk",
    "refused",
    "use neargraph.PinSAGELoader, neargraph.RandomWalkSampler",
)
def walks(one, _):
    refuses(lambda graph: ng.PinSAGELoader(graph, [2]))
    (batch, *_) = ng.PinSAGELoader(one, [3], batch_size=8)
    assert batch.batch_size == 8
    assert ng.RandomWalkSampler(one, 3, p=0.5, q=2.0).sample([1, 2]).shape == (2, 4)


@DGL.row("GraphDataLoader", "refused", "use neargraph.GraphLoader")
def graph_loader(_one, _):
    refuses(ng.GraphLoader)


@DGL.row(
    "blocks (message flow graphs), dgl.nn", "refused", "batches are PyG's; use torch_geometric.nn"
)
def blocks(one, _):
    (batch, *_) = ng.NeighborLoader(one, [3, 2], batch_size=8)
    assert type(batch) is Data
    assert GraphSAGE(4, 8, 2)(batch.x, batch.edge_index).shape == (batch.num_nodes, 8)


@DGL.row("OnDiskDataset folders", "works", "neargraph import reads it, neargraph export writes one")
def on_disk(one, _):
    pytest.importorskip("yaml")
    from neargraph.datasets import to_graphbolt

    folder = Path(one.path).with_name("graphbolt")
    to_graphbolt(one, folder)
    assert (folder / "metadata.yaml").exists()
    ng.import_graph(folder, out := folder.with_name("back.ng"))
    with ng.open(out, memory="64MB") as store:
        whole = np.arange(60)
        lists = [each.snapshot().neighbors(PLAIN, whole) for each in (one, store)]
        for left, right in zip(*lists, strict=True):
            assert np.array_equal(left, right)
        assert np.array_equal(store.column("x"), one.column("x"))


@DGL.row("BuiltinDataset by name", "refused", "the message has the call that downloads it")
def builtin(one, _):
    with pytest.raises(ng.ImportFailed, match=r"dgl\.graphbolt\.BuiltinDataset"):
        ng.import_graph("ogbn-mag-seeds", Path(one.path).with_name("never.ng"))


@DGL.row(
    "ItemSet, ItemSampler", "refused", "give the ids as input_nodes=, links as edge_label_index="
)
def item_sets(one, _):
    for ids in (IDS, IDS.numpy()):
        assert len(ng.NeighborLoader(one, [2], ids, batch_size=8)) == 3
    links = ng.LinkNeighborLoader(one, [2], torch.stack([IDS, IDS + 1]), batch_size=8)
    assert len(links) == 3


@DGL.row(
    "graphbolt.DataLoader, NeighborSampler",
    "refused",
    "use neargraph.NeighborLoader, or export the store",
)
def data_pipes(one, several):
    neighbor_sampler(one, several)
    on_disk(one, several)


test_a_row_of_the_table_is_right, test_the_page_has_these_rows = checks_of(PYG, LIGHTNING, DGL)
