"""Measures what the loader adds to a process: run as a process of its own, without torch.

Prints JSON: anonymous resident bytes before `open`, their peak while one epoch of training batches
is read, and the peak of the budget counter. Anonymous memory is what a program allocates; pages of
files that the kernel caches are not in it.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

_EVERY_SECONDS = 0.002


def anonymous_bytes() -> int:
    """`RssAnon` of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """Samples `RssAnon` every 2 ms in a thread; the largest value seen."""

    def __init__(self) -> None:
        self.most_bytes = anonymous_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self.most_bytes = max(self.most_bytes, anonymous_bytes())

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.most_bytes = max(self.most_bytes, anonymous_bytes())


def measure(
    path: str, memory: str, fanouts: list[int], batch_size: int, seed: int
) -> dict[str, Any]:
    """Reads one epoch of training batches and returns the figures, in bytes."""
    import neargraph as ng

    # Everything that importing allocates belongs to the time before `open`.
    sampler_class, open_store = ng.NumpySampler, ng.open
    before = anonymous_bytes()
    with Peak() as peak, open_store(path, memory=memory) as store:
        sampler = sampler_class(store, fanouts, seed=seed, attrs=["x", "y"])
        batches = 0
        for batch in sampler.batches("train", batch_size, shuffle=True):
            # As the training loop does: a batch is dropped before the next one is asked for.
            del batch
            batches += 1
        stats = store.stats()
    return {
        "before_bytes": before,
        "peak_bytes": peak.most_bytes,
        "added_bytes": peak.most_bytes - before,
        "budget_peak_bytes": int(stats["budget_peak"]),
        "batches": batches,
        "torch_loaded": "torch" in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
