"""Every item is ranked in blocks that fit in memory, as if all scores were there at once."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
retrieval = pytest.importorskip("torchmetrics.retrieval")

from neargraph.metrics import RankingTable, rank_all_items  # noqa: E402
from neargraph.metrics.all_items import _user_blocks  # noqa: E402

METRICS = ["recall@5", "ndcg@5", "hits@5", "precision@5", "mrr@5", "recall@40", "ndcg@40"]


def graph(seed, users=37, items=53):
    rng = np.random.default_rng(seed)
    # Whole numbers: products are exact whatever the blocks, and many scores are equal.
    u = torch.from_numpy(rng.integers(-3, 4, (users, 4)).astype(np.float32))
    i = torch.from_numpy(rng.integers(-3, 4, (items, 4)).astype(np.float32))
    wanted = [rng.choice(items, rng.integers(0, 6), replace=False).tolist() for _ in range(users)]
    seen = [rng.choice(items, rng.integers(0, 9), replace=False).tolist() for _ in range(users)]
    return u, i, wanted, seen


def dense(u, i, wanted, seen, k):
    """The same by sorting the whole matrix, one user after the other."""
    rows = []
    for user, right in enumerate(wanted):
        if not right:
            continue
        scores = (u[user] @ i.T).numpy()
        left = [n for n in range(len(i)) if n not in set(seen[user]) - set(right)]
        order = sorted(left, key=lambda n, s=scores: (-s[n], n))[:k]
        hit = np.array([n in right for n in order] + [False] * (k - len(order)), dtype=float)
        discounts = 1 / np.log2(np.arange(2, k + 2))
        first = np.flatnonzero(hit)
        rows.append(
            {
                f"recall@{k}": hit.sum() / len(right),
                f"ndcg@{k}": (hit * discounts).sum() / discounts[: min(k, len(right))].sum(),
                f"hits@{k}": float(hit.any()),
                f"precision@{k}": hit.sum() / k,
                f"mrr@{k}": 1 / (first[0] + 1) if len(first) else 0.0,
            }
        )
    return {name: np.mean([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("memory", [2_000, 20_000, "1MB"])
def test_blocks_give_what_the_whole_matrix_gives_with_ties_and_training_items(seed, memory):
    print(f"seed {seed}")
    u, i, wanted, seen = graph(seed)
    tables = (RankingTable.of(wanted), RankingTable.of(seen))
    found = rank_all_items(u, i, *tables, metrics=METRICS, memory=memory)
    expected = dense(u, i, wanted, seen, 5) | dense(u, i, wanted, seen, 40)
    for name in METRICS:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


def test_recall_and_ndcg_equal_those_of_torchmetrics_without_ties():
    rng = np.random.default_rng(3)
    print("seed 3")
    u = torch.eye(20)
    i = torch.from_numpy(rng.permutation(20 * 31).reshape(31, 20).astype(np.float32))
    wanted = [rng.choice(31, 4, replace=False).tolist() for _ in range(20)]
    found = rank_all_items(u, i, RankingTable.of(wanted), metrics=["recall@6", "ndcg@6"])
    answers = torch.zeros(20, 31, dtype=torch.int64)
    for user, right in enumerate(wanted):
        answers[user, right] = 1
    queries = torch.arange(20).repeat_interleave(31)
    scores = (u @ i.T).flatten()
    recall = retrieval.RetrievalRecall(top_k=6)(scores, answers.flatten(), queries)
    ndcg = retrieval.RetrievalNormalizedDCG(top_k=6)(scores, answers.flatten(), queries)
    assert found["recall@6"] == pytest.approx(float(recall), abs=1e-6)
    assert found["ndcg@6"] == pytest.approx(float(ndcg), abs=1e-6)


def test_the_scores_of_a_block_stay_within_memory():
    u, i, wanted, _ = graph(1, users=400, items=700)
    blocks = []

    class Watched:
        shape = i.shape

        def __getitem__(self, rows):
            blocks.append(rows)
            return i[rows]

    rank_all_items(u, Watched(), RankingTable.of(wanted), metrics=["recall@5"], memory=64_000)
    widths = [rows.stop - rows.start for rows in blocks]
    passes = sum(rows.start == 0 for rows in blocks)
    # 64 kB hold 2,000 scores: blocks of 44 users by 40 items at most.
    assert max(widths) <= 44
    assert passes >= 9


def test_what_the_users_of_a_block_have_seen_stays_within_memory():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 300, 400)
    seen = RankingTable(np.concatenate([[0], counts.cumsum()]), np.zeros(counts.sum(), np.int64))
    blocks = list(_user_blocks(400, 100, seen, 64 * 250))
    assert [first for first, _ in blocks] == [0, *(last for _, last in blocks[:-1])]
    assert blocks[-1][1] == 400
    alone = 0
    for first, last in blocks:
        assert 0 < last - first <= 100
        alone += last - first == 1
        assert seen.indptr[last] - seen.indptr[first] <= 250 or last - first == 1
    assert 50 < alone < len(blocks)


def test_a_mapped_file_is_ranked_like_a_tensor(tmp_path):
    u, i, wanted, seen = graph(2)
    np.save(tmp_path / "items.npy", i.numpy())
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    tables = (RankingTable.of(wanted), RankingTable.of(seen))
    assert rank_all_items(u, mapped, *tables) == rank_all_items(u, i, *tables)


def test_pairs_make_the_same_table_as_lists():
    table = RankingTable.of_pairs([2, 0, 2, 2], [3, 1, 0, 3], 4)
    assert table.indptr.tolist() == [0, 1, 1, 3, 3]
    assert table.items.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": ["recall"]}, "not a metric of rankings"),
        ({"metrics": ["recall@0"]}, "not a metric of rankings"),
        ({"items": torch.eye(3)}, "rows of equal length"),
        ({"wanted": RankingTable.of([[0]])}, "wanted= has lists for 1 users"),
        ({"wanted": RankingTable.of([[2], []])}, "wanted= contains item 2"),
        ({"wanted": RankingTable.of([[], []])}, "wanted= has no items"),
        ({"memory": 64}, "at least"),
        ({"users": torch.tensor([[float("nan"), 0.0], [0.0, 0.0]])}, "NaN"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_one_line(change, message):
    given = {
        "users": torch.eye(2),
        "items": torch.eye(2),
        "wanted": RankingTable.of([[0], [1]]),
        "metrics": ["recall@2"],
    } | change
    with pytest.raises(ng.UnsupportedArgument, match=message) as caught:
        rank_all_items(**given)
    assert "\n" not in str(caught.value)
