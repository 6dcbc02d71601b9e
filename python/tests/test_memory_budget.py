"""I2: memory stays inside the budget with data eight times the cap, under a real cgroup limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = 64 * 1000 * 1000
# What the interpreter and NumPy take before a store is opened; the budget does not cover it.
INTERPRETER = 64 << 20
WORKER = Path(__file__).with_name("budget_worker.py")


class Cgroup:
    """A memory cgroup of version 1 or 2 with a hard limit and no swap."""

    def __init__(self, limit: int) -> None:
        v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        base = Path("/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/memory")
        self.path = base / f"neargraph-{uuid.uuid4().hex[:8]}"
        try:
            self.path.mkdir()
            (self.path / ("memory.max" if v2 else "memory.limit_in_bytes")).write_text(str(limit))
        except OSError as error:
            if self.path.exists():
                self.path.rmdir()
            pytest.skip(f"no memory cgroup can be made here ({error})")
        self.events = self.path / ("memory.events" if v2 else "memory.oom_control")

    def kills(self) -> int:
        """How often the kernel killed for want of memory."""
        fields = (line.split() for line in self.events.read_text().splitlines())
        return next((int(value) for name, value in fields if name == "oom_kill"), 0)

    def close(self) -> None:
        self.path.rmdir()


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    made = Cgroup(MEMORY + INTERPRETER)
    yield made
    made.close()


def run(phase: str, store: Path, memory: int, group: Cgroup | None = None) -> dict[str, object]:
    """Runs one phase in a process of its own, inside the cgroup if one is given."""

    def enter() -> None:
        if group is not None:
            (group.path / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, str(WORKER), phase, str(store), str(memory)]
    env = os.environ | {"MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2")}
    done = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=enter, env=env, check=False
    )
    assert done.returncode == 0, f"{phase}: exit {done.returncode}\n{done.stderr[-2000:]}"
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.reliability
def test_import_sample_and_verify_stay_inside_the_budget(tmp_path: Path, cgroup: Cgroup) -> None:
    store = tmp_path / "big.ng"
    built = run("import", store, MEMORY, cgroup)
    assert int(str(built["disk_bytes"])) >= 8 * MEMORY
    capped = run("sample", store, MEMORY, cgroup)
    verified = run("verify", store, MEMORY, cgroup)
    free = run("sample", store, 2_000_000_000)
    figure = {
        "id": "I2",
        "tried": 4,
        "failed": int(capped["hash"] != free["hash"]) + cgroup.kills(),
        "kills": cgroup.kills(),
        "memory_bytes": MEMORY,
        "disk_bytes": built["disk_bytes"],
        "budget_peak": capped["budget_peak"],
        "rss_grown_import": built["rss_grown"],
        "rss_grown_sample": capped["rss_grown"],
        "rss_grown_verify": verified["rss_grown"],
    }
    print("figure: " + json.dumps(figure))
    assert cgroup.kills() == 0
    assert verified["ok"]
    assert capped["hash"] == free["hash"]
    assert int(str(capped["budget_peak"])) <= MEMORY
    for phase in (built, capped, verified):
        assert int(str(phase["rss_grown"])) <= MEMORY
