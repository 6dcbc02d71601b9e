"""The demo's steps and its table.

The run in memory uses the same seeds and the same training loop, with features and labels as plain
tensors and the topology in the memory back end, so that the two differ in where bytes come from
and in nothing else.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import neargraph as ng
from neargraph.cli.show import Bars, bars, size
from neargraph.importers import ImportOptions, run_import
from neargraph.train import TrainConfig, TrainResult, fit
from neargraph.units import parse_bytes

from .baseline import logistic_accuracy
from .picture import draw_losses
from .source import choose_graph

_SPLIT = (60.0, 20.0, 20.0)


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the command line sets; the defaults are the demo."""

    out: Path
    memory: str = "256MB"
    epochs: int = 3
    graph: str = "auto"
    seed: int = 0


def run_demo(settings: DemoSettings) -> dict[str, Any]:
    """Runs every step, prints the table and returns its figures."""
    begin = time.perf_counter()
    settings.out.mkdir(parents=True, exist_ok=True)
    # The budget's peak is only meaningful against a limit that parses; fail before any work.
    parse_bytes(settings.memory)
    with bars() as progress:
        path = _import(settings, progress)
        config = TrainConfig(
            model="sage",
            fanouts=(15, 10),
            batch_size=256,
            hidden=64,
            epochs=settings.epochs,
            seed=settings.seed,
            val_every=settings.epochs,
        )
        _say(f"training from disk within {settings.memory}")
        with ng.open(path, memory=settings.memory) as store:
            note = store.core.backend_note
            disk = fit(store, config, progress=_prefixed(progress, "disk"))
        _say("training with everything in memory")
        with ng.open(path, backend="memory") as store:
            memory = fit(store, config, in_memory=True, progress=_prefixed(progress, "memory"))
            _say("logistic regression on the features alone")
            features_only = logistic_accuracy(store, memory.num_classes, settings.seed)
        _say("measuring the loader in a process without torch")
        rss = _measure_rss(path, settings, config)
    title = f"{path.stem}: GraphSAGE, batch 256, fanouts 15,10, {settings.epochs} epochs"
    picture = settings.out / "loss.png"
    drawn = draw_losses(disk.losses, memory.losses, title, picture)
    figures = _figures(disk, memory, features_only, rss)
    figures |= {"backend": note, "seconds": round(time.perf_counter() - begin, 1)}
    Console(width=100).print(_table(title, figures, settings))
    _say(f"back end: {note}")
    _say(f"loss curve: {picture}" if drawn else "no loss curve: matplotlib is not installed")
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _prefixed(progress: Bars, name: str) -> Any:
    return lambda phase, step, steps, value: progress(f"{name}: {phase}", step, steps, value)


def _import(settings: DemoSettings, progress: Bars) -> Path:
    plan = choose_graph(settings.graph, _say)
    name = {"debian packages": "debian", "generated": "generated"}.get(
        plan.format, Path(plan.origin).stem
    )
    path = settings.out / f"{name}.ng"
    options = ImportOptions(
        memory=max(parse_bytes(settings.memory), 256_000_000),
        undirected=True,
        unique=True,
        self_loops="remove",
        split=_SPLIT,
        seed=settings.seed,
        dense=True,
        overwrite=True,
    )
    report = run_import(plan, path, options, progress)
    _say(f"imported {path} in {report['seconds']:.1f} s ({size(report['disk_bytes'])})")
    return path


def _measure_rss(path: Path, settings: DemoSettings, config: TrainConfig) -> dict[str, Any]:
    question = {
        "path": str(path),
        "memory": settings.memory,
        "fanouts": list(config.fanouts),
        "batch_size": config.batch_size,
        "seed": config.seed,
    }
    done = subprocess.run(
        [sys.executable, "-m", "neargraph.demo.rss", json.dumps(question)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _figures(
    disk: TrainResult, memory: TrainResult, features_only: float, rss: dict[str, Any]
) -> dict[str, Any]:
    stats = disk.store_stats
    same_length = len(disk.losses) == len(memory.losses)
    gaps = [abs(a - b) for a, b in zip(disk.losses, memory.losses, strict=False)]
    return {
        "accuracy_disk": disk.test_accuracy,
        "accuracy_memory": memory.test_accuracy,
        "accuracy_features_only": features_only,
        "loss_difference_max": max(gaps) if same_length else float("inf"),
        "steps": len(disk.losses),
        "seeds_per_second_disk": disk.seeds_per_second,
        "seeds_per_second_memory": memory.seeds_per_second,
        "budget_limit_bytes": stats["budget_limit"],
        "budget_peak_bytes": max(stats["budget_peak"], rss["budget_peak_bytes"]),
        "rss_added_bytes": rss["added_bytes"],
        "rss_before_bytes": rss["before_bytes"],
        "rss_process_had_torch": rss["torch_loaded"],
        "reads": stats["reads"],
        "read_bytes": stats["read_bytes"],
        "useful_share": stats["useful_bytes"] / max(1, stats["read_bytes"]),
        "hit_rate": stats["hit_rate"],
        "losses_disk": disk.losses,
        "losses_memory": memory.losses,
    }


def _table(title: str, figures: dict[str, Any], settings: DemoSettings) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    table.add_column(f"from disk ({settings.memory})", justify="right")
    table.add_column("in memory", justify="right")

    def percent(share: float | None) -> str:
        return "none" if share is None else f"{100 * share:.2f} %"

    peak, limit = size(figures["budget_peak_bytes"]), size(figures["budget_limit_bytes"])
    speeds = [f"{figures[f'seeds_per_second_{run}']:,.0f}" for run in ("disk", "memory")]
    apart, steps = f"{figures['loss_difference_max']:.3g}", f"{figures['steps']} steps"
    features_only = percent(figures["accuracy_features_only"])
    read = f"{size(figures['read_bytes'])} in {figures['reads']:,} reads"
    rows = [
        ("test accuracy", percent(figures["accuracy_disk"]), percent(figures["accuracy_memory"])),
        ("... of logistic regression on features alone", features_only),
        ("largest difference of the loss curves", apart, steps),
        ("training seeds/s", *speeds),
        ("peak of the budget counter", f"{peak} of {limit}"),
        ("peak anonymous RSS added by the loader, no torch", size(figures["rss_added_bytes"])),
        ("bytes read in training", read),
        ("useful / read bytes", percent(figures["useful_share"])),
        ("rows served without a read", percent(figures["hit_rate"])),
    ]
    for row in rows:
        table.add_row(*row)
    return table
