"""Creation of the task of a run. Combinations that are not valid fail before anything is read."""

import torch

from neargraph.exceptions import UnsupportedArgument
from neargraph.store import Store

from .config import TrainConfig
from .models import check_combination
from .tasks import GraphTask, LinkTask, NodeTask, Resident, Task


def make_task(
    store: Store,
    config: TrainConfig,
    in_memory: bool = False,
    device: torch.device | None = None,
) -> Task:
    """Returns the task of a run on a store.

    Raises:
        UnsupportedArgument: The settings do not fit the store or each other.
        NameNotFound: A tensor, type or split is missing.
    """
    check_combination(config, store.schema, store.path)
    if in_memory and config.task != "node":
        raise UnsupportedArgument(
            f"in_memory=True supports only the task 'node', not {config.task!r}; leave "
            "out in_memory="
        )
    if in_memory and config.embedding:
        raise UnsupportedArgument(
            "in_memory=True does not support learned rows (embedding=); leave in_memory= or "
            "embedding= out"
        )
    if config.task == "graph":
        return GraphTask(store, config, device)
    if config.task == "link":
        return LinkTask(store, config, device)
    return NodeTask(store, config, Resident(store) if in_memory else None, device)
