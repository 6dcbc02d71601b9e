"""What `beside` and `updates` serve: a trained model, and the stores that hold more than rows.

A model is trained for some hundred steps on the graph itself, so that accuracy says something. Made
once for each graph, under `.bench/serving/prepared/`:

    sage/ and sage.pt    both layers, for servers and for the peer
    first/               the first layer alone; `ng.infer` computes it for all nodes
    second/              the second layer on what `ng.infer` wrote, the tensor "first_layer"
    int8.ng              the store with rows of scaled int8
    first_layer.ng       the store with the tensor "first_layer"
    reverse.ng           the store with its reverse index, which deleting nodes needs
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graphs import Graph, npy_rows, say, write_store
from .served import HOME
from .streams import FANOUTS

if TYPE_CHECKING:
    import torch

HIDDEN = 256
SEEDS = 512
TENSOR = "first_layer"


class Prepared:
    """The files of a graph; each is made when it is first asked for."""

    def __init__(self, graph: Path, steps: int) -> None:
        self.graph = graph
        self.store = Path(f"{graph}.ng")
        self.about: dict[str, Any] = json.loads((graph / "about.json").read_text())
        self._home, self._steps = HOME / "prepared" / graph.name, steps
        self._home.mkdir(parents=True, exist_ok=True)

    def _net(self) -> Any:
        import neargraph as ng

        about = self.about
        return ng.nn.GraphSAGE(about["width"], HIDDEN, about["classes"], len(FANOUTS))

    @property
    def weights(self) -> Path:
        """For the peer."""
        path = self._home / "sage.pt"
        if not path.exists():
            import torch

            say(f"training on {self.graph.name}, {self._steps} steps")
            torch.manual_seed(0)
            net = self._net()
            _train(net, self.store, self._steps)
            part = path.with_suffix(".part")
            torch.save(net.eval().state_dict(), part)
            part.rename(path)
        return path

    def _trained(self) -> Any:
        import torch

        net = self._net()
        net.load_state_dict(torch.load(self.weights))
        return net.eval()

    def _export(self, name: str, net: Any, store: Path, fanouts: list[int]) -> Path:
        import neargraph as ng

        path = self._home / name
        if not path.exists():
            with ng.open(store, memory="256MB") as opened:
                ng.export(net.eval(), opened, path, fanouts=fanouts)
        return path

    @property
    def model(self) -> Path:
        """Both layers."""
        path = self._home / "sage"
        return path if path.exists() else self._export("sage", self._trained(), self.store, FANOUTS)

    @property
    def int8(self) -> Path:
        """The store with narrow rows."""
        path = self._home / "int8.ng"
        if not path.exists():
            self._import(path, "i8")
        return path

    def reverse(self, path: Path) -> Path:
        """A new store with its reverse index, for a run that changes it."""
        self._import(path, "f32", reverse=True)
        return path

    def _import(self, path: Path, x_dtype: str, reverse: bool = False) -> None:
        arrays = {file.stem: np.load(file, mmap_mode="r") for file in self.graph.glob("*.npy")}
        rows, width = npy_rows(self.graph / "feat.npy"), arrays["feat"].shape[1]
        graph = Graph(arrays["indptr"], arrays["indices"], arrays["labels"], width, rows)
        say(f"importing {path.name}")
        new = path.with_name(f"new-{path.name}")
        write_store(graph, arrays, rows, new, x_dtype, reverse=reverse)
        new.rename(path)

    @property
    def first_layer(self) -> tuple[Path, Path]:
        """(the store with the first layer's rows, the model of the second layer on them)."""
        import neargraph as ng

        path = self._home / "first_layer.ng"
        first, second = split(self._trained())
        if not path.exists():
            new = self._home / "new-first_layer.ng"
            shutil.rmtree(new, ignore_errors=True)
            say("copying the store, and computing the first layer of all nodes")
            shutil.copytree(self.store, new)
            model = self._export("first", first, new, FANOUTS[-1:])
            ng.infer(new, model, TENSOR, memory="2GB")
            new.rename(path)
        return path, self._export("second", second, path, FANOUTS[:1])


def split(net: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The two layers of a trained net, each a model of its own."""
    from torch import Tensor, nn

    class First(nn.Module):
        """Rows to what the second layer takes."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = net.convs[0]

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.layer(x, edge_index).relu()
            return out

    class Second(nn.Module):
        """The first layer's rows to logits. The argument has the name of the tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = net.convs[1]

        def forward(self, first_layer: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.layer(first_layer, edge_index)
            return out

    return First(), Second()


def _train(net: Any, path: Path, steps: int) -> None:
    """Some steps of Adam on batches of the training nodes."""
    import torch
    from torch.nn import functional

    import neargraph as ng

    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    net.train()
    with ng.open(path, memory="1GB") as store:
        loader = ng.NeighborLoader(
            store,
            num_neighbors=FANOUTS,
            input_nodes="train",
            batch_size=SEEDS,
            shuffle=True,
            seed=0,
            attrs=["x", "y"],
        )
        done = 0
        while done < steps:
            for batch in loader:
                optimizer.zero_grad()
                size = batch.batch_size
                out = net(batch.x, batch.edge_index)[:size]
                loss = functional.cross_entropy(out, batch.y[:size])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += 1
                if done % 50 == 0:
                    say(f"step {done}, loss {float(loss):.3f}")
                if done == steps:
                    return
