"""Classify the papers of a graph with two node types and three edge types.

    python examples/heterogeneous.py

The graph is random. A paper's features say nothing about its class, but its authors' do.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import HeteroData

import neargraph as ng
from neargraph.nn import NodeDecoder, build, on_batch, task_loss

PAPERS, AUTHORS, CLASSES = 4_000, 1_000, 4


def make_store(path: Path) -> None:
    """Each paper has three authors, who all work on the subject of the paper."""
    subject = torch.arange(PAPERS) % CLASSES
    author = torch.randint(AUTHORS // CLASSES, (3 * PAPERS,)) * CLASSES + subject.repeat(3)
    writes, trains = torch.stack([author, torch.arange(PAPERS).repeat(3)]), torch.rand(PAPERS) < 0.5
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.randn(PAPERS, 8), subject
    data["paper"].train_mask, data["paper"].test_mask = trains, ~trains
    data["author"].x = torch.eye(CLASSES).repeat(AUTHORS // CLASSES, 1) + torch.randn(AUTHORS, 4)
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "written_by", "author"].edge_index = writes.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(PAPERS, (2, 2 * PAPERS))
    ng.from_pyg(data, path)


def main() -> None:
    """Trains for five epochs and prints the test accuracy."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        make_store(path := Path(folder) / "papers.ng")
        with ng.open(path, memory="64MB") as store:
            model, head = build("hetero-sage", store.schema, 32), NodeDecoder(32, CLASSES)
            optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
            train = ng.NeighborLoader(
                store, [5, 5], ("paper", "train"), batch_size=128, shuffle=True
            )
            test = ng.NeighborLoader(store, [5, 5], ("paper", "test"), batch_size=128)
            for _ in range(5):
                for batch in train:
                    out = head(on_batch(model, batch)["paper"])
                    optimizer.zero_grad()
                    task_loss("classification", out, batch["paper"].y[: len(out)]).backward()
                    optimizer.step()
            right = 0
            for batch in test:
                guess = head(on_batch(model, batch)["paper"]).argmax(dim=1)
                right += int((guess == batch["paper"].y[: len(guess)]).sum())
            print(f"test accuracy {right / len(store.split('test', 'paper')):.3f}")


if __name__ == "__main__":
    main()
