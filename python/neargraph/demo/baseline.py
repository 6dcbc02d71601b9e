"""What the features alone are worth: multinomial logistic regression on the same split."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from neargraph.store import Store

_CHUNK_ROWS = 2048
_STEPS = 300
_CHECK_EVERY = 20


def logistic_accuracy(store: Store, num_classes: int, seed: int = 0) -> float:
    """Test accuracy of the step with the best validation accuracy, 0 to 1.

    Features are read in chunks and kept sparse; 300 full-batch steps of Adam.
    """
    torch.manual_seed(seed)
    parts = {name: _sparse_rows(store, name) for name in ("train", "val", "test")}
    x, y = parts["train"]
    weight = torch.zeros(x.size(1), num_classes, requires_grad=True)
    bias = torch.zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.05, weight_decay=1e-5)
    best, test = -1.0, 0.0
    for step in range(1, _STEPS + 1):
        optimizer.zero_grad()
        loss = functional.cross_entropy(torch.sparse.mm(x, weight) + bias, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % _CHECK_EVERY == 0:
            val = _accuracy(parts["val"], weight, bias)
            if val > best:
                best, test = val, _accuracy(parts["test"], weight, bias)
    return test


@torch.no_grad()
def _accuracy(part: tuple[Tensor, Tensor], weight: Tensor, bias: Tensor) -> float:
    x, y = part
    guess = (torch.sparse.mm(x, weight) + bias).argmax(dim=1)
    return float((guess == y).to(torch.float32).mean())


def _sparse_rows(store: Store, split: str) -> tuple[Tensor, Tensor]:
    """(features as a sparse matrix, classes) of the labelled nodes of a split."""
    ids = store.split(split)
    snapshot = store.snapshot()
    labels = np.asarray(snapshot.features(None, ids, "y"), dtype=np.int64).reshape(-1)
    ids, labels = ids[labels >= 0], labels[labels >= 0]
    rows, columns, values, width = [], [], [], 0
    for first in range(0, len(ids), _CHUNK_ROWS):
        dense = snapshot.features(None, ids[first : first + _CHUNK_ROWS], "x")
        row, column = np.nonzero(dense)
        rows.append(row + first)
        columns.append(column)
        values.append(dense[row, column].astype(np.float32))
        width = dense.shape[1]
    index = torch.from_numpy(np.stack([np.concatenate(rows), np.concatenate(columns)]))
    matrix = torch.sparse_coo_tensor(
        index, torch.from_numpy(np.concatenate(values)), (len(ids), width), check_invariants=False
    )
    return matrix.coalesce(), torch.from_numpy(labels)
