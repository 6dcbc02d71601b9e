"""A core install, without torch, imports, looks, verifies and samples; training says what to do."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torch_geometric", "pyarrow", "sklearn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from neargraph.cli import main
main()
"""


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def store(tmp_path):
    (tmp_path / "e.txt").write_text("".join(f"{k} {k * 7 % 100}\n" for k in range(100)))
    done = run(
        "import", tmp_path / "e.txt", "--out", tmp_path / "g.ng", "--split-sizes", "60,20,20"
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "g.ng"


def test_info_verify_and_doctor_run(store):
    for command in (["info", store], ["verify", store], ["doctor", store.parent]):
        done = run(*command)
        assert done.returncode == 0, done.stderr


def test_train_names_the_package_to_install(store):
    done = run("train", store)
    assert done.returncode == 2
    assert "pip install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_parquet_file_names_the_package_to_install(store):
    (store.parent / "e.parquet").write_bytes(b"PAR1")
    done = run("import", store.parent / "e.parquet", "--out", store.parent / "h.ng")
    assert done.returncode == 2
    assert "pip install 'neargraph[parquet]'" in done.stderr
