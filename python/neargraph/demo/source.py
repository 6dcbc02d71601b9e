"""Which graph the demo runs on: Debian's packages, else real data at hand, else a generated one."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from neargraph.datasets import AptListsMissing, plan_debian, plan_generated, read_apt
from neargraph.importers import GraphPlan, plan_source

# Sets of the npz collection that have features and classes, the largest that fits first.
_NPZ_SETS = ("ms_academic_cs.npz", "amazon_electronics_photo.npz", "cora_ml.npz", "cora.npz")

Say = Callable[[str], None]


def choose_graph(wanted: str, say: Say) -> GraphPlan:
    """The plan of the graph; ``say`` is told which one and why.

    ``wanted`` is auto, debian, data or generated; only auto falls back.
    """
    if wanted in ("auto", "debian"):
        try:
            return _debian(say)
        except AptListsMissing as missing:
            if wanted == "debian":
                raise
            say(f"{missing} (or set DEMO_APT_UPDATE=1 to let the demo run it)")
    if wanted in ("auto", "data"):
        plan = _npz_set(say)
        if plan is not None:
            return plan
        if wanted == "data":
            raise ValueError(
                "NEARGRAPH_DATA names no folder with npz sets; set it, or drop --graph"
            )
    say("graph: a generated one (seeded, 50,000 nodes, 20 communities)")
    return plan_generated()


def _debian(say: Say) -> GraphPlan:
    try:
        packages = read_apt()
    except AptListsMissing:
        if os.environ.get("DEMO_APT_UPDATE") != "1":
            raise
        _apt_update(say)
        packages = read_apt()
    plan = plan_debian(packages)
    contents = [*plan.facts, *(note.message for note in plan.notes)]
    say(f"graph: all packages that apt knows here ({'; '.join(contents)})")
    return plan


def _apt_update(say: Say) -> None:
    command = ["apt-get", "update"]
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise AptListsMissing("apt-get update needs root, and sudo is not here")
        command.insert(0, "sudo")
    say(f"running: {' '.join(command)}")
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise AptListsMissing(f"{' '.join(command)} failed with exit code {done.returncode}")


def _npz_set(say: Say) -> GraphPlan | None:
    root = os.environ.get("NEARGRAPH_DATA")
    if not root:
        return None
    for folder in (Path(root) / "npz_graphs", Path(root)):
        for name in _NPZ_SETS:
            if (folder / name).is_file():
                say(f"graph: {folder / name}, found through NEARGRAPH_DATA")
                return plan_source(folder / name)
    return None
