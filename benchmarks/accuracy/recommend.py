"""Our side of recommendations: learned rows in the store, and batches around visits.

What must not live here: PyG's side (`recommend_peer.py`). The invariants: a run writes to a copy of
its store, so no seed begins with what another learned; the rows that wait to be written are part of
the run's memory.
"""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .ours import budget_of, disk_bytes, memory_of
from .rows import Row
from .sets import STORE, edges_of
from .visits import METRICS, bpr, first_visits

# The part of a run's memory that changed rows may take; the rest is the store's.
_LEARNED_SHARE = 0.385


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    import neargraph as ng

    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory(dir=folder.parent) as room:
        path = Path(room) / STORE
        shutil.copytree(folder / STORE, path)
        memory = memory_of(path)
        learned = int(_LEARNED_SHARE * memory)
        with ng.open(path, memory=memory - learned) as store:
            run = {"ngcf": _Ngcf, "pinsage": _PinSage}[row.model](
                row.settings, seed, store, learned
            )
            run.train()
            found = run.ranked()
            run.flush()
            peak = budget_of(store)["budget_peak"] + run.learned_peak
        facts = {"budget_peak": peak, "budget_limit": memory, "disk_bytes": disk_bytes(path)}
        return {"value": found[row.metric], "metrics": found} | facts


class _Run(ABC):
    """A model, the rows of all nodes, and the visits of training [2, n], ids of the set's own."""

    model: torch.nn.Module
    visits: Any
    num_users: int
    num_items: int

    def __init__(self, settings: Any, seed: int, store: Any, memory: int) -> None:
        from neargraph.nn import StoreEmbedding

        self.settings, self.seed, self.store = settings, seed, store
        kinds = store.schema.node_types
        num_nodes = sum(kind.num_nodes for kind in kinds)
        self.embeddings = {
            kind.name: StoreEmbedding(
                store,
                settings["hidden"],
                kind.name,
                lr=settings["embedding_lr"],
                # Rows of a user and an item are drawn apart, and so are those of two runs.
                seed=seed * len(kinds) + number,
                memory=memory * kind.num_nodes // num_nodes,
                undo=False,
            )
            for number, kind in enumerate(kinds)
        }
        self.learned_peak = 0

    def train(self) -> None:
        """All epochs."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.settings["lr"])
        loader = self.loader()
        self.model.train()
        for _ in range(self.settings["epochs"]):
            for batch in loader:
                optimizer.zero_grad()
                bpr(*self.scores(batch)).backward()
                optimizer.step()
                for embedding in self.embeddings.values():
                    embedding.step()
                self._measure()
                # The memory of a batch is its loader's again before the next one is asked for.
                del batch

    def flush(self) -> None:
        """Writes the rows that have changed."""
        for embedding in self.embeddings.values():
            embedding.flush()

    def _measure(self) -> None:
        now = sum(embedding.changed_bytes for embedding in self.embeddings.values())
        self.learned_peak = max(self.learned_peak, now)

    def ranked(self) -> dict[str, float]:
        """Ranks all items for all users; visits of training do not count."""
        from neargraph.metrics import RankingTable, rank_all_items

        self.model.eval()
        users, items = self.all_rows()
        test = first_visits(self.visits, self.num_items)
        wanted = RankingTable.of_pairs(*test, self.num_users)
        seen = RankingTable.of_pairs(*self.visits, self.num_users)
        return rank_all_items(users, items, wanted, seen, metrics=METRICS)

    @torch.no_grad()
    def _of_seeds(self, loader: Iterable[Any], kind: str | None = None) -> Tensor:
        """The model's rows of a loader's seeds, in their order."""
        parts = []
        for batch in loader:
            rows, seeds = self.outputs(batch), batch if kind is None else batch[kind]
            parts.append((rows if kind is None else rows[kind])[: seeds.batch_size])
            del batch, seeds
        return torch.cat(parts)

    @abstractmethod
    def loader(self) -> Any:
        """Batches around the visits, each with an item that was not visited."""

    @abstractmethod
    def outputs(self, batch: Any) -> Any:
        """The model's rows of a batch; by node type where there are two."""

    @abstractmethod
    def scores(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Scores of visits and of others, [n] and [n]."""

    @abstractmethod
    def all_rows(self) -> tuple[Tensor, Tensor]:
        """The model's rows of all users and of all items."""


class _Ngcf(_Run):
    """Users and items are node types; more neighbours are drawn where rows are ranked."""

    def __init__(self, settings: Any, seed: int, store: Any, memory: int) -> None:
        from neargraph.nn import InDegrees, build

        super().__init__(settings, seed, store, memory)
        width, depth = settings["hidden"], len(settings["fanouts"])
        self.model = build(
            "ngcf",
            store.schema,
            width * (depth + 1),
            in_channels=width,
            hidden_channels=width,
            num_layers=depth,
            dropout=settings["dropout"],
        )
        self.degrees = InDegrees(store, loops=True)
        self.kind = next(t for t in store.schema.edge_types if t.source == "user")
        self.visits = edges_of(store, self.kind)[0].numpy()
        counts = (store.schema.node_type(name).num_nodes for name in ("user", "item"))
        self.num_users, self.num_items = counts

    def loader(self) -> Any:
        import neargraph as ng

        return ng.LinkNeighborLoader(
            self.store,
            list(self.settings["fanouts"]),
            self.kind.triple,
            neg_sampling="triplet",
            batch_size=self.settings["batch_size"],
            shuffle=True,
            attrs=[],
            reading="on_demand",
            seed=self.seed,
        )

    def outputs(self, batch: Any) -> Any:
        from neargraph.nn import on_batch

        x = {name: rows(batch[name].n_id) for name, rows in self.embeddings.items()}
        return on_batch(self.model, batch, degrees=self.degrees, x=x)

    def scores(self, batch: Any) -> tuple[Tensor, Tensor]:
        z, items = self.outputs(batch), batch["item"]
        users = z["user"][batch["user"].src_index]
        chosen, others = z["item"][items.dst_pos_index], z["item"][items.dst_neg_index]
        return (users * chosen).sum(-1), (users * others).sum(-1)

    def all_rows(self) -> tuple[Tensor, Tensor]:
        return self._all("user", self.num_users), self._all("item", self.num_items)

    def _all(self, kind: str, count: int) -> Tensor:
        import neargraph as ng

        loader = ng.NeighborLoader(
            self.store,
            list(self.settings["ranked_fanouts"]),
            (kind, np.arange(count)),
            batch_size=self.settings["ranked_batch_size"],
            attrs=[],
            reading="on_demand",
            seed=self.seed,
        )
        return self._of_seeds(loader, kind)


class _PinSage(_Run):
    """Users and items are of one type, users first; neighbours are drawn where rows are ranked."""

    def __init__(self, settings: Any, seed: int, store: Any, memory: int) -> None:
        from neargraph.nn import build

        super().__init__(settings, seed, store, memory)
        width, (kind,) = settings["hidden"], store.schema.node_types
        self.model = build(
            "pinsage",
            store.schema,
            width,
            in_channels=width,
            hidden_channels=width,
            num_layers=len(settings["fanouts"]),
            dropout=settings["dropout"],
        )
        self.num_items = int(store.column("is_item").sum())
        self.num_users = kind.num_nodes - self.num_items
        (edges,) = store.schema.edge_types
        ends = edges_of(store, edges)[0].numpy()
        self.links = ends[:, ends[0] < self.num_users]
        self.visits = self.links - np.array([[0], [self.num_users]])
        (self.rows,) = self.embeddings.values()

    def _batches(self, **seeds: Any) -> Any:
        import neargraph as ng

        fanouts = list(self.settings["fanouts"])
        options = {"batch_size": self.settings["batch_size"], "attrs": [], "seed": self.seed}
        return ng.PinSAGELoader(self.store, fanouts, reading="on_demand", **options, **seeds)

    def loader(self) -> Any:
        links = torch.from_numpy(self.links)
        return self._batches(edge_label_index=links, neg_sampling="triplet", shuffle=True)

    def outputs(self, batch: Any) -> Any:
        from neargraph.nn import on_batch

        return on_batch(self.model, batch, x=self.rows(batch.n_id))

    def scores(self, batch: Any) -> tuple[Tensor, Tensor]:
        z, users = self.outputs(batch), batch.src_index
        positive = (z[users] * z[batch.dst_pos_index]).sum(-1)
        negative = (z[users] * z[batch.dst_neg_index]).sum(-1)
        # What a visit is compared with is any node; users are not recommended.
        is_item = batch.n_id[batch.dst_neg_index] >= self.num_users
        return positive[is_item], negative[is_item]

    def all_rows(self) -> tuple[Tensor, Tensor]:
        users, items = self._of_seeds(self._batches()).split([self.num_users, self.num_items])
        return users, items
