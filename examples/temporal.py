"""Predict the next purchase of a user without looking into the future.

    python examples/temporal.py

Each purchase has a time. A link is scored as of its own time: its neighbourhoods contain earlier
purchases only.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.nn import TemporalGAT, on_batch

USERS, ITEMS, PURCHASES, WIDTH = 300, 100, 8_000, 16


def make_store(path: Path) -> None:
    """Users 0 ... 299 buy items 300 ... 399; a user's taste changes half way."""
    torch.manual_seed(0)
    user, time = torch.randint(USERS, (PURCHASES,)), torch.arange(PURCHASES)
    taste = (user + 5 * (time > PURCHASES // 2)) % 10
    item = USERS + 10 * torch.randint(ITEMS // 10, (PURCHASES,)) + taste
    kind = torch.cat([torch.zeros(USERS, dtype=torch.long), 1 + torch.arange(ITEMS) % 10])
    x = torch.nn.functional.one_hot(kind, WIDTH).float()
    ends = torch.stack([user, item])
    data = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), edge_time=time.repeat(2))
    ng.from_pyg(data, path)


def main() -> None:
    """Trains on all purchases in random order and prints how often a link beats a random one."""
    with tempfile.TemporaryDirectory() as folder:
        make_store(path := Path(folder) / "shop.ng")
        with ng.open(path, memory="64MB") as store:
            model = TemporalGAT(WIDTH, 32, 32, num_layers=1, time_unit=1_000.0)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            loader = ng.LinkNeighborLoader(
                store, [10], neg_sampling="triplet", batch_size=256, shuffle=True,
                time_attr="edge_time", temporal_strategy="last",
            )  # fmt: skip
            right = seen = 0
            for batch in loader:
                z = on_batch(model, batch)
                user, bought = z[batch.src_index], z[batch.dst_pos_index]
                margin = (user * (bought - z[batch.dst_neg_index])).sum(dim=1)
                optimizer.zero_grad()
                torch.nn.functional.softplus(-margin).mean().backward()
                optimizer.step()
                right, seen = right + int((margin > 0).sum()), seen + len(margin)
            print(f"purchases that beat a random item: {right / seen:.3f}")


if __name__ == "__main__":
    main()
