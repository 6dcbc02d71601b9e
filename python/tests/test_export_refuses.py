"""What cannot be exported is refused with its place, leaves nothing behind and nothing changed."""

import re
import sys
import threading
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

import torch_geometric  # noqa: E402
from export_cases import EDGES, NODES, Two, graph, one, relations, two  # noqa: E402
from torch import nn  # noqa: E402
from torch_geometric import nn as gnn  # noqa: E402
from torch_geometric import utils  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.modelfile import functions, marking, translations  # noqa: E402


class Branches(nn.Module):
    def forward(self, x, edge_index):
        return x if x.sum() > 0 else -x


class Frozen(nn.Module):
    def forward(self, x, edge_index):
        return x + 1 if x.size(0) == NODES else x


class Sizeless(nn.Module):
    def forward(self, x, edge_index, batch):
        return gnn.global_mean_pool(x, batch)


class Counts(nn.Module):
    def forward(self, x, edge_index, times):
        for _ in range(times):
            x = x + 1
        return x


class Singular(nn.Module):
    def forward(self, x, edge_index):
        return torch.linalg.svdvals(x)


class Noisy(nn.Module):
    def forward(self, x, edge_index):
        return x + torch.rand_like(x)


def refused(model, example, tmp_path, text):
    before = {name: vars(module).get("scatter") for name, module in scatter_homes().items()}
    with pytest.raises(ng.ExportFailed, match=text) as error:
        ng.export(model, example, tmp_path / "model.ngm")
    assert list(tmp_path.iterdir()) == []
    assert before == {name: vars(m).get("scatter") for name, m in scatter_homes().items()}
    return str(error.value)


def scatter_homes():
    return {n: m for n, m in list(sys.modules.items()) if n.startswith("torch_geometric")}


@pytest.mark.parametrize(
    ("aggr", "text"),
    [
        ("lstm", r"first\.aggr_module \(LSTMAggregation\).*padding.*use mean, sum"),
        ("median", r"first\.aggr_module \(MedianAggregation\).*sorting.*use mean, sum"),
    ],
)
def test_aggregations_that_pad_or_sort_are_refused_by_name(aggr, text, tmp_path):
    model, example = two(gnn.SAGEConv, 16, aggr=aggr)
    refused(model.eval(), example, tmp_path, text)


@pytest.mark.parametrize(
    ("model", "more", "text"),
    [
        (Branches(), (), r"test_export_refuses\.py:\d+ \(return x if x\.sum\(\) > 0 else -x\)"),
        (Frozen(), (), r"nodes.*constant|nodes.*37"),
        (
            Sizeless(),
            (torch.arange(NODES) // 8,),
            r"_scatter\.py:\d+ \(dim_size = int\(index\.max.*test_export_refuses\.py:\d+",
        ),
        (Counts(), (3,), r"the model works only for times=3.*module that sets this argument"),
        (Singular(), (), r"svd.*test_export_refuses\.py.*svdvals"),
        (Noisy(), (), r"the traced program differs from the model by .* shapes \[37, 16\]"),
    ],
)
def test_a_model_that_depends_on_its_data_is_refused_with_its_line(model, more, text, tmp_path):
    refused(model.eval(), (*graph(), *more), tmp_path, text)


def test_blocks_of_rgcn_are_refused_with_what_to_use(tmp_path):
    model, example = one(gnn.RGCNConv(16, 8, 4, num_blocks=2), 16, relations())
    refused(model.eval(), example, tmp_path, "num_blocks.*use num_bases")


def test_training_mode_of_any_module_is_refused(tmp_path):
    model, example = two(gnn.SAGEConv, 16)
    refused(model, example, tmp_path, r"the model is in training mode: call model\.eval\(\)")
    model.eval().second.train()
    refused(model, example, tmp_path, r"second \(SAGEConv\) is in training mode")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(value, tmp_path):
    model, example = two(gnn.SAGEConv, 16)
    with torch.no_grad():
        model.second.lin_l.weight[0, 0] = value
    refused(model.eval(), example, tmp_path, r"second\.lin_l\.weight has NaN or infinite values")


def test_a_filled_cache_is_refused_and_an_empty_one_is_not(tmp_path):
    model, example = two(gnn.GCNConv, 16, cached=True)
    model.eval()
    model(*example)
    refused(model, example, tmp_path, r"first \(GCNConv\) has cached=True.*reset_parameters")
    model, example = two(gnn.GCNConv, 16)
    model.eval()
    model(*example)
    ng.export(model, example, tmp_path / "model.ngm")


def test_examples_that_do_not_tell_sizes_apart_are_refused(tmp_path):
    model, (x, edge_index) = two(gnn.SAGEConv, 16)
    model.eval()
    refused(model, (x, edge_index[:, :NODES]), tmp_path, "37 nodes and 37 edges")
    refused(model, (x, edge_index[:, :1]), tmp_path, "edge_index.*size 1.*at least 2")
    refused(model, (x[:5], edge_index), tmp_path, "the model fails on the example")


def test_a_lazy_layer_that_never_ran_is_refused(tmp_path):
    model = Two(gnn.SAGEConv(-1, 8), gnn.SAGEConv(8, 8)).eval()
    refused(model, graph(), tmp_path, r"first\.lin_l\.weight has no shape yet: run the model once")


def test_a_wrong_marked_operator_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setitem(marking._REDUCES, "mean", "sum")
    model, example = two(gnn.SAGEConv, 16)
    refused(model.eval(), example, tmp_path, "the traced program differs from the model")


def test_a_difference_beyond_the_bound_is_noticed_in_the_file(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(
        functions._TEXTS,
        "ScatterMean(src, index, size) => (out)",
        functions._TEXTS["ScatterSum(src, index, size) => (out)"],
    )
    model, example = two(gnn.SAGEConv, 16)
    text = refused(model.eval(), example, tmp_path, "the model file in onnxruntime differs")
    assert re.search(rf"\[2, {EDGES}\]", text)


def test_names_of_pyg_are_restored_and_marked_only_within():
    plain, forward = utils.scatter, gnn.RGCNConv.forward

    def fails():
        with marking.marked():
            assert utils.scatter is not plain
            assert gnn.RGCNConv.forward is not forward
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert utils.scatter is plain
    assert gnn.RGCNConv.forward is forward


def test_another_thread_waits_until_names_are_restored():
    plain, seen = utils.scatter, []

    def other():
        with marking.marked():
            seen.append(utils.scatter)

    with marking.marked():
        first = utils.scatter
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        assert seen == []
        assert utils.scatter is first
    thread.join()
    assert len(seen) == 1
    assert utils.scatter is plain


def test_an_untested_version_of_pyg_is_warned_of(monkeypatch):
    monkeypatch.setattr(torch_geometric, "__version__", "9.1.0")
    with pytest.warns(UserWarning, match=r"tested with PyG 2\.8, not 9\.1\.0"), marking.marked():
        pass
    monkeypatch.undo()
    with warnings.catch_warnings(), marking.marked():
        warnings.simplefilter("error")


def test_every_operator_of_torch_has_a_function_of_onnx():
    known = {name for name in dir(torch.ops.neargraph) if not name.startswith("_")} - {"name"}
    table = {target.name().split("::")[1].split(".")[0] for target in translations.table()}
    assert known == table
    # Scatter has one for each reduction. Products of the text form and operators in fewer bits come
    # from no model of torch.
    scatters = {"ScatterSum", "ScatterMean", "ScatterMax", "ScatterMin", "ScatterMul"}
    named = {"".join(part.title() for part in name.split("_")) for name in known - {"scatter"}}
    others = {name for name in functions.names() if re.match("SpMM_|Quantised|.*Fixed", name)}
    assert set(functions.names()) == scatters | named | others
    assert len(others) == 19


def test_the_engine_writes_the_functions_that_exports_write():
    kept = Path(__file__).parents[2] / "crates/ng-infer/src/convert/to_onnx/functions.onnx"
    assert kept.read_bytes() == functions.all_bodies(), "run tools/function_bodies.py"
