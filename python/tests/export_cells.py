"""One layer on one set: PyG, the engine and onnxruntime on the same batch.

A model is exported from the store where a batch of it has all arguments, else from a batch. The
invariant: the three get the same arrays, and the file is the one that the export wrote.
"""

from typing import Any

import export_sets
import numpy as np
import onnx
import onnxruntime
import torch
from export_cases import CASES, Ngcf, PinSage, decoded
from export_sets import FANOUTS, OF_GRAPHS, POOLS, TYPED
from torch_geometric import nn as gnn
from torch_geometric.utils import scatter

import neargraph as ng
from neargraph.modelfile.comparing import relative_difference
from neargraph.modelfile.inputs import Flat, Inputs

TYPED_LAYERS = ["HGT", "HeteroConv", "to_hetero"]
# Recommendation: how items and users are embedded, and how pairs of them are scored.
EMBEDDED = ["LightGCN", "NGCF", "PinSAGE"]
SCORED = ["dot", "mlp", "distmult"]


class Visited(torch.nn.Module):
    """PinSAGE; the weight of an edge is how many edges its source has."""

    def __init__(self, width):
        super().__init__()
        self.layer = PinSage(width, 8)

    def forward(self, x, edge_index):
        ones = x.new_ones(edge_index.size(1))
        visits = scatter(ones, edge_index[0], 0, x.size(0), "sum")
        return self.layer(x, edge_index, visits[edge_index[0]])


def layers_of(name: str) -> list[str]:
    """The layers that are compared on a set."""
    if name in OF_GRAPHS:
        return POOLS
    plain = [layer for layer in CASES if layer not in POOLS]
    if name in TYPED:
        return plain + [f"{layer} of packages and sources" for layer in TYPED_LAYERS]
    if name == "gowalla":
        return plain + [f"{layer} + {score}" for layer in EMBEDDED for score in SCORED]
    return plain


def model_of(name: str, layer: str, store: ng.Store) -> tuple[Any, Any, Any]:
    """(model, its arguments on the batch of a set, what it is exported from)."""
    torch.manual_seed(0)
    if layer.endswith(" of packages and sources"):
        example = export_sets.typed_sample(store)
        widths = {kind: rows.size(1) for kind, rows in example[0].items()}
        model = export_sets.typed_models(widths)[layer.split(" of ")[0]](example)
        return model.eval(), example, example
    made = export_sets.sample(name, store)
    width = made.x.size(1)
    if " + " in layer:
        embedded, score = layer.split(" + ")
        maker = {"LightGCN": lambda w: gnn.LGConv(), "NGCF": lambda w: Ngcf(w, 8)}
        out = width if embedded == "LightGCN" else 8
        model, example = decoded(score, maker.get(embedded, Visited)(width), width, out)
        model = model.eval()
    else:
        model, example = CASES[layer](width)
    taken = export_sets.arguments(example, made)
    # A batch of a store has the names of these two alone.
    has_all = len(example) == 2 and isinstance(example[0], torch.Tensor)
    return model, taken, store if has_all and name not in TYPED else taken


def compare(name: str, layer: str, store: ng.Store, path, run_engine) -> dict[str, Any]:
    """The differences of the engine and of onnxruntime from PyG, and the sizes of the batch.

    The file of the model is written to `path`, or taken from there. `run_engine` gets the graph and
    its inputs, and returns its outputs by name.
    """
    model, taken, source = model_of(name, layer, store)
    if not path.exists():
        ng.export(model, source, path, fanouts=FANOUTS if source is store else None)
    onnx.checker.check_model(path / "model.onnx", full_check=True)
    inputs = Inputs(model, taken)
    with torch.no_grad():
        wanted = Flat(model, inputs).eval()(*inputs.values)
    arrays = {n: np.asarray(v) for n, v in zip(inputs.names, inputs.values, strict=True)}
    dfg = ng.Dfg.open(path)
    found = list(run_engine(dfg, {one: arrays[one] for one in dfg.inputs}).values())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path / "model.onnx", options)
    feed = {entry.name: arrays[entry.name] for entry in session.get_inputs()}
    other = session.run(None, feed)
    tensors = [v for v in inputs.values if isinstance(v, torch.Tensor)]
    return {
        "engine": _worst(found, wanted),
        "onnxruntime": _worst(other, wanted),
        "largest": max(float(one.abs().max()) for one in wanted if one.numel()),
        "shapes": [list(one.shape) for one in tensors],
        "exported_from": "store" if source is store else "batch",
    }


def _worst(found, wanted) -> float:
    pairs = list(zip(found, wanted, strict=True))
    for one, other in pairs:
        assert tuple(one.shape) == tuple(other.shape), (one.shape, other.shape)
    return max(relative_difference(torch.as_tensor(one), other) for one, other in pairs)


