"""Compiled epochs give the batches that would be sampled, and are used only where they fit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from epoch_files import regions

import neargraph as ng
from neargraph.cli.app import main
from neargraph.loader.compiling import EpochCompiler
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")

NODES = 30_000
EPOCHS = 2
BATCH = 128
FANOUTS = [5, 4]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store whose rows are several times its memory, with two compiled epochs."""
    rng = np.random.default_rng(5)
    edges = np.stack([rng.integers(0, NODES, 200_000), rng.integers(0, NODES, 200_000)])
    mask = np.zeros(NODES, dtype=bool)
    mask[rng.permutation(NODES)[:2_000]] = True
    data = {
        "edge_index": edges,
        "x": rng.standard_normal((NODES, 384), dtype=np.float32),
        "y": rng.integers(0, 7, NODES),
        "train_mask": mask,
    }
    out = tmp_path_factory.mktemp("compiled") / "graph.ng"
    ng.from_pyg(pyg.Data(**{name: torch.from_numpy(array) for name, array in data.items()}), out)
    assert _compile(out, "--epochs", str(EPOCHS)) == 0
    return out


def _compile(path, *more):
    options = ["--fanouts", "5,4", "--batch-size", str(BATCH), "--seed", "3", "--memory", "72MB"]
    try:
        main(["compile", str(path), *options, *more])
    except SystemExit as ended:
        return ended.code or 0
    return 0


def _arrays(batch):
    return batch.nodes(), batch.edge_index(), batch.features("x"), batch.features("y")


def _expected(path, epoch):
    with ng.open(path, memory="1GB") as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        batches = sampler.batches("train", BATCH, shuffle=True, reading="on_demand", epoch=epoch)
        return [tuple(map(np.copy, _arrays(batch))) for batch in batches]


def _same(batch, expected):
    return all(np.array_equal(a, b) for a, b in zip(_arrays(batch), expected, strict=True))


def _drain(loader):
    """Takes every batch and keeps none."""
    return sum(1 for _ in loader)


def _loader(store, **options):
    options = {"reading": "compiled", "seed": 3, "batch_size": BATCH, "shuffle": True, **options}
    return ng.NeighborLoader(store, FANOUTS, "train", **options)


@pytest.mark.parametrize("epoch", range(EPOCHS + 1))
def test_a_replayed_epoch_has_the_batches_that_would_be_sampled(path, epoch):
    expected = _expected(path, epoch % EPOCHS)
    with ng.open(path, memory="72MB") as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3, check_rows=True)
        replayed = sampler.batches("train", BATCH, shuffle=True, epoch=epoch, reading="compiled")
        count = 0
        for batch, wanted in zip(replayed, expected, strict=True):
            assert _same(batch, wanted)
            assert batch.num_seeds == len(batch.input_id)
            assert np.array_equal(batch.input_id, batch.nodes()[: batch.num_seeds])
            del batch
            count += 1
        assert count == 16
        assert store.stats()["budget_peak"] <= 72_000_000


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_epochs_are_read_through_the_back_end_of_the_store(path, backend):
    expected = _expected(path, 0)
    with ng.open(path, memory="72MB", backend=backend) as store:
        loader = _loader(store)
        for batch, wanted in zip(loader, expected, strict=True):
            assert np.array_equal(batch.n_id, wanted[0])
            mapped = ".epoch" in Path("/proc/self/maps").read_text()
            assert mapped == (backend == "mmap")
        loader.close()


def test_a_loader_takes_the_epochs_in_turn_and_resumes_in_the_midst_of_one(path):
    with ng.open(path, memory="72MB") as store:
        loader = _loader(store)
        passes = [[batch.n_id.clone() for batch in loader] for _ in range(2 * EPOCHS)]
        for epoch, found in enumerate(passes):
            again = passes[epoch % EPOCHS]
            assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
        assert not torch.equal(passes[0][0], passes[1][0])
        resumed = _loader(store)
        resumed.set_epoch(1)
        batches = iter(resumed)
        for _ in range(5):
            next(batches)
        state = json.loads(json.dumps(resumed.state_dict()))
        batches.close()
        resumed.close()
        other = _loader(store)
        other.load_state_dict(state)
        rest = [batch.n_id.clone() for batch in other]
        assert all(torch.equal(a, b) for a, b in zip(rest, passes[1][5:], strict=True))
        other.close()
        with pytest.raises(ng.StateMismatch, match="compiled"):
            _loader(store, reading="auto").load_state_dict(state)


def test_narrower_rows_can_be_asked_for(path):
    with ng.open(path, memory="72MB") as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3, attrs=["x"], x_dtype="f16")
        fresh = sampler.batches("train", BATCH, shuffle=True, reading="on_demand")
        expected = [batch.features("x").copy() for batch in fresh]
        replayed = sampler.batches("train", BATCH, shuffle=True, reading="compiled")
        for batch, wanted in zip(replayed, expected, strict=True):
            assert np.array_equal(batch.features("x"), wanted)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 4}, "seed = 3"),
        ({"batch_size": 64}, "batch_size = 128"),
        ({"shuffle": False}, "shuffle = by seed 3"),
        ({"replace": True}, "replace = False"),
        ({"method": "labor"}, "method = uniform"),
        ({"num_neighbors": [5, 5]}, "fanouts"),
        ({"input_nodes": np.arange(2000)}, "input_nodes"),
    ],
)
def test_epochs_of_other_settings_are_refused_by_name_or_passed_over(path, change, named):
    settings = {"num_neighbors": FANOUTS, "input_nodes": "train", "batch_size": BATCH}
    settings = {**settings, "shuffle": True, "seed": 3, **change}
    with ng.open(path, memory="72MB") as store:
        with pytest.raises(ng.CompiledMismatch, match=named):
            ng.NeighborLoader(store, reading="compiled", **settings)
        assert (
            len(
                ng.NeighborLoader(
                    store, reading=ng.Reading("compiled", otherwise="auto"), **settings
                )
            )
            > 0
        )


def test_a_changed_store_has_no_compiled_epochs(path, tmp_path):
    copy = tmp_path / "copy.ng"
    shutil.copytree(path, copy)
    with ng.open(copy, memory="72MB") as store:
        _loader(store).close()
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        with pytest.raises(ng.CompiledMismatch, match="store"):
            _loader(store)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(copy)])
    assert not ended.value.code


def test_damage_is_named_and_a_file_cut_short_is_refused(path, tmp_path):
    name, other = sorted(file.name for file in (path / "compiled").glob("*.epoch"))
    (tmp_path / other).symlink_to(path / "compiled" / other)
    whole = (path / "compiled" / name).read_bytes()
    damaged = bytearray(whole)
    damaged[regions(whole)["batch 0, middle"]] ^= 1
    (tmp_path / name).write_bytes(damaged)
    with ng.open(path, memory="72MB") as store:
        with pytest.raises(ng.StoreDamaged, match=rf"{name}: batch \d+, at byte \d+"):
            _drain(_loader(store, reading=tmp_path))
        (tmp_path / name).write_bytes(whole[:-4096])
        with pytest.raises(ng.StoreDamaged, match="not a complete compiled epoch"):
            _loader(store, reading=tmp_path)


def test_every_region_of_a_file_with_hot_and_cold_rows_is_checked(path, tmp_path):
    first, second = sorted((path / "compiled").glob("*.epoch"))
    content = first.read_bytes()
    (tmp_path / second.name).symlink_to(second)
    places = regions(content)
    assert "maps" in places
    for name, place in places.items():
        changed = bytearray(content)
        changed[place] ^= 4
        (tmp_path / first.name).write_bytes(changed)
        with ng.open(path, memory="72MB") as store:
            with pytest.raises(ng.StoreDamaged, match=first.name):
                _drain(_loader(store, reading=tmp_path))
            assert name


def test_memory_that_is_too_small_is_named_or_done_without(path):
    with ng.open(path, memory="40MB") as store:
        with pytest.raises(ng.BudgetTooSmall):
            next(iter(_loader(store)))
        batch = next(iter(_loader(store, reading=ng.Reading("compiled", otherwise="auto"))))
        assert batch.batch_size == BATCH


def test_no_compiled_epochs_and_processes_are_refused(path, tmp_path):
    with ng.open(path, memory="72MB") as store:
        with pytest.raises(ng.CompiledMismatch, match="neargraph compile"):
            _loader(store, reading=tmp_path)
        with pytest.raises(ng.UnsupportedArgument, match="num_workers"):
            _loader(store, num_workers=1)


def test_the_estimate_comes_first_and_compiling_again_keeps_what_is_there(path, capsys, tmp_path):
    before = {file: file.stat().st_mtime_ns for file in (path / "compiled").iterdir()}
    assert _compile(path, "--epochs", str(EPOCHS), "--dry-run", "--json") == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    sizes = [file.stat().st_size for file in before if file.suffix == ".epoch"]
    assert len(sizes) == EPOCHS
    assert abs(estimate["total_bytes"] - sum(sizes)) < sum(sizes) / 5
    assert estimate["times_features"] == estimate["bytes_per_epoch"] / (NODES * 384 * 4)
    assert _compile(path, "--epochs", str(EPOCHS), "--json") == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert (report["kept"], report["written_bytes"]) == (EPOCHS, 0)
    assert before == {file: file.stat().st_mtime_ns for file in (path / "compiled").iterdir()}
    assert _compile(path, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "times the features" in shown
    assert "replayed epochs" in shown


def test_a_disk_that_is_too_full_is_said_before_anything_is_written(path, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    out = tmp_path / "out"
    assert _compile(path, "--out", str(out)) == 2
    assert not out.exists()


def test_an_interrupted_build_leaves_nothing_that_is_used(path, tmp_path):
    with ng.open(path, memory="72MB") as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        inputs = resolve_input_nodes(sampler.snapshot, "train")
        plan = SeedPlan(num_seeds=len(inputs), batch_size=BATCH, shuffle=True, seed=3)
        compiler = EpochCompiler(sampler, inputs, plan, 2, directory=Path(tmp_path))

        def stop(phase, done, total):
            if phase == "write" and done == total - 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            compiler.run(stop)
        found = [file.name for file in tmp_path.iterdir() if "epoch" in file.name]
        assert len(found) == 1
        assert found[0].endswith(".0000.epoch")
        report = compiler.run(lambda *_: None)
        assert report["kept"] == 1
        loader = _loader(store, reading=tmp_path)
        assert _drain(loader) == 16
        loader.close()


def _replays(path, out, fanouts, ids, arrays, **how):
    """Compiles one epoch and compares its replay with what is sampled."""
    with ng.open(path, memory="72MB") as store:
        sampler = ng.NumpySampler(store, fanouts, seed=3, check_rows=True, **how)
        inputs = resolve_input_nodes(sampler.snapshot, ids)
        plan = SeedPlan(num_seeds=len(inputs), batch_size=50, shuffle=True, seed=3)
        compiler = EpochCompiler(sampler, inputs, plan, 1, directory=out)
        assert compiler.estimate().batches == plan.steps
        compiler.run(lambda *_: None)
        fresh = sampler.batches(ids, 50, shuffle=True, reading="on_demand")
        expected = [[np.copy(array) for array in arrays(batch)] for batch in fresh]
        assert len(expected) == plan.steps
        replayed = sampler.batches(ids, 50, shuffle=True, reading=out)
        for batch, wanted in zip(replayed, expected, strict=True):
            found = arrays(batch)
            assert len(found) == len(wanted)
            assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_stores_that_fit_into_memory_and_several_types_are_replayed_as_well(
    homo_path, hetero_path, tmp_path
):
    def all_of(batch):
        schema = batch._schema
        kinds = [(t, [batch.nodes(t.name)]) for t in schema.node_types]
        out = [array for _, arrays in kinds for array in arrays]
        for node_type in schema.node_types:
            out += [batch.features(t.name, node_type.name) for t in node_type.tensors]
        for edge_type in schema.edge_types:
            key = edge_type.triple
            out += [batch.edge_index(key), *(a for a in [batch.edge_ids(key)] if a is not None)]
            out += [batch.edge_features(t.name, key) for t in edge_type.tensors]
        return out

    for number, path in enumerate([homo_path, hetero_path]):
        out = tmp_path / str(number)
        with ng.open(path, memory="64MB") as store:
            first = store.snapshot().schema.node_types[0].name
        _replays(path, out, [4, 3], (first, None), all_of)


def test_batches_that_choose_alike_are_replayed(path, tmp_path):
    how = {"method": "labor", "dependent_batches": 4}
    _replays(path, tmp_path, FANOUTS, "train", _arrays, **how)


def test_rows_that_are_stored_without_their_zeros_are_replayed(tmp_path):
    rng = np.random.default_rng(9)
    x = np.zeros((3_000, 300), dtype=np.float32)
    x[rng.integers(0, 3_000, 9_000), rng.integers(0, 300, 9_000)] = 1.5
    edges = torch.from_numpy(rng.integers(0, 3_000, (2, 20_000)))
    wide = torch.from_numpy(rng.standard_normal((3_000, 700), dtype=np.float32))
    x = torch.from_numpy(x).to_sparse_csr()
    ng.from_pyg(pyg.Data(x=x, wide=wide, edge_index=edges), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng") as store:
        node_type = store.snapshot().schema.node_types[0]
        assert {t.name: t.sparse for t in node_type.tensors} == {"x": True, "wide": False}
    _replays(
        tmp_path / "g.ng",
        tmp_path / "out",
        [4, 3],
        None,
        lambda batch: [batch.nodes(), batch.features("x"), batch.features("wide")],
    )
