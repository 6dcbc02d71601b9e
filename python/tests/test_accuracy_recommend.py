"""Recommendations beside PyG: both sides draw, compute and rank the same."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from benchmarks.accuracy import ngcf_peer, pinsage_peer  # noqa: E402
from benchmarks.accuracy.recommend_peer import ranked  # noqa: E402
from benchmarks.accuracy.visits import METRICS, first_visits  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.metrics import RankingTable, rank_all_items  # noqa: E402
from neargraph.nn import NGCF, PinSAGE  # noqa: E402

USERS, ITEMS, WIDTH, SEED = 40, 60, 8, 20
SETTINGS = {"hidden": WIDTH, "fanouts": (4, 3), "dropout": 0.0, "batch_size": 16}


def visits():
    """Distinct (user, item) pairs, [2, n]; some items are visited by many."""
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    items = (ITEMS * rng.random(400) ** 2).astype(np.int64)
    return torch.from_numpy(np.unique(np.stack([rng.integers(0, USERS, 400), items]), axis=1))


def bipartite():
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = USERS, ITEMS
    data["user", "visits", "item"].edge_index = visits()
    data["item", "rev_visits", "user"].edge_index = visits().flip(0)
    return data


def joined():
    there = visits() + torch.tensor([[0], [USERS]])
    data = Data(edge_index=torch.cat([there, there.flip(0)], 1), num_nodes=USERS + ITEMS)
    data.is_item = (torch.arange(USERS + ITEMS) >= USERS).to(torch.uint8)
    return data


def test_ngcf_of_both_sides_gives_the_same_rows_on_a_sample():
    torch.manual_seed(SEED)
    data = bipartite()
    peer = ngcf_peer.Model(SETTINGS, data)
    ours = NGCF(WIDTH, WIDTH, num_layers=2)
    for place, layer in enumerate(peer.layers):
        ours.own[place].weight, ours.alike[place].weight = layer.own.weight, layer.alike.weight
    ids = {"user": torch.arange(0, USERS, 2), "item": torch.arange(0, ITEMS, 2)}
    part = data.subgraph(ids)
    degrees = {kind: peer.degrees[kind[2]][ids[kind[2]]] for kind in data.edge_types}
    x = {name: peer.embeddings[name](one) for name, one in ids.items()}
    expected = ours.eval()(x, part.edge_index_dict, degrees)
    seeds = {"user": 7, "item": 30}
    found = peer.eval()(ids, part.edge_index_dict, seeds)
    for name, count in seeds.items():
        assert found[name].shape == (count, 3 * WIDTH)
        assert torch.allclose(found[name], expected[name][:count], atol=1e-6)


def test_pinsage_of_both_sides_gives_the_same_rows():
    torch.manual_seed(SEED)
    peer = pinsage_peer.Model(SETTINGS, joined())
    ours = PinSAGE(WIDTH, WIDTH, WIDTH)
    ours.load_state_dict(peer.layers.state_dict())
    ids, edges, shares = peer.walks.batch(torch.arange(30), [4, 3])
    expected = ours.eval()(peer.embeddings(ids), edges, shares)
    assert torch.allclose(peer.eval()(ids, edges, shares)[:30], expected[:30], atol=1e-6)


def test_walks_of_both_sides_give_the_same_neighbours_on_average(tmp_path):
    data, count, rounds = joined(), USERS + ITEMS, 300
    torch.manual_seed(SEED)
    walks, theirs, ours = pinsage_peer.Walks(data.edge_index, count), 0.0, 0.0
    ng.from_pyg(data, tmp_path / "one.ng", memory="64MB")
    with ng.open(tmp_path / "one.ng", memory="64MB") as store:
        for turn in range(rounds):
            owners, chosen, shares = walks.neighbors(torch.arange(count), 3)
            table = torch.zeros(count, count)
            table[owners, chosen] = shares
            theirs += table / rounds
            loader = ng.PinSAGELoader(store, [3], batch_size=count, attrs=[], seed=turn)
            (batch,) = loader
            table = torch.zeros(count, count)
            sources, targets = batch.n_id[batch.edge_index]
            table[targets, sources] = batch.edge_weight
            ours += table / rounds
    # A share has a deviation of 0.3 at most, and its mean one of 0.017; of both 0.025.
    assert (theirs - ours).abs().max() < 0.13
    assert (theirs - ours).square().mean().sqrt() < 0.01
    assert theirs.max() > 0.2


def test_what_a_visit_is_compared_with_is_none_of_the_users_own():
    torch.manual_seed(SEED)
    peer = pinsage_peer.Model(SETTINGS, joined())
    users = torch.arange(USERS).repeat(200)
    others = peer._others(users)
    own = set(map(tuple, peer.links.t().tolist()))
    assert not own & set(zip(users.tolist(), others.tolist(), strict=True))
    assert not (users == others).any()
    assert len(others.unique()) == USERS + ITEMS


def test_rankings_of_both_sides_agree_and_leave_out_what_was_visited_before(tmp_path, monkeypatch):
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    seen = visits()
    folder = tmp_path / "gowalla_checkins"
    folder.mkdir()
    lines = [
        f"{user} {user % 5} {' '.join(map(str, rng.integers(0, 70, 9)))}" for user in range(38)
    ]
    first = seen[:, 0].tolist()
    lines.append(f"38 {first[1]} 3 3")
    with gzip.open(folder / "gowalla_test.txt.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    monkeypatch.setenv("NEARGRAPH_DATA", str(tmp_path))
    test = first_visits(seen.numpy(), ITEMS)
    pairs = list(zip(*map(list, test), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert not set(pairs) & set(zip(*seen.tolist(), strict=True))
    assert max(test[1]) < ITEMS
    users, items = torch.randn(USERS, 4), torch.randn(ITEMS, 4)
    theirs = ranked(users, items, seen, test)
    tables = (RankingTable.of_pairs(*both, USERS) for both in (test, seen.numpy()))
    assert rank_all_items(users, items, *tables, metrics=METRICS) == pytest.approx(theirs, abs=1e-6)
    assert 0.2 < theirs["recall@20"] < 0.8
