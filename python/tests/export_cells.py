"""One layer on one set: PyG, the engine and onnxruntime on the same batch.

A model is exported from the store where a batch of it has all arguments, else from a batch. The
invariant: the three get the same arrays, and the file is the one that the export wrote.
"""

from pathlib import Path
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


# Ways to run the engine; with `trim`, by the hops of the batch, where it has any.
VARIANTS: dict[str, dict[str, Any]] = {
    "cpu-scalar": {"devices": ["cpu-scalar"]},
    "cpu": {"devices": ["cpu"], "threads": 2},
    "unfused": {"devices": ["cpu"], "fuse": False},
    "trimmed": {"devices": ["cpu"], "trim": True},
}


class Cell:
    """A model of a layer for a set, and its arguments on a batch."""

    def __init__(self, name: str, layer: str, store: ng.Store) -> None:
        torch.manual_seed(0)
        self.hops: list[int] | None = None
        if layer.endswith(" of packages and sources"):
            self.taken = export_sets.typed_sample(store)
            widths = {kind: rows.size(1) for kind, rows in self.taken[0].items()}
            make = export_sets.typed_models(widths)[layer.split(" of ")[0]]
            self.model, self.source = make(self.taken).eval(), self.taken
            return
        made = export_sets.sample(name, store)
        width = made.x.size(1)
        self.model, example = _made(layer, width)
        self.taken = export_sets.arguments(example, made)
        is_plain = isinstance(example[0], torch.Tensor)
        # A batch of a store has the names of these two alone.
        has_all = is_plain and len(example) == 2 and name not in TYPED
        self.source = store if has_all else self.taken
        self.hops = made.hops if is_plain else None


def _made(layer, width):
    if " + " not in layer:
        return CASES[layer](width)
    embedded, score = layer.split(" + ")
    maker = {"LightGCN": lambda w: gnn.LGConv(), "NGCF": lambda w: Ngcf(w, 8)}
    out = width if embedded == "LightGCN" else 8
    model, example = decoded(score, maker.get(embedded, Visited)(width), width, out)
    return model.eval(), example


def compare(name: str, layer: str, store: ng.Store, path: Path) -> dict[str, Any]:
    """The differences of the engine, by variant, and of onnxruntime from PyG on a batch.

    The file of the model is written to `path`, or taken from there.
    """
    cell = Cell(name, layer, store)
    if not path.exists():
        is_store = cell.source is store
        ng.export(cell.model, cell.source, path, fanouts=FANOUTS if is_store else None)
    onnx.checker.check_model(path / "model.onnx", full_check=True)
    inputs = Inputs(cell.model, cell.taken)
    with torch.no_grad():
        wanted = Flat(cell.model, inputs).eval()(*inputs.values)
    arrays = {n: np.asarray(v) for n, v in zip(inputs.names, inputs.values, strict=True)}
    tensors = [v for v in inputs.values if isinstance(v, torch.Tensor)]
    return {
        "onnxruntime": _worst(_in_onnxruntime(path, arrays), wanted),
        **_in_engine(path, arrays, cell.hops, wanted),
        "largest": max(float(one.abs().max()) for one in wanted if one.numel()),
        "shapes": [list(one.shape) for one in tensors],
        "exported_from": "store" if cell.source is store else "batch",
    }


def _in_engine(path, arrays, hops, wanted) -> dict[str, Any]:
    dfg = ng.Dfg.open(path)
    given = {name: arrays[name] for name in dfg.inputs}
    found: dict[str, Any] = {}
    for variant, settings in VARIANTS.items():
        options = dict(settings)
        rows = None
        if options.pop("trim", False):
            if hops is None:
                continue
            options["hops"], rows = {"nodes": hops}, hops[0]
        out = list(dfg.run(given, **options).values())
        found[variant] = _worst(out, wanted, rows)
    return found


def _in_onnxruntime(path, arrays):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path / "model.onnx", options)
    return session.run(None, {entry.name: arrays[entry.name] for entry in session.get_inputs()})


def _worst(found, wanted, rows=None) -> float:
    """The largest difference; with `rows`, of the first ones where only these were computed."""
    worst = 0.0
    for one, whole in zip(found, wanted, strict=True):
        other = whole[:rows] if rows is not None and one.shape[0] == rows else whole
        assert tuple(one.shape) == tuple(other.shape), (one.shape, other.shape)
        # Relative to the largest of all rows, as where nothing is left out.
        scale = max(1.0, float(whole.abs().max()) if whole.numel() else 0.0)
        own = max(1.0, float(other.abs().max()) if other.numel() else 0.0)
        worst = max(worst, relative_difference(torch.as_tensor(one), other) * own / scale)
    return worst
