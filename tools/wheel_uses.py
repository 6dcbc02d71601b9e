"""What is done with an installed wheel, one function for each environment of `wheel_test.py`.

    PYTHON -I tools/wheel_uses.py torch

Runs with the Python of that environment, in an empty folder, and ends with an error where neargraph
does not work there. The invariant: each use needs what its extra brings, and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng

NODES, CLASSES, WIDTH = 300, 3, 8
MEMORY = "64MB"
PNG = b"\x89PNG"


def expect(fact: bool, otherwise: str) -> None:
    if not fact:
        raise SystemExit(f"{sys.argv[1]}: {otherwise}")


def run(*arguments: Any, fails: bool = False) -> str:
    """Runs the installed command and gives what it prints; what it says of an error if it fails."""
    command = [str(Path(sys.prefix, "bin", "neargraph")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    expect(bool(done.returncode) == fails, f"{command}: {done.returncode}\n{done.stderr}")
    return done.stderr if fails else done.stdout


def refuses(call: Callable[[], Any], *words: str) -> None:
    """Expects the error of a package that is not installed, with these words in one line."""
    try:
        call()
    except ng.MissingDependency as error:
        said = str(error)
        expect(all(word in said for word in words), f"{said!r} has not all of {words}")
        expect("\n" not in said, f"{said!r} has several lines")
    else:
        expect(False, f"a package of {words} is not installed, and nobody said so")


def absent(*packages: str) -> None:
    there = [name for name in packages if importlib.util.find_spec(name) is not None]
    expect(not there, f"the environment has {there}")


def edge_list() -> Path:
    draw = random.Random(7)
    lines = [f"{draw.randrange(NODES)} {draw.randrange(NODES)}\n" for _ in range(4 * NODES)]
    Path("edges.txt").write_text("".join([*lines, f"{NODES - 1} 0\n"]))
    return Path("edges.txt")


def labelled_store(path: str = "labelled.ng") -> Path:
    """A store with features, labels and a split, imported from NumPy's files."""
    folder, rng = Path("arrays"), np.random.default_rng(5)
    folder.mkdir()
    y = rng.integers(0, CLASSES, NODES)
    x = rng.standard_normal((NODES, WIDTH)).astype(np.float32)
    x[np.arange(NODES), y] += 3
    edges = rng.integers(0, NODES, (2, 6 * NODES))
    for name, array in {"edge_index": edges, "x": x, "y": y}.items():
        np.save(folder / f"{name}.npy", array)
    run("import", folder, "--out", path, "--split-sizes", "60,20,20", "--memory", "256MB")
    return Path(path)


def base() -> None:
    """Import, sample, change, verify; what needs a package that is missing names its extra."""
    absent("torch", "torch_geometric", "pyarrow", "matplotlib", "yaml", "onnx", "pymetis")
    here = Path(ng.__file__).parent
    expect(here.is_relative_to(sys.prefix), f"neargraph comes from {here}")
    expect(ng.__version__ == metadata.version("neargraph"), f"__version__ is {ng.__version__}")
    for name in ("py.typed", "_core.pyi", "include/ng_plugin.h"):
        expect((here / name).is_file(), f"{name} is not in the wheel")
    run("import", edge_list(), "--out", "g.ng", "--memory", "256MB", "--split-sizes", "60,20,20")
    with ng.open("g.ng", memory=MEMORY) as store:
        sampled = ng.NumpySampler(store, [5, 5], seed=7).sample([1, 2, 3])
        expect(len(sampled.nodes()) > 3, f"{len(sampled.nodes())} nodes were sampled")
        edges = store.num_edges
        with store.write() as tx:
            tx.add_edge(None, tx.add_node(), 0)
        expect(store.num_edges == edges + 1, f"{store.num_edges} edges after one more")
    Path("more.csv").write_text("op,source,destination\nadd_edge,1,2\nadd_edge,2,3\n")
    said = json.loads(run("update", "g.ng", "--from", "more.csv", "--json"))
    expect(said["num_edges"] == edges + 3, f"update left {said['num_edges']} edges")
    run("verify", "g.ng")
    expect(json.loads(run("doctor", "--json"))["packages"]["torch"] is None, "doctor sees torch")
    needs_extras()


def needs_extras() -> None:
    """Where a package is missing, the error names it and the extra that brings it."""
    refuses(lambda: ng.from_pyg(None, "h.ng"), "torch", "'neargraph[torch]'")
    refuses(lambda: ng.NeighborLoader, "torch", "'neargraph[torch]'")
    refuses(lambda: ng.export, "torch", "'neargraph[torch]'")
    refuses(lambda: importlib.import_module("neargraph.train"), "torch", "'neargraph[torch]'")
    Path("e.parquet").write_bytes(b"PAR1")
    said = run("import", "e.parquet", "--out", "h.ng", fails=True)
    expect("'neargraph[parquet]'" in said, f"a Parquet file: {said}")
    Path("metadata.yaml").write_text("dataset_name: x\n")
    said = run("import", ".", "--out", "h.ng", "--format", "graphbolt", fails=True)
    expect("'neargraph[graphbolt]'" in said, f"a folder of GraphBolt: {said}")
    simulate = ("simulate", "g.ng", "--row-bytes", "400", "--batches", "1", "--platforms", "CC")
    said = run(*simulate, "--out", "report", fails=True)
    expect("'neargraph[plot]'" in said.replace('"', "'"), f"a page with pictures: {said}")


def torch() -> None:
    """A PyG graph goes in, batches come out, and a model learns from them."""
    absent("pyarrow", "matplotlib", "yaml", "onnx", "pymetis", "torchmetrics")
    import torch
    from torch_geometric.data import Data
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    x, y = torch.randn(NODES, WIDTH), torch.randint(0, CLASSES, (NODES,))
    edges = torch.randint(0, NODES, (2, 4 * NODES))
    train = torch.arange(NODES) < NODES // 2
    ng.from_pyg(Data(x=x, y=y, edge_index=edges, train_mask=train), "pyg.ng")
    with ng.open("pyg.ng", memory=MEMORY) as store:
        loader = ng.NeighborLoader(store, [5, 5], batch_size=50, input_nodes="train", seed=7)
        model = GraphSAGE(WIDTH, 16, 2, CLASSES)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses = []
        for _ in range(8):
            for batch in loader:
                rows = batch.x.equal(x[batch.n_id])
                expect(rows, "a batch has other rows than the graph")
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
        expect(losses[-1] < losses[0], f"the loss went from {losses[0]} to {losses[-1]}")


def parquet() -> None:
    """A Parquet table becomes a store, and events of another change it."""
    absent("torch", "matplotlib", "yaml", "onnx", "pymetis")
    import pyarrow
    from pyarrow.parquet import write_table

    src, dst = np.random.default_rng(3).integers(0, NODES, (2, 2 * NODES))
    write_table(pyarrow.table({"src": src, "dst": dst}), "edges.parquet")
    run("import", "edges.parquet", "--out", "p.ng", "--memory", "512MB")
    events = {"op": ["add_edge"] * 2, "source": [0, 1], "destination": [1, 2]}
    write_table(pyarrow.table(events), "events.parquet")
    said = json.loads(run("update", "p.ng", "--from", "events.parquet", "--json"))
    expect(said["num_edges"] == 2 * NODES + 2, f"{said['num_edges']} edges")


def plot() -> None:
    """The page of a simulated run has its pictures."""
    absent("torch", "pyarrow", "yaml", "onnx", "pymetis")
    store = labelled_store()
    run("simulate", store, "--batches", "2", "--platforms", "CC,BG-2", "--out", "report")
    pictures = sorted(Path("report").glob("*.png"))
    expect(len(pictures) > 3, f"the report has {len(pictures)} pictures")
    expect(all(path.read_bytes().startswith(PNG) for path in pictures), "not a PNG")


def train() -> None:
    """One epoch from a file of settings, with events for TensorBoard, then the test."""
    absent("pyarrow", "matplotlib", "onnx", "pymetis")
    store = labelled_store()
    Path("run.yaml").write_text("model: sage\nfanouts: [5, 5]\nhidden: 16\nbatch_size: 64\n")
    options = ("--config", "run.yaml", "--epochs", "1", "--memory", MEMORY, "--metrics", "f1-macro")
    run("train", store, *options, "--out", "runs/1")
    expect(any(Path("runs/1").rglob("events.out.tfevents.*")), "no events for TensorBoard")
    measured = json.loads(run("evaluate", "runs/1", "--split", "test", "--json"))
    expect("f1-macro" in json.dumps(measured), f"evaluate has no f1-macro: {measured}")


def graphbolt() -> None:
    """A store becomes a folder of GraphBolt, which becomes a store with the same content."""
    absent("torch", "pyarrow", "matplotlib", "onnx", "pymetis")
    store = labelled_store()
    run("export", store, "bolt")
    run("import", "bolt", "--out", "again.ng", "--memory", "256MB")
    with ng.open(store, memory=MEMORY) as one, ng.open("again.ng", memory=MEMORY) as other:
        expect(one.num_edges == other.num_edges, f"{other.num_edges} edges came back")
        ids = np.arange(NODES)
        rows = [each.snapshot().features(None, ids, "x") for each in (one, other)]
        expect(np.array_equal(*rows), "other rows came back")


def metis() -> None:
    """Parts that METIS makes become batches."""
    absent("pyarrow", "matplotlib", "yaml", "onnx")
    import torch
    from torch_geometric.data import Data

    ends = torch.randint(0, NODES, (2, 4 * NODES))
    ng.from_pyg(Data(x=torch.randn(NODES, WIDTH), edge_index=ends), "m.ng", reverse=True)
    with ng.open("m.ng", memory=MEMORY) as store:
        loader = ng.ClusterGCNLoader(store, num_parts=6, partition="metis", batch_size=2, seed=7)
        nodes = torch.cat([batch.n_id for batch in loader])
        expect(nodes.sort().values.equal(torch.arange(NODES)), "the parts are not all nodes")


def export() -> None:
    """A trained model becomes a file, and the engine answers as the model does."""
    absent("pyarrow", "matplotlib", "yaml", "pymetis", "torchmetrics")
    import torch
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = GraphSAGE(WIDTH, 16, 2, CLASSES).eval()
    with ng.open(labelled_store(), memory=MEMORY) as store:
        done = ng.export(model, store, "sage.ngm", fanouts=[-1, -1])
        expect(done.largest_difference < 1e-4, f"the file differs by {done.largest_difference}")
        with ng.Engine(store, "sage.ngm") as engine:
            answers = engine.run([0, 7, NODES - 1])
        with ng.Engine(store, "sage.ngm", devices=["onnxruntime"]) as engine:
            second = engine.run([0, 7, NODES - 1])
        expect(answers.shape == (3, CLASSES), f"answers of shape {answers.shape}")
        expect(bool(np.allclose(answers, second, atol=1e-4)), "ONNX Runtime answers otherwise")


USES = {use.__name__: use for use in (base, torch, parquet, plot, train, graphbolt, metis, export)}


if __name__ == "__main__":
    USES[sys.argv[1]]()
