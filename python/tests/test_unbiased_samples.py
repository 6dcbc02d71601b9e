"""G2: samples are right and unbiased, on random graphs and on real ones."""

import json
import os
from pathlib import Path

import chances
import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

import neargraph as ng

TRIPLE = ("node", "to", "node")


def report(capsys, **figure):
    with capsys.disabled():
        print(f"\nfigure: {json.dumps({'id': 'G2', **figure})}")


def real_graphs():
    root = os.environ.get("NEARGRAPH_DATA")
    return sorted(Path(root, "npz_graphs").glob("*.npz")) if root else []


def graph_of(npz):
    """The adjacency of an npz file, rows as sources, without its features."""
    with np.load(npz, allow_pickle=False) as arrays:
        indptr, columns = arrays["adj_indptr"], arrays["adj_indices"].astype(np.int64)
        labels = arrays["labels"].astype(np.int64)
    rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    edges = Edges(rows, columns, edge_ids=False)
    return Graph({"node": Nodes(len(labels), {"y": labels})}, {TRIPLE: edges})


@pytest.mark.reliability
@pytest.mark.skipif(not real_graphs(), reason="NEARGRAPH_DATA is not set to the test data")
def test_full_neighbour_samples_of_real_graphs_are_what_the_raw_arrays_say(tmp_path, capsys):
    tried, wrong = 0, 0
    for npz in real_graphs():
        graph = graph_of(npz)
        edges, count = graph.edges[TRIPLE], graph.nodes["node"].num_nodes
        order = np.lexsort([edges.sources, edges.destinations])
        indices = edges.sources[order]
        indptr = np.searchsorted(edges.destinations[order], np.arange(count + 1))
        with ng.open(graph.write(tmp_path / npz.stem), memory="400MB") as store:
            sampler = ng.NumpySampler(store, [-1, -1])
            for batch in sampler.batches(None, 512, shuffle=True):
                nodes, (row, col) = batch.nodes(), batch.edge_index()
                expanded = sum(batch.num_sampled_nodes()[:-1])
                expected = [indices[indptr[n] : indptr[n + 1]] for n in nodes[:expanded]]
                degrees = [len(part) for part in expected]
                tried += expanded
                if not (
                    np.array_equal(np.bincount(col, minlength=len(nodes))[:expanded], degrees)
                    and np.array_equal(
                        nodes[row][np.argsort(col, kind="stable")], np.concatenate(expected)
                    )
                    and np.array_equal(batch.features("y"), graph.nodes["node"].tensors["y"][nodes])
                ):
                    wrong += 1
    report(capsys, what="full-neighbour nodes", tried=tried, failed=wrong, seed=0)
    assert wrong == 0


@pytest.mark.reliability
@pytest.mark.parametrize("replace", [False, True])
def test_every_neighbour_is_drawn_equally_often(tmp_path, replace):
    stats = pytest.importorskip("scipy.stats")
    degree, fanout, streams = 40, 5, 4000
    star = Graph(
        {"node": Nodes(degree + 1)},
        {TRIPLE: Edges(np.arange(1, degree + 1), np.zeros(degree, np.int64))},
    )
    with ng.open(star.write(tmp_path / "star.ng"), memory="64MB") as store:
        sampler = ng.NumpySampler(store, [fanout], seed=5, replace=replace)
        drawn = np.stack([sampler.sample([0], stream=s).edge_ids() for s in range(streams)])
    positions = [stats.chisquare(np.bincount(column, minlength=degree)) for column in drawn.T]
    # Pairs of consecutive draws are independent with replacement, and never equal without.
    pairs = np.bincount(drawn[:, 0] * degree + drawn[:, 1], minlength=degree**2)
    pairs = pairs.reshape(degree, degree)
    if not replace:
        assert not np.diagonal(pairs).any()
        pairs = pairs[~np.eye(degree, dtype=bool)]
    p_values = [test.pvalue for test in positions] + [stats.chisquare(pairs.ravel()).pvalue]
    chances.report(f"draws, replace={replace}", 5, p_values)
