"""Learned rows for nodes without features, kept in the store: larger than memory, crash-safe.

Rows are read by id, changed where a batch had a gradient, and written back through the log of the
store. What must not live here: how rows are changed (`row_rules.py`), where they wait
(`changed_rows.py`), and how they are stored (`embedding_tensors.py`). The invariant: the embedding
gives the newest row of a node, written or not.
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

    Only rows that had a gradient change, as with ``torch.nn.Embedding(sparse=True)`` and torch's
    sparse optimisers; their state is a tensor of the store, too. Changed rows wait in memory until
    `flush`, which also happens by itself when they take ``memory`` bytes, or every ``flush_steps``
    steps. A crash loses what was not flushed.

    Loaders stay at the commit that they were made at, so their batches have old rows: leave the
    tensors of the embedding out of ``attrs``, and ask the embedding.

    Args:
        store: The open store. This handle becomes its writer.
        dim: Width of the rows.
        node_type: Whose nodes; may be left out if there is one type.
        name: The tensor. It is created if it is missing, with rows from a normal distribution.
            Nodes that are added later begin with zeros. Beside it there are
            ``{name}_{optimizer}`` (state), ``..._step`` and ``..._undo``.
        optimizer: ``"adagrad"``, ``"adam"`` (torch's SparseAdam) or ``"sgd"``.
        lr: Its learning rate; None is that of torch: 0.01, for Adam 0.001.
        std: Standard deviation of initial rows.
        seed: Seed of initial rows. A row depends on it and on its id alone.
        memory: What changed rows may take: bytes or a text such as ``"64MB"``. It is not part of
            the store's memory.
        flush_steps: Write after so many steps; 0 writes when ``memory`` is full.
        undo: Keep in the store what rows were at the last `state_dict`, so that a run can go back
            to its training state after a crash. It takes as much of the disk as rows and state.
        **settings: ``eps`` of Adagrad; ``beta1``, ``beta2``, ``eps`` of Adam.

    Raises:
        UnsupportedArgument: A tensor of this name has another width or dtype; no such optimiser or
            setting.
        NameNotFound: No such node type.
        BudgetTooSmall: ``memory`` does not hold one row.
        StoreBusy: Another process or handle writes, or a transaction of this thread is open.

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
                f"dim must be 1 or more, flush_steps, std and seed not negative; got {dim}, "
                f"{flush_steps}, {std} and {seed}"
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
        # What is in the store now is where a run begins.
        self._step = self._base = self._tensors.last_step

    def is_untrained(self) -> bool:
        """Whether no step ever changed a row, and all rows are the initial ones of ``seed``, such
        as those of a run that was killed before its first step."""
        return self._step == 0 and self._tensors.is_untrained()

    def begin_anew(self) -> None:
        """Takes over rows of another run that are untrained; its training states are refused
        then."""
        self._tensors.begin_anew()

    @property
    def steps(self) -> int:
        """Steps of the optimiser so far, those of earlier runs included."""
        return self._step

    @property
    def lr(self) -> float:
        """The learning rate; it may be set between steps."""
        return self._rule.lr

    @lr.setter
    def lr(self, value: float) -> None:
        settings = {**self._rule.plain(), "lr": value}
        self._rule = row_rule(settings.pop("name"), settings)

    @property
    def changed_bytes(self) -> int:
        """Memory of the rows that wait to be written; never more than ``memory``."""
        return self._changed.nbytes

    @property
    def changed_rows(self) -> int:
        """How many rows wait to be written."""
        return len(self._changed)

    def __call__(self, n_id: Tensor) -> Tensor:
        """The newest rows of nodes, float32 [n, dim], on the device of the ids.

        Where gradients are enabled, they are collected, and rows wait for `step` or `zero_grad`;
        evaluate under `torch.no_grad`.

        Args:
            n_id: Node ids, int64 [n]; an id may be there several times.

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
        """Forgets rows that were given out since the last step, and their gradients."""
        self._waiting.clear()

    @torch.no_grad()
    def step(self) -> None:
        """One step of the optimiser on all rows that have a gradient.

        Raises:
            UnsupportedArgument: This is another process than the one that made the embedding.
            IoFailed: Rows had to be written, and the disk is full or failed.
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
        """Writes all changed rows, durably, and returns the newest commit of the store.

        A crash on the way leaves some rows written, each with its state.

        Raises:
            StoreBusy: Another process writes, or a transaction of this thread is open.
            IoFailed: The disk is full or failed; the rows go on waiting.
        """
        self._check_process()
        ids, step = self._changed.ids, 1 << 16
        for first in range(0, len(ids), step):
            rows = self._changed.rows(first, first + step)
            self._tensors.write(ids[first : first + step], rows, self._step, self._base)
        self._changed.clear()
        return self._store.lsn

    def state_dict(self) -> dict[str, Any]:
        """Flushes, and returns what a training state of the run has to keep: plain data, no rows.

        The rows stay in the store. From now on each row that is written keeps what it was at this
        moment, until the next `state_dict`. Save the dictionary, with the model, before the next
        step.
        """
        lsn = self.flush()
        self._base = self._step
        return {**self._identity(), "step": self._step, "lsn": lsn}

    def load_state_dict(self, state: dict[str, Any]) -> int:
        """Goes back to the rows of a training state, the last one of this embedding.

        Rows that were written after it get their undo rows back; steps that were not flushed are
        lost. The learning rate is that of this object.

        Returns:
            How many rows went back.

        Raises:
            StateMismatch: The training state is of another embedding, or not the last one.
        """
        self.check_identity(state)
        if state["lsn"] > self._store.lsn:
            raise StateMismatch(
                f"the training state was written at commit {state['lsn']}, and {self._store.path} "
                f"is at {self._store.lsn}: it is an older copy of the store, or another one"
            )
        self._changed.clear()
        self._waiting.clear()
        count = self._tensors.restore(state["step"])
        self._step = self._base = int(state["step"])
        return count

    def check_identity(self, state: dict[str, Any]) -> None:
        """Refuses what `state_dict` gave of other rows, such as those of another run.

        Raises:
            StateMismatch: The training state is of another embedding.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise StateMismatch(
                    f"{self._store.path}: the training state is of an embedding with "
                    f"{name}={state.get(name)!r}, this one has {value!r}; use the store of its run"
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
                "an embedding is written by the process that made it: call step and flush there"
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
                "flush before the last reference goes",
                ResourceWarning,
                stacklevel=2,
            )
