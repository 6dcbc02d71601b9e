"""Rows stored as f16, bf16 or scaled int8: imported from floats, read as float32, and updated."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.exceptions import ImportFailed, UnsupportedArgument
from neargraph.importers import ImportOptions, estimate_import
from neargraph.importers.pyg import plan_pyg

NODES, COLUMNS = 500, 40
# No value of these graphs is beyond it.
LARGEST = 5.0
TOLERANCE = {"f32": 0.0, "f16": 1e-3, "bf16": 1e-2, "i8": 1 / 254}


def graph(dtype: torch.dtype = torch.float32) -> Data:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((NODES, COLUMNS)).astype(np.float32)
    x[:, 0], x[:, 1] = 0.0, -2.5
    index = rng.integers(0, NODES, (2, 3000))
    edges = torch.from_numpy(index)
    return Data(x=torch.from_numpy(x).to(dtype), edge_index=edges, y=torch.arange(NODES) % 3)


def close(found, expected, x_dtype: str) -> None:
    assert np.asarray(found).dtype == np.float32
    assert np.abs(np.asarray(found) - np.asarray(expected)).max() <= TOLERANCE[x_dtype] * LARGEST


@pytest.mark.parametrize("x_dtype", ["f32", "f16", "bf16", "i8"])
@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_every_way_to_read_gives_float32_by_default(tmp_path, x_dtype, given):
    data = graph(given)
    expected = data.x.float().numpy()
    ng.from_pyg(data, tmp_path / "g.ng", x_dtype=x_dtype)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        snap = store.snapshot()
        ids = np.array([3, 499, 3, 0])
        close(snap.features(None, ids), expected[ids], x_dtype)
        close(store.column("x"), expected, x_dtype)
        whole = store.feature_store.get_tensor(group_name=None, attr_name="x", index=None)
        close(whole, expected, x_dtype)
        batch = next(iter(ng.NeighborLoader(store, [5, 5], batch_size=50)))
        close(batch.x, expected[batch.n_id], x_dtype)
        plain = ng.NumpySampler(store, [5]).sample([1, 2])
        close(plain.features("x"), expected[plain.nodes()], x_dtype)
        assert (snap.features(None, ids, "y") == [0, 1, 0, 0]).all()


def test_rows_come_as_stored_or_as_the_dtype_that_is_asked_for(tmp_path):
    data = graph()
    ng.from_pyg(data, tmp_path / "g.ng", x_dtype="i8")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        snap = store.snapshot()
        steps = snap.features(None, [1, 2], dtype="stored")
        values = snap.features(None, [1, 2])
        assert steps.dtype == np.int8
        scale = np.abs(data.x.numpy()).max(axis=0) / np.float32(127)
        assert np.array_equal(values, steps * scale)
        for dtype in ("f16", torch.float16, np.float16, "float16"):
            half = snap.features(None, [1, 2], dtype=dtype)
            assert np.array_equal(half, values.astype(np.float16))
        assert np.array_equal(store.column("x", dtype="stored")[1:3], steps)
        with pytest.raises(UnsupportedArgument, match="cannot be read as f64; use f32, f16, bf16"):
            snap.features(None, [1], dtype=torch.float64)
        with pytest.raises(UnsupportedArgument, match="is not a valid dtype"):
            snap.features(None, [1], dtype="floaty")
        with pytest.raises(UnsupportedArgument, match="stored as i64, cannot be read as f32"):
            snap.features(None, [1], "y", dtype="f32")
        for x_dtype, expected in [
            (torch.float16, torch.float16),
            (torch.bfloat16, torch.bfloat16),
            (torch.float64, torch.float64),
            ("stored", torch.int8),
            (None, torch.float32),
        ]:
            loader = ng.NeighborLoader(store, [5], batch_size=40, x_dtype=x_dtype, num_workers=0)
            batch = next(iter(loader))
            assert batch.x.dtype == expected
            wanted = torch.from_numpy(snap.features(None, batch.n_id))
            if x_dtype != "stored":
                assert torch.equal(batch.x, wanted.to(expected))
        sampler = ng.NumpySampler(store, [3], x_dtype="bf16")
        assert sampler.sample([5]).features("x").dtype == np.uint16
        with pytest.raises(UnsupportedArgument, match="cannot be read as int32"):
            ng.NumpySampler(store, [3], x_dtype="int32")


def test_a_store_with_int8_takes_a_quarter_and_the_estimate_says_so(tmp_path):
    plan = lambda: plan_pyg(graph())  # noqa: E731
    sizes = {}
    for x_dtype in (None, "f16", "i8"):
        estimate = estimate_import(plan(), tmp_path / "g.ng", ImportOptions(x_dtype=x_dtype))
        sizes[x_dtype] = estimate["tensor_bytes"] - NODES * 8
    assert sizes == {None: NODES * COLUMNS * 4, "f16": NODES * COLUMNS * 2, "i8": NODES * COLUMNS}


def test_each_node_type_with_floats_is_narrowed_and_nothing_else(tmp_path):
    data = HeteroData()
    data["a"].x, data["a"].z = torch.rand(30, 4), torch.rand(30, 2)
    data["b"].x = torch.rand(20, 3)
    data["a", "to", "b"].edge_index = torch.randint(0, 20, (2, 50))
    ng.from_pyg(data, tmp_path / "g.ng", x_dtype="i8")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        kinds = {(t.name, m.name): m for t in store.schema.node_types for m in t.tensors}
        assert kinds["a", "x"].scaled
        assert kinds["b", "x"].scaled
        assert (kinds["a", "z"].dtype, kinds["a", "z"].scaled) == ("f32", False)
        batch = next(iter(ng.NeighborLoader(store, [5], ("b", None), batch_size=20)))
        assert torch.allclose(batch["b"].x, data["b"].x[batch["b"].n_id], atol=1 / 250)
        loader = ng.NeighborLoader(store, [5], ("b", None), batch_size=20, x_dtype=torch.float16)
        assert next(iter(loader))["a"].x.dtype == torch.float16


@pytest.mark.parametrize(
    ("value", "x_dtype", "message"),
    [
        (float("nan"), "i8", r"row 7, column 2 is NaN, which int8 cannot represent"),
        (float("inf"), "i8", r"row 7, column 2 is inf"),
        (7e4, "f16", r"row 7, column 2 is 70000, which its dtype cannot represent"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_row_and_column(tmp_path, value, x_dtype, message):
    data = graph()
    data.x[7, 2] = value
    with pytest.raises(ImportFailed, match=message):
        ng.from_pyg(data, tmp_path / "g.ng", x_dtype=x_dtype)
    assert not (tmp_path / "g.ng").exists()


def test_only_floats_can_be_narrowed(tmp_path):
    data = graph()
    data.x = torch.ones(NODES, 2, dtype=torch.int64)
    with pytest.raises(ImportFailed, match=r"has dtype i64, but x_dtype= applies only to floats"):
        ng.from_pyg(data, tmp_path / "g.ng", x_dtype="f16")
    del data.x
    with pytest.raises(ImportFailed, match=r"has no node tensor 'x'"):
        ng.from_pyg(data, tmp_path / "g.ng", x_dtype="f16")
    with pytest.raises(ValueError, match="expected f32, f16, bf16 or i8"):
        ng.from_pyg(graph(), tmp_path / "g.ng", x_dtype="u8")


@pytest.mark.parametrize("x_dtype", ["f16", "bf16", "i8"])
def test_rows_given_as_floats_are_rounded_as_the_import_did(tmp_path, x_dtype):
    data = graph()
    expected = data.x.numpy().copy()
    ng.from_pyg(data, tmp_path / "g.ng", x_dtype=x_dtype)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        before = store.column("x")
        with store.write() as tx:
            tx.update_features(None, [4, 9], "x", expected[[10, 11]] * 0.5)
            tx.update_features(None, 3, "x", before[8].tolist())
            new = tx.add_node(features={"x": expected[12].astype(np.float64)}, label=1)
            with pytest.raises(UnsupportedArgument, match=r"row 1, column 0 is .*clip the value"):
                tx.update_features(None, [1, 2], "x", np.stack([expected[0], expected[0] + 3.4e38]))
            with pytest.raises(UnsupportedArgument):
                tx.add_node(features={"x": expected[0] - 3.4e38})
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        snap = store.snapshot()
        close(snap.features(None, [4, 9]), expected[[10, 11]] * 0.5, x_dtype)
        # What was read goes back without another error.
        assert np.array_equal(snap.features(None, [3])[0], before[8])
        assert np.array_equal(snap.features(None, [new])[0], before[12])


def test_the_command_narrows_verifies_and_compacts(tmp_path):
    rng = np.random.default_rng(5)
    folder = tmp_path / "in"
    folder.mkdir()
    x = rng.standard_normal((3000, 70)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "edge_index.npy", rng.integers(0, 3000, (2, 9000)))
    out, run = str(tmp_path / "g.ng"), CliRunner().invoke
    assert run(app, ["import", str(folder), "--out", out, "--x-dtype", "i8"]).exit_code == 0
    shown = run(app, ["info", out]).output
    assert "i8 scaled" in shown
    assert run(app, ["compact", out]).exit_code == 0
    assert run(app, ["verify", out]).exit_code == 0
    with ng.open(out, memory="64MB") as store:
        close(store.column("x"), x, "i8")
        assert store.info()["format_version"] == 2
