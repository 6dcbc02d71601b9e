"""Y1: Python cannot crash or hang it. The cells stand in cells.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

# Cells run side by side in this many processes; most of their time is imports of torch.
RUNNERS = 2


@pytest.mark.reliability
@pytest.mark.timeout(1800)
def test_no_mix_of_processes_threads_and_signals_crashes_or_hangs(homo_path, capsys):
    script = str(Path(__file__).with_name("cells.py"))
    runners = [
        subprocess.Popen(
            [sys.executable, script, homo_path, str(part), str(RUNNERS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in range(RUNNERS)
    ]
    cells = []
    for runner in runners:
        output, errors = runner.communicate()
        assert runner.returncode == 0, errors[-3000:]
        cells += [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    hangs = [c for c in cells if c["result"] == "hang"]
    crashes = [c for c in cells if c["result"] == "crash"]
    figure = {
        "id": "Y1",
        "tried": len(cells),
        "failed": len(hangs) + len(crashes),
        "hangs": len(hangs),
        "crashes": len(crashes),
        "seed": 3,
    }
    with capsys.disabled():
        print(f"\nfigure: {json.dumps(figure)}")
    failed = "\n".join(f"{c['cell']}: {c['result']}\n{c['detail']}" for c in hangs + crashes)
    assert not failed, failed
    assert len(cells) >= 30
