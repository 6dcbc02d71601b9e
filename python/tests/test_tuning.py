"""`tune_process`, each time in a process of its own, since it cannot be undone."""

import json
import os
import subprocess
import sys

import pytest

# Frees a block and takes it again, many times, and counts the pages that the kernel had to give.
FAULTS = """
import json, resource, sys
import neargraph as ng
found = ng.tune_process() if sys.argv[1] == "tuned" else {}
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
SIZE, TIMES = 24 << 20, 20
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(TIMES):
    block = libc.malloc(SIZE)
    libc.memset(block, 1, SIZE)
    libc.free(block)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(json.dumps({"found": found, "faults": faults}))
"""


def process(code, *arguments, env=None):
    """A process that has ended, without the wait policy of this one."""
    inherited = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**inherited, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run(code, *arguments, env=None):
    return json.loads(process(code, *arguments, env=env).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_memory_that_was_freed_is_used_again():
    # With the threshold named, glibc does not adapt it by itself: each block is mapped anew.
    plain = run(FAULTS, "plain", env={"MALLOC_MMAP_THRESHOLD_": "131072"})
    tuned = run(FAULTS, "tuned", env={"MALLOC_MMAP_THRESHOLD_": "131072"})
    assert tuned["found"]["kept_memory"]
    assert tuned["faults"] < plain["faults"] / 5


@pytest.mark.parametrize(
    ("env", "wanted"),
    [({}, True), ({"OMP_WAIT_POLICY": "passive"}, True), ({"OMP_WAIT_POLICY": "ACTIVE"}, False)],
)
def test_a_wait_policy_that_is_set_stays(env, wanted):
    code = """
import json, os, sys
import neargraph as ng
found = ng.tune_process()
print(json.dumps([found["passive_wait"], os.environ["OMP_WAIT_POLICY"]]))
"""
    assert run(code, env=env) == [wanted, env.get("OMP_WAIT_POLICY", "PASSIVE")]


def test_it_says_that_torch_came_first():
    pytest.importorskip("torch")
    code = """
import json
import torch
import neargraph as ng
print(json.dumps(ng.tune_process()["passive_wait"]))
"""
    done = process(code)
    assert json.loads(done.stdout) is False
    assert "before `import torch`" in done.stderr


def test_train_tunes_its_process_before_torch_is_there(tmp_path):
    pytest.importorskip("torch")
    code = f"""
import json, logging, sys
import neargraph
from typer.testing import CliRunner
from neargraph.cli.app import app
seen = []
def spy():
    seen.append("torch" in sys.modules)
    return {{}}
neargraph.tune_process = spy
CliRunner().invoke(app, ["train", {str(tmp_path / "none.ng")!r}])
print(json.dumps(seen))
"""
    assert run(code) == [False]
