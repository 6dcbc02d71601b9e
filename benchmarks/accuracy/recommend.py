"""Our side of recommendations: embeddings in the store, links from `LinkNeighborLoader`.

Training samples few neighbours; the rows that are ranked come from more of them, as many as the
memory holds. The invariant: a run
writes to a copy of its store, so no seed begins with what another learned.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .ours import budget_of, disk_bytes, memory_of
from .rows import Row
from .sets import STORE, edges_of
from .visits import METRICS, bpr, visited_in_test

_EMBEDDING_MEMORY = "4MB"
_EVALUATED, _EVALUATED_FANOUTS = 64, (50, 10)
_KINDS = ("user", "item")


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    import neargraph as ng

    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory(dir=folder.parent) as room:
        path = Path(room) / STORE
        shutil.copytree(folder / STORE, path)
        size = disk_bytes(path)
        with ng.open(path, memory=memory_of(path)) as store:
            found = _Run(row, seed, store).result()
            return found | budget_of(store) | {"disk_bytes": size}


class _Run:
    def __init__(self, row: Row, seed: int, store: Any) -> None:
        from neargraph.nn import InDegrees, StoreEmbedding, build

        self.settings, self.store, self.seed, self.metric = row.settings, store, seed, row.metric
        width, depth = self.settings["hidden"], len(self.settings["fanouts"])
        self.embeddings = {
            kind: StoreEmbedding(
                store,
                width,
                kind,
                lr=self.settings["embedding_lr"],
                seed=seed,
                memory=_EMBEDDING_MEMORY,
                undo=False,
            )
            for kind in _KINDS
        }
        self.model = build(
            row.model,
            store.schema,
            width * (depth + 1),
            in_channels=width,
            hidden_channels=width,
            num_layers=depth,
            dropout=self.settings["dropout"],
        )
        self.degrees = InDegrees(store, loops=True)
        self.kind = next(t for t in store.schema.edge_types if t.source == "user")

    def result(self) -> dict[str, Any]:
        """Trains all epochs, and ranks all items for all users."""
        import neargraph as ng

        loader = ng.LinkNeighborLoader(
            self.store,
            list(self.settings["fanouts"]),
            self.kind.triple,
            neg_sampling="triplet",
            batch_size=self.settings["batch_size"],
            shuffle=True,
            attrs=[],
            seed=self.seed,
        )
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.settings["lr"])
        self.model.train()
        for _ in range(self.settings["epochs"]):
            for batch in loader:
                optimizer.zero_grad()
                self._loss(batch).backward()
                optimizer.step()
                for embedding in self.embeddings.values():
                    embedding.step()
                del batch
        return self._ranked()

    def _rows(self, batch: Any) -> Any:
        from neargraph.nn import on_batch

        x = {kind: self.embeddings[kind](batch[kind].n_id) for kind in _KINDS}
        return on_batch(self.model, batch, degrees=self.degrees, x=x)

    def _loss(self, batch: Any) -> Tensor:
        z = self._rows(batch)
        users = z["user"][batch["user"].src_index]
        items = batch["item"]
        chosen = z["item"][items.dst_pos_index]
        others = z["item"][items.dst_neg_index.reshape(-1)]
        return bpr((users * chosen).sum(-1), (users * others).sum(-1))

    def _ranked(self) -> dict[str, Any]:
        from neargraph.metrics import RankingTable, rank_all_items

        users, items = (self._all(kind) for kind in _KINDS)
        ends, _ = edges_of(self.store, self.kind)
        wanted = RankingTable.of_pairs(*visited_in_test(len(items)), len(users))
        seen = RankingTable.of_pairs(ends[0].numpy(), ends[1].numpy(), len(users))
        found = rank_all_items(users, items, wanted, seen, metrics=METRICS)
        return {"value": found[self.metric], "metrics": found}

    @torch.no_grad()
    def _all(self, kind: str) -> Tensor:
        """The rows of all nodes of a type."""
        import neargraph as ng

        self.model.eval()
        count = self.store.schema.node_type(kind).num_nodes
        loader = ng.NeighborLoader(
            self.store,
            list(_EVALUATED_FANOUTS),
            (kind, np.arange(count)),
            batch_size=_EVALUATED,
            attrs=[],
        )
        parts = []
        for batch in loader:
            parts.append(self._rows(batch)[kind][: batch[kind].batch_size])
            del batch
        return torch.cat(parts)
