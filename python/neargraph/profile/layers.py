"""How long the parts of PyG's layers take: linear, message, aggregate, update.

Parts are wrapped where they are called, so the layers are PyG's own. The invariant: what runs
inside a part counts as that part, so times add up to at most that of the whole step.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

PARTS = ("linear", "message", "aggregate", "update")

# What a layer calls on itself, and the part that it counts as: the first two fetch the rows of
# sources for messages, and a fused product is message and aggregate at once.
_CALLS = {
    "_index_select": "message",
    "_lift": "message",
    "message": "message",
    "aggregate": "aggregate",
    "message_and_aggregate": "aggregate",
    "update": "update",
}


class LayerClock:
    """Times the layers of a model, forward; on a GPU it waits for each part, which costs time.

    Args:
        model: A model with ``convs``, of `SAGEConv` or `GCNConv`.
        device: Where it computes.

    Attributes:
        seconds: By part, since the clock was made.
    """

    def __init__(self, model: Any, device: torch.device | None = None) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._is_running = False
        self._wait: Callable[[], None] = lambda: None
        if device is not None and device.type == "cuda":
            self._wait = lambda: torch.cuda.synchronize(device)
        for conv in model.convs:
            for name, part in _CALLS.items():
                setattr(conv, name, self._timed(part, getattr(conv, name)))
            for child in conv.children():
                if hasattr(child, "in_channels") and hasattr(child, "weight"):
                    child.forward = self._timed("linear", child.forward)

    def _timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
                return call(*args, **kwargs)
            self._is_running = True
            self._wait()
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self._wait()
                self.seconds[part] += time.perf_counter() - start
                self._is_running = False

        return run
