"""Train on a graph that changes: each epoch sees the newest commit, each loader one version.

    python examples/update_while_training.py

It makes a small random graph in a temporary folder; a thread adds papers and citations meanwhile.
"""

import tempfile
import threading
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import neargraph as ng
from neargraph.nn import GraphSAGE

NODES, WIDTH, CLASSES = 2_000, 16, 4


def make_store(path: Path) -> None:
    """Papers of four classes that cite their own class more often than others."""
    torch.manual_seed(0)
    y = torch.randint(CLASSES, (NODES,))
    x = F.one_hot(y, WIDTH).float() + 0.8 * torch.randn(NODES, WIDTH)
    train_mask = torch.rand(NODES) < 0.5
    data = Data(x=x, y=y, train_mask=train_mask, edge_index=torch.randint(NODES, (2, 8 * NODES)))
    ng.from_pyg(data, path, undirected=True)


def write(store: ng.Store, stop: threading.Event) -> None:
    """Adds a paper with five citations, and retracts one now and then, until told to stop."""
    generator = torch.Generator().manual_seed(1)
    while not stop.is_set():
        with store.write() as tx:
            label = int(torch.randint(CLASSES, (), generator=generator))
            x = F.one_hot(torch.tensor(label), WIDTH).float()
            paper = tx.add_node(None, {"x": x}, label=label, split="train")
            cited = torch.randint(NODES, (5,), generator=generator)
            tx.add_edges(None, cited, torch.full((5,), paper))
            if paper % 10 == 0:
                tx.delete_node(None, paper - 1)


def main() -> None:
    """Trains for three epochs while the graph grows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "papers.ng"
        make_store(path)
        with ng.open(path, memory="64MB") as store:
            stop = threading.Event()
            writer = threading.Thread(target=write, args=(store, stop))
            writer.start()
            try:
                train(store)
            finally:
                stop.set()
                writer.join()


def train(store: ng.Store) -> None:
    """Each epoch makes a loader, which stays at the commit that is the newest then."""
    model = GraphSAGE(WIDTH, 32, CLASSES, num_layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        loader = ng.NeighborLoader(
            store, [10, 5], "train", batch_size=128, shuffle=True, seed=epoch
        )
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item()
        snap = loader.snapshot
        print(
            f"epoch {epoch}: commit {snap.lsn}, {snap.num_nodes_live} papers, "
            f"loss {total / len(loader):.3f}"
        )


if __name__ == "__main__":
    main()
