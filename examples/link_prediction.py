"""Predict links: score pairs of nodes by the inner product of their embeddings.

    python examples/link_prediction.py

All links of the random graph join two nodes of the same community.
"""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of
from torch_geometric.data import Data
from torchmetrics.functional.classification import binary_auroc

import neargraph as ng
from neargraph.nn import GraphSAGE

NODES, EDGES, COMMUNITIES = 2_000, 10_000, 8


def make_links(count: int) -> torch.Tensor:
    """Links [2, count] within communities."""
    source, step = torch.randint(1, NODES, (2, count))
    return torch.stack([source, (source + COMMUNITIES * step) % NODES])


def main() -> None:
    """Trains on the links of the store, and prints the AUROC of links that it does not have."""
    torch.manual_seed(0)
    x = torch.eye(COMMUNITIES).repeat(NODES // COMMUNITIES, 1) + torch.randn(NODES, COMMUNITIES)
    data, held_out = Data(x=x, edge_index=make_links(EDGES)), make_links(1_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "communities.ng"
        ng.from_pyg(data, path, undirected=True)
        with ng.open(path, memory="64MB") as store:
            model = GraphSAGE(COMMUNITIES, 32, 32)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            train, test = (
                ng.LinkNeighborLoader(store, [5, 5], links, neg_sampling="binary", batch_size=512)
                for links in (None, held_out)
            )

            def score(batch: Data) -> torch.Tensor:
                z = model(batch.x, batch.edge_index)
                source, destination = z[batch.edge_label_index]
                return torch.sum(source * destination, dim=1)

            for epoch in range(2):
                for batch in train:
                    optimizer.zero_grad()
                    loss_of(score(batch), batch.edge_label).backward()
                    optimizer.step()
                found = [(score(batch).detach(), batch.edge_label.int()) for batch in test]
                scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
                print(f"epoch {epoch}: AUROC {binary_auroc(scores, labels):.3f}")


if __name__ == "__main__":
    main()
