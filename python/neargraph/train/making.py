"""Which task a run has; what does not go together is refused here, before anything is read."""

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
    """The task of a run on a store.

    Raises:
        UnsupportedArgument: Settings and store do not go together.
        NameNotFound: A tensor, type or split is missing.
    """
    check_combination(config, store.schema, store.path)
    if in_memory and config.task != "node":
        raise UnsupportedArgument(
            f"in_memory=True is for the task node, and the task is {config.task}; leave it out"
        )
    if in_memory and config.embedding:
        raise UnsupportedArgument(
            "in_memory=True holds features of the store, and embedding learns them; leave one out"
        )
    if config.task == "graph":
        return GraphTask(store, config, device)
    if config.task == "link":
        return LinkTask(store, config, device)
    return NodeTask(store, config, Resident(store) if in_memory else None, device)
