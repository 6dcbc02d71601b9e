"""Rows with many zeros: stored without them where that pays, read with them unless asked for."""

import json

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data, HeteroData
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers import ImportOptions, estimate_import, import_graph, plan_source

NODES, WIDTH = 800, 700


def bag(seed: int = 1, share: float = 0.02, values: str = "one") -> scipy.sparse.csr_array:
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((NODES, WIDTH), density=share, rng=rng, format="csr")
    if values == "one":
        matrix.data[:] = 1.0
    elif values == "count":
        matrix.data[:] = rng.integers(1, 200, matrix.nnz)
    return matrix.astype(np.float32)


def write_npz(path, matrix, **more) -> None:
    rng = np.random.default_rng(2)
    edges = scipy.sparse.random_array((NODES, NODES), density=0.01, rng=rng, format="csr")
    members = {
        "adj_indptr": edges.indptr,
        "adj_indices": edges.indices,
        "adj_shape": np.array(edges.shape),
        "attr_indptr": matrix.indptr,
        "attr_indices": matrix.indices,
        "attr_shape": np.array(matrix.shape),
        "labels": np.arange(NODES) % 4,
        **more,
    }
    np.savez(path, **members)


def x_meta(store):
    return store.schema.tensor(store.schema.node_types[0], "x")


def check_all_ways(store, expected) -> None:
    snap, ids = store.snapshot(), np.array([5, 799, 5, 0])
    rows = snap.features(None, ids)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, expected[ids])
    assert np.array_equal(store.column("x"), expected)
    assert np.array_equal(snap.features(None, ids, dtype="f16"), expected[ids].astype(np.float16))
    batch = next(iter(ng.NeighborLoader(store, [5, 3], batch_size=30)))
    assert np.array_equal(batch.x.numpy(), expected[batch.n_id])
    view = store.feature_store.get_tensor(group_name=None, attr_name="x", index=torch.tensor([9]))
    assert np.array_equal(view.numpy(), expected[[9]])


@pytest.mark.parametrize(("values", "entry_bytes"), [("one", 2), ("count", 3), ("any", 6)])
def test_csr_input_stays_sparse_and_reads_as_dense(tmp_path, values, entry_bytes):
    matrix = bag(values=values)
    more = {} if values == "one" else {"attr_data": matrix.data}
    write_npz(tmp_path / "g.npz", matrix, **more)
    plan = plan_source(tmp_path / "g.npz")
    estimate = estimate_import(plan, tmp_path / "g.ng", ImportOptions())
    report = import_graph(tmp_path / "g.npz", tmp_path / "g.ng")
    rows = NODES * 8 + matrix.nnz * entry_bytes
    assert rows + NODES * 8 <= estimate["tensor_bytes"] <= NODES * 16 + matrix.nnz * 6
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert x_meta(store).sparse
        check_all_ways(store, matrix.toarray())
    import_graph(tmp_path / "g.npz", tmp_path / "d.ng", dense=True)
    with ng.open(tmp_path / "d.ng", memory="64MB") as store:
        assert not x_meta(store).sparse
        check_all_ways(store, matrix.toarray())
        saved = store.info()["disk_bytes"] - report["disk_bytes"]
    assert saved > NODES * WIDTH * 4 - rows - 200_000


def test_csr_that_saves_too_little_is_stored_dense(tmp_path):
    matrix = bag(share=0.4, values="any")
    write_npz(tmp_path / "g.npz", matrix, attr_data=matrix.data)
    import_graph(tmp_path / "g.npz", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert not x_meta(store).sparse
        check_all_ways(store, matrix.toarray())


def test_columns_out_of_order_and_twice_are_added_up(tmp_path):
    matrix = bag(values="any")
    lengths = np.diff(matrix.indptr)
    order = np.argsort(np.concatenate([np.repeat(np.arange(NODES), lengths)] * 2), kind="stable")
    indices = np.concatenate([matrix.indices, matrix.indices])[order]
    data = np.concatenate([matrix.data, matrix.data * 0.25])[order]
    doubled = scipy.sparse.csr_array((data, indices, matrix.indptr * 2), shape=matrix.shape)
    write_npz(tmp_path / "g.npz", doubled, attr_data=doubled.data)
    import_graph(tmp_path / "g.npz", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert x_meta(store).sparse
        assert np.array_equal(store.column("x"), matrix.toarray() + matrix.toarray() * 0.25)


@pytest.mark.parametrize("form", ["dense", "csr", "coo"])
def test_a_pyg_graph_of_any_layout_gives_the_same_store(tmp_path, form):
    matrix = bag(values="any")
    x = torch.from_numpy(matrix.toarray())
    if form != "dense":
        x = x.to_sparse_csr() if form == "csr" else x.to_sparse()
    index = torch.from_numpy(np.random.default_rng(4).integers(0, NODES, (2, 2000)))
    ng.from_pyg(Data(x=x, edge_index=index, num_nodes=NODES), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert x_meta(store).sparse
        check_all_ways(store, matrix.toarray())
        prints = store.fingerprint
    dense = Data(x=torch.from_numpy(matrix.toarray()), edge_index=index)
    ng.from_pyg(dense, tmp_path / "same.ng")
    with ng.open(tmp_path / "same.ng", memory="64MB") as store:
        assert store.fingerprint == prints


@pytest.mark.parametrize("share", [0.09, 0.2])
def test_dense_input_is_kept_sparse_where_a_tenth_or_less_is_not_zero(tmp_path, share):
    x = torch.from_numpy(bag(share=share, values="any").toarray())
    index = torch.zeros((2, 10), dtype=torch.int64)
    seen = []
    ng.from_pyg(
        Data(x=x, edge_index=index),
        tmp_path / "g.ng",
        progress=lambda phase, done, total: seen.append((phase, done, total)),
    )
    tensors = [(done, total) for phase, done, total in seen if phase == "tensors"]
    assert tensors == sorted(tensors)
    assert tensors[-1][0] == tensors[-1][1]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert x_meta(store).sparse == (share < 0.1)
        check_all_ways(store, x.numpy())


def test_batches_give_sparse_rows_where_that_is_asked_for(tmp_path):
    matrix = bag(values="any")
    write_npz(tmp_path / "g.npz", matrix, attr_data=matrix.data)
    import_graph(tmp_path / "g.npz", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        rows = store.snapshot().features(None, [7, 7, 3], format="sparse")
        assert isinstance(rows, ng.SparseRows)
        assert rows.shape == (3, WIDTH)
        assert np.array_equal(rows.to_dense(), matrix.toarray()[[7, 7, 3]])
        own = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), rows.shape)
        assert (own != matrix[[7, 7, 3]]).nnz == 0
        loaders = [
            ng.NeighborLoader(store, [5, 3], batch_size=100, seed=3, x_format=x_format)
            for x_format in ("dense", "sparse")
        ]
        for dense, sparse in zip(*loaders, strict=True):
            assert sparse.x.layout == torch.sparse_csr
            assert torch.equal(sparse.x.to_dense(), dense.x)
            assert torch.equal(sparse.n_id, dense.n_id)
            weight = torch.ones(WIDTH, 2)
            assert torch.allclose(sparse.x @ weight, dense.x @ weight, atol=1e-5)
        sampler = ng.NumpySampler(store, [4], x_format="sparse")
        batch = sampler.sample([1, 2])
        assert np.array_equal(batch.features("x").to_dense(), matrix.toarray()[batch.nodes()])
        assert batch.nbytes < len(batch.nodes()) * WIDTH * 4
        with pytest.raises(UnsupportedArgument, match="expected 'dense' or 'sparse'"):
            ng.NumpySampler(store, [4], x_format="csr")
        with pytest.raises(UnsupportedArgument, match="leave out x_dtype="):
            ng.NeighborLoader(store, [4], x_format="sparse", x_dtype=torch.float16)
        with pytest.raises(UnsupportedArgument, match="cannot be read as sparse rows"):
            store.snapshot().features(None, [1], "y", format="sparse")
    import_graph(tmp_path / "g.npz", tmp_path / "d.ng", dense=True)
    with (
        ng.open(tmp_path / "d.ng", memory="64MB") as store,
        pytest.raises(UnsupportedArgument, match="is stored with sparse rows"),
    ):
        ng.NumpySampler(store, [4], x_format="sparse")


def test_types_with_and_without_sparse_rows_go_together(tmp_path):
    data = HeteroData()
    data["a"].x = torch.from_numpy(bag().toarray())
    data["b"].x = torch.rand(50, 6)
    data["a", "to", "b"].edge_index = torch.randint(0, 50, (2, 400))
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        loader = ng.NeighborLoader(store, [5], ("b", None), batch_size=50, x_format="sparse")
        batch = next(iter(loader))
        assert batch["a"].x.layout == torch.sparse_csr
        assert torch.equal(batch["a"].x.to_dense(), data["a"].x[batch["a"].n_id])
        assert torch.equal(batch["b"].x, data["b"].x[batch["b"].n_id])


def test_nodes_are_added_to_sparse_rows_which_are_not_changed(tmp_path):
    write_npz(tmp_path / "g.npz", bag())
    import_graph(tmp_path / "g.npz", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        with store.write() as tx:
            new = tx.add_node(label=2)
            tx.add_edge(None, new, 3)
            for refused in (
                lambda: tx.update_features(None, 3, "x", np.zeros(WIDTH, np.float32)),
                lambda: tx.add_node(features={"x": np.zeros(WIDTH, np.float32)}),
            ):
                with pytest.raises(UnsupportedArgument, match=r"with sparse rows.*dense=True"):
                    refused()
        assert not store.snapshot().features(None, [new]).any()
        assert store.num_nodes == NODES + 1


def test_the_command_shows_verifies_and_compacts_sparse_rows(tmp_path):
    matrix = bag(values="count")
    write_npz(tmp_path / "g.npz", matrix, attr_data=matrix.data)
    source, out, run = str(tmp_path / "g.npz"), str(tmp_path / "g.ng"), CliRunner().invoke
    done = run(app, ["import", source, "--out", out, "--json"])
    assert done.exit_code == 0
    estimate = json.loads(done.output)["estimate"]
    assert estimate["tensor_bytes"] < NODES * WIDTH
    assert "f32 sparse" in run(app, ["info", out]).output
    assert run(app, ["compact", out]).exit_code == 0
    assert run(app, ["verify", out]).exit_code == 0
    with ng.open(out, memory="64MB") as store:
        check_all_ways(store, matrix.toarray())
    assert run(app, ["import", source, "--out", out, "--dense", "--overwrite"]).exit_code == 0
    assert "sparse" not in run(app, ["info", out]).output
    again = ["import", source, "--out", out, "--x-dtype", "f16", "--overwrite"]
    assert run(app, again).exit_code == 0
    shown = run(app, ["info", out]).output
    assert "f16" in shown
    assert "sparse" not in shown
