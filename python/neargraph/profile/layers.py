"""Times the parts of PyG's layers: linear, message, aggregate, update.

Methods of the layers are wrapped, so PyG's own code runs. The invariant: calls inside a part count
as that part, so the times add up to at most the time of the step.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

PARTS = ("linear", "message", "aggregate", "update")

# The methods of a layer, and the parts that they count as. The first two fetch the rows of sources
# for messages. A fused product is message and aggregate at once.
_CALLS = {
    "_index_select": "message",
    "_lift": "message",
    "message": "message",
    "aggregate": "aggregate",
    "message_and_aggregate": "aggregate",
    "update": "update",
}


class LayerClock:
    """Times the forward pass of a model's layers.

    On a GPU, the clock waits for the end of each part, which slows the model down.

    Args:
        model: A model with ``convs``, a list of `SAGEConv` or `GCNConv`.
        device: The device of the model.

    Attributes:
        seconds: Seconds by part since the clock was created.
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
