"""Learned rows of the nodes that have no features, in the store that a run trains on.

What must not live here: how rows are changed and written, which `neargraph.nn.StoreEmbedding` does.
The invariant: a run begins with rows of its own, and goes on with exactly those of its training
state; rows of another run are never trained or measured.
"""

import json
from hashlib import blake2b
from typing import Any

from torch import Tensor
from torch_geometric.data import HeteroData

from neargraph.exceptions import StateMismatch, UnsupportedArgument
from neargraph.nn import StoreEmbedding
from neargraph.reports import NodeTypeInfo
from neargraph.schema import NodeType, Schema
from neargraph.store import Store

from .config import TrainConfig


def without_features(schema: Schema) -> list[str]:
    """The node types that have no ``x``."""
    return [t.name for t in schema.node_types if all(m.name != "x" for m in t.tensors)]


def widths_of(schema: Schema, config: TrainConfig) -> dict[str, int]:
    """Features of a node of each type, read or learned; 0 where it has none."""
    found = {t.name: [m.num_columns for m in t.tensors if m.name == "x"] for t in schema.node_types}
    return {name: widths[0] if widths else config.embedding for name, widths in found.items()}


def content_of(store: Store, config: TrainConfig) -> str:
    """What a training state knows a store by.

    That is its fingerprint. Training with embeddings writes to the store, so then it is a digest of
    its types, counts and tensors without those of the embeddings.
    """
    if not config.embedding:
        return store.fingerprint
    facts = store.info()
    nodes = [
        [t["name"], t["num_nodes"], t["num_nodes_live"], _tensors(t, config.embedding_name)]
        for t in facts["node_types"]
    ]
    edges = [
        [t[name] for name in ("source", "relation", "destination", "num_edges", "tensors")]
        for t in facts["edge_types"]
    ]
    text = json.dumps([nodes, edges], sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _tensors(owner: NodeTypeInfo, name: str) -> list[Any]:
    return [t for t in owner["tensors"] if t["name"] != name and not _belongs(t["name"], name)]


def _belongs(tensor: str, name: str) -> bool:
    return tensor.startswith(tuple(f"{name}_{rule}" for rule in ("adagrad", "adam", "sgd")))


class Embeddings:
    """One `StoreEmbedding` for each node type without features.

    Args:
        store: The open store, which is written to.
        config: The settings.
        saved: The training state that the run goes on from, or is measured with; None is a new run.

    Raises:
        UnsupportedArgument: The store is read-only, or a new run finds rows that are there.
        StateMismatch: The training state is of a run without embeddings.
    """

    def __init__(self, store: Store, config: TrainConfig, saved: dict[str, Any] | None) -> None:
        self._config = config
        self._is_typed = not store.schema.is_homogeneous
        owners = [store.schema.node_type(name) for name in without_features(store.schema)]
        found = self._check(store, owners, saved)
        self._rows = {
            owner.name: StoreEmbedding(
                store,
                config.embedding,
                owner.name,
                config.embedding_name,
                config.embedding_optimizer,  # type: ignore[arg-type]
                config.embedding_lr,
                # Equal rows of a user and an item would make them alike from the start.
                seed=config.seed + number,
                memory=config.embedding_memory,
            )
            for number, owner in enumerate(owners)
        }
        self._rates = {name: rows.lr for name, rows in self._rows.items()}
        for owner in found:
            if not self._rows[owner.name].is_untrained():
                raise self._not_ours(store.path, owner)
        for owner in found:
            self._rows[owner.name].begin_anew()

    def _check(
        self, store: Store, owners: list[NodeType], saved: dict[str, Any] | None
    ) -> list[NodeType]:
        """The node types that a new run finds rows of, which may be left from a start that failed
        before its first step; refuses rows that are none of those."""
        if saved is not None:
            self._check_there(store.path, owners)
            return []
        if store.read_only_because is not None:
            raise UnsupportedArgument(
                f"{store.path}: embedding= writes rows to the store, which is read-only: "
                f"{store.read_only_because}; train on a copy that can be written to"
            )
        config, name = self._config, self._config.embedding_name
        mine = [f"{name}_{config.embedding_optimizer}{part}" for part in ("_step", "_undo")]
        found = []
        for owner in owners:
            widths = {t.name: t.shape[-1:] for t in owner.tensors}
            parts = [other for other in widths if _belongs(other, name)]
            is_whole = set(mine) <= set(parts) and widths.get(name) == (config.embedding,)
            if name in widths and not is_whole:
                raise self._not_ours(store.path, owner)
            # Without rows nothing was learned yet; the others have to be as wide as they will be.
            if any(widths[p] != (config.embedding,) for p in parts if not p.endswith("_step")):
                raise self._not_ours(store.path, owner)
            found += [owner] if name in widths else []
        return found

    def _not_ours(self, path: str, owner: NodeType) -> UnsupportedArgument:
        name = self._config.embedding_name
        return UnsupportedArgument(
            f"{path}: {owner.name!r} has a tensor {name!r}, or what belongs to it, whose rows this "
            "run did not make; give another embedding_name to learn rows, or go on with the run "
            "that made them. Rows of a start that failed before its first step are taken over by "
            "a run of the same embedding=, embedding_optimizer= and seed="
        )

    def _check_there(self, path: str, owners: list[NodeType]) -> None:
        """Refuses a store that lacks what a training state has learned; nothing is made anew."""
        name = self._config.embedding_name
        for wanted in (name, f"{name}_{self._config.embedding_optimizer}_step"):
            for owner in owners:
                if all(tensor.name != wanted for tensor in owner.tensors):
                    raise StateMismatch(
                        f"{path}: nodes of {owner.name!r} have no tensor {wanted!r}, which the run "
                        "of the training state has learned; use the store of that run"
                    )

    @property
    def note(self) -> str:
        """What is learned, in words."""
        width = f"{self._config.embedding} numbers for each node"
        names = ", ".join(self._rows)
        return f"learned in {self._config.embedding_name!r} of the store: {width} of {names}"

    def inputs(self, batch: Any) -> Any:
        """The newest rows of the nodes of a batch: [n, d], or by node type."""
        if isinstance(batch, HeteroData):
            return {name: rows(batch[name].n_id) for name, rows in self._rows.items()}
        (rows,) = self._rows.values()
        found: Tensor = rows(batch.n_id)
        return found

    def zero_grad(self) -> None:
        """Forgets the gradients of all rows."""
        for rows in self._rows.values():
            rows.zero_grad()

    def step(self, share: float) -> None:
        """One step of the optimiser of rows, at a share of its learning rate."""
        for name, rows in self._rows.items():
            rows.lr = self._rates[name] * share
            rows.step()

    def flush(self) -> None:
        """Writes all changed rows."""
        for rows in self._rows.values():
            rows.flush()

    def state(self) -> dict[str, Any]:
        """What a training state keeps: plain data, no rows."""
        return {name: rows.state_dict() for name, rows in self._rows.items()}

    def go_back(self, state: dict[str, Any]) -> None:
        """Gives the rows of a training state back, which may be older than those of the store."""
        for name, rows in self._rows.items():
            rows.load_state_dict(state[name])

    def check_same(self, state: dict[str, Any], path: str) -> None:
        """Refuses a training state whose rows the store does not have now.

        Raises:
            StateMismatch: The run went on since, or another one trained the rows.
        """
        for name, rows in self._rows.items():
            rows.check_identity(state[name])
            if rows.steps != state[name]["step"]:
                raise StateMismatch(
                    f"{path}: rows of {name!r} stand at step {rows.steps:,}, and the training "
                    f"state is of step {state[name]['step']:,}; go on with its run first"
                )
