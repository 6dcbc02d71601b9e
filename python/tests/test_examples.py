"""Every example runs as it stands, and fits on a screen."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
# It needs the graph of Cora, which `test_cora.py` trains on.
WITH_DATA = {"train_cora.py"}
ALONE = sorted(file.name for file in FOLDER.glob("*.py") if file.name not in WITH_DATA)
LONGER = {"update_while_training.py"}
NEEDS = {
    "lightning_training.py": "lightning",
    "link_prediction.py": "torchmetrics",
    "serving.py": "onnxscript",
}


def run(name):
    command = [sys.executable, str(FOLDER / name)]
    if name == "distributed.py":
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*torchrun, "--nproc-per-node", "2", str(FOLDER / name)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.parametrize("name", ALONE)
def test_an_example_runs_as_it_stands(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    done = run(name)
    assert done.returncode == 0, done.stderr
    # The last line is a result, which the docstring of `main` announces.
    assert any(character.isdigit() for character in done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.parametrize("name", sorted({*ALONE} - LONGER))
def test_an_example_is_short(name):
    assert len((FOLDER / name).read_text().splitlines()) <= 64
