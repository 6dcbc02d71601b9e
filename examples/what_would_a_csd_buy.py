"""Ask what a computational SSD would gain over this machine's disk.

    python examples/what_would_a_csd_buy.py

The loader runs on a generated graph and is measured; the devices are simulated.
"""

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data

import neargraph as ng

NODES, EDGES, WIDTH = 200_000, 2_000_000, 128


def main() -> None:
    """Prints the answer in words and the rate of each step."""
    torch.manual_seed(0)
    data = Data(x=torch.randn(NODES, WIDTH), edge_index=torch.randint(NODES, (2, EDGES)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.ng"
        ng.from_pyg(data, path)
        # The graph needs 147 MB. With less memory, the loader has to read from the disk.
        with ng.open(path, memory="64MB") as store:
            answer = ng.sim.what_would_it_buy(
                store, folder, fanouts=(10, 5), batch_size=128, batches=2, repeats=2, seconds=3.0
            )
        print(answer.words())
        for step in answer.steps:
            print(f"{step.name}: {step.targets_per_s:,.0f} targets/s")


if __name__ == "__main__":
    main()
