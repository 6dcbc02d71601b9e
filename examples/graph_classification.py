"""Classify whole graphs: distinguish rings from stars.

    python examples/graph_classification.py

A store holds all graphs as one: `graph_id` numbers the graph of each node, and `graph_y` repeats
the label of a graph for each of its nodes.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_mean_pool

import neargraph as ng
from neargraph.nn import GIN, NodeDecoder

GRAPHS = 400


def make_graph(number: int) -> Data:
    """A ring or a star of 6 to 12 nodes, in both directions."""
    size, y = 6 + number % 7, number % 2
    nodes = torch.arange(size)
    one_way = torch.stack([nodes * 0, nodes] if y else [nodes, (nodes + 1) % size])
    edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
    return Data(x=torch.ones(size, 1), edge_index=edge_index, graph_y=torch.full((size,), y))


def main() -> None:
    """Trains on the first 300 graphs and prints the accuracy on the others."""
    graphs = Batch.from_data_list([make_graph(number) for number in range(GRAPHS)])
    data = Data(x=graphs.x, edge_index=graphs.edge_index)
    data.graph_id, data.graph_y = graphs.batch, graphs.graph_y
    with tempfile.TemporaryDirectory() as folder:
        ng.from_pyg(data, Path(folder) / "shapes.ng")
        with ng.open(Path(folder) / "shapes.ng", memory="64MB") as store:
            model, head = GIN(1, 16, 16), NodeDecoder(16, 2)
            optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
            train = ng.GraphLoader(store, 32, shuffle=True, graphs=range(300))
            test = ng.GraphLoader(store, 32, graphs=range(300, GRAPHS))

            def predict(batch: Data) -> torch.Tensor:
                in_degree = torch.bincount(batch.edge_index[1], minlength=len(batch.x)).float()
                z = model(batch.x, batch.edge_index, in_degree)
                out: torch.Tensor = head(global_mean_pool(z, batch.batch))
                return out

            for _ in range(10):
                for batch in train:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(predict(batch), batch.y).backward()
                    optimizer.step()
            right = sum(int((predict(batch).argmax(dim=1) == batch.y).sum()) for batch in test)
            print(f"accuracy {right / test.num_graphs:.3f}")


if __name__ == "__main__":
    main()
