"""NumpySampler: NumPy batches, no torch, the same for the same seed."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import neargraph as ng


def content(batch):
    """Everything of a batch of a homogeneous store, as bytes."""
    arrays = [batch.nodes(), batch.edge_index(), batch.edge_ids(), batch.features("x")]
    arrays += [batch.features("y"), batch.edge_features(), batch.input_id]
    counts = (batch.num_sampled_nodes(), batch.num_sampled_edges())
    return [a.tobytes() for a in arrays], counts


def test_a_batch_holds_the_rows_of_its_nodes_and_edges(homo, homo_graph):
    raw = homo_graph.nodes["node"].tensors
    edges = homo_graph.edges["node", "to", "node"]
    for batch in ng.NumpySampler(homo, [5, 3], seed=3).batches("train", 16):
        nodes, (row, col), ids = batch.nodes(), batch.edge_index(), batch.edge_ids()
        assert np.array_equal(nodes[: batch.num_seeds], batch.input_id)
        assert len(np.unique(nodes)) == len(nodes)
        assert np.array_equal(edges.sources[ids], nodes[row])
        assert np.array_equal(edges.destinations[ids], nodes[col])
        assert np.array_equal(batch.features("x"), raw["x"][nodes])
        assert np.array_equal(batch.features("y"), raw["y"][nodes])
        assert np.array_equal(batch.edge_features(), edges.tensors["edge_attr"][ids])
        assert np.array_equal(batch.mask("train"), raw["split_0"][nodes] == 1)
        assert sum(batch.num_sampled_nodes()) == len(nodes)
        assert sum(batch.num_sampled_edges()) == len(ids)
        assert batch.nbytes > 0


def test_draws_without_replacement_are_distinct_and_bounded(homo, homo_graph):
    batch = ng.NumpySampler(homo, [4], seed=1).sample([7, 3, 299])
    ids, (_, col) = batch.edge_ids(), batch.edge_index()
    assert len(np.unique(ids)) == len(ids)
    for local, node in enumerate([7, 3, 299]):
        degree = len(homo_graph.in_edges(("node", "to", "node"), node))
        assert np.count_nonzero(col == local) == min(4, degree)
    batch = ng.NumpySampler(homo, [40], seed=1, replace=True).sample([3])
    assert len(batch.edge_ids()) == 40


def test_the_same_seed_gives_the_same_batches_whatever_the_threads(homo):
    def run(seed, **ahead):
        sampler = ng.NumpySampler(homo, [5, 3], seed=seed)
        return [content(b) for b in sampler.batches(None, 32, shuffle=True, **ahead)]

    reference = run(5)
    assert len(reference) == 10
    for ahead in (
        {"reading": ng.Reading(threads=1)},
        {"reading": ng.Reading(prefetch=1, threads=4)},
        {"reading": ng.Reading(prefetch=8)},
    ):
        assert run(5, **ahead) == reference
    assert run(6) != reference


def test_epochs_differ_and_repeat(homo):
    sampler = ng.NumpySampler(homo, [5], seed=5)
    first, second, again = (
        [content(b) for b in sampler.batches("train", 32, epoch=e)] for e in (0, 1, 0)
    )
    assert first == again
    assert first != second


def test_a_pickled_sampler_gives_the_same_batch(homo):
    sampler = ng.NumpySampler(homo, [5, 3], seed=5)
    twin = pickle.loads(pickle.dumps(sampler))
    assert content(twin.sample([1, 2], stream=9)) == content(sampler.sample([1, 2], stream=9))
    assert content(sampler.sample([1, 2], stream=9)) != content(sampler.sample([1, 2], stream=8))


def test_attributes_can_be_chosen_and_unknown_ones_are_refused(homo, hetero):
    batch = ng.NumpySampler(homo, [2], attrs=["y", "train_mask"]).sample([1])
    assert batch.features("y").shape == batch.mask("val").shape
    for missing in ("x", "edge_attr"):
        with pytest.raises(KeyError):
            batch.features(missing)
    with pytest.raises(ng.NameNotFound, match="'z'"):
        ng.NumpySampler(homo, [2], attrs=["z"])
    chosen = ng.NumpySampler(hetero, [2], attrs={"paper": ["x"], "writes": ["edge_attr"]})
    assert chosen.tensors == [("node", 0, "x"), ("edge", 1, "edge_attr")]
    with pytest.raises(ng.NameNotFound, match="'z'"):
        ng.NumpySampler(hetero, [2], attrs={"paper": ["z"]})


def test_seeds_of_several_types_are_sampled_together(hetero):
    sampler = ng.NumpySampler(hetero, [-1], seed=1)
    batch = sampler.sample_many({"paper": [3, 4], "venue": [1]})
    assert batch.num_seeds == 3
    assert batch.nodes("paper")[:2].tolist() == [3, 4]
    assert batch.nodes("venue")[0] == 1
    with pytest.raises(ng.NodeOutOfRange):
        sampler.sample_many({"venue": [5]})


def test_input_nodes_take_every_spelling(homo, hetero):
    sampler = ng.NumpySampler(homo, [0], attrs=())

    def nodes(given, store_sampler=sampler):
        return np.concatenate([b.nodes() for b in store_sampler.batches(given, 50)]).tolist()

    train = homo.split("train").tolist()
    assert nodes(None) == list(range(300))
    assert nodes("train") == nodes(homo.mask("train")) == nodes(train) == train
    assert nodes(("node", "train")) == nodes(("node", homo.mask("train"))) == train
    assert nodes("node") == nodes(("node", None)) == list(range(300))
    for bad in ([300], [-1]):
        with pytest.raises(ng.NodeOutOfRange):
            nodes(bad)
    with pytest.raises(ValueError, match="shape"):
        nodes(np.ones(5, bool))
    with pytest.raises(ng.NameNotFound):
        ng.NumpySampler(hetero, [1]).batches([1], 1)


def test_no_torch_is_imported_on_the_numpy_path(homo_path):
    program = f"""
        import sys

        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "torch_geometric"):
                    raise ImportError(f"{{name}} is blocked", name=name)

        sys.meta_path.insert(0, Block())
        import neargraph as ng
        store = ng.open({homo_path!r}, memory="64MB")
        batches = list(ng.NumpySampler(store, [5, 3], seed=7).batches("train", 16))
        assert batches[0].features("x").shape[1] == 6
        assert not any(m.split(".")[0] == "torch" for m in sys.modules)
        try:
            ng.NeighborLoader
        except ng.MissingDependency as error:
            assert "pip install" in str(error), error
        else:
            raise SystemExit("NeighborLoader must say that torch is missing")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
