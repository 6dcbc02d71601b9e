"""Measures the anonymous memory of a process, and the part that the loader adds.

Anonymous memory is memory that a program allocates, without cached pages of files.
Run as a program, without torch, this module reads training batches and prints JSON: resident
anonymous bytes before `open`, their peak while batches are read, and the peak of the budget
counter.
"""

import json
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any


def anonymous_bytes(process: str = "self") -> int:
    """`RssAnon` of a process in bytes, or 0 after it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def mapped_bytes(file: str) -> int:
    """Resident bytes of the mappings of a file in this process."""
    wanted, total, is_mapping = str(Path(file).resolve()), 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if "-" in fields[0] and not fields[0].endswith(":"):
            is_mapping = len(fields) == 6 and fields[5] == wanted
        elif is_mapping and fields[0] == "Rss:":
            total += int(fields[1]) * 1024
    return total


class Peak:
    """The largest `RssAnon` of a process, sampled by a thread."""

    def __init__(self, process: str = "self", every_seconds: float = 0.002) -> None:
        self._process, self._every = process, every_seconds
        self.most_bytes = anonymous_bytes(process)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _sample(self) -> None:
        self.most_bytes = max(self.most_bytes, anonymous_bytes(self._process))

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self._sample()

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()


def measure(
    path: str, memory: int, fanouts: list[int], batch_size: int, seed: int, most: int
) -> dict[str, Any]:
    """Reads `most` training batches, at most one epoch. Returns the figures in bytes."""
    import neargraph as ng

    # Imported before the first measurement, so that it counts as memory before `open`.
    sampler_class, open_store = ng.NumpySampler, ng.open
    before = anonymous_bytes()
    with Peak() as peak, open_store(path, memory=memory) as store:
        sampler = sampler_class(store, fanouts, seed=seed, attrs=["x", "y"])
        batches = 0
        for batch in islice(sampler.batches("train", batch_size, shuffle=True), most):
            # As in the training loop, a batch is dropped before the next one is requested.
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
