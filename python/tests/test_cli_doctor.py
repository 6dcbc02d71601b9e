"""`neargraph doctor`: torch build, GPUs and the disk, with and without each of them, and advice."""

import json
import sys
from types import SimpleNamespace

import pytest
from test_cli_commands import run
from test_cli_without_torch import run as run_without_torch

from neargraph.cli import doctor, machine

SOUND = {
    "packages": {"torch_geometric": "2.8", "pyarrow": "26"},
    "torch": {"version": "2.9", "build": "CUDA 13.0", "gpus": [{"name": "H200"}]},
    "nvidia_driver": "580.1",
    "probe": {"file_system": "ext4", "advice": []},
    "device": {"device": "nvme0n1", "rotational": False},
}


def advice(**changes):
    return doctor.advice({**SOUND, **changes})


def test_json_has_all_parts_and_the_table_shows_them(tmp_path, capsys):
    code, out, err = run("doctor", tmp_path, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert {"machine", "packages", "torch", "nvidia_driver", "probe", "device"} < set(facts)
    assert set(facts["packages"]) >= {"pyg-lib", "torch-sparse", "onnxruntime"}
    assert {"device", "model", "rotational", "size_bytes"} == set(facts["device"])
    shown = run("doctor", tmp_path, capsys=capsys)[1]
    for words in ("Machine", "Packages", "torch and GPU", f"Disk under {tmp_path}", "rotational"):
        assert words in shown


def test_the_build_of_torch_is_that_of_torch():
    torch = pytest.importorskip("torch")
    found = machine.torch_build()
    assert found["version"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["build"].startswith("CUDA" if torch.version.cuda else ("ROCm", "CPU"))
    assert len(found["gpus"]) == torch.cuda.device_count()


def fake_torch(monkeypatch, *, cuda="13.0", gpus=1, error=None):
    """A torch that has these GPUs."""

    def count():
        if error:
            raise RuntimeError(error)
        return gpus

    about = SimpleNamespace(name="NVIDIA H200", major=9, minor=0)
    fake = SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda),
        get_num_threads=lambda: 8,
        get_num_interop_threads=lambda: 4,
        cuda=SimpleNamespace(
            device_count=count,
            get_device_properties=lambda at: about,
            mem_get_info=lambda at: (100_000_000_000, 150_000_000_000),
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(machine, "version", lambda name: "2.9.0")


def test_gpus_are_listed_with_their_memory(tmp_path, monkeypatch, capsys):
    fake_torch(monkeypatch, gpus=2)
    monkeypatch.setattr(doctor, "nvidia_driver", lambda: "580.1")
    facts = json.loads(run("doctor", tmp_path, "--json", capsys=capsys)[1])
    assert [gpu["name"] for gpu in facts["torch"]["gpus"]] == ["NVIDIA H200"] * 2
    shown = run("doctor", tmp_path, capsys=capsys)[1]
    assert "NVIDIA H200, 150 GB, 100 GB free, capability 9.0" in shown
    assert "2.9.0 (CUDA 13.0 build)" in shown


def test_a_gpu_that_fails_is_said_and_ends_nothing(tmp_path, monkeypatch, capsys):
    fake_torch(monkeypatch, error="CUDA driver\nis too old")
    code, out, _ = run("doctor", tmp_path, capsys=capsys)
    assert code == 0
    assert "torch cannot use the GPU: CUDA driver is too old" in " ".join(out.split())


def test_without_torch_nothing_is_imported_and_the_advice_names_the_package(tmp_path):
    done = run_without_torch("doctor", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    # The package is installed here, but cannot be imported.
    assert "No module named 'torch'" in facts["torch"]["error"]
    assert "fails to import" in facts["advice"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"torch": None}, "pip install 'neargraph[torch]'"),
        ({"packages": {"torch_geometric": None, "pyarrow": "1"}}, "pip install 'neargraph[torch]'"),
        ({"packages": {"torch_geometric": "2", "pyarrow": None}}, "'neargraph[parquet]'"),
        ({"torch": {"build": "CPU", "gpus": []}}, "but torch is a CPU build"),
        ({"torch": {"build": "CUDA 13", "gpus": []}}, "CUDA_VISIBLE_DEVICES"),
        ({"device": {"device": "sda", "rotational": True}}, "sda is a rotational disk"),
        ({"probe": {"file_system": "nfs4"}}, "nfs4 is a network or FUSE file system"),
        ({"probe": {"file_system": "fuse.sshfs"}}, "fuse.sshfs is a network or FUSE file system"),
        ({"probe": {"advice": ["raise memlock"]}}, "raise memlock"),
    ],
)
def test_advice_names_what_to_change(changes, words):
    (line,) = advice(**changes)
    assert words in line


def test_nothing_is_advised_where_nothing_helps():
    assert advice() == ["nothing to change"]
    # A virtual disk says that it is rotational, whatever is below it.
    virtual = {"device": "vda", "rotational": True}
    assert advice(device=virtual) == ["nothing to change"]
    (slow,) = advice(device=virtual, measured={"reads_per_s": 150})
    assert "only 150 random reads per second" in slow
    real = {"device": "sda", "rotational": True}
    assert advice(device=real, measured={"reads_per_s": 90_000}) == ["nothing to change"]


def test_a_device_that_the_system_does_not_know_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.os, "major", lambda number: 0)
    monkeypatch.setattr(machine.os, "minor", lambda number: 999_999)
    assert set(machine.block_device(tmp_path).values()) == {None}


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "NamedTemporaryFile", refuse)
    code, out, err = run("doctor", tmp_path, "--disk", capsys=capsys)
    assert (code, out) == (2, "")
    assert "cannot write a file of 64 MiB to measure the disk" in err
    assert err.count("\n") == 1
