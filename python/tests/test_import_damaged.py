"""Inputs with random damage: refused or imported, never a crash, a traceback or a rest on disk.

The damage depends on a seed, which is printed. `NEARGRAPH_FUZZ` is the number of cases of each
input (default 150), and `NEARGRAPH_FUZZ_SEED` the seed.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_planetoid

WORKER = Path(__file__).with_name("hostile_worker.py")
COUNT = int(os.environ.get("NEARGRAPH_FUZZ", "150"))
SEED = int(os.environ.get("NEARGRAPH_FUZZ_SEED", "0"))
RNG = np.random.default_rng(5)


def matrices(folder, save):
    save(
        folder / "in.npz",
        adj_data=np.ones(8, np.float32),
        adj_indices=RNG.integers(0, 5, 8),
        adj_indptr=np.array([0, 2, 4, 5, 8, 8]),
        adj_shape=np.array([5, 5]),
        attr_data=np.ones(3, np.float32),
        attr_indices=np.array([0, 3, 1]),
        attr_indptr=np.array([0, 1, 1, 2, 3, 3]),
        attr_shape=np.array([5, 4]),
        labels=np.arange(5),
    )


def molecules(folder):
    np.savez(
        folder / "in.npz",
        node_ptr=np.array([0, 2, 5]),
        edge_ptr=np.array([0, 1, 3]),
        edge_index=np.array([[0, 0, 1], [1, 2, 0]]),
        x=np.ones((5, 3), np.float32),
        y=np.array([1.0, 2.0]),
    )


def typed(folder):
    np.savez(
        folder / "in.npz",
        num_nodes_a=np.array(3),
        num_nodes_b=np.array(2),
        a__to__b=np.array([[0, 1, 2], [0, 1, 1]]),
        a_kind=np.array([0, 1, 0]),
        kind_names=np.array(["p", "q"]),
    )


def heterophilous(folder):
    np.savez(
        folder / "in.npz",
        edges=np.array([[0, 1], [2, 3], [1, 3]]),
        node_features=np.ones((4, 3), np.float32),
        node_labels=np.arange(4),
        train_masks=np.eye(2, 4, dtype=bool),
        val_masks=np.zeros((2, 4), dtype=bool),
        test_masks=np.zeros((2, 4), dtype=bool),
    )


def edge_list(folder):
    np.save(folder / "in.npy", RNG.integers(0, 50, (40, 2)))


def arrays(folder):
    np.save(folder / "indptr.npy", np.array([0, 2, 4, 5]))
    np.save(folder / "indices.npy", np.array([0, 1, 2, 0, 1]))
    np.save(folder / "x.npy", np.ones((3, 4), np.float32, order="F"))
    np.save(folder / "y.npy", np.arange(3))
    np.save(folder / "edge_weight.npy", np.ones(5, np.float32))
    for name in ("train", "val", "test"):
        np.save(folder / f"{name}_mask.npy", np.zeros(3, bool))


INPUTS = {
    "planetoid": ("file", tiny_planetoid.write),
    "matrices": ("file", lambda folder: matrices(folder, np.savez)),
    "packed matrices": ("file", lambda folder: matrices(folder, np.savez_compressed)),
    "molecules": ("file", molecules),
    "typed": ("file", typed),
    "heterophilous": ("file", heterophilous),
    "edge list": ("file", edge_list),
    "arrays": ("folder", arrays),
}


@pytest.mark.parametrize("name", INPUTS)
def test_damaged_inputs_are_refused_or_imported_and_nothing_else(name, tmp_path):
    kind, make = INPUTS[name]
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder)
    print(f"seed {SEED}, {COUNT} cases")
    command = [sys.executable, str(WORKER), kind, str(folder), str(SEED), str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"died at {lines[-1:]}: {done.stderr[-2000:]}"
    outcomes = [line.split(" ", 2)[2] for line in lines]
    strange = [line for line in outcomes if not line.startswith(("imported", "refused: "))]
    assert (strange, len(lines)) == ([], COUNT)
    assert sum(line.startswith("refused: ") for line in outcomes) > COUNT // 8
