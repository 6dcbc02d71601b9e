"""Graphs that are built in Python run, are saved and opened again, and name what is wrong."""

import json

import numpy as np
import pytest

import neargraph as ng
from neargraph.exceptions import ExportFailed, InvalidModel, UnsupportedArgument

# Figure 10a of the HolisticGNN paper.
FIGURE_10A = """
Graph = g;
Batch = g.CreateIn()
Weight = g.CreateIn()
SubG, SubE = g.CreateOp("Batchpre", Batch)
Spmm = g.CreateOp("SpMM_Mean", SubG, SubE)
Gemm = g.CreateOp("GEMM", Spmm, Weight)
Subembed = g.CreateOp("ReLU", Gemm)
Result = g.CreateOut()
"""
# The second and third node are those of Figure 10c.
FIGURE_10C = """
1: "Batchpre"
  in={"Batch"}
  out={"1_0", "1_1"}
2: "SpMMMean"
  in={"1_0", "1_1"}
  out={"2_0"}
3: "GEMM"
  in={"2_0", "Weight"}
  out={"3_0"}
4: "ReLU"
  in={"3_0"}
  out={"4_0"}
"""


class Paper(dict):
    """The library of the paper: variables name inputs and outputs, and an output is the last value.

    It is the namespace in which the program runs, so that it sees the names.
    """

    def __init__(self, types):
        super().__init__(g=self)
        self.dfg, self.types, self.last = ng.Dfg(), types, None

    def CreateIn(self):
        return self.CreateIn

    def CreateOut(self):
        return self.CreateOut

    def CreateOp(self, name, *inputs):
        self.last = self.dfg.create_op(name, list(inputs))
        return self.last

    def __setitem__(self, name, value):
        if value == self.CreateIn:
            value = self.dfg.create_in(name, *self.types.get(name, ()))
        elif value == self.CreateOut:
            value = self.dfg.create_out(name, self.last)
        super().__setitem__(name, value)


def of_the_paper(**types):
    names = Paper(types)
    exec(FIGURE_10A, names)
    return names.dfg


def typed_paper(width, out):
    return of_the_paper(Batch=("i64", ["seeds"]), Weight=("f32", [width, out]))


@pytest.mark.parametrize("make", [of_the_paper, lambda: ng.Dfg.from_text(FIGURE_10C)])
def test_the_program_of_the_paper_runs_on_a_store_with_a_kernel_of_python(make, homo):
    sampler = ng.NumpySampler(homo, [4], seed=2, attrs=["x"])

    def batch_pre(nodes):
        batch = sampler.sample(nodes)
        return batch.edge_index(), batch.features("x")

    seeds = np.array([3, 5, 8])
    edges, x = batch_pre(seeds)
    weight = np.random.default_rng(1).standard_normal((x.shape[1], 7), dtype=np.float32)
    dfg = make()
    given = {"Batch": seeds, "Weight": weight}
    (found,) = dfg.run(given, kernels={"BatchPre": batch_pre}).values()
    wanted = np.zeros((len(x), 7))
    for node in range(len(x)):
        rows = x[edges[0, edges[1] == node]]
        if len(rows):
            wanted[node] = np.maximum(rows.mean(0, dtype=np.float64) @ weight, 0)
    assert found.shape == wanted.shape
    assert wanted.max() > 0
    assert np.abs(found - wanted).max() <= 1e-5 * max(1, wanted.max())
    with pytest.raises(
        ng.UnsupportedModel, match="no device has a kernel for BatchPre; give a func"
    ):
        dfg.run(given)


def test_an_engine_does_the_batch_pre_of_the_program(homo):
    weight = np.random.default_rng(1).standard_normal((6, 7), dtype=np.float32)
    dfg = ng.Dfg.from_text(FIGURE_10C, weights={"Weight": weight})
    sampler = ng.NumpySampler(homo, [-1], attrs=["x"])

    def batch_pre(nodes):
        batch = sampler.sample(nodes)
        return batch.edge_index(), batch.features("x")

    seeds = np.array([3, 5, 8])
    (wanted,) = dfg.run({"Batch": seeds}, kernels={"BatchPre": batch_pre}).values()
    with ng.Engine(homo, dfg, fanouts=[-1]) as engine:
        found = engine.run(seeds)
    assert found.shape == (3, 7)
    assert np.abs(wanted[:3]).max() > 0
    assert np.abs(found - wanted[:3]).max() <= 1e-5 * max(1, np.abs(wanted).max())


def test_the_program_of_the_paper_is_saved_with_its_batch_pre(tmp_path):
    onnx = pytest.importorskip("onnx")
    dfg = typed_paper(4, 3)
    dfg.save(tmp_path / "paper.ngm", fanouts=[5])
    again = ng.Dfg.open(tmp_path / "paper.ngm")
    assert again.inputs == dfg.inputs
    assert again.text() == dfg.text().replace("4_0", "Result")
    dfg.save(tmp_path / "paper")
    proto = onnx.load(tmp_path / "paper" / "model.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [value.name for value in proto.graph.input] == ["Weight", "1_0", "1_1"]
    note = {"in": "Batch", "shape": ["seeds"], "out": ["1_0", "1_1"]}
    assert {p.key: json.loads(p.value) for p in proto.metadata_props} == {
        "neargraph.batch_pre": note
    }


def example():
    """Weighted sums of neighbours, a product, and what softmax makes of it."""
    draws = np.random.default_rng(4)
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 5])
    edge_index = dfg.create_in("edge_index", np.int64, [2, "edges"])
    edge_weight = dfg.create_in("edge_weight", np.float32, ["edges"])
    weight = dfg.create_weight("lin.weight", draws.standard_normal((5, 6), dtype=np.float32))
    bias = dfg.create_weight("lin.bias", np.arange(6, dtype=np.float16))
    total = dfg.create_op("SpMM_Sum", [edge_index, x, edge_weight])
    most = dfg.create_op("SpMM_Max", [edge_index, x])
    both = dfg.create_op("Concat", [total, most], axis=1)
    turned = dfg.create_op("Transpose", dfg.create_op("Transpose", both, perm=[1, 0]))
    halves = dfg.create_weight("halves", np.concatenate([np.eye(5), np.eye(5)]).astype("f4"))
    product = dfg.create_op("GEMM", [dfg.create_op("MatMul", [turned, halves]), weight, bias])
    dfg.create_out("share", dfg.create_op("Softmax", product, axis=-1))
    dfg.create_out("product", product)
    inputs = {
        "x": draws.standard_normal((7, 5), dtype=np.float32),
        "edge_index": draws.integers(0, 7, (2, 20)),
        "edge_weight": draws.random(20, dtype=np.float32),
    }
    return dfg, inputs


@pytest.mark.parametrize("name", ["mine.ngm", "folder"])
def test_a_saved_graph_opens_as_itself(name, tmp_path):
    dfg, inputs = example()
    dfg.check()
    dfg.save(tmp_path / name, fanouts={("a", "to", "b"): [3]}, metadata={"author": "me"})
    again = ng.Dfg.open(tmp_path / name)
    assert again.inputs == dfg.inputs
    assert again.outputs == ["share", "product"]
    found, wanted = again.run(inputs), dfg.run(inputs)
    assert all(np.array_equal(found[out], wanted[out]) for out in dfg.outputs)
    assert again.info()["metadata"] == {"fanouts": {"a__to__b": [3]}, "author": "me"}
    again.save(tmp_path / "again.ngm")
    third = ng.Dfg.open(tmp_path / "again.ngm")
    assert third.text() == again.text()
    assert third.info() == again.info()
    with pytest.raises(ExportFailed, match="already exists"):
        dfg.save(tmp_path / name)
    with pytest.raises(ExportFailed, match="is not a directory"):
        dfg.save(tmp_path / "nowhere" / "x.ngm")


def test_a_saved_graph_runs_in_onnxruntime(tmp_path):
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    dfg, inputs = example()
    dfg.save(tmp_path / "m")
    onnx.checker.check_model(tmp_path / "m" / "model.onnx", full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "m" / "model.onnx")
    for found, wanted in zip(session.run(None, inputs), dfg.run(inputs).values(), strict=True):
        assert np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())


def values():
    dfg = ng.Dfg()
    return dfg, dfg.create_in("x", "f32", ["n", 2])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda d, x: d.create_op("Rely", x), 'node 1: unknown operation "Rely"'),
        (lambda d, x: d.create_op("Add", x), "node 1: Add takes 2 values, got 1"),
        (lambda d, x: d.create_op("Exp", x, axis=1), 'node 1: attribute "axis" of Exp: the op'),
        (lambda d, x: d.create_op("Concat", x), 'node 1: attribute "axis" of Concat: is missing'),
        (
            lambda d, x: d.create_op("Cast", x, to="f16"),
            '"f16" is not valid: expected f32, i64 or bool',
        ),
        (lambda d, x: d.create_in("x"), '"x" is defined twice'),
        (lambda d, x: d.create_in(""), "an input has an empty name"),
        (lambda d, x: d.create_weight("w", np.float32([1, np.nan])), "'w' has nan at index 1"),
        (lambda d, x: [d.create_out("y", x) for _ in "ab"], '"y" is defined twice'),
    ],
)
def test_what_cannot_be_built_names_the_node(build, words):
    with pytest.raises(InvalidModel) as refused:
        build(*values())
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda d, x: d.create_op("Exp", values()[1]), "node of Exp: .* belongs to another graph"),
        (lambda d, x: d.create_out("y", "x"), "output 'y': 'x' has type str"),
        (lambda d, x: d.create_op("Exp", x, axis=None), "attribute axis of Exp is None"),
        (lambda d, x: d.create_in("z", "f32"), "input 'z': give both dtype= and shape="),
        (lambda d, x: d.create_in("z", "f16", [1]), 'input "z" has dtype f16; expected f32'),
        (lambda d, x: d.create_in("z", "f32", [-1]), 'input "z" has the negative length -1'),
        (lambda d, x: d.create_weight("w", np.zeros(2)), "weight 'w' has dtype float64"),
        (lambda d, x: d.create_weight("w", ["a"]), "weight 'w' has dtype <U1"),
    ],
)
def test_arguments_of_another_kind_are_refused(build, words):
    with pytest.raises(UnsupportedArgument, match=words):
        build(*values())


def test_shapes_that_do_not_fit_are_found_before_a_file_is_written(tmp_path):
    dfg, x = values()
    weight = dfg.create_weight("w", np.zeros((3, 1), np.float32))
    dfg.create_out("y", dfg.create_op("MatMul", [x, weight]))
    with pytest.raises(
        InvalidModel, match="node 1: MatMul: the inner dimensions of the matrices differ: 2 and 3"
    ):
        dfg.save(tmp_path / "m.ngm")
    untyped = ng.Dfg()
    untyped.create_out("y", untyped.create_in("x"))
    with pytest.raises(InvalidModel, match='"x" has no type; give each input a type') as refused:
        untyped.save(tmp_path / "m.ngm")
    assert refused.value.remedies == [{"name": "TypeInputs"}]
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_that_gives_something_else_is_named():
    dfg, x = values()
    dfg.create_out("y", dfg.create_op("Exp", x))
    rows = {"x": np.ones((3, 2), np.float32)}
    assert dfg.run(rows, kernels={"exp": lambda a: a + 1})["y"].tolist() == [[2, 2]] * 3

    def fails(_):
        raise KeyError("nothing")

    for kernel, words in [
        (lambda a: (a, a), "node 1: Exp: the function returned 2 arrays, expected 1"),
        (lambda a: a.astype(np.float64), "the return value of the function is not a contig"),
        (fails, "node 1: Exp: KeyError: 'nothing'"),
    ]:
        with pytest.raises(ng.WrongInput, match=words):
            dfg.run(rows, kernels={"Exp": kernel})
    with pytest.raises(UnsupportedArgument, match='unknown operation "Expo"'):
        dfg.run(rows, kernels={"Expo": fails})
