"""Trains a GCN on Cora straight from disk, in the loop that any PyG user knows.

    neargraph import ind.cora.graph --out cora.ng --unique --self-loops remove
    python examples/train_cora.py cora.ng

The published accuracy of this model on this split is 81.5 %.
"""

import sys

import torch
from torch.nn import functional

import neargraph as ng
from neargraph.nn import GCN, InDegrees


def normalized(x: torch.Tensor) -> torch.Tensor:
    """Rows that add up to 1, as the published model uses them."""
    return x / x.sum(dim=1, keepdim=True).clamp(min=1e-12)


def main(path: str) -> None:
    """Trains for 200 epochs and prints the test accuracy."""
    torch.manual_seed(0)
    with ng.open(path, memory="64MB") as store:
        degrees = InDegrees(store)

        def loader(split: str, batch_size: int) -> ng.NeighborLoader:
            return ng.NeighborLoader(
                store, [-1, -1], split, attrs=["x", "y"], batch_size=batch_size, shuffle=True
            )

        width = store.schema.node_types[0].tensors[0].shape[0]
        model = GCN(width, 16, int(store.labels.max()) + 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

        train = loader("train", batch_size=140)
        for _ in range(200):
            for batch in train:
                optimizer.zero_grad()
                out = model(normalized(batch.x), batch.edge_index, degrees(batch.n_id))
                loss = functional.cross_entropy(
                    out[: batch.batch_size], batch.y[: batch.batch_size]
                )
                loss.backward()
                optimizer.step()

        model.eval()
        right = seen = 0
        with torch.no_grad():
            for batch in loader("test", batch_size=250):
                out = model(normalized(batch.x), batch.edge_index, degrees(batch.n_id))
                guess = out[: batch.batch_size].argmax(dim=1)
                right += int((guess == batch.y[: batch.batch_size]).sum())
                seen += batch.batch_size
        print(f"test accuracy {right / seen:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
