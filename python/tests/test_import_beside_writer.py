"""Imports that replace a store, beside those who write to it: no acknowledged commit disappears."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.cli import main
from neargraph.importers import import_graph

WRITE = """
import sys
import neargraph as ng
store = ng.open(sys.argv[1], memory="64MB")
for line in sys.stdin:
    with store.write() as tx:
        tx.add_node()
    print("acknowledged", flush=True)
store.close()
"""


@pytest.fixture
def path(tmp_path):
    out = tmp_path / "g.ng"
    import_graph(edges(tmp_path), out)
    return out


def edges(folder):
    """Edges between six nodes."""
    source = folder / "edges.npy"
    np.save(source, np.array([[0, 1], [1, 2], [4, 5]]))
    return source


def from_file(out):
    return import_graph(edges(out.parent), out, overwrite=True)


def from_pyg(out):
    index = torch.tensor([[0, 1], [1, 2]])
    return ng.from_pyg(Data(edge_index=index, num_nodes=6), out, overwrite=True)


def num_nodes(path):
    with ng.open(path, memory="64MB") as store:
        return store.num_nodes


@pytest.mark.parametrize("replace", [from_file, from_pyg])
def test_a_writer_in_this_process_is_not_replaced(path, replace):
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.add_node()
        with pytest.raises(ng.StoreBusy, match=r"g\.ng is not replaced.*another name") as busy:
            replace(path)
        assert busy.value.remedies == [{"name": "ReplaceLater"}]
        with store.write() as tx:
            tx.add_node()
    assert num_nodes(path) == 8
    replace(path)
    assert num_nodes(path) == 6


@pytest.mark.parametrize("replace", [from_file, from_pyg])
def test_a_writer_in_another_process_is_not_replaced(path, replace):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WRITE, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in range(2):
            print("commit", file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "acknowledged\n"
            with pytest.raises(ng.StoreBusy, match=r"g\.ng is not replaced"):
                replace(path)
        writer.stdin.close()
        assert writer.wait(60) == 0
    assert num_nodes(path) == 8
    replace(path)
    assert num_nodes(path) == 6


def test_the_command_says_what_to_do_and_estimates_all_the_same(path, capsys):
    command = ["import", str(edges(path.parent)), "--out", str(path), "--overwrite"]
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.add_node()
        with pytest.raises(SystemExit) as refused:
            main(command)
        assert refused.value.code == 2
        assert "close the other writer first, or import under another name" in (
            " ".join(capsys.readouterr().err.split())
        )
        with pytest.raises(SystemExit) as estimated:
            main([*command, "--dry-run"])
        assert estimated.value.code == 0
    assert num_nodes(path) == 7
    assert sorted(p.name for p in path.parent.iterdir()) == ["edges.npy", "g.ng"]


@pytest.mark.parametrize("replace", [from_file, from_pyg])
def test_a_handle_from_before_reads_on_and_says_that_the_store_was_replaced(path, replace):
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.add_node()
        store.close()
    with ng.open(path, memory="64MB") as store:
        replace(path)
        assert store.num_nodes == 7
        replaced = pytest.raises(ng.UnsupportedArgument, match="was replaced since it was opened")
        with replaced, store.write():
            pass
    with ng.open(path, memory="64MB") as store, store.write() as tx:
        assert tx.add_node() == 6
