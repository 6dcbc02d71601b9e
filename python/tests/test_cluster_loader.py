"""Clusters: every node once an epoch, and all edges between the nodes of a batch."""

import json

import numpy as np
import pytest
from graphs import homogeneous

import neargraph as ng
from neargraph.cli import main
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.train import TrainConfig, fit  # noqa: E402

TRIPLE = ("node", "to", "node")


def loader_of(store, **more):
    return ng.ClusterGCNLoader(store, 17, batch_size=4, shuffle=True, seed=3, **more)


def check_batch(batch, graph):
    """The batch is what the raw arrays say of its nodes."""
    ids = batch.n_id.numpy()
    edges, nodes = graph.edges[TRIPLE], graph.nodes["node"]
    inside = np.isin(edges.sources, ids) & np.isin(edges.destinations, ids)
    source, destination = batch.edge_index.numpy()
    got = np.stack([ids[source], ids[destination], batch.e_id.numpy()])
    wanted = np.stack([edges.sources, edges.destinations, np.arange(len(inside))])[:, inside]
    assert np.array_equal(got[:, np.argsort(got[2])], wanted)
    assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][batch.e_id])
    assert np.array_equal(batch.x.numpy(), nodes.tensors["x"][ids])
    assert np.array_equal(batch.y.numpy(), nodes.tensors["y"][ids])
    assert np.array_equal(batch.train_mask.numpy(), nodes.tensors["split_0"][ids] == 1)
    assert batch.batch_size == batch.num_nodes == len(ids)


def test_batches_are_induced_subgraphs_and_have_every_node_once(homo, homo_graph):
    loader = loader_of(homo)
    assert len(loader) == 5
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == 5
        for batch in batches:
            check_batch(batch, homo_graph)
        seen = np.concatenate([batch.n_id.numpy() for batch in batches])
        assert np.array_equal(np.sort(seen), np.arange(300))


def test_equal_seeds_give_equal_batches_and_epochs_differ(homo):
    first, second = loader_of(homo), loader_of(homo)
    epochs = [[b.n_id.tolist() for b in first] for _ in range(2)]
    assert epochs[0] != epochs[1]
    second.set_epoch(1)
    again = list(second)
    assert [b.n_id.tolist() for b in again] == epochs[1]
    other = ng.ClusterGCNLoader(homo, 17, batch_size=4, shuffle=True, seed=4)
    assert [b.n_id.tolist() for b in other] != epochs[0]
    plain = ng.ClusterGCNLoader(homo, 17, batch_size=4, drop_last=True)
    assert [i for b in plain for i in b.n_id.tolist()] == list(range(16 * 300 // 17))


def test_a_loaded_state_goes_on_where_it_was_taken(homo):
    loader = loader_of(homo)
    passes = iter(loader)
    for _ in range(2):
        next(passes)
    state = loader.state_dict()
    rest = [b.n_id.tolist() for b in passes]
    other = loader_of(homo)
    other.load_state_dict(state)
    assert [b.n_id.tolist() for b in other] == rest
    with pytest.raises(ng.StateMismatch, match="num_parts"):
        ng.ClusterGCNLoader(homo, 16, batch_size=4, shuffle=True, seed=3).load_state_dict(state)


@pytest.mark.parametrize("by", ["heat", "locality"])
def test_clusters_of_a_reorganised_store_are_ranges_of_its_rows(by, homo_graph, tmp_path):
    path = homo_graph.write(tmp_path / "g.ng")
    with ng.open(path, memory="64MB") as store:
        store.reorganize(by, num_neighbors=[3, 2], batch_size=16)
        loader = loader_of(store)
        batches = list(loader)
        for batch in batches:
            check_batch(batch, homo_graph)
        seen = np.concatenate([batch.n_id.numpy() for batch in batches])
        assert np.array_equal(np.sort(seen), np.arange(300))
        in_order = np.concatenate([loader.nodes(part) for part in range(17)])
        assert not np.array_equal(in_order, np.arange(300))
        wanted = [loader.nodes(part) for part in loader.parts(0, 0)]
        assert np.array_equal(batches[0].n_id.numpy(), np.concatenate(wanted))


def test_deleted_nodes_are_in_no_cluster_and_new_ones_are(tmp_path):
    run_import(plan_generated(300, 900, 6, 5), tmp_path / "g.ng", ImportOptions(undirected=True))
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        store.reorganize("heat", num_neighbors=[3], batch_size=16)
        with store.write() as tx:
            tx.delete_node(None, 7)
            new = tx.add_node(features={"x": np.ones(6, np.float32), "y": 2})
        batches = list(loader_of(store))
        seen = np.concatenate([b.n_id.numpy() for b in batches])
        assert np.array_equal(np.sort(seen), np.setdiff1d(np.arange(301), [7]))
        holder = next(b for b in batches if new in b.n_id)
        assert holder.x[holder.n_id == new].tolist() == [[1.0] * 6]


def test_rows_of_neighbouring_clusters_are_read_in_long_pieces(tmp_path):
    graph = homogeneous(4000, 8000)
    rows = np.random.default_rng(1).standard_normal((4000, 256))
    graph.nodes["node"].tensors["x"] = rows.astype(np.float32)
    graph.write(tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB", backend="pread") as store:
        loader = ng.ClusterGCNLoader(store, 8, attrs=["x"])
        list(loader)
        rows = 4000 * 256 * 4
        stats = store.stats()
        assert rows <= stats["read_bytes"] < 1.5 * rows
        assert stats["read_bytes"] / stats["reads"] > 32_768


def test_what_has_no_clusters_is_said_by_name(homo, hetero):
    with pytest.raises(ng.UnsupportedArgument, match="one node type"):
        ng.ClusterGCNLoader(hetero, 4)
    for parts in (0, 301):
        with pytest.raises(ValueError, match="num_parts"):
            ng.ClusterGCNLoader(homo, parts)
    for part in (-1, 17):
        with pytest.raises(ValueError, match=f"part={part} is not a valid cluster"):
            loader_of(homo).nodes(part)


def test_numbers_of_parts_and_padding_that_are_not_valid_are_said(homo):
    for given, named in (
        ({"num_parts": 2.5}, "num_parts=2.5 is not valid: expected a whole number"),
        ({"num_parts": "4"}, "num_parts='4' is not valid: expected a whole number"),
        ({"num_parts": 4, "ranks": ng.Ranks(0, 2, pad=True)}, "pad=True would repeat nodes"),
    ):
        with pytest.raises(ValueError, match=named) as caught:
            ng.ClusterGCNLoader(homo, **given)
        assert "\n" not in str(caught.value)


def test_a_state_belongs_to_its_parts(homo):
    def loader(parts):
        return ng.ClusterGCNLoader(homo, 3, partition=parts)

    state = loader(np.arange(300) % 3).state_dict()
    loader(np.arange(300) % 3).load_state_dict(state)
    for other in (np.arange(300) // 100, (np.arange(300) + 1) % 3, "order"):
        with pytest.raises(ng.StateMismatch, match="part"):
            loader(other).load_state_dict(state)


def test_a_state_belongs_to_the_parts_that_metis_made(homo, monkeypatch):
    made = [np.arange(300) % 3, np.arange(300) % 3, np.arange(300) // 100]
    monkeypatch.setattr("neargraph.loader.cluster.metis_parts", lambda *_: made.pop(0))
    first, same, other = (ng.ClusterGCNLoader(homo, 3, partition="metis") for _ in range(3))
    same.load_state_dict(first.state_dict())
    with pytest.raises(ng.StateMismatch, match="parts"):
        other.load_state_dict(first.state_dict())


def test_ranks_share_the_clusters_of_every_batch(homo, homo_graph):
    whole, ranks = loader_of(homo), [loader_of(homo, ranks=(r, 2)) for r in range(2)]
    assert [len(loader) for loader in ranks] == [4, 4]
    for one, *parts in zip(whole, *ranks, strict=False):
        for batch in parts:
            check_batch(batch, homo_graph)
        shared = np.sort(np.concatenate([batch.n_id.numpy() for batch in parts]))
        assert np.array_equal(shared, np.sort(one.n_id.numpy()))
    with pytest.raises(ng.StateMismatch, match="world_size"):
        ranks[0].load_state_dict(whole.state_dict())


def test_batches_do_not_depend_on_how_many_are_made_ahead(homo):
    one, other = loader_of(homo), loader_of(homo, reading=ng.Reading(prefetch=4))
    for batch, same in zip(one, other, strict=True):
        assert batch.keys() == same.keys()
        assert "num_sampled_nodes" not in batch
        assert all(torch.equal(batch[key], same[key]) for key in ("n_id", "edge_index", "x"))
    one.close()
    assert len(list(one)) == 5


def test_stages_are_timed(homo):
    loader = loader_of(homo)
    list(loader)
    stages = loader.stages()
    assert list(stages) == ["load", "sample", "read", "gather", "copy", "wait"]
    assert stages["sample"] > 0
    assert stages["gather"] > 0
    assert stages["wait"] > 0
    assert loader.waits()["consumer"] > 0


def test_an_error_of_a_batch_reaches_the_caller_and_the_thread_ends(homo):
    def fail(batch):
        raise KeyError("seen")

    with pytest.raises(KeyError, match="seen"):
        list(loader_of(homo, transform=fail))
    partial = iter(loader_of(homo))
    next(partial)
    del partial


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20))
    run_import(plan_generated(3000, 20_000, 200, 6), path, options)
    return path


def test_training_on_clusters_learns_and_is_repeatable(path):
    config = TrainConfig(
        model="cluster", parts=50, batch_parts=8, hidden=16, epochs=4, lr=0.01, fanouts=(5, 3)
    )
    with ng.open(path, memory="64MB") as store:
        result = fit(store, config)
        again = fit(store, config, in_memory=True)
    assert len(result.losses) == 4 * 7
    assert result.losses[-1] < result.losses[0]
    assert result.test_accuracy > 0.5
    assert result.seeds == 4 * 1800
    assert again.losses == result.losses
    assert again.test_accuracy == result.test_accuracy


def test_the_command_trains_on_clusters(path, capsys):
    options = ["--model", "cluster", "--parts", "30", "--batch-parts", "10", "--epochs", "1"]
    with pytest.raises(SystemExit) as left:
        main(["train", str(path), "--fanouts", "3,3", "--memory", "64MB", "--json", *options])
    assert not left.value.code
    report = json.loads(capsys.readouterr().out)
    assert report["config"]["parts"] == 30
    assert len(report["losses"]) == 3
