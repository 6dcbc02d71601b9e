"""Train with Lightning: `python examples/lightning_training.py`."""

import tempfile
from pathlib import Path

import lightning
import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.nn import GraphSAGE

NODES, CLASSES = 2_000, 4


def make_store(path: Path) -> None:
    """Nodes of four classes, most edges within a class."""
    torch.manual_seed(0)
    y, trains = torch.arange(NODES) % CLASSES, torch.rand(NODES) < 0.5
    x = torch.nn.functional.one_hot(y, 16).float() + torch.randn(NODES, 16)
    source, step = torch.randint(NODES, (2, 8 * NODES))
    edge_index = torch.stack([source, (source + CLASSES * step) % NODES])
    ng.from_pyg(Data(x=x, y=y, edge_index=edge_index, train_mask=trains, val_mask=~trains), path)


class Classifier(lightning.LightningModule):
    """GraphSAGE with two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.model = GraphSAGE(16, 32, CLASSES, num_layers=2)

    def training_step(self, batch: Data, _: int) -> torch.Tensor:
        """Returns the loss of the seeds."""
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
        return torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])

    def validation_step(self, batch: Data, _: int) -> None:
        """Logs the accuracy of the seeds."""
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size].argmax(dim=1)
        right = (out == batch.y[: batch.batch_size]).float()
        self.log("accuracy", right.mean(), batch_size=len(right))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Trains for three epochs and prints the validation accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        make_store(path := Path(folder) / "classes.ng")
        with ng.open(path, memory="64MB") as store:
            train = ng.NeighborLoader(store, [5, 5], "train", batch_size=256, shuffle=True)
            val = ng.NeighborLoader(store, [5, 5], "val", batch_size=256)
            trainer = lightning.Trainer(
                max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False
            )
            trainer.fit(Classifier(), train, val)
            print(f"validation accuracy {trainer.callback_metrics['accuracy']:.3f}")


if __name__ == "__main__":
    main()
