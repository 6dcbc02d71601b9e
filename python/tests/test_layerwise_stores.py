"""Layer-wise inference on stores of all kinds, and of models in fewer bits: as PyG on the whole
graph, or as the engine on it; own rows are read once where they come by anyway."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gnn = pytest.importorskip("torch_geometric.nn")
pytest.importorskip("onnxscript")

from graphs import Edges, Graph, Nodes  # noqa: E402
from torch_geometric.data import Data  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import InvalidModel  # noqa: E402

NODES, EDGES, WIDTH, CLASSES = 2100, 12000, 16, 4
BLOCK = {"memory": "128MB", "block_nodes": 1024, "chunk_nodes": 1024}


class Two(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(WIDTH, WIDTH), layer(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def gin(into, out):
    return gnn.GINConv(torch.nn.Linear(into, out), train_eps=True)


LAYERS = {"sage": gnn.SAGEConv, "gcn": gnn.GCNConv, "gin": gin, "gat": gnn.GATConv}


@pytest.fixture(scope="module")
def made():
    """Rows and edges, some of whose nodes have none, and models with their files."""
    seed = 21
    print("seed", seed)
    random = np.random.default_rng(seed)
    x = random.integers(-8, 9, (NODES, WIDTH)).astype(np.float32) / 8
    x[random.random(x.shape) < 0.7] = 0
    ends = (random.random((2, EDGES)) * [[NODES], [NODES - 100]]).astype(np.int64)
    ends[1, :300] = 5
    return x, ends


@pytest.fixture(scope="module")
def models(made, tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("models"), {}
    given = [torch.from_numpy(array) for array in made]
    for name, layer in LAYERS.items():
        torch.manual_seed(0)
        model = Two(layer).eval()
        ng.export(model, given, folder / f"{name}.ngm")
        found[name] = (folder / f"{name}.ngm", model)
    return found


def eager(model, x, ends):
    with torch.no_grad():
        return model(torch.from_numpy(x), torch.from_numpy(ends)).numpy()


def store_of(kind, made, path):
    x, (source, target) = made
    if kind == "f16":
        x = x.astype(np.float16)
    if kind in ("i8", "sparse"):
        rows = torch.from_numpy(x)
        options = {"x_dtype": "i8"} if kind == "i8" else {}
        rows = rows if options else rows.to_sparse_csr()
        ng.from_pyg(Data(x=rows, edge_index=torch.from_numpy(made[1])), path, **options)
        return path
    graph = Graph({"n": Nodes(NODES, {"x": x})}, {("n", "e", "n"): Edges(source, target)})
    graph.write(path)
    if kind == "reorganised":
        with ng.open(path) as store:
            store.reorganize("heat", batch_size=64, batches=2)
    return path


@pytest.mark.parametrize("kind", ["plain", "f16", "i8", "sparse", "reorganised"])
@pytest.mark.parametrize("name", LAYERS)
def test_every_kind_of_store_gives_what_pyg_gives(kind, name, made, models, tmp_path):
    file, model = models[name]
    with ng.Inference(store_of(kind, made, tmp_path / "g.ng"), file, **BLOCK) as inference:
        x = inference.store.snapshot().features(None, np.arange(NODES), "x", dtype="f32")
        rows = inference.run().arrays["out"]
    wanted = eager(model, x, made[1])
    assert np.abs(rows - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


# Bytes of rows that the first pass over `x` reads, in units of `x`, with 3 blocks. GAT reads rows
# once for their logits and products, before any edge.
TIMES = {"sage": 3, "gcn": 3, "gin": 3, "gat": 1}


@pytest.mark.parametrize("name", LAYERS)
def test_own_rows_are_not_read_again_where_they_come_by(name, made, models, tmp_path):
    file, _ = models[name]
    store = store_of("plain", made, tmp_path / "g.ng")
    with ng.Inference(store, file, **BLOCK) as inference:
        plan = inference.plan["passes"]
        with ng.Inference(store, file, memory="128MB") as whole:
            one = whole.run().arrays["out"].tobytes()
        assert inference.run().arrays["out"].tobytes() == one
    reads = [p["read_bytes"] for p in plan if p["read_bytes"] >= 4 * WIDTH * NODES]
    # Beside rows, roots of degrees of 4 bytes.
    assert 1 <= reads[0] / (TIMES[name] * 4 * WIDTH * NODES) < 1.15


@pytest.mark.parametrize("to", ["int8", "f16", "fixed8"])
@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_models_in_fewer_bits_are_computed_or_refused_by_node(to, name, made, models, tmp_path):
    x, ends = made
    file, _ = models[name]
    data = {"x": x, "edge_index": ends}
    ng.quantise(file, tmp_path / "small.ngm", to=to, data=data)
    wanted = ng.Dfg.open(tmp_path / "small.ngm").run(data)["out"]
    store = store_of("plain", made, tmp_path / "g.ng")
    if to == "fixed8":
        with pytest.raises(InvalidModel, match=": "):
            ng.Inference(store, tmp_path / "small.ngm", **BLOCK)
        return
    with ng.Inference(store, tmp_path / "small.ngm", **BLOCK) as inference:
        found = inference.run().arrays["out"]
    # Steps of rows are rounded alike, but for rows whose sums differ in their last bits.
    bound = 1e-5 if to == "f16" else 0.02
    assert np.abs(found - wanted).max() <= bound * max(1.0, np.abs(wanted).max())
