"""Runs jobs in separate processes, so that the memory of each can be measured alone."""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from neargraph.cli.show import Bars
from neargraph.exceptions import NeargraphError

from .limit import MemoryLimit
from .rss import Peak
from .settings import Job

_EVERY_SECONDS = 0.01
_LOADER_BATCHES = 100


class ChildFailed(NeargraphError):
    """A child process ended without a result."""


def train(job: Job, name: str, progress: Bars, limit: MemoryLimit | None = None) -> dict[str, Any]:
    """Runs a training job under a limit. Returns its figures and ``peak_anonymous_bytes``.

    Raises:
        ChildFailed: The process ended without a result; the message has its last line.
    """
    command = [sys.executable, "-m", "neargraph.demo.training", json.dumps(job.plain())]
    if limit is not None:
        command = limit.command(command)
    found: dict[str, Any] | None = None
    most = 0
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert child.stdout is not None
            with Peak(str(child.pid), _EVERY_SECONDS) as peak:
                for line in child.stdout:
                    if not line.startswith("{"):
                        # Other packages may also print.
                        continue
                    said = json.loads(line)
                    if "step" in said:
                        progress(name, said["step"], said["steps"])
                    elif "trained" in said:
                        most = peak.most_bytes
                    else:
                        found = said["result"]
                child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if found is None or child.returncode != 0:
            errors.seek(0)
            raise ChildFailed(f"{name}: {_reason(child.returncode, errors.read())}")
    return {**found, "peak_anonymous_bytes": most}


def _reason(code: int, errors: str) -> str:
    if code == -9:
        return "the process was killed, probably because memory ran out"
    lines = errors.strip().splitlines() or ["no error message was printed"]
    return f"the process ended with exit code {code}: {lines[-1]}"


def measure_loader(job: Job) -> dict[str, Any]:
    """Measures the memory that the loader adds to a process without torch."""
    question = {
        "path": job.store,
        "memory": job.memory,
        "fanouts": list(job.training.fanouts),
        "batch_size": job.training.batch_size,
        "seed": job.seed,
        "most": _LOADER_BATCHES,
    }
    done = subprocess.run(
        [sys.executable, "-m", "neargraph.demo.rss", json.dumps(question)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ChildFailed(
            f"measure the memory of the loader alone: {_reason(done.returncode, done.stderr)}"
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def missing_packages() -> list[str]:
    """Returns the packages that the demo needs and that are not installed."""
    needed = ("torch", "torch_geometric", "onnx", "onnxscript")
    return [name for name in needed if find_spec(name) is None]


def has_pyg_sampler() -> bool:
    """Whether the compiled sampler that PyG's own loader requires is installed."""
    return any(find_spec(name) is not None for name in ("pyg_lib", "torch_sparse"))
