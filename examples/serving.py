"""Serve a model over gRPC and change the graph while it answers.

    python examples/serving.py

A new node gets an answer as soon as its commit is durable.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.nn import GraphSAGE

NODES, CLASSES = 2_000, 4


def make_store(path: Path) -> None:
    """Nodes of four classes, all edges within a class; the features are noisy."""
    torch.manual_seed(0)
    y = torch.arange(NODES) % CLASSES
    x = torch.nn.functional.one_hot(y, 16).float() + torch.randn(NODES, 16)
    source, step = torch.randint(NODES, (2, 8 * NODES))
    edge_index = torch.stack([source, (source + CLASSES * step) % NODES])
    ng.from_pyg(Data(x=x, y=y, edge_index=edge_index), path)


def train_and_export(store: ng.Store, path: Path) -> None:
    """Trains for two epochs and writes the model file."""
    model = GraphSAGE(16, 32, CLASSES, num_layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in ng.NeighborLoader(store, [5, 5], batch_size=256, shuffle=True):
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        optimizer.step()
    ng.export(model.eval(), store, path, fanouts=[-1, -1])


def main() -> None:
    """Asks for the class of a new node, before and after it has edges."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_store(folder / "graph.ng")
        with ng.open(folder / "graph.ng", memory="64MB") as store:
            train_and_export(store, folder / "sage.ngm")
        with ng.serve(folder, memory="64MB") as server, ng.Client(server.address) as client:
            client.register_model("sage", str(folder / "sage.ngm"))
            node = client.add_node({"x": [0.0] * 16})
            print("without edges:", client.run("sage", [node]).round(2))
            for neighbor in range(3, 40, CLASSES):  # nodes of class 3
                client.add_edge(neighbor, node)
            print("with ten edges:", client.run("sage", [node]).round(2))


if __name__ == "__main__":
    main()
