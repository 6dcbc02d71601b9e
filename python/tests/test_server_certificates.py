"""The certificates of docs/how-to/server.md, and commands that meet a server that has them."""

import hashlib
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import neargraph as ng
from neargraph.cli.app import main

PAGE = Path(__file__).parents[2] / "docs/how-to/server.md"
TOKEN = "a-token-of-this-test"


@pytest.fixture
def certified(tmp_path, monkeypatch):
    """A folder with what the recipe of the page makes; it is the current one."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    monkeypatch.chdir(tmp_path)
    recipe = re.search(r"```sh\n(openssl.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["sh", "-ec", recipe.group(1)], check=True, capture_output=True)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (tmp_path / "tokens").write_text(f"admin me {digest}\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "graphs").mkdir()
    return tmp_path


def test_top_reads_an_encrypted_side_port(certified, capfd):
    files = {"tls_cert": "server.pem", "tls_key": "server.key", "token_file": "tokens"}
    asks = ["--ca", "ca.pem", "--token-file", "token", "--count", "1", "--every", "0.1"]
    with ng.serve("graphs", listen="0.0.0.0:0", side="0.0.0.0:0", **files) as server:
        port = server.address.rpartition(":")[2]
        for address in (["localhost"], ["127.0.0.1"], ["127.0.0.1", "--server-name", "localhost"]):
            place = [f"{address[0]}:{port}", *address[1:]]
            with pytest.raises(SystemExit) as ended:
                main(["top", "--address", *place, *asks])
            said, error = capfd.readouterr()
            assert ended.value.code == 0, error
            assert "requests/s" in said
        side = ["--side", server.address]
        with pytest.raises(SystemExit) as ended:
            main(["top", "--address", f"localhost:{port}", *side, *asks])
        assert ended.value.code == 2
        assert capfd.readouterr().err.startswith("error: ")


def test_ctrl_c_ends_a_server_in_order(tmp_path):
    command = [sys.executable, "-m", "neargraph", "serve", str(tmp_path), "--listen", "127.0.0.1:0"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(child.stderr.readline, "")
        assert any("serving" in line for line in lines)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 0
    finally:
        child.kill()
