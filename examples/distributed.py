"""Train on two processes with DistributedDataParallel: each takes half of every batch.

    torchrun --nproc-per-node 2 examples/distributed.py

Every process opens the store by itself, so the memory budget is per process.
"""

import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data

import neargraph as ng
from neargraph.nn import GraphSAGE

NODES, CLASSES = 2_000, 4


def make_store(path: Path) -> None:
    """Nodes of four classes, all edges within a class."""
    torch.manual_seed(0)
    y = torch.arange(NODES) % CLASSES
    x = torch.nn.functional.one_hot(y, 16).float() + torch.randn(NODES, 16)
    source, step = torch.randint(NODES, (2, 8 * NODES))
    edge_index = torch.stack([source, (source + CLASSES * step) % NODES])
    ng.from_pyg(Data(x=x, y=y, edge_index=edge_index, train_mask=y >= 0), path)


def main() -> None:
    """Trains for three epochs; rank 0 makes the store, prints the loss, and removes the store."""
    dist.init_process_group("gloo")
    path = Path(tempfile.gettempdir()) / f"distributed-{os.environ['MASTER_PORT']}.ng"
    if dist.get_rank() == 0:
        make_store(path)
    dist.barrier()
    with ng.open(path, memory="64MB") as store:
        model = DistributedDataParallel(GraphSAGE(16, 32, CLASSES, num_layers=2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        # ranks="auto" reads rank and world size from torch.distributed.
        loader = ng.NeighborLoader(
            store, [5, 5], "train", batch_size=256, shuffle=True, seed=7, ranks="auto"
        )
        for epoch in range(3):
            for batch in loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: {batch.batch_size} seeds a rank, loss {loss.item():.3f}")
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
