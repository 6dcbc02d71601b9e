"""Learned rows for nodes without features, in the store: larger than memory, crash-safe.

Rows are read by id, changed by the gradients of batches, and written through the log of the store.
Updating rows (`row_rules.py`), caching changed rows (`changed_rows.py`) and storing them
(`embedding_tensors.py`) must not live here. The invariant: the embedding returns the newest row of
a node, written or not.
"""

import os
import warnings
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neargraph.exceptions import StateMismatch, UnsupportedArgument
from neargraph.reader import as_ids
from neargraph.store import Store
from neargraph.units import parse_bytes

from .changed_rows import ChangedRows
from .embedding_tensors import EmbeddingTensors
from .row_rules import row_rule


class StoreEmbedding:
    """An embedding of the nodes of a type, in a tensor of the store, with its optimiser.

    Only rows with a gradient change, as with ``torch.nn.Embedding(sparse=True)`` and torch's sparse
    optimisers. The state of the optimiser is a tensor of the store, too. Changed rows stay in
    memory until `flush`. The embedding also flushes when they exceed ``memory`` bytes, and every
    ``flush_steps`` steps. A crash loses the rows that were not flushed.

    A loader is pinned to the commit that was current when it was created, so its batches have old
    rows. Leave the tensors of the embedding out of ``attrs``, and call the embedding.

    Args:
        store: The open store. This handle becomes its writer.
        dim: Width of the rows.
        node_type: The node type. None: the only one.
        name: Name of the tensor. If it does not exist, it is created with rows from a normal
            distribution. Nodes that are added later start with rows of zeros. Further tensors are
            ``{name}_{optimizer}`` (state), ``..._step`` and ``..._undo``.
        optimizer: ``"adagrad"``, ``"adam"`` (torch's SparseAdam) or ``"sgd"``.
        lr: Learning rate. None: that of torch, 0.01, or 0.001 for Adam.
        std: Standard deviation of initial rows.
        seed: Random seed of initial rows. A row depends only on the seed and its id.
        memory: Memory for changed rows, in bytes or such as ``"64MB"``. It is not part of the
            store's budget.
        flush_steps: Number of steps between flushes. 0: flush only when ``memory`` is full.
        undo: Whether to keep the rows of the last `state_dict` in the store, so that a run can
            resume from its training state after a crash. They take as much disk space as rows and
            state.
        **settings: ``eps`` of Adagrad; ``beta1``, ``beta2``, ``eps`` of Adam.

    Raises:
        UnsupportedArgument: A tensor of this name has another width or dtype, or the optimiser or a
            setting does not exist.
        NameNotFound: The node type does not exist.
        BudgetTooSmall: ``memory`` is too small for one row.
        StoreBusy: Another process or handle writes, or this thread has an open transaction.

    Example:
        >>> emb = StoreEmbedding(store, 64, lr=0.1)                       # doctest: +SKIP
        >>> for batch in loader:                                          # doctest: +SKIP
        ...     out = model(emb(batch.n_id), batch.edge_index)
        ...     loss(out, batch).backward()
        ...     emb.step()
        >>> emb.flush()                                                   # doctest: +SKIP
    """

    def __init__(
        self,
        store: Store,
        dim: int,
        node_type: str | None = None,
        name: str = "emb",
        optimizer: Literal["adagrad", "adam", "sgd"] = "adagrad",
        lr: float | None = None,
        *,
        std: float = 0.1,
        seed: int = 0,
        memory: str | int = "64MB",
        flush_steps: int = 0,
        undo: bool = True,
        **settings: Any,
    ) -> None:
        if dim < 1 or flush_steps < 0 or std < 0 or seed < 0:
            raise UnsupportedArgument(
                f"dim={dim}, flush_steps={flush_steps}, std={std} and seed={seed} are not valid: "
                "expected dim= of 1 or more, and the others of 0 or more"
            )
        if lr is not None:
            settings["lr"] = lr
        self._rule = row_rule(optimizer, settings)
        slots = 1 + self._rule.slots
        self._changed = ChangedRows(parse_bytes(memory), slots, dim)
        self._tensors = EmbeddingTensors(
            store, node_type, name, optimizer, slots, dim, std, seed, undo
        )
        self._store, self._name, self._flush_steps = store, name, flush_steps
        self.dim, self.node_type = dim, self._tensors.node_type
        self._waiting: list[tuple[NDArray[np.int64], Tensor]] = []
        self._process = os.getpid()
        # A run begins at the rows that are in the store now.
        self._step = self._base = self._tensors.last_step

    def is_untrained(self) -> bool:
        """Whether no step has changed a row, and all rows are the initial ones of ``seed``, as
        after a run that was killed before its first step."""
        return self._step == 0 and self._tensors.is_untrained()

    def begin_anew(self) -> None:
        """Takes over untrained rows of another run, whose training states are no longer valid."""
        self._tensors.begin_anew()

    @property
    def steps(self) -> int:
        """Number of optimiser steps so far, including those before a resume."""
        return self._step

    @property
    def lr(self) -> float:
        """The learning rate. It can be set between steps."""
        return self._rule.lr

    @lr.setter
    def lr(self, value: float) -> None:
        settings = {**self._rule.plain(), "lr": value}
        self._rule = row_rule(settings.pop("name"), settings)

    @property
    def changed_bytes(self) -> int:
        """Memory of changed rows, in bytes; at most ``memory``."""
        return self._changed.nbytes

    @property
    def changed_rows(self) -> int:
        """Number of changed rows that are not yet written."""
        return len(self._changed)

    def __call__(self, n_id: Tensor) -> Tensor:
        """Returns the newest rows of nodes, float32 [n, dim], on the device of the ids.

        If gradients are enabled, the rows are kept for `step` or `zero_grad`. Evaluate under
        `torch.no_grad`.

        Args:
            n_id: Node ids, int64 [n]. Ids may repeat.

        Raises:
            NodeOutOfRange: An id is out of range.
        """
        ids = as_ids(n_id.detach().cpu())
        if not torch.is_grad_enabled():
            return torch.from_numpy(self._newest(ids)).to(n_id.device)
        unique, inverse = np.unique(ids, return_inverse=True)
        is_unique = len(unique) == len(ids)
        wanted = ids if is_unique else unique
        leaf = torch.from_numpy(self._newest(wanted)).to(n_id.device).requires_grad_()
        self._waiting.append((wanted, leaf))
        if is_unique:
            return leaf
        return leaf.index_select(0, torch.from_numpy(inverse).to(n_id.device))

    def _newest(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        here, changed = self._changed.find(ids)
        rows = np.empty((len(ids), self.dim), np.float32)
        rows[here] = changed[:, 0]
        rows[~here] = self._tensors.rows(ids[~here])
        return rows

    def zero_grad(self) -> None:
        """Discards the rows returned since the last step, with their gradients."""
        self._waiting.clear()

    @torch.no_grad()
    def step(self) -> None:
        """Makes one optimiser step on all rows with a gradient.

        Raises:
            UnsupportedArgument: Another process created the embedding.
            IoFailed: Rows could not be written, because the disk is full or failed.
        """
        self._check_process()
        found = [(ids, leaf.grad) for ids, leaf in self._waiting if leaf.grad is not None]
        self._waiting.clear()
        if not found:
            return
        every = np.concatenate([ids for ids, _ in found])
        ids, inverse = np.unique(every, return_inverse=True)
        given = torch.cat([grad.cpu() for _, grad in found if grad is not None])
        grad = torch.zeros(len(ids), self.dim)
        grad.index_add_(0, torch.from_numpy(inverse), given)
        self._step += 1
        here, changed = self._changed.find(ids)
        table = np.empty((len(ids), 1 + self._rule.slots, self.dim), np.float32)
        table[here], table[~here] = changed, self._tensors.table(ids[~here])
        rows = torch.from_numpy(table)
        self._rule.update(rows[:, 0], rows[:, 1:], grad, self._step)
        if not self._changed.put(ids, table):
            self.flush()
            if not self._changed.put(ids, table):
                self._tensors.write(ids, table, self._step, self._base)
        if self._flush_steps and self._step % self._flush_steps == 0:
            self.flush()

    def flush(self) -> int:
        """Writes all changed rows durably, and returns the number of the newest commit.

        After a crash during the call, some rows are written, each with its state.

        Raises:
            StoreBusy: Another process writes, or this thread has an open transaction.
            IoFailed: The disk is full or failed. The rows stay in memory.
        """
        self._check_process()
        ids, step = self._changed.ids, 1 << 16
        for first in range(0, len(ids), step):
            rows = self._changed.rows(first, first + step)
            self._tensors.write(ids[first : first + step], rows, self._step, self._base)
        self._changed.clear()
        return self._store.lsn

    def state_dict(self) -> dict[str, Any]:
        """Flushes, and returns plain data for a training state of the run.

        The rows stay in the store. Until the next `state_dict`, each row that is written also keeps
        its present value. Save the dictionary with the model before the next step.
        """
        lsn = self.flush()
        self._base = self._step
        return {**self._identity(), "step": self._step, "lsn": lsn}

    def load_state_dict(self, state: dict[str, Any]) -> int:
        """Restores the rows of the last training state of this embedding.

        Rows that were written after it get the values of their undo rows. Steps that were not
        flushed are lost. The learning rate of this object does not change.

        Returns:
            The number of restored rows.

        Raises:
            StateMismatch: The training state belongs to another embedding, or is not the last one.
        """
        self.check_identity(state)
        if state["lsn"] > self._store.lsn:
            raise StateMismatch(
                f"the training state was written at commit {state['lsn']}, but "
                f"{self._store.path} is at commit {self._store.lsn}: this store is an older "
                "copy, or another store; use the store that the training run has written"
            )
        self._changed.clear()
        self._waiting.clear()
        count = self._tensors.restore(state["step"])
        self._step = self._base = int(state["step"])
        return count

    def check_identity(self, state: dict[str, Any]) -> None:
        """Checks that a result of `state_dict` belongs to this embedding.

        Raises:
            StateMismatch: The training state belongs to another embedding or run.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise StateMismatch(
                    f"{self._store.path}: the training state belongs to an embedding with "
                    f"{name}={state.get(name)!r}, but this embedding has {name}={value!r}; use "
                    "the store of the run that saved the training state"
                )

    def _identity(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "node_type": self.node_type,
            "dim": self.dim,
            "optimizer": self._rule.name,
            "run": self._tensors.number,
        }

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise UnsupportedArgument(
                "only the process that created an embedding can write its rows: call step() and "
                "flush() in that process"
            )

    def __repr__(self) -> str:
        return (
            f"StoreEmbedding({self._store.path!r}, {self._name!r}, dim={self.dim}, "
            f"optimizer={self._rule!r}, steps={self._step}, changed_rows={len(self._changed)})"
        )

    def __del__(self) -> None:
        changed = getattr(self, "_changed", None)
        if changed is not None and len(changed) and os.getpid() == self._process:
            warnings.warn(
                f"{len(changed)} changed rows of embedding {self._name!r} were not written: call "
                "flush() before you drop the embedding",
                ResourceWarning,
                stacklevel=2,
            )
