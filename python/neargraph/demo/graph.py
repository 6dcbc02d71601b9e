"""The graph of the demo: its plan, its store, and its rows as a .npy file for `np.memmap`.

The invariant: the .npy file has the rows of the store in the order of node ids, bit for bit.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.cli.show import Bars
from neargraph.datasets import AptListsMissing, plan_debian, plan_planted, read_apt
from neargraph.importers import GraphPlan, ImportOptions, plan_source, run_import
from neargraph.importers.chunks import chunk_rows, spans

from .settings import DemoSettings, Training

GRAPHS = ("planted", "debian", "data")
_IMPORT_BYTES = 512_000_000

# Data sets of the .npz collection with features and classes, in order of preference.
_NPZ_SETS = ("ms_academic_cs.npz", "amazon_electronics_photo.npz", "cora_ml.npz", "cora.npz")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A graph, and the batches and the split to train it with."""

    name: str
    plan: GraphPlan
    training: Training
    split: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class DemoGraph:
    """The imported graph and the report of the import."""

    store: Path
    rows: Path
    nodes: int
    entries: int
    width: int
    classes: int
    report: dict[str, Any]

    def figures(self, name: str) -> dict[str, Any]:
        """Returns the values that the table and the picture show."""
        return {
            "name": name,
            "store": str(self.store),
            "nodes": self.nodes,
            "neighbors": self.entries,
            "features": self.width,
            "classes": self.classes,
            "disk_bytes": self.report["disk_bytes"],
        }

    def disk_rates(self) -> Mapping[str, Any] | None:
        """Measures the disk's rates now, so that no plan uses rates of an earlier day."""
        with ng.open(self.store, memory=_IMPORT_BYTES) as store:
            return store.measure_disk()

    def evict(self) -> None:
        """Drops all files of the graph from the page cache."""
        for file in (self.rows, *self.store.glob("*.dat")):
            handle = os.open(file, os.O_RDONLY)
            try:
                # The kernel drops only clean pages.
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def recipe_of(graph: str, seed: int, say: Say) -> Recipe:
    """Returns the recipe of ``graph``, one of `GRAPHS`.

    Raises:
        AptListsMissing: The graph is "debian", and apt's lists are missing.
        ValueError: The graph is "data", and NEARGRAPH_DATA has no suitable data set.
    """
    if graph == "planted":
        return Recipe("planted", plan_planted(seed=seed), Training(), (6.0, 1.0, 1.0))
    # Rows of these graphs are several thousand words wide.
    wide = Training(batch_size=64, fanouts=(10, 5))
    if graph == "debian":
        return Recipe("debian", _debian(say), wide, (60.0, 20.0, 20.0))
    plan = _npz_set()
    return Recipe(Path(plan.origin).stem, plan, wide, (60.0, 20.0, 20.0))


def make_graph(recipe: Recipe, settings: DemoSettings, progress: Bars) -> DemoGraph:
    """Imports the graph under `settings.out`, and replaces an existing one."""
    path = settings.out / f"{recipe.name}.ng"
    options = ImportOptions(
        memory=_IMPORT_BYTES,
        undirected=True,
        unique=True,
        self_loops="remove",
        split_sizes=recipe.split,
        seed=settings.seed,
        dense=True,
        overwrite=True,
    )
    report = run_import(recipe.plan, path, options, progress)
    rows = settings.out / "demo-rows.npy"
    with ng.open(path, memory=_IMPORT_BYTES) as store:
        width, classes = _write_rows(store, rows, progress), int(store.labels.max()) + 1
        return DemoGraph(path, rows, store.num_nodes, store.num_edges, width, classes, report)


def _write_rows(store: ng.Store, path: Path, progress: Bars) -> int:
    """Writes `x` of all nodes as float32 [nodes, width]; returns the width.

    It does not map the file, because a full disk would kill a process that writes to a mapping.
    """
    snapshot, total = store.snapshot(), store.num_nodes
    width = int(snapshot.features(None, np.arange(1), "x").shape[1])
    header = {"descr": "<f4", "fortran_order": False, "shape": (total, width)}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for span in spans(total, chunk_rows(4 * width)):
                rows = snapshot.features(None, np.arange(span.start, span.stop), "x")
                file.write(np.ascontiguousarray(rows, dtype="<f4").data)
                progress(f"write {path.name}", span.stop, total)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return width


def _debian(say: Say) -> GraphPlan:
    try:
        packages = read_apt()
    except AptListsMissing as missing:
        if os.environ.get("DEMO_APT_UPDATE") != "1":
            raise AptListsMissing(
                f"{missing}, or set DEMO_APT_UPDATE=1 to let the demo fetch the lists"
            ) from None
        _apt_update(say)
        packages = read_apt()
    return plan_debian(packages)


def _apt_update(say: Say) -> None:
    command = ["apt-get", "update"]
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise AptListsMissing("apt-get update needs root, and sudo is not installed")
        command.insert(0, "sudo")
    say(f"running: {' '.join(command)}")
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise AptListsMissing(f"{' '.join(command)} failed with exit code {done.returncode}")


def _npz_set() -> GraphPlan:
    root = os.environ.get("NEARGRAPH_DATA")
    if root:
        for folder in (Path(root) / "npz_graphs", Path(root)):
            for name in _NPZ_SETS:
                if (folder / name).is_file():
                    return plan_source(folder / name)
    state = f"is {root!r}, which contains no data set of the demo" if root else "is not set"
    raise ValueError(
        f"NEARGRAPH_DATA {state}; set it to a folder with one of {', '.join(_NPZ_SETS)}, or drop "
        "--graph"
    )
