"""The Kronecker expansion of a store: counts and degrees in closed form, rows, refusals."""

import json
import subprocess
import sys

import numpy as np
import pytest
from graphs import heterogeneous, homogeneous
from realdata import data
from typer.testing import CliRunner

import neargraph as ng
from neargraph import _core
from neargraph.cli.app import app
from neargraph.datasets import Seed, expand
from neargraph.importers import TextHints, import_graph

SEED = Seed(3, [0, 1, 2, 0, 2], [0, 1, 2, 1, 0])


def pairs(store, triple):
    """(source, destination) of each entry, with its edge id."""
    count = store.schema.node_type(triple[2]).num_nodes
    found = store.snapshot().neighbors(triple, np.arange(count))
    return found, found.indices, np.repeat(np.arange(count), np.diff(found.indptr))


def check_product(store, wide, seed):
    """`wide` is the product of `store` with a seed, with all that belongs to nodes and edges."""
    k = seed.num_nodes
    own = np.bincount(seed.destinations, minlength=k)
    assert json.loads(_core.verify(wide.path))["ok"]
    for node in store.schema.node_types:
        again = wide.schema.node_type(node.name)
        assert again.num_nodes == node.num_nodes * k
        assert {t.name for t in again.tensors} == {t.name for t in node.tensors}
        for tensor in node.tensors:
            for part in np.array_split(np.arange(node.num_nodes), 1 + node.num_nodes // 400):
                rows = store.snapshot().features(node.name, part, tensor.name)
                ids = (part[:, None] * k + np.arange(k)).reshape(-1)
                copies = wide.snapshot().features(node.name, ids, tensor.name)
                assert np.array_equal(copies, np.repeat(rows, k, axis=0))
            kept = wide.schema.tensor(again, tensor.name)
            assert (kept.dtype, kept.class_names) == (tensor.dtype, tensor.class_names)
    for triple in store.edge_types:
        edge, again = store.schema.edge_type(triple), wide.schema.edge_type(triple)
        assert again.num_edges == seed.num_edges * edge.num_edges
        found, sources, destinations = pairs(store, triple)
        wider, left, right = pairs(wide, triple)
        degrees = np.diff(found.indptr)
        assert np.array_equal(np.diff(wider.indptr), (degrees[:, None] * own).reshape(-1))
        columns = [
            (sources[:, None] * k + seed.sources).reshape(-1),
            (destinations[:, None] * k + seed.destinations).reshape(-1),
        ]
        got = [left, right]
        for one, other in ((found.weights, wider.weights), (found.times, wider.times)):
            assert (one is None) == (other is None)
            if one is not None:
                columns.append(np.repeat(one, seed.num_edges))
                got.append(other)
        for tensor in edge.tensors:
            rows = store.snapshot().edge_features(triple, found.edge_ids, tensor.name)
            columns += list(np.repeat(rows, seed.num_edges, axis=0).T)
            got += list(wide.snapshot().edge_features(triple, wider.edge_ids, tensor.name).T)
        wanted, table = np.stack(columns).astype(float), np.stack(got).astype(float)
        assert np.array_equal(wanted[:, np.lexsort(wanted)], table[:, np.lexsort(table)])


@pytest.mark.parametrize("make", [homogeneous, heterogeneous])
def test_an_expansion_is_the_kronecker_product_with_its_seed(make, tmp_path):
    make().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        report = expand(store, tmp_path / "b.ng", seed=SEED)
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            check_product(store, wide, SEED)
        assert "edge-ids-renumbered" in {note["code"] for note in report["notes"]}


def test_splits_are_those_of_the_originals(tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        expand(store, tmp_path / "b.ng", seed=SEED)
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            for part in ("train", "val", "test"):
                ids = store.split(part)
                copies = (ids[:, None] * 3 + np.arange(3)).reshape(-1)
                assert np.array_equal(wide.split(part), copies)


def test_copies_of_deleted_nodes_are_in_no_split(tmp_path):
    edges = np.stack([np.arange(300), (np.arange(300) * 7 + 1) % 300], axis=1)
    np.savez(tmp_path / "a.npz", edges=edges, node_features=np.eye(300, 4, dtype=np.float32))
    import_graph(tmp_path / "a.npz", tmp_path / "a.ng", split_sizes=(60, 20, 20), reverse=True)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        gone = store.split("train")[:5]
        with store.write() as tx:
            for node in gone.tolist():
                tx.delete_node(None, node)
        expand(store, tmp_path / "b.ng", seed=SEED)
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            copies = wide.split("train") // SEED.num_nodes
            assert not np.isin(copies, gone).any()
            assert np.array_equal(np.unique(copies), store.split("train"))


def test_a_seed_that_is_made_of_the_graph_has_the_density_that_is_asked_for(tmp_path):
    # Two halves with edges inside of them, and a few from the first to the last quarter.
    rng = np.random.default_rng(1)
    halves = [rng.integers(low, low + 500, (2, 4000)) for low in (0, 500)]
    across = np.stack([rng.integers(0, 250, 300), rng.integers(750, 1000, 300)])
    np.save(tmp_path / "e.npy", np.concatenate([*halves, across], axis=1))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", num_nodes=1000)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        seed = Seed.shrunk(store, 4, 2.5)
        marks = np.zeros((4, 4), bool)
        marks[seed.sources, seed.destinations] = True
        wanted = np.eye(4, dtype=bool)
        for a, b in ((0, 1), (2, 3), (0, 3)):
            wanted[a, b] = wanted[b, a] = True
        assert np.array_equal(marks, wanted)
        report = expand(store, tmp_path / "b.ng", 4, density=2.5)
        assert report["notes"]
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            check_product(store, wide, seed)
            assert (wide.num_nodes, wide.num_edges) == (4000, 10 * 8300)


def test_names_are_numbered_and_undirected_types_are_said(tmp_path):
    lines = [f"n{k},n{(k * 7 + 1) % 10}" for k in range(10)]
    (tmp_path / "e.csv").write_text("\n".join(lines) + "\n")
    hints = TextHints(strings=True)
    import_graph(tmp_path / "e.csv", tmp_path / "a.ng", hints=hints, undirected=True, unique=True)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        report = expand(store, tmp_path / "b.ng", seed=SEED)
        assert {n["code"] for n in report["notes"]} >= {"undirected-dropped", "unique-dropped"}
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            ids = np.arange(10)
            names = store.names(ids)
            assert wide.names(np.arange(30)) == [f"{name}/{a}" for name in names for a in range(3)]
            _, left, right = pairs(store, store.edge_types[0])
            _, sources, destinations = pairs(wide, wide.edge_types[0])
            wanted = sorted(
                (int(3 * u + a), int(3 * v + b))
                for u, v in zip(left, right, strict=True)
                for a, b in zip(SEED.sources, SEED.destinations, strict=True)
            )
            got = zip(sources.tolist(), destinations.tolist(), strict=True)
            assert sorted(got) == wanted


def test_a_kept_reverse_is_built_again_or_said(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    import_graph(tmp_path / "e.npy", tmp_path / "a.ng", reverse=True)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        report = expand(store, tmp_path / "b.ng", seed=SEED)
        assert "reverse-dropped" in {note["code"] for note in report["notes"]}
        report = expand(store, tmp_path / "c.ng", seed=SEED, reverse=True)
        assert "reverse-dropped" not in {note["code"] for note in report["notes"]}
        with ng.open(tmp_path / "c.ng", memory="64MB") as wide:
            assert len(wide.schema.reverse_types) == 1


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
def test_narrow_rows_stay_narrow_and_equal(dtype, tmp_path):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((20, 4)).astype(np.float32)
    np.savez(tmp_path / "n.npz", edges=rng.integers(0, 20, (50, 2)), node_features=x)
    import_graph(tmp_path / "n.npz", tmp_path / "a.ng", x_dtype=dtype)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        expand(store, tmp_path / "b.ng", seed=SEED)
        with ng.open(tmp_path / "b.ng", memory="64MB") as wide:
            check_product(store, wide, SEED)


def test_a_seed_that_does_not_fit_in_memory_is_refused_with_what_it_takes(tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    refused = pytest.raises(ng.BudgetTooSmall, match="edges between 4096 groups of nodes")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store, refused:
        expand(store, tmp_path / "b.ng", factor=4096, memory="512MB")
    assert not (tmp_path / "b.ng").exists()


def test_an_expansion_needs_less_memory_than_its_rows_have(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40_000, 256)).astype(np.float32)
    np.savez(tmp_path / "n.npz", edges=rng.integers(0, 40_000, (50_000, 2)), node_features=x)
    import_graph(tmp_path / "n.npz", tmp_path / "a.ng")
    command = ["expand", "a.ng", "b.ng", "--factor", "8", "--memory", "140MB", "--json"]
    program = "import sys; from neargraph.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # The rows are 328 MB; the interpreter is beside the memory that was given.
    assert json.loads(done.stdout)["peak_rss_bytes"] < 220e6
    with ng.open(tmp_path / "b.ng", memory="32MB") as wide:
        ids = np.array([0, 7, 8, 319_999])
        assert np.array_equal(wide.snapshot().features(None, ids), x[ids // 8])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs factor= or seed="),
        ({"factor": 0}, "expected a factor from 1 to"),
        ({"factor": 5000}, "expected a factor from 1 to"),
        ({"factor": 4, "density": 5}, "a density from 1 to the factor"),
        ({"factor": 4, "density": float("nan")}, "a density from 1 to the factor"),
        ({"factor": 4, "seed": SEED}, "does not match the 3 nodes of the seed"),
        ({"density": 2, "seed": SEED}, "density= has no effect on a given seed"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, words, tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    with (
        ng.open(tmp_path / "a.ng", memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match=words),
    ):
        expand(store, tmp_path / "b.ng", **arguments)
    assert [f.name for f in tmp_path.iterdir()] == ["a.ng"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, [0], [0]), "num_nodes=0 is out of range"),
        ((2, [0], [2]), "names the node 2, expected 0 to 1"),
        ((2, [-1], [0]), "names the node -1, expected 0 to 1"),
        ((2, [], []), "two lists of integers|lengths of at least 1"),
        ((2, [0, 1], [0]), "equal lengths"),
        ((2, [0.5], [0]), "two lists of integers"),
    ],
)
def test_seeds_that_are_no_graph_are_refused(arguments, words):
    with pytest.raises(ng.UnsupportedArgument, match=words):
        Seed(*arguments)


def test_the_command_takes_a_factor_or_a_seed(tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    np.save(tmp_path / "seed.npy", np.array([[0, 1, 1], [0, 1, 0]]))
    source = str(tmp_path / "a.ng")
    for name, options, nodes in (("b", ["--factor", "4"], 1200), ("c", ["--seed-graph", "s"], 600)):
        options = [str(tmp_path / "seed.npy") if o == "s" else o for o in options]
        command = ["expand", source, str(tmp_path / f"{name}.ng"), *options, "--memory", "256MB"]
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 0, done.output + str(done.exception)
        assert json.loads(done.output)["out"].endswith(f"{name}.ng")
        with ng.open(tmp_path / f"{name}.ng", memory="64MB") as store:
            assert store.num_nodes == nodes
        again = CliRunner().invoke(app, command)
        assert isinstance(again.exception, ng.ImportFailed)
    neither = CliRunner().invoke(app, ["expand", source, str(tmp_path / "d.ng")])
    assert isinstance(neither.exception, ng.UnsupportedArgument)


def test_a_real_graph_is_expanded(tmp_path):
    import_graph(data("npz_graphs", "citeseer.npz"), tmp_path / "a.ng", split_sizes="60,20,20")
    with ng.open(tmp_path / "a.ng", memory="128MB") as store:
        expand(store, tmp_path / "b.ng", 4)
        with ng.open(tmp_path / "b.ng", memory="128MB") as wide:
            check_product(store, wide, Seed.shrunk(store, 4))
