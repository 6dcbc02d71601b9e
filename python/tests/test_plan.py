"""Plans of exported models: fused or not, trimmed or not, on any device, results are the same."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from export_cases import CASES  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.exceptions import InvalidModel, WrongInput  # noqa: E402

SEEDS, HOPS = 4, 3
BOUND = 1e-5
# Their outputs are those of graphs, of pairs, or of types that are one behind the other.
WHOLE = ("pool", "decoder", "HGT")


def batch(draws, edge_types):
    """Counts of nodes by hop, and edges: those of hop h lead to nodes of hop h - 1."""
    counts = {end: [SEEDS] for _, *ends in edge_types for end in ends}
    edges = {name: ([], []) for name, *_ in edge_types}
    for hop in range(1, HOPS + 1):
        new = dict.fromkeys(counts, 0)
        for name, source, target in edge_types:
            stop = sum(counts[target][:hop])
            for node in range(stop - counts[target][hop - 1], stop):
                for _ in range(draws.integers(1, 4)):
                    known = sum(counts[source][:hop]) + new[source]
                    is_new = draws.random() < 0.5
                    edges[name][0].append(known if is_new else int(draws.integers(known)))
                    edges[name][1].append(node)
                    new[source] += is_new
        for name, count in new.items():
            counts[name].append(count)
    return counts, {name: np.array(ends, dtype=np.int64) for name, ends in edges.items()}


def ends_of(name):
    """What counts the sources and the targets of an input of edges."""
    if "." not in name:
        return (name, "nodes", "nodes")
    source, _, target = name.split(".")[1].split("__")
    return (name, f"nodes_{source}", f"nodes_{target}")


def inputs_of(dfg, draws):
    """Random inputs of a model for a batch in hop order, and its hops."""
    hops, edges = batch(draws, [ends_of(n) for n in dfg.inputs if n.startswith("edge_index")])
    sizes = {name: sum(counts) for name, counts in hops.items()} | {"edges_": 7}
    sizes |= {dfg.inputs[name][1][1]: ends.shape[1] for name, ends in edges.items()}
    found = dict(edges)
    for name, (dtype, shape) in dfg.inputs.items():
        dims = [int(dim) if dim.isdigit() else sizes[dim] for dim in shape]
        if name == "num_graphs":
            found[name] = np.int64(3)
        elif name not in found:
            whole = draws.integers(0, 3, dims)
            rows = draws.standard_normal(dims, np.float32)
            # Sums of weights that are below 0 have no roots.
            rows = np.abs(rows) if name == "edge_attr" else rows
            found[name] = whole if dtype == "i64" else rows
    return found, hops


def near(found, wanted):
    largest = max(1.0, float(np.abs(wanted).max(initial=0)))
    return float(np.abs(found - wanted).max(initial=0)) <= BOUND * largest


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models that were exported once, by name."""
    graphs = {}

    def graph(name):
        if name not in graphs:
            torch.manual_seed(0)
            model, example = CASES[name]()
            path = tmp_path_factory.mktemp("models") / "model.ngm"
            ng.export(model.eval(), example, path)
            graphs[name] = ng.Dfg.open(path)
        return graphs[name]

    return graph


@pytest.mark.parametrize("name", CASES)
def test_a_model_gives_the_same_however_it_is_planned(name, exported):
    dfg = exported(name)
    for seed in range(3):
        given, hops = inputs_of(dfg, np.random.default_rng(seed))
        wanted = dfg.run(given, devices=["cpu-scalar"], fuse=False)
        for device in ("cpu-scalar", "cpu"):
            for fuse in (False, True):
                plan = dfg.plan(devices=[device], fuse=fuse)
                for of_batch in (None, hops):
                    place = (name, seed, device, fuse, of_batch)
                    found = plan.run(given, hops=of_batch)
                    assert found.keys() == wanted.keys(), place
                    for output, rows in found.items():
                        is_cut = of_batch is not None and not name.startswith(WHOLE)
                        assert len(rows) == (SEEDS if is_cut else len(wanted[output])), place
                        assert near(rows, wanted[output][: len(rows)]), (place, output)


@pytest.mark.parametrize("name", ["GCN", "GAT", "SAGE mean", "Transformer"])
def test_bytes_do_not_depend_on_threads(name, exported):
    dfg = exported(name)
    given, hops = inputs_of(dfg, np.random.default_rng(5))
    one, two = (dfg.plan(threads=n).run(given, hops=hops)["out"] for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_a_plan_stays_as_it_was_made_and_says_what_is_wrong(exported):
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 2])
    y = dfg.create_op("Neg", [x])
    dfg.create_out("y", y)
    plan = dfg.plan()
    dfg.create_out("z", dfg.create_op("Abs", [y]))
    given = {"x": np.float32([[1, -2], [3, 4], [5, 6]])}
    assert list(plan.run(given)) == ["y"]
    assert list(dfg.plan().run(given)) == ["y", "z"]
    assert plan.run(given, hops={"nodes": [1, 2]})["y"].tolist() == [[-1, 2]]
    for hops in ({"nodes": [1, 1]}, {"pages": [3]}):
        with pytest.raises(WrongInput, match="hops of"):
            plan.run(given, hops=hops)
    with pytest.raises(WrongInput, match='input "x": axis 1 has length 1, expected 2'):
        plan.run({"x": np.float32([[1]])})
    wrong = ng.Dfg()
    rows = wrong.create_in("x", "f32", ["nodes", 2])
    wrong.create_out("y", wrong.create_op("MatMul", [rows, rows]))
    wrong.create_out("z", wrong.create_op("Not", [rows]))
    with pytest.raises(InvalidModel, match="Not: expected bool, found f32"):
        wrong.plan()
