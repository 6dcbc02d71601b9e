"""Metrics stream over batches and equal torchmetrics, scikit-learn or plain loops on the whole."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
retrieval = pytest.importorskip("torchmetrics.retrieval")
from sklearn import metrics as reference  # noqa: E402

from neargraph.metrics import Metrics, metric_names  # noqa: E402
from neargraph.metrics import curves as curves_module  # noqa: E402


def in_batches(metrics, outputs, targets, parts=7, losses=None):
    cuts = np.array_split(np.arange(len(outputs)), parts)
    for at, cut in enumerate(cuts):
        metrics.update(outputs[cut], targets[cut], None if losses is None else losses[at])
    return metrics.compute()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_classes_are_measured_as_scikit_learn_does(seed):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.standard_normal((500, 4)).astype(np.float32))
    targets = torch.from_numpy(rng.integers(0, 4, 500))
    names = ["accuracy", "f1-micro", "f1-macro", "roc-auc", "ap"]
    found = in_batches(Metrics("classes", names, 4), logits, targets)
    said, truth = logits.argmax(dim=1).numpy(), targets.numpy()
    chances, answers = logits.softmax(1).numpy(), np.eye(4)[truth]
    assert list(found) == names
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(truth, said), abs=1e-6)
    assert found["f1-micro"] == pytest.approx(found["accuracy"], abs=1e-6)
    macro = reference.f1_score(truth, said, average="macro")
    assert found["f1-macro"] == pytest.approx(macro, abs=1e-6)
    assert found["roc-auc"] == pytest.approx(reference.roc_auc_score(answers, chances), abs=1e-6)
    precision = reference.average_precision_score(answers, chances)
    assert found["ap"] == pytest.approx(precision, abs=1e-6)


def test_of_two_classes_the_area_is_that_of_the_second():
    rng = np.random.default_rng(4)
    logits = torch.from_numpy(rng.standard_normal((200, 2)).astype(np.float32))
    targets = torch.from_numpy(rng.integers(0, 2, 200))
    found = in_batches(Metrics("classes", ["roc-auc"], 2), logits, targets)
    wanted = reference.roc_auc_score(targets.numpy(), (logits[:, 1] - logits[:, 0]).numpy())
    assert found["roc-auc"] == pytest.approx(wanted, abs=1e-6)


def test_unknown_labels_take_no_part_and_labels_of_one_answer_have_no_area():
    rng = np.random.default_rng(5)
    logits = torch.from_numpy(rng.standard_normal((300, 3)).astype(np.float32))
    targets = torch.from_numpy(rng.integers(0, 2, (300, 3)).astype(np.float32))
    targets[::3, 0] = float("nan")
    targets[:, 2] = 1.0
    metrics = Metrics("labels", ["f1-micro", "f1-macro", "accuracy", "roc-auc", "ap"], 3)
    found = in_batches(metrics, logits, targets)
    known = ~targets.isnan().numpy()
    said, truth = (logits > 0).numpy(), targets.numpy()
    micro = reference.f1_score(truth[known], said[known])
    each = [reference.f1_score(truth[k, c], said[k, c]) for c, k in enumerate(known.T)]
    assert found["f1-micro"] == pytest.approx(micro, abs=1e-6)
    assert found["f1-macro"] == pytest.approx(np.mean(each), abs=1e-6)
    right = (truth == said)[known].mean()
    assert found["accuracy"] == pytest.approx(right, abs=1e-6)
    scores = logits.numpy()
    areas = [reference.roc_auc_score(truth[known[:, c], c], scores[known[:, c], c]) for c in (0, 1)]
    assert found["roc-auc"] == pytest.approx(np.mean(areas), abs=1e-6)
    assert metrics.left_out() == {"roc-auc": 1, "ap": 1}


def test_values_are_measured_where_they_are_known():
    rng = np.random.default_rng(6)
    said = torch.from_numpy(rng.standard_normal((100, 2)).astype(np.float32))
    truth = torch.from_numpy(rng.standard_normal((100, 2)))
    truth[::4, 1] = float("nan")
    found = in_batches(Metrics("values", [], 2), said, truth)
    gap = (said - truth).numpy()[~truth.isnan().numpy()]
    assert found["mae"] == pytest.approx(np.abs(gap).mean(), abs=1e-6)
    assert found["rmse"] == pytest.approx(np.sqrt((gap**2).mean()), abs=1e-6)


def test_links_are_ranked_among_their_negatives_and_ties_count_half():
    positive = torch.tensor([2.0, 1.0, 0.0])
    negative = torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.5, -1.0], [0.0, 0.0, 0.0]])
    names = ["mrr", "hits@1", "hits@3", "recall@3", "ndcg@3"]
    metrics = Metrics("links", names)
    metrics.update(positive[:2], negative[:2])
    metrics.update(positive[2:], negative[2:])
    found = metrics.compute()
    ranks = np.array([2.5, 1.0, 2.5])
    assert found["mrr"] == pytest.approx((1 / ranks).mean())
    assert found["hits@1"] == pytest.approx(1 / 3)
    assert found["hits@3"] == found["recall@3"] == 1.0
    assert found["ndcg@3"] == pytest.approx((1 / np.log2(1 + ranks)).mean())


def test_ranks_without_ties_equal_those_of_torchmetrics():
    rng = np.random.default_rng(7)
    scores = torch.from_numpy(rng.permutation(4000).reshape(200, 20).astype(np.float32))
    metrics = Metrics("links", ["mrr", "hits@5", "ndcg@5"])
    in_batches(metrics, scores[:, 0], scores[:, 1:])
    found = metrics.compute()
    answers = torch.zeros(200, 20, dtype=torch.int64)
    answers[:, 0] = 1
    queries = torch.arange(200).repeat_interleave(20)
    others = {
        "mrr": retrieval.RetrievalMRR(),
        "hits@5": retrieval.RetrievalHitRate(top_k=5),
        "ndcg@5": retrieval.RetrievalNormalizedDCG(top_k=5),
    }
    for name, other in others.items():
        wanted = float(other(scores.flatten(), answers.flatten(), queries))
        assert found[name] == pytest.approx(wanted, abs=1e-6)


def test_areas_of_links_are_over_all_pairs():
    rng = np.random.default_rng(8)
    positive = torch.from_numpy(rng.standard_normal(60).astype(np.float32)) + 1
    negative = torch.from_numpy(rng.standard_normal((60, 3)).astype(np.float32))
    found = in_batches(Metrics("links", ["roc-auc", "ap", "accuracy"]), positive, negative)
    scores = np.concatenate([positive.numpy(), negative.numpy().ravel()])
    truth = np.concatenate([np.ones(60), np.zeros(180)])
    assert found["roc-auc"] == pytest.approx(reference.roc_auc_score(truth, scores), abs=1e-5)
    ap = reference.average_precision_score(truth, scores)
    assert found["ap"] == pytest.approx(ap, abs=1e-5)
    assert found["accuracy"] == pytest.approx(((scores > 0) == truth).mean(), abs=1e-6)


def test_the_loss_is_the_mean_over_rows_and_not_over_batches():
    metrics = Metrics("classes", ["loss"], 2)
    metrics.update(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), 1.0)
    metrics.update(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), 5.0)
    assert metrics.compute() == {"loss": 2.0}


def test_scores_that_an_exact_area_keeps_are_bounded_and_the_binned_one_goes_on(monkeypatch):
    monkeypatch.setattr(curves_module, "EXACT_SCORES", 1000)
    rng = np.random.default_rng(9)
    logits = torch.from_numpy(rng.standard_normal((1200, 2)).astype(np.float32))
    targets = torch.from_numpy(rng.integers(0, 2, 1200))
    with pytest.raises(ng.UnsupportedArgument, match="roc-auc-binned"):
        in_batches(Metrics("classes", ["roc-auc"], 2), logits, targets)
    binned = in_batches(Metrics("classes", ["roc-auc-binned"], 2), logits, targets)
    wanted = reference.roc_auc_score(targets.numpy(), logits.softmax(1)[:, 1].numpy())
    assert binned["roc-auc-binned"] == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize(("kind", "outputs"), [("classes", 2), ("labels", 2)])
def test_an_area_of_one_class_alone_is_refused(kind, outputs):
    metrics = Metrics(kind, ["roc-auc"], outputs)
    targets = torch.zeros(5, dtype=torch.int64) if kind == "classes" else torch.zeros(5, 2)
    metrics.update(torch.randn(5, 2), targets)
    said = "all 5 are negative" if kind == "classes" else "none of the 2 label columns has both"
    with pytest.raises(ng.UnsupportedArgument, match=said):
        metrics.compute()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("classes", "mrr"), ("links", "hits@K"), ("links", "hits@0"), ("values", "accurracy")],
)
def test_an_unknown_metric_is_refused_with_what_there_is(kind, name):
    with pytest.raises(ng.UnsupportedArgument, match=f"not a metric of {kind}: expected") as caught:
        metric_names(kind, [name])
    assert "\n" not in str(caught.value)


def test_a_metric_that_is_named_twice_is_refused():
    with pytest.raises(ng.UnsupportedArgument, match="twice"):
        metric_names("links", ["mrr", "mrr"])
