"""The server with stock clients as they are: grpcio, tritonclient, curl.

`tools/interop.sh` makes their environment, and `cargo build -p ng-server` the server. Where one of
them is not there, this is skipped.
"""

import os
import re
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".venv-interop" / "bin" / "python"


def server_program() -> Path:
    named = os.environ.get("NEARGRAPH_SERVER")
    places = [ROOT / "target" / profile / "neargraph-server" for profile in ("release", "debug")]
    found = [path for path in ([Path(named)] if named else places) if path.exists()]
    if not found:
        pytest.skip("there is no neargraph-server: cargo build -p ng-server makes it")
    return found[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    if not CLIENTS.exists():
        pytest.skip("there is no .venv-interop: tools/interop.sh makes it")
    program, folder = server_program(), tmp_path_factory.mktemp("served")
    run_import(plan_generated(500, 3000, 8, 3), folder / "g.ng", ImportOptions())
    with ng.open(folder / "g.ng", memory="64MB") as store:
        ng.export(ng.nn.GraphSAGE(8, 8, 3).eval(), store, folder / "m.ngm", fanouts=[5, 3])
    if (folder / "m.ngm").is_file():
        with zipfile.ZipFile(folder / "m.ngm") as archive:
            archive.extractall(folder / "m")
    else:
        (folder / "m.ngm").rename(folder / "m")
    socket, log = folder / "s", folder / "log"
    listen = ["--listen", "127.0.0.1:0", "--listen", f"unix:{socket}"]
    with log.open("wb") as to:
        server = subprocess.Popen([program, folder, *listen], stderr=to)
    try:
        text = ""
        for _ in range(600):
            text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())
            if "serving" in text or server.poll() is not None:
                break
            time.sleep(0.05)
        tcp = re.search(r'"(127\.0\.0\.1:\d+)"', text)
        side = re.search(r"side=\"?(127\.0\.0\.1:\d+)", text)
        assert tcp, text
        assert side, text
        yield tcp[1], socket, side[1], folder / "m"
    finally:
        server.terminate()
        assert server.wait(60) == 0


def test_stock_clients_work_as_they_are(served):
    script = Path(__file__).with_name("interop_clients.py")
    done = subprocess.run([CLIENTS, script, *served], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tritonclient over HTTP" in done.stdout
