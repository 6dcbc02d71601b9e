"""`neargraph profile train`: figures that add up, and that say what they cannot know."""

import json

import pytest

import neargraph as ng
from neargraph.cli import main
from neargraph.datasets import plan_generated
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers import ImportOptions, run_import

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.nn import GCN, GraphSAGE  # noqa: E402
from neargraph.profile import LayerClock, Monitor, ProfileConfig, load_times  # noqa: E402
from neargraph.profile import run as profiling  # noqa: E402

PARTS = ("linear", "message", "aggregate", "update")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20))
    run_import(plan_generated(1500, 9000, 64, 4), path, options)
    return path


def profiled(path, model, **more):
    config = ProfileConfig(epochs=2, batch_size=128, interval=0.01, **more)
    with ng.open(path, memory="64MB") as store:
        run = profiling.profile_run(store, config.training(model, 1500), config)
        stats = store.stats()
    return run, stats


@pytest.mark.parametrize("model", ["gcn", "sage", "cluster"])
def test_the_parts_of_a_run_add_up_to_its_time(model, path):
    run, stats = profiled(path, model)
    stages = run["stages"]
    assert run["batches"] == len(run["losses"]) == {"gcn": 2, "sage": 16, "cluster": 14}[model]
    loop = [stages[name] for name in (*PARTS, "rest", "wait")]
    assert min(loop) > 0
    assert sum(loop) == pytest.approx(run["seconds"])
    assert run["seconds"] <= run["system"]["seconds"]
    assert (stages["sample"] > 0) == (model != "gcn")
    assert stages["gather"] > 0
    assert stages["copy"] == 0
    for name, count in run["store"].items():
        assert count == stats[name], name
    assert run["store"]["rows_served"] > 0
    assert json.dumps(run)


def test_a_profiled_run_trains_as_any_other(path):
    fused, _ = profiled(path, "sage", fused=True)
    plain, _ = profiled(path, "sage")
    assert fused["losses"] == pytest.approx(plain["losses"], rel=1e-3)
    assert plain["losses"][-1] < plain["losses"][0]


@pytest.mark.parametrize("kind", [GCN, GraphSAGE])
def test_a_clock_leaves_the_layers_as_they_are_and_sees_every_part(kind):
    torch.manual_seed(3)
    model = kind(8, 4, 3)
    model.fused = False
    model.eval()
    x, edges = torch.randn(40, 8), torch.randint(0, 40, (2, 200))
    before = model(x, edges)
    clock = LayerClock(model)
    assert torch.equal(model(x, edges), before)
    assert all(clock.seconds[part] > 0 for part in PARTS)


def test_the_monitor_knows_memory_and_work_and_says_none_of_a_missing_gpu():
    with Monitor(0.01) as monitor:
        total = sum(k * k for k in range(300_000))
    seen = monitor.result()
    assert total
    assert seen["memory_bytes"] > 10_000_000
    assert seen["cpu_percent"] > 0
    assert seen["disk_bytes_per_s"] >= 0
    assert 0 <= seen["iowait_percent"] <= 100
    assert seen["gpu_memory_bytes"] is seen["gpu_percent"] is seen["gpu_idle_percent"] is None


def test_the_monitor_means_what_a_gpu_tells():
    class Gpu:
        looks = iter([(100.0, 0.0), (300.0, 50.0)])

        def look(self):
            return next(self.looks, (200.0, None))

    with Monitor(60, Gpu()) as monitor:
        pass
    seen = monitor.result()
    assert seen["gpu_memory_bytes"] == 200
    assert (seen["gpu_idle_percent"], seen["gpu_percent"]) == (50, 25)


def test_one_file_loads_through_every_back_end(tmp_path):
    for entry in load_times(tmp_path, ["memory", "mmap", "pread"], 2):
        assert entry["bytes"] == 7_716_864
        assert len(entry["opening_seconds"]) == len(entry["reading_seconds"]) == 2
        assert min(entry["reading_seconds"]) > 0
        assert entry["backend"] in entry["note"]
    assert not list(tmp_path.iterdir())


def test_a_graph_that_does_not_fit_is_refused_as_a_whole_and_says_why(path):
    found = profiling.profile_training(
        path, ["gcn", "cluster"], ["pread"], 1, ProfileConfig(epochs=1, hidden=2000), memory="24MB"
    )
    gcn, cluster = found
    assert gcn["runs"] == []
    assert "1,500 nodes" in gcn["refused"]
    assert "24 MB" in gcn["refused"]
    assert len(cluster["runs"]) == 1


def run(*arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main(["profile", "train", *map(str, arguments)])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def test_the_command_prints_the_tables_and_writes_them(path, tmp_path, capsys):
    more = ("--repeats", 2, "--epochs", 1, "--backends", "memory,mmap", "--out", tmp_path / "out")
    code, out, err = run(path, *more, capsys=capsys)
    assert (code, err) == (0, "")
    assert out.index("Loading one file from the disk") < out.index("memory: use of the machine")
    assert "mmap: training loop" in out
    report = json.loads((tmp_path / "out/profile.json").read_text())
    assert [(e["backend"], e["model"]) for e in report["training"]] == [
        (backend, model) for backend in ("memory", "mmap") for model in ("gcn", "sage", "cluster")
    ]
    assert all(len(entry["runs"]) == 2 for entry in report["training"])
    table = (tmp_path / "out/profile.md").read_text()
    assert "| GraphSAGE | - | - | - |" in table


def test_json_is_the_report_alone_and_bad_names_are_said(path, capsys):
    more = ("--repeats", 1, "--epochs", 1, "--models", "cluster", "--backends", "pread", "--json")
    code, out, _ = run(path, *more, capsys=capsys)
    assert code == 0
    assert json.loads(out)["training"][0]["model"] == "cluster"
    code, _, err = run(path, "--models", "gat", capsys=capsys)
    assert code == 2
    assert "'gat' is not valid: expected one of gcn, sage, cluster" in err


def test_a_store_of_several_types_is_refused_without_naming_a_model(shop_path):
    with pytest.raises(UnsupportedArgument, match=r"has 2 node types.*loader\.stages") as caught:
        profiling.profile_training(shop_path, ["sage"], ["memory"], repeats=1, memory="64MB")
    assert "rgcn" not in str(caught.value)
