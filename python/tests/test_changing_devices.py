"""Devices that change under engines and graphs, and ONNX Runtime in their place."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from test_plugins import ROOT, compiled

import neargraph as ng
from neargraph import _computing, plugins

IDS = [7, 250, 0, 7, 12, 299]
BUNDLES = ["octa", "lsap", "hetero"]


def network(hidden: int = 8) -> ng.Dfg:
    """Two layers of means and products, on rows of 6 columns."""
    rng = np.random.default_rng(5)
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 6])
    edges = dfg.create_in("edge_index", "i64", [2, "edges"])
    widths = [(6, hidden), (hidden, 5)]
    for layer, (before, after) in enumerate(widths):
        weight = rng.standard_normal((before, after), dtype=np.float32)
        mean = dfg.create_op("SpMM_Mean", [edges, x])
        both = dfg.create_op("Add", [mean, x])
        product = dfg.create_op("MatMul", [both, dfg.create_weight(f"weight {layer}", weight)])
        x = dfg.create_op("Relu", [product])
    dfg.create_out("out", x)
    return dfg


def on_arrays(nodes: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    edges = rng.integers(0, nodes, (2, 500))
    return {"x": rng.standard_normal((nodes, 6), dtype=np.float32), "edge_index": edges}


def close(found, wanted) -> bool:
    bound = 1e-5 * max(1.0, float(np.abs(wanted).max()))
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= bound)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("plugins")
    made.chmod(0o700)
    return made


def built(folder: Path, name: str, parts: str) -> Path:
    """A plug-in of the parts of the attacks, with other parts."""
    source, header = folder / f"{name}.c", ROOT / "attacks/plugins/honest.h"
    source.write_text(f'{parts}\n#include "{header}"\n')
    return compiled(source, folder / f"{name}.so")


def device(name: str, priority: int) -> str:
    text = f'(NgText)TEXT("{name}")'
    change = f"device.priority = {priority}; kernel.device = device.name = {text};"
    return f"#define CHANGE_KERNEL {change}"


def test_threads_ask_while_bundles_are_swapped_and_a_broken_one_is_tried(homo, folder):
    devices = ng.Devices("octa")
    bad = compiled(ROOT / "attacks/plugins/wrong_values.c", folder / "wrong_values.so")
    with ng.Engine(homo, network(), fanouts=[5, 3], devices=devices, prepare="all") as engine:
        assert engine.wait_until_ready(60)
        answers = {}
        for bundle in BUNDLES:
            devices.program(bundle)
            answers[bundle] = engine.run(IDS, seed=3)
            assert close(answers[bundle], answers["octa"])
        known = {answer.tobytes() for answer in answers.values()}
        is_over, counts, wrong = threading.Event(), [0] * 3, []

        def ask(at):
            while not is_over.is_set() or not counts[at]:
                try:
                    if engine.run(IDS, seed=3).tobytes() not in known:
                        wrong.append("an answer that is of no bundle")
                except Exception as error:
                    wrong.append(error)
                counts[at] += 1

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(counts))]
        for thread in threads:
            thread.start()
        try:
            for turn in range(100):
                bundle = BUNDLES[turn % 3]
                devices.program(bundle)
                assert engine.run(IDS, seed=3).tobytes() == answers[bundle].tobytes()
                if turn == 50:
                    allow = plugins.sha256(bad)
                    with pytest.raises(ng.PluginRefused, match="output 0 is wrong"):
                        devices.program("worse", base="hetero", plugins=[bad], allow=allow)
                    assert devices.bundle == bundle
                    assert engine.run(IDS, seed=3).tobytes() == answers[bundle].tobytes()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert not wrong
        assert min(counts) > 0
        devices.program("hetero")
        assert "Linear on Systolic array" in engine.explain()
        assert "AggregateMean on Vector processor" in engine.explain()
        devices.program("octa")
        assert "Linear on CPU" in engine.explain()


def test_a_plug_in_is_bound_by_an_engine_and_a_plan_that_are_open(homo, folder):
    example = compiled(ROOT / "examples/plugins/c/aggregate.c", folder / "aggregate.so")
    devices, dfg, inputs = ng.Devices(), network(), on_arrays()
    plan = dfg.plan(devices=devices, fuse=False)
    with ng.Engine(homo, dfg, fanouts=[5, 3], devices=devices) as engine:
        before, ran = engine.run(IDS), plan.run(inputs)["out"]
        assert "c-example" not in engine.explain()
        devices.load_plugin(example, plugins.sha256(example))
        assert "SpMM_Mean on c-example" in engine.explain()
        assert close(engine.run(IDS), before)
        assert close(plan.run(inputs)["out"], ran)
        steps = dfg.explain(inputs, devices=devices)
        assert [step["device"] for step in steps if step["op"] == "SpMM_Mean"] == ["c-example"] * 2
        assert {node["device"] for node in dfg.info(devices)["nodes"]} == {"c-example", "cpu"}
        (over_all,) = ng.infer(homo, dfg, device=devices).arrays.values()
        (wanted,) = ng.infer(homo, dfg).arrays.values()
        assert close(over_all, wanted)
        devices.register_device("c-example", -1)
        assert "c-example" not in engine.explain()
        assert engine.run(IDS).tobytes() == before.tobytes()


def test_a_device_belongs_to_one_plug_in_and_another_build_of_it_takes_its_place(folder):
    devices = ng.Devices()
    first = built(folder, "first", device("chip", 500))
    devices.load_plugin(first, plugins.sha256(first))
    assert devices.operations["Relu"] == ["cpu-scalar", "cpu", "chip"]
    another = '\n#define IN_REGISTRATION plugin->name = (NgText)TEXT("another");'
    other = built(folder, "other", device("chip", 600) + another)
    with pytest.raises(ng.PluginRefused, match=r'device "chip" is already registered by plug-in'):
        devices.load_plugin(other, plugins.sha256(other))
    taken = built(folder, "taken", device("Systolic array", 600))
    allow = plugins.sha256(taken)
    with pytest.raises(ng.PluginRefused, match='"Systolic array" is already registered by bundle'):
        devices.program("mine", base="lsap", plugins=[taken], allow=allow)
    assert (devices.bundle, devices.priorities["chip"]) == ("cpu", 500)
    absolute = '\n#define OP "Abs"\n#define VALUE(x) ((x) < 0 ? -(x) : (x))'
    again = built(folder, "again", device("chip", 700) + absolute)
    devices.load_plugin(again, plugins.sha256(again))
    assert devices.priorities["chip"] == 700
    assert "chip" not in devices.operations["Relu"]
    assert "chip" in devices.operations["Abs"]
    # Of equal priorities, the device that came first is preferred.
    for priority, bound in [(10, "cpu"), (11, "chip")]:
        devices.register_device("chip", priority)
        dfg = ng.Dfg.from_text('1: "Abs"\n in={"x"}\n out={"y"}')
        assert dfg.explain(devices=devices)[0]["device"] == bound


def test_a_kernel_that_fails_or_gives_nan_after_its_trial_leaves_nothing_behind(
    homo, folder, monkeypatch
):
    parts = f"""#include <stdlib.h>
    {device("moody", 500)}
    #define MOOD(is) (getenv("CHIP_MOOD") != NULL && getenv("CHIP_MOOD")[0] == is)
    #define IN_RUN if (MOOD('f')) return NG_FAILED;
    #define AFTER_RUN if (MOOD('n')) for (int64_t i = 0; i < n; i++) y[i] = 0.0f / 0.0f;"""
    moody = built(folder, "moody", parts)
    devices = ng.Devices()
    with ng.Engine(homo, network(), fanouts=[5, 3], devices=devices) as engine:
        wanted = engine.run(IDS)
        devices.load_plugin(moody, plugins.sha256(moody))
        assert "Relu on moody" in engine.explain()
        assert close(engine.run(IDS), wanted)
        monkeypatch.setenv("CHIP_MOOD", "fail")
        with pytest.raises(ng.WrongInput, match='Relu: device "moody": error code 1'):
            engine.run(IDS)
        monkeypatch.setenv("CHIP_MOOD", "nan")
        assert np.isnan(engine.run(IDS)).all()
        devices.program("cpu")
        assert engine.run(IDS).tobytes() == wanted.tobytes()


def test_a_thousand_swaps_leave_no_memory_and_no_threads_behind(homo):
    def measured() -> tuple[int, int]:
        status = Path("/proc/self/status").read_text()
        values = dict(line.split(":", 1) for line in status.splitlines())
        return int(values["VmRSS"].split()[0]) // 1024, int(values["Threads"])

    devices, dfg, inputs = ng.Devices(), network(hidden=4096), on_arrays()
    plan = dfg.plan(devices=devices, threads=2)
    with ng.Engine(homo, dfg, fanouts=[5, 3], devices=devices) as engine:

        def swap(times):
            for turn in range(times):
                devices.program(BUNDLES[turn % 3])
                if turn % 10 == 0:
                    engine.run(IDS)
                    plan.run(inputs)

        swap(60)
        mebibytes, threads = measured()
        swap(1000)
        # The weights of both plans are packed anew in each swap: 0.3 MB.
        assert measured()[0] - mebibytes < 60
        assert measured()[1] == threads


def test_onnxruntime_computes_whole_models_of_engines_and_graphs(homo, tmp_path):
    pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    gnn = pytest.importorskip("torch_geometric.nn")
    pytest.importorskip("onnxscript")
    torch.manual_seed(2)
    path = tmp_path / "gcn.ngm"
    ng.export(gnn.GCN(6, 8, 2, 5).eval(), homo, path, fanouts=[5, 3])
    onnxruntime = {"devices": ["onnxruntime"]}
    dfg = ng.Dfg.open(path)
    with (
        ng.Engine(homo, path, prepare="all") as cpu,
        ng.Engine(homo, dfg, prepare="all", **onnxruntime) as other,
    ):
        assert other.wait_until_ready(60)
        for seed in range(3):
            assert close(other.run(IDS, seed=seed), cpu.run(IDS, seed=seed))
        assert close(other.scores([IDS, IDS[::-1]]), cpu.scores([IDS, IDS[::-1]]))
        assert "Model on onnxruntime" in other.explain()
        pid = os.fork()
        if not pid:
            os._exit(0 if close(other.run(IDS), cpu.run(IDS)) else 1)
        assert os.waitpid(pid, 0)[1] == 0
    inputs = on_arrays()
    inputs = {name: inputs["edge_index" if "edge" in name else "x"] for name in dfg.inputs}
    wanted = dfg.run(inputs)
    found = dfg.run(inputs, **onnxruntime)
    assert found.keys() == wanted.keys()
    assert all(close(found[name], wanted[name]) for name in wanted)
    (step,) = dfg.explain(inputs, **onnxruntime)
    assert (step["op"], step["device"]) == ("Model", "onnxruntime")
    assert len(step["nodes"]) == len(dfg.info()["nodes"])
    assert step["seconds"] > 0
    # A graph that was built here, and one that was changed after it was opened.
    for graph in (network(), dfg):
        if graph is dfg:
            first = ng.dfg.Value(next(iter(dfg.inputs)), dfg)
            graph.create_out("input", graph.create_op("Abs", first))
            given = inputs
        else:
            given = on_arrays()
        wanted, found = graph.run(given), graph.run(given, **onnxruntime)
        assert list(found) == list(wanted)
        assert all(close(found[name], wanted[name]) for name in wanted)


def test_what_onnxruntime_cannot_do_is_said(homo, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    dfg, onnxruntime = network(), ["onnxruntime"]
    inputs = on_arrays()
    with pytest.raises(ng.WrongInput, match="it does not support hops"):
        dfg.run(inputs, devices=onnxruntime, hops={"nodes": [10, 50]})
    with pytest.raises(ng.UnsupportedArgument, match="no table of kernels"):
        dfg.run(inputs, devices=onnxruntime, kernels={"Relu": np.abs})
    for call in (
        lambda: dfg.run(inputs, devices=["onnxruntime", "cpu"]),
        lambda: dfg.info(onnxruntime),
        lambda: ng.infer(homo, dfg, device="onnxruntime"),
    ):
        with pytest.raises(ng.UnsupportedArgument, match="computes whole models"):
            call()
    with pytest.raises(
        ng.UnsupportedArgument, match=r"'tpu' is not a valid device; use cpu, .*Devices"
    ):
        dfg.run(inputs, devices=["tpu"])
    wrong = {**inputs, "edge_index": np.full((2, 3), 77)}
    with pytest.raises(ng.WrongInput, match='device "onnxruntime": '):
        dfg.run(wrong, devices=onnxruntime)
    without_types = ng.Dfg.from_text('1: "Abs"\n in={"x"}\n out={"y"}')
    with pytest.raises(ng.InvalidModel, match="x"):
        without_types.run({"x": np.float32([1])}, devices=onnxruntime)
    dfg.save(tmp_path / "a.ngm")
    opened = ng.Dfg.open(tmp_path / "a.ngm")
    (tmp_path / "a.ngm").unlink()
    network(hidden=9).save(tmp_path / "a.ngm")
    with pytest.raises(ng.InvalidModel, match="has changed since it was opened"):
        opened.run(inputs, devices=onnxruntime)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ng.MissingDependency, match="pip install onnxruntime"):
        _computing.find_library()
    with pytest.raises(ng.MissingDependency, match="pip install onnxruntime"):
        ng.Engine(homo, dfg, fanouts=[5, 3], devices=onnxruntime)
