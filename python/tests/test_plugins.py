"""Plug-ins, bundles and ONNX Runtime from Python."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import neargraph as ng
from neargraph import plugins

ROOT = Path(__file__).resolve().parents[2]

MEAN = """
in={"edges", "x"}
1: "SpMM_Mean"
  in={"edges", "x"}
  out={"mean"}
out={"mean"="mean"}
"""


def compiled(source: Path, to: Path) -> Path:
    include = ROOT / "crates" / "ng-plugin-abi" / "include"
    command = ["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-I", str(include)]
    subprocess.run([*command, str(source), "-o", str(to), "-lm"], check=True)
    to.chmod(0o755)
    return to


@pytest.fixture
def example(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return compiled(ROOT / "examples/plugins/c/aggregate.c", tmp_path / "aggregate.so")


def test_a_plug_in_is_bound_while_a_graph_is_served(example: Path) -> None:
    devices = ng.Devices()
    served = devices.serve(ng.Dfg.from_text(MEAN), fuse=False)
    rng = np.random.default_rng(7)
    inputs = {
        "edges": rng.integers(0, 50, (2, 400)),
        "x": rng.standard_normal((50, 8), dtype=np.float32),
    }

    def bound() -> str | None:
        return served.profile(inputs)[1][0].device

    wanted = served.run(inputs)["mean"]
    assert bound() == "cpu"
    plugin = devices.load_plugin(example, plugins.sha256(example))
    assert (plugin.name, plugin.devices) == ("aggregate", {"c-example": 50})
    assert plugin.cases > 30
    assert [kernel.op for kernel in plugin.kernels] == ["SpMM_Sum", "SpMM_Mean"]
    assert "c-example" in devices.operations["SpMM_Mean"]
    assert bound() == "c-example"
    np.testing.assert_allclose(served.run(inputs)["mean"], wanted, atol=1e-5)
    devices.register_device("c-example", -1)
    assert bound() == "cpu"
    assert devices.priorities == {"cpu": 10, "cpu-scalar": 0, "c-example": -1}


def test_a_plug_in_that_is_not_allowed_or_bad_is_refused(example: Path, tmp_path: Path) -> None:
    devices = ng.Devices()
    with pytest.raises(ng.PluginRefused, match="not in the allow-list"):
        devices.load_plugin(example, "0" * 64)
    with pytest.raises(ng.UnsupportedArgument, match="is not a valid SHA-256"):
        devices.load_plugin(example, ["abc"])
    for attack, words in {
        "crash": "SIGSEGV",
        "write_behind_output": "it reads or writes past the end of output 0",
        "loop_in_run": "it did not end within 2 s",
        "wrong_values": "output 0 is wrong",
    }.items():
        bad = compiled(ROOT / f"attacks/plugins/{attack}.c", tmp_path / f"{attack}.so")
        with pytest.raises(ng.PluginRefused, match=words):
            devices.load_plugin(bad, plugins.sha256(bad), seconds=2 if "loop" in attack else 30)
    example.chmod(0o777)
    with pytest.raises(ng.PluginRefused, match="is writable by everybody"):
        plugins.sha256(example)
    with pytest.raises(OSError, match="cannot be read"):
        plugins.sha256(tmp_path / "missing.so")
    assert devices.priorities == {"cpu": 10, "cpu-scalar": 0}


def test_bundles_replace_each_other_and_a_broken_one_changes_nothing(example: Path) -> None:
    devices = ng.Devices("octa")
    assert (devices.bundle, devices.accelerator["rows"]) == ("octa", 8)
    devices.program("hetero")
    assert devices.operations["MatMul"][-1] == "Systolic array"
    assert devices.priorities["Vector processor"] == 150
    allow = plugins.sha256(example)
    devices.program(
        "mine",
        base="lsap",
        plugins=[example],
        allow=allow,
        priorities={"c-example": 400},
        accelerator={**devices.accelerator, "lanes": 64},
    )
    assert (devices.bundle, devices.accelerator["lanes"]) == ("mine", 64)
    for wrong, words in [
        ({"priorities": {"nobody": 1}}, "device .nobody."),
        ({"accelerator": {**devices.accelerator, "rows": 0}}, "accelerator.rows"),
        ({"accelerator": {"rows": 1}}, "the configuration of the accelerator is not valid"),
        ({"plugins": [example], "allow": "1" * 64}, "not in the allow-list"),
    ]:
        with pytest.raises(ng.NeargraphError, match=words):
            devices.program("worse", base="hetero", **wrong)
    with pytest.raises(ng.UnsupportedArgument, match='unknown bundle "fpga"'):
        devices.program("fpga")
    assert devices.bundle == "mine"
    assert devices.priorities["c-example"] == 400


def test_every_bundle_gives_the_same_for_any_number_of_threads() -> None:
    text = """
in={"edges", "x", "w"}
1: "SpMM_Sum"
  in={"edges", "x"}
  out={"sum"}
2: "MatMul"
  in={"sum", "w"}
  out={"product"}
3: "Relu"
  in={"product"}
  out={"out"}
out={"out"="out"}
"""
    devices = ng.Devices()
    served = devices.serve(ng.Dfg.from_text(text))
    rng = np.random.default_rng(3)
    inputs = {
        "edges": rng.integers(0, 300, (2, 4000)),
        "x": rng.standard_normal((300, 64), dtype=np.float32),
        "w": rng.standard_normal((64, 32), dtype=np.float32),
    }
    devices.program("lsap")
    wanted = served.run(inputs)["out"]
    bound = max(1.0, float(np.abs(wanted).max()))
    for bundle in ["octa", "lsap", "hetero", "cpu"]:
        devices.program(bundle)
        found = served.run(inputs)["out"]
        assert np.abs(found - wanted).max() <= 1e-5 * bound, bundle
        assert found.tobytes() == served.run(inputs, threads=3)["out"].tobytes(), bundle


def test_onnxruntime_and_the_reference_device_agree_on_an_exported_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch = pytest.importorskip("torch")
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(5)
    model = GraphSAGE(12, 16, num_layers=2, out_channels=4).eval()
    x, edges = torch.randn(40, 12), torch.randint(0, 40, (2, 200))
    path = tmp_path / "sage.ngm"
    ng.export(model, (x, edges), path)
    dfg = ng.Dfg.open(path)
    inputs = dict(zip(dfg.inputs, [x.numpy(), edges.numpy()], strict=True))
    reference = plugins.OnnxRuntime(path)
    assert reference.inputs == list(dfg.inputs)
    assert int(reference.version.split(".")[1]) >= 18
    wanted, found = reference.run(inputs), dfg.run(inputs)
    assert wanted.keys() == found.keys()
    for name in wanted:
        bound = max(1.0, float(np.abs(wanted[name]).max()))
        assert np.abs(found[name] - wanted[name]).max() <= 1e-5 * bound
    with pytest.raises(ng.InvalidModel, match=r"input .* is missing"):
        reference.run({})
    with pytest.raises(ng.InvalidModel, match='no input "y"'):
        reference.run({**inputs, "y": inputs[next(iter(inputs))]})
    with pytest.raises(ng.UnsupportedArgument, match="cannot be loaded"):
        plugins.OnnxRuntime(path, library=tmp_path / "libonnxruntime.so")
    with pytest.raises(ng.UnsupportedArgument, match="does not export OrtGetApiBase"):
        plugins.OnnxRuntime(path, library="libm.so.6")


def test_the_header_of_the_package_is_that_of_the_sources() -> None:
    header = ROOT / "crates/ng-plugin-abi/include/ng_plugin.h"
    assert (plugins.include_folder() / "ng_plugin.h").read_bytes() == header.read_bytes()


def test_the_probe_needs_neither_the_package_nor_site_packages() -> None:
    probe = Path(plugins.__file__).with_name("_plugin_probe.py")
    command = [sys.executable, "-I", "-S", str(probe), "5"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.stdout.startswith(b"at preparing\n"), done
    assert b"fault it cannot be loaded" in done.stdout
