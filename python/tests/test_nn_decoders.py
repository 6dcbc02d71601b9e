"""Heads and losses: what they compute, and that what is missing has no part in it."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch.nn import functional  # noqa: E402
from torch_geometric.nn.kge import DistMult  # noqa: E402
from torch_geometric.nn.models import InnerProductDecoder  # noqa: E402

from neargraph.nn import (  # noqa: E402
    DotDecoder,
    GraphDecoder,
    MLPDecoder,
    NodeDecoder,
    RelationDecoder,
    predictions,
    task_loss,
)


@pytest.fixture
def rows():
    return torch.rand(9, 4, generator=torch.Generator().manual_seed(40))


PAIRS = torch.tensor([[0, 1, 2, 3], [8, 7, 6, 8]])


def test_a_node_head_of_one_layer_is_linear_and_deeper_ones_are_an_mlp(rows):
    head = NodeDecoder(4, 3)
    (linear,) = head.mlp.lins
    assert torch.equal(head(rows), linear(rows))
    deep = NodeDecoder(4, 3, num_layers=2).eval()
    first, second = deep.mlp.lins
    assert torch.allclose(deep(rows), second(first(rows).relu()))


def test_scores_of_pairs_are_those_of_pyg(rows):
    theirs = InnerProductDecoder()(rows, PAIRS, sigmoid=False)
    assert torch.allclose(DotDecoder()(rows, rows, PAIRS), theirs)
    relation = torch.tensor([0, 2, 1, 2])
    head, known = RelationDecoder(4, 3), DistMult(9, 3, 4)
    known.node_emb.weight.data.copy_(rows)
    known.rel_emb.weight.data.copy_(head.relation.weight.data)
    wanted = known(PAIRS[0], relation, PAIRS[1])
    assert torch.allclose(head(rows, rows, PAIRS, relation), wanted)


def test_a_bilinear_form_tells_a_pair_from_its_reverse_and_distmult_does_not(rows):
    relation = torch.tensor([0, 2, 1, 2])
    head = RelationDecoder(4, 3, form="bilinear")
    wanted = [
        rows[a] @ head.relation.weight[r].view(4, 4) @ rows[b]
        for a, b, r in zip(*PAIRS.tolist(), relation.tolist(), strict=True)
    ]
    assert torch.allclose(head(rows, rows, PAIRS, relation), torch.stack(wanted))
    for form, is_same in (("bilinear", False), ("distmult", True)):
        head = RelationDecoder(4, 3, form=form)
        there, back = (head(rows, rows, p, relation) for p in (PAIRS, PAIRS.flip(0)))
        assert torch.allclose(there, back) == is_same


def test_ends_of_a_pair_may_be_of_two_types(rows):
    items = torch.rand(3, 4)
    pairs = torch.tensor([[8, 0], [2, 1]])
    wanted = torch.stack([rows[8] @ items[2], rows[0] @ items[1]])
    assert torch.allclose(DotDecoder()(rows, items, pairs), wanted)
    head = MLPDecoder(4).eval()
    first, second = head.mlp.lins
    both = torch.stack([torch.cat([rows[8], items[2]]), torch.cat([rows[0], items[1]])])
    assert torch.allclose(head(rows, items, pairs), second(first(both).relu()).squeeze(1))
    assert MLPDecoder(4, out_channels=5)(rows, items, pairs).shape == (2, 5)


def test_a_graph_is_pooled_from_its_own_rows_and_an_empty_one_is_zero(rows):
    batch = torch.tensor([0] * 4 + [2] * 5)
    parts = (rows[:4], rows[:0], rows[4:])
    for pool, reduce in {
        "mean": lambda part: part.mean(0),
        "sum": lambda part: part.sum(0),
        "max": lambda part: part.amax(0),
    }.items():
        head = GraphDecoder(4, 2, pool=pool, num_layers=1)
        pooled = torch.stack([reduce(part) if len(part) else torch.zeros(4) for part in parts])
        assert torch.allclose(head(rows, batch, 3), head.mlp(pooled))


def test_losses_are_means_over_what_is_known():
    out = torch.rand(4, 3, requires_grad=True)
    loss = task_loss("classification", out, torch.tensor([[2], [-1], [0], [-1]]))
    assert torch.allclose(loss, functional.cross_entropy(out[[0, 2]], torch.tensor([2, 0])))
    floats = torch.tensor([2.0, float("nan"), 0.0, -1.0])
    assert torch.allclose(task_loss("classification", out, floats), loss)
    for unknown in (float("nan"), -1.0):
        labels = torch.tensor([[1.0, 0, unknown]] * 4)
        loss = task_loss("multilabel", out, labels)
        bce = functional.binary_cross_entropy_with_logits(out[:, :2], labels[:, :2])
        assert torch.allclose(loss, bce)
    assert torch.allclose(task_loss("multilabel", out.double(), labels).float(), loss)
    values = torch.tensor([1.0, 2.0, float("nan"), 4.0])
    loss = task_loss("regression", out[:, :1], values)
    assert torch.allclose(loss, functional.mse_loss(out[[0, 1, 3], 0], values[[0, 1, 3]]))
    for task, unknown in [
        ("classification", torch.full((4,), -1)),
        ("multilabel", torch.full((4, 3), float("nan"))),
        ("regression", torch.full((4, 3), float("nan"))),
    ]:
        out.grad = None
        loss = task_loss(task, out, unknown)
        loss.backward()
        assert loss == 0
        assert not out.grad.any()


def test_predictions_are_classes_labels_or_values():
    out = torch.tensor([[-1.0, 2.0], [3.0, 0.5]])
    assert predictions("classification", out).tolist() == [1, 0]
    assert predictions("multilabel", out).tolist() == [[False, True], [True, True]]
    assert predictions("regression", out) is out


def test_what_heads_do_not_have_is_refused():
    for message, call in [
        (
            "form='trans' is not valid: expected 'distmult' or 'bilinear'",
            lambda: RelationDecoder(4, 3, form="trans"),
        ),
        (
            "pool='last' is not valid: expected 'mean', 'sum' or 'max'",
            lambda: GraphDecoder(4, 3, pool="last"),
        ),
        ("num_layers=0 is not valid: expected 1 or more", lambda: NodeDecoder(4, 3, num_layers=0)),
        (
            "task='ranking' is not valid",
            lambda: task_loss("ranking", torch.zeros(2, 3), torch.zeros(2)),
        ),
        (
            r"labels have shape \[2\]: expected shape \[2, 3\] for task='multilabel'",
            lambda: task_loss("multilabel", torch.zeros(2, 3), torch.zeros(2)),
        ),
        (
            r"labels have shape \[2, 3\]: expected shape \[2\] for task='classification'",
            lambda: task_loss("classification", torch.zeros(2, 3), torch.zeros(2, 3)),
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
