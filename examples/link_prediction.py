"""Predict links: score pairs of nodes by the inner product of their embeddings.

    python examples/link_prediction.py

All links join two nodes of the same community. Those of the test are not in the store.
"""

import tempfile
from functools import partial

import torch
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of
from torch_geometric.data import Data
from torchmetrics.functional.classification import binary_auroc

import neargraph as ng
from neargraph.nn import GraphSAGE, without_links

NODES, EDGES, COMMUNITIES = 2_000, 10_000, 8


def make_links() -> torch.Tensor:
    """Different links [2, n] within communities, in random order."""
    source, step = torch.randint(NODES, (2 * EDGES,)), torch.randint(1, 250, (2 * EDGES,))
    links: torch.Tensor = torch.stack([source, (source + COMMUNITIES * step) % NODES])
    links = torch.unique(links.sort(dim=0).values, dim=1)
    return links[:, torch.randperm(links.size(1))]


def main() -> None:
    """Trains on the links of the store, and prints the AUROC of links that it does not have."""
    torch.manual_seed(0)
    x = torch.eye(COMMUNITIES).repeat(NODES // COMMUNITIES, 1) + torch.randn(NODES, COMMUNITIES)
    links = make_links()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/communities.ng"
        ng.from_pyg(Data(x=x, edge_index=links[:, :EDGES]), path, undirected=True)
        with ng.open(path, memory="64MB") as store:
            model = GraphSAGE(COMMUNITIES, 32, 32)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            # The links to predict are edges of the store, which must not carry messages.
            loader = partial(
                ng.LinkNeighborLoader, store, [5, 5], neg_sampling="binary", transform=without_links
            )
            train = loader(batch_size=512, shuffle=True)
            test = loader(links[:, EDGES : EDGES + 1_000], batch_size=512)

            def score(batch: Data) -> torch.Tensor:
                z = model(batch.x, batch.edge_index)
                source, destination = z[batch.edge_label_index]
                return torch.sum(source * destination, dim=1)

            for epoch in range(3):
                for batch in train:
                    optimizer.zero_grad()
                    loss_of(score(batch), batch.edge_label).backward()
                    optimizer.step()
                found = [(score(batch).detach(), batch.edge_label.int()) for batch in test]
                scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
                print(f"epoch {epoch}: AUROC {binary_auroc(scores, labels):.3f}")


if __name__ == "__main__":
    main()
