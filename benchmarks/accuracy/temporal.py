"""Our side of temporal links: batches of the past from disk, through `LinkNeighborLoader`.

A link is scored as of just before it. The invariant: no edge of any batch of training, validation
or test is as late as the link that it was sampled for; one that is ends the run.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .dated import Links, links_of, loss_of, reciprocal_ranks, time_unit
from .ours import budget_of, disk_bytes, memory_of
from .rows import Row
from .sets import STORE, edges_of


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    import neargraph as ng

    torch.manual_seed(seed)
    path = folder / STORE
    with ng.open(path, memory=memory_of(path)) as store:
        ends, times = edges_of(store, store.schema.edge_types[0])
        links, unit = links_of(ends, times), time_unit(times)
        del ends, times
        run = _Run(row, seed, store, links, unit)
        found = run.best()
        return found | budget_of(store) | {"disk_bytes": disk_bytes(path)}


class _Run:
    def __init__(
        self, row: Row, seed: int, store: Any, links: dict[str, Links], unit: float
    ) -> None:
        from neargraph.nn import build

        self.settings, self.edges_checked = row.settings, 0
        width = self.settings["hidden"]
        more = {"hidden_channels": width, "num_layers": len(self.settings["fanouts"])}
        self.model = build(row.model, store.schema, width, time_unit=unit, **more)
        self.loaders = {name: self._loader(store, links[name], name, seed) for name in links}

    def _loader(self, store: Any, links: Links, name: str, seed: int) -> Any:
        import neargraph as ng

        amount = self.settings["num_negatives" if name == "train" else "eval_negatives"]
        return ng.LinkNeighborLoader(
            store,
            list(self.settings["fanouts"]),
            links.ends,
            # Time is whole: the moment before a link is its time less 1.
            edge_label_time=links.times - 1,
            neg_sampling={"mode": "triplet", "amount": amount},
            time_attr="edge_time",
            temporal_strategy="last",
            batch_size=self.settings["batch_size"] // (1 if name == "train" else 10),
            attrs=["x"],
            seed=seed,
        )

    def best(self) -> dict[str, Any]:
        """Trains, and tests the parameters of the best validation."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.settings["lr"])
        best, best_epoch, kept = -1.0, 0, copy.deepcopy(self.model.state_dict())
        for epoch in range(self.settings["epochs"]):
            self.model.train()
            for batch in self.loaders["train"]:
                optimizer.zero_grad()
                loss_of(*self._scores(batch)).backward()
                optimizer.step()
                del batch
            value = self._ranked("val")
            if value > best:
                best, best_epoch, kept = value, epoch + 1, copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(kept)
        value = self._ranked("test")
        return {"value": value, "best_epoch": best_epoch, "edges_checked": self.edges_checked}

    @torch.no_grad()
    def _ranked(self, name: str) -> float:
        self.model.eval()
        ranks = []
        for batch in self.loaders[name]:
            ranks.append(reciprocal_ranks(*self._scores(batch)))
            del batch
        return float(torch.cat(ranks).mean())

    def _scores(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Scores [n] of links and [n, m] of their negatives."""
        from neargraph.nn import on_batch

        self._check_past(batch)
        z = on_batch(self.model, batch)
        source = z[batch.src_index]
        negatives = z[batch.dst_neg_index.reshape(len(source), -1)]
        return (source * z[batch.dst_pos_index]).sum(-1), (source[:, None] * negatives).sum(-1)

    def _check_past(self, batch: Any) -> None:
        asked = batch.seed_time[batch.batch[batch.edge_index[1]]]
        late = int((batch.edge_time > asked).sum())
        if late:
            raise RuntimeError(f"{late} edges of a batch are as late as the links they are for")
        self.edges_checked += len(asked)
