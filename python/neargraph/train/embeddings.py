"""Learned rows for nodes without features, in the store that a run trains on.

`neargraph.nn.StoreEmbedding` changes and writes rows; that must not live here. The invariant: a run
begins with its own rows, and resumes with exactly those of its training state. Rows of another run
are never trained or evaluated.
"""

import json
from hashlib import blake2b
from typing import Any

from torch import Tensor
from torch_geometric.data import HeteroData

from neargraph.exceptions import BudgetTooSmall, StateMismatch, UnsupportedArgument
from neargraph.nn import StoreEmbedding
from neargraph.reports import NodeTypeInfo
from neargraph.schema import NodeType, Schema
from neargraph.store import Store

from .config import TrainConfig


def without_features(schema: Schema) -> list[str]:
    """Returns the names of the node types without ``x``."""
    return [t.name for t in schema.node_types if all(m.name != "x" for m in t.tensors)]


def widths_of(schema: Schema, config: TrainConfig) -> dict[str, int]:
    """Returns the number of features per node type, stored or learned; 0 if there are none."""
    found = {t.name: [m.num_columns for m in t.tensors if m.name == "x"] for t in schema.node_types}
    return {name: widths[0] if widths else config.embedding for name, widths in found.items()}


def content_of(store: Store, config: TrainConfig) -> str:
    """Returns the digest by which a training state identifies its store.

    It is the fingerprint. Training with embeddings writes to the store, so then it is a digest of
    the types, counts and tensors, without those of the embeddings.
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
        store: The open store. Rows are written to it.
        config: The settings.
        saved: The training state to resume or evaluate. None: a new run.

    Raises:
        UnsupportedArgument: The store is read-only, or it has rows of another run.
        StateMismatch: The store lacks the rows of the training state.
    """

    def __init__(self, store: Store, config: TrainConfig, saved: dict[str, Any] | None) -> None:
        self._config = config
        self._is_typed = not store.schema.is_homogeneous
        owners = [store.schema.node_type(name) for name in without_features(store.schema)]
        found = self._check(store, owners, saved)
        self._rows = {
            owner.name: self._opened(store, owner.name, number)
            for number, owner in enumerate(owners)
        }
        self._rates = {name: rows.lr for name, rows in self._rows.items()}
        for owner in found:
            if not self._rows[owner.name].is_untrained():
                raise self._not_ours(store.path, owner)
        for owner in found:
            self._rows[owner.name].begin_anew()

    def _opened(self, store: Store, owner: str, number: int) -> StoreEmbedding:
        config = self._config
        try:
            return StoreEmbedding(
                store,
                config.embedding,
                owner,
                config.embedding_name,
                config.embedding_optimizer,
                config.embedding_lr,
                # Equal rows of a user and an item would make them alike from the start.
                seed=config.seed + number,
                memory=config.embedding_memory,
            )
        except BudgetTooSmall as error:
            raise ValueError(
                f"embedding_memory={config.embedding_memory!r} is not valid: expected at least "
                f"{error.minimum_bytes} bytes, the size of one row with its optimiser state"
            ) from None

    def _check(
        self, store: Store, owners: list[NodeType], saved: dict[str, Any] | None
    ) -> list[NodeType]:
        """Returns the node types with rows that a start which failed before its first step may have
        left. Rejects other rows."""
        if saved is not None:
            self._check_there(store.path, owners)
            return []
        if store.read_only_because is not None:
            raise UnsupportedArgument(
                f"{store.path}: embedding= writes rows to the store, which is read-only: "
                f"{store.read_only_because}; train on a writable copy"
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
            # Without rows nothing was learned yet, but other parts must already have the width.
            if any(widths[p] != (config.embedding,) for p in parts if not p.endswith("_step")):
                raise self._not_ours(store.path, owner)
            found += [owner] if name in widths else []
        return found

    def _not_ours(self, path: str, owner: NodeType) -> UnsupportedArgument:
        name = self._config.embedding_name
        return UnsupportedArgument(
            f"{path}: node type {owner.name!r} already has the tensor {name!r}, or a tensor of "
            "its optimiser, from another run or an import; give another embedding_name=, or "
            "resume that run. If that run failed before its first step, a run with the same "
            "embedding=, embedding_optimizer= and seed= reuses the rows"
        )

    def _check_there(self, path: str, owners: list[NodeType]) -> None:
        """Rejects a store that lacks the rows of a training state."""
        name = self._config.embedding_name
        for wanted in (name, f"{name}_{self._config.embedding_optimizer}_step"):
            for owner in owners:
                if all(tensor.name != wanted for tensor in owner.tensors):
                    raise StateMismatch(
                        f"{path}: the training state needs learned rows, but node type "
                        f"{owner.name!r} of this store has no tensor {wanted!r}; use the store "
                        "to which that training run wrote its rows"
                    )

    @property
    def note(self) -> str:
        """A note on the learned rows, for the user."""
        width, names = self._config.embedding, ", ".join(self._rows)
        tensor = self._config.embedding_name
        return (
            f"learned rows: {width} numbers per node of {names}, in the tensor {tensor!r} of the "
            "store"
        )

    def inputs(self, batch: Any) -> Any:
        """Returns the current rows of the nodes of a batch: [n, d], or by node type."""
        if isinstance(batch, HeteroData):
            return {name: rows(batch[name].n_id) for name, rows in self._rows.items()}
        (rows,) = self._rows.values()
        found: Tensor = rows(batch.n_id)
        return found

    def zero_grad(self) -> None:
        """Clears the gradients of all rows."""
        for rows in self._rows.values():
            rows.zero_grad()

    def step(self, share: float) -> None:
        """Makes one optimiser step, with the learning rate times `share`."""
        for name, rows in self._rows.items():
            rows.lr = self._rates[name] * share
            rows.step()

    def flush(self) -> None:
        """Writes all changed rows."""
        for rows in self._rows.values():
            rows.flush()

    def state(self) -> dict[str, Any]:
        """Returns plain data for a training state. The rows stay in the store."""
        return {name: rows.state_dict() for name, rows in self._rows.items()}

    def go_back(self, state: dict[str, Any]) -> None:
        """Restores the rows of a training state, which may be older than those in the store."""
        for name, rows in self._rows.items():
            rows.load_state_dict(state[name])

    def check_same(self, state: dict[str, Any], path: str) -> None:
        """Rejects a training state whose rows are not the current rows of the store.

        Raises:
            StateMismatch: The run or another run has trained the rows since.
        """
        for name, rows in self._rows.items():
            rows.check_identity(state[name])
            if rows.steps != state[name]["step"]:
                raise StateMismatch(
                    f"{path}: the learned rows of node type {name!r} are at step {rows.steps:,}, "
                    f"but the training state is from step {state[name]['step']:,}; resume the "
                    "run of this training state first"
                )
