"""GraphSAINT's norms: losses and means of samples are those of the full graph in expectation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.nn import GraphSAGE, InDegrees, saint_loss, saint_weights  # noqa: E402


def full_edges(store):
    ids = np.arange(store.num_nodes)
    indptr, sources, *_ = store.snapshot().neighbors(None, ids)
    return torch.from_numpy(np.stack([sources, np.repeat(ids, np.diff(indptr))]))


@torch.no_grad()
def test_means_over_drawn_edges_are_the_full_means_in_expectation(homo):
    torch.manual_seed(50)
    print("seed 50")
    x, edges, degrees = (
        torch.tensor(homo.column("x")),
        full_edges(homo),
        InDegrees(homo, loops=True),
    )
    model = GraphSAGE(6, 4, 4, num_layers=1).eval()
    exact = model(x, edges)
    chance = torch.rand(edges.size(1)) * 0.6 + 0.2
    n_id, found = torch.arange(homo.num_nodes), {True: [], False: []}
    for _ in range(400):
        drawn = torch.rand(len(chance)) < chance
        for is_weighed, outs in found.items():
            norm = 1 / chance[drawn] if is_weighed else torch.ones(int(drawn.sum()))
            weight = saint_weights(edges[:, drawn], norm, n_id, degrees)
            outs.append(model(x, edges[:, drawn], sum_weight=weight))
    once = (found[True][0] - exact).abs().mean()
    error = {kind: (torch.stack(outs).mean(0) - exact).abs().mean() for kind, outs in found.items()}
    assert error[True] < 0.1 * once
    assert error[False] > 5 * error[True]


def test_the_loss_weighs_each_node_and_looks_at_the_mask_alone():
    losses, norm = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 8.0])
    mask = torch.tensor([True, True, False])
    assert saint_loss(losses, norm) == 0.5 + 0.5 + 32
    assert saint_loss(losses, norm, mask) == 1
    assert saint_loss(losses[mask], norm, mask) == 1
    with pytest.raises(ValueError, match=r"losses have shape \[1\]: expected shape \[2\]"):
        saint_loss(losses[:1], norm, mask)
