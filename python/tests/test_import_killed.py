"""A killed import leaves no store, and running it again works."""

import json
import signal
import subprocess
import sys
import time

import pytest

import neargraph as ng
from neargraph import _core
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

SCRIPT = """
import sys
from neargraph.datasets import plan_generated
from neargraph.importers import run_import
print("started", flush=True)
def said(phase, done, total):
    if phase == sys.argv[2]:
        print(phase, flush=True)
run_import(plan_generated(200_000, 4_000_000, 256, 8), sys.argv[1], progress=said)
"""


@pytest.mark.parametrize("phase", ["edges", "tensors", "write"])
def test_a_killed_import_leaves_nothing_that_looks_like_a_store(phase, tmp_path):
    target = tmp_path / "g.ng"
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(target), phase], stdout=subprocess.PIPE, text=True
    )
    for line in child.stdout:
        if line.strip() == phase:
            break
    time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    if target.exists():
        # It was published before the kill: then it is whole.
        assert json.loads(_core.verify(str(target)))["ok"]
    run_import(plan_generated(1000, 5000, 8, 4), target, ImportOptions(overwrite=True))
    with ng.open(target, memory="64MB") as store:
        assert store.num_nodes == 1000
    assert [path.name for path in tmp_path.iterdir()] == ["g.ng"]


def test_an_interrupt_in_the_middle_removes_what_was_written(tmp_path):
    def interrupt(phase, done, total):
        if phase == "tensors":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_import(plan_generated(1000, 5000, 64, 4), tmp_path / "g.ng", progress=interrupt)
    assert list(tmp_path.iterdir()) == []
