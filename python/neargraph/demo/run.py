"""The steps of the demo, and its figures.

The runs from disk, from memory and from memory-mapped rows have the same seeds and the same loop.
They differ only in the source of the rows.
"""

import math
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from neargraph.cli.show import Bars, bars, size
from neargraph.exceptions import IoFailed, MissingDependency
from neargraph.units import parse_bytes

from . import children
from .graph import DemoGraph, Recipe, make_graph, recipe_of
from .limit import MemoryLimit
from .picture import draw
from .serving import serve_model
from .settings import DemoSettings, Job, Source

_MORE_FOR_MAPPED = 1.1
"""Memory limit of the run from mapped rows over the peak of the run from disk, with a margin."""

_ROOM = 2.4
"""Free disk space that the demo needs, over the bytes of the features."""

_NAMES: dict[Source, str] = {
    "disk": "train from disk",
    "memory": "train from memory",
    "mapped": "train from np.memmap",
    "pyg": "train with PyG's NeighborLoader",
}


class Clock:
    """Wall time and processor time of each step of the demo, child processes included."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self._began = self._last = self._now()

    def lap(self, name: str) -> None:
        """Ends a step."""
        now = self._now()
        self.steps[name] = self._between(self._last, now)
        self._last = now

    def figures(self) -> dict[str, Any]:
        """Returns the seconds in total and by step."""
        return {**self._between(self._began, self._now()), "steps": self.steps}

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), sum(os.times()[:4])

    def _between(self, first: tuple[float, float], last: tuple[float, float]) -> dict[str, float]:
        wall, processor = (round(b - a, 2) for a, b in zip(first, last, strict=True))
        return {"wall": wall, "processor": processor}


def run_demo(settings: DemoSettings) -> dict[str, Any]:
    """Runs every step and returns the figures.

    Raises:
        MissingDependency: A package that trains or exports is not installed.
        IoFailed: The disk has too little free space.
        ChildFailed: A training process ended without a result.
    """
    memory = parse_bytes(settings.memory)
    if missing := children.missing_packages():
        raise MissingDependency(
            f"the demo needs {', '.join(missing)}: pip install 'neargraph[export]'"
        )
    settings.out.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    machine = {"cores": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()[0]}
    with bars() as progress:
        recipe = recipe_of(settings.graph, settings.seed, say)
        _check_room(settings.out, recipe)
        graph = make_graph(recipe, settings, progress)
        say(
            f"graph: {graph.nodes:,} nodes, {graph.entries:,} neighbours, {graph.width} features; "
            f"{size(graph.report['disk_bytes'])} in {graph.store}"
        )
        job = _job(settings, recipe, graph, memory)
        try:
            graph.evict()
            rates = graph.disk_rates()
            clock.lap("graph")
            runs = _train_all(job, graph, progress, clock)
        finally:
            graph.rows.unlink()
        say("measure the memory of the loader alone")
        alone = children.measure_loader(job)
        clock.lap("loader alone")
        say("serve the model")
        served, lines = serve_model(graph.store, settings.out / "sage.ngm", memory)
        clock.lap("serve")
    figures: dict[str, Any] = {
        "graph": graph.figures(recipe.name),
        "machine": machine,
        "training": job.plain(),
        "disk_rates": rates,
        "runs": runs,
        "comparison": compared(runs),
        "loader_alone": alone,
        "serving": {**served, "lines": lines},
    }
    figures["picture"] = draw(figures, settings.out / "demo.png")
    clock.lap("picture")
    return {**figures, "seconds": clock.figures()}


def say(text: str) -> None:
    """Prints a line above the progress bars."""
    print(text, file=sys.stderr, flush=True)


def _check_room(out: Path, recipe: Recipe) -> None:
    rows = next(tensor for tensor in recipe.plan.nodes[0].tensors if tensor.name == "x")
    needed = int(_ROOM * rows.row_bytes * (rows.num_rows or 0))
    free = shutil.disk_usage(out).free
    if free < needed:
        raise IoFailed(
            f"{out}: the disk has {size(free)} free, but the demo needs {size(needed)}; "
            "choose a folder on another disk with --out"
        )


def _job(settings: DemoSettings, recipe: Recipe, graph: DemoGraph, memory: int) -> Job:
    """The job of the run from disk; the other jobs differ from it in their source."""
    return Job(
        source="disk",
        store=str(graph.store),
        rows=str(graph.rows),
        memory=memory,
        training=recipe.training,
        width=graph.width,
        classes=graph.classes,
        epochs=settings.epochs,
        seed=settings.seed,
        model=str(settings.out / "sage.ngm"),
        seconds=settings.mapped_seconds,
    )


def _train_all(job: Job, graph: DemoGraph, progress: Bars, clock: Clock) -> dict[str, Any]:
    """Trains from each source, in a separate process with a cold page cache."""
    runs: dict[str, Any] = {}
    sources: list[Source] = ["disk", "memory", "mapped"]
    if children.has_pyg_sampler():
        sources.append("pyg")
    for source in sources:
        name = _NAMES[source]
        say(name)
        graph.evict()
        if source == "disk":
            runs[source] = children.train(job, name, progress)
        elif source == "mapped":
            mapped = replace(job, source=source, model=None)
            runs[source] = _train_mapped(mapped, runs["disk"], progress)
        else:
            runs[source] = children.train(replace(job, source=source, model=None), name, progress)
        clock.lap(name)
    return runs


def _train_mapped(job: Job, disk: dict[str, Any], progress: Bars) -> dict[str, Any]:
    """Trains from mapped rows under a limit. If that is too low, the result is the failure."""
    wanted = int(_MORE_FOR_MAPPED * disk["peak_anonymous_bytes"])
    about: dict[str, Any] = {"wanted_limit_bytes": wanted}
    with MemoryLimit(wanted) as limit:
        try:
            run = children.train(job, _NAMES["mapped"], progress, limit)
        except children.ChildFailed as failed:
            if limit.why_not is not None:
                raise
            return {**about, "failed": str(failed)}
    # The limit may be that of the whole machine.
    in_force = run["limit_bytes"] is not None and run["limit_bytes"] <= wanted
    why_not = None if in_force else limit.why_not or "the kernel did not apply the limit"
    return {**run, **about, "is_limited": in_force, "why_not_limited": why_not}


def compared(runs: dict[str, Any]) -> dict[str, Any]:
    """Compares losses and accuracy with those of the run from memory, to the last bit."""
    disk, memory = runs["disk"], runs["memory"]
    losses, of_mapped = memory["losses"], runs["mapped"].get("losses", [])
    gaps = [abs(a - b) for a, b in zip(disk["losses"], losses, strict=False)]
    same_length = len(disk["losses"]) == len(losses)
    return {
        "steps": len(losses),
        "steps_mapped": len(of_mapped),
        "largest_loss_difference": max(gaps) if same_length else math.inf,
        "same_losses": disk["losses"] == losses,
        "same_losses_mapped": of_mapped == losses[: len(of_mapped)],
        "same_accuracy": disk["accuracy"] == memory["accuracy"],
    }


def is_equal(figures: dict[str, Any]) -> bool:
    """Whether all runs with the same draws have the same losses and accuracy."""
    comparison = figures["comparison"]
    names = ("same_losses", "same_losses_mapped", "same_accuracy")
    return all(comparison[name] for name in names)
