"""G2: visits, small subgraphs, parts and orders come as often as all their possibilities say.

Graphs are so small that the chance of every outcome can be added up.
"""

import itertools
from collections import Counter

import pytest
from chances import alike, p_value, report
from graphs import Graph, Nodes, edges_of
from sampled import PLAIN

import neargraph as ng

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.reliability

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")
# In-neighbours; node 4 has none.
LISTS = {0: [1, 2, 3], 1: [0, 2], 2: [0, 3], 3: [0, 4], 4: []}
# Who bought an item, and what a user sold: user 2 sold nothing.
BUYERS = {0: [0, 1, 2], 1: [0, 1], 2: [1], 3: [2]}
SALES = {0: [0, 1, 3], 1: [1, 2], 2: []}


def ends_of(lists):
    return [(source, node) for node, sources in lists.items() for source in sources]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A graph of one type, and one of users and items."""
    folder = tmp_path_factory.mktemp("chances")
    plain = Graph({"node": Nodes(5)}, {PLAIN: edges_of(list(zip(*ends_of(LISTS), strict=True)))})
    typed = Graph(
        {"user": Nodes(3), "item": Nodes(4)},
        {
            BUYS: edges_of(list(zip(*ends_of(BUYERS), strict=True))),
            SOLD: edges_of(list(zip(*ends_of(SALES), strict=True))),
        },
    )
    return {"plain": plain.write(folder / "plain.ng"), "typed": typed.write(folder / "typed.ng")}


@pytest.fixture
def store(paths):
    with ng.open(paths["plain"], memory="64MB") as store:
        yield store


def turns(*steps):
    """Where a walker at each node stands after one turn, None where it could not go on."""
    found = {}
    for start in steps[0]:
        found[start], at = Counter(), {start: 1.0}
        for lists in steps:
            after = Counter()
            for node, chance in at.items():
                targets = [None] if node is None else lists[node] or [None]
                for target in targets:
                    after[target] += chance / len(targets)
            at = after
        found[start] = at
    return found


def visits_of_a_walk(turn, start, length, restart):
    """The chances of the visited nodes, sorted, a node once for each visit."""
    walks = {((), start): 1.0}
    for _ in range(length):
        after = Counter()
        for (seen, at), chance in walks.items():
            for target, share in turn[at].items():
                node = start if target is None else target
                seen_now = seen if node == start else tuple(sorted([*seen, node]))
                after[seen_now, node] += chance * share * (1 - restart)
                after[seen_now, start] += chance * share * restart
        walks = after
    visits = Counter()
    for (seen, _), chance in walks.items():
        visits[seen] += chance
    return visits


def neighbours_by_visits(turn, start, walks, length, restart, kept):
    """The chances of the neighbours, each with its share, most visited first."""
    one, together = visits_of_a_walk(turn, start, length, restart), Counter({(): 1.0})
    for _ in range(walks):
        joined = Counter()
        for (seen, chance), (more, of_one) in itertools.product(together.items(), one.items()):
            joined[tuple(sorted([*seen, *more]))] += chance * of_one
        together = joined
    chances = Counter()
    for seen, chance in together.items():
        most = sorted(Counter(seen).items(), key=lambda pair: (-pair[1], pair[0]))[:kept]
        total = sum(count for _, count in most)
        chances[tuple((node, round(count / total, 5)) for node, count in most)] += chance
    return chances


@pytest.mark.parametrize("kind", ["plain", "typed"])
@pytest.mark.parametrize(
    ("walks", "length", "restart", "kept"), [(3, 2, 0.5, 2), (4, 1, 0.0, 2), (2, 3, 0.3, 3)]
)
def test_neighbours_by_visits_come_together_as_often_as_all_walks_say(
    paths, kind, walks, length, restart, kept
):
    count, seed = 6000, 9
    path, turn = (None, turns(LISTS)) if kind == "plain" else ([BUYS, SOLD], turns(BUYERS, SALES))
    seeds = [0] * count if kind == "plain" else ("item", [0] * count)
    found = Counter()
    with ng.open(paths[kind], memory="64MB") as store:
        # One seed a batch, so that all edges lead to it.
        loader = ng.PinSAGELoader(
            store,
            [kept],
            seeds,
            path=path,
            num_walks=walks,
            walk_length=length,
            restart=restart,
            batch_size=1,
            seed=seed,
        )
        for batch in loader:
            nodes = batch.n_id[batch.edge_index[0]].tolist()
            shares = [round(share, 5) for share in batch.edge_weight.tolist()]
            found[tuple(zip(nodes, shares, strict=True))] += 1
    assert sum(found.values()) == count
    chances = neighbours_by_visits(turn, 0, walks, length, restart, kept)
    settings = f"{walks} walks of {length} turns, restart {restart}, {kind}"
    report(f"joint visits, {settings}", seed, [p_value(found, chances)])


def draws_of(nodes, fanout, replace):
    """All equally likely draws from a list."""
    if replace and nodes:
        return list(itertools.product(nodes, repeat=fanout))
    return list(itertools.combinations(nodes, min(fanout, len(nodes))))


def subgraphs(root, fanout, replace):
    """The chances of the sets of nodes that two hops reach."""
    chances = Counter()
    firsts = draws_of(LISTS[root], fanout, replace)
    for first in firsts:
        new = sorted(set(first) - {root})
        seconds = [draws_of(LISTS[node], fanout, replace) for node in new]
        both = list(itertools.product(*seconds))
        for second in both:
            reached = frozenset([root, *first, *itertools.chain(*second)])
            chances[reached] += 1 / len(firsts) / len(both)
    return chances


@pytest.mark.parametrize("replace", [False, True])
def test_subgraphs_around_a_root_have_the_nodes_that_two_hops_draw(store, replace):
    seed, p_values = 4, []
    for root, fanout in ((0, 2), (1, 1), (2, 1)):
        # One root a batch: subgraphs of one batch draw alike from a list.
        roots = [root] * 2000
        loader = ng.ShaDowKHopSampler(
            store, 2, fanout, roots, replace=replace, batch_size=1, seed=seed
        )
        found = Counter(frozenset(batch.n_id.tolist()) for batch in loader)
        p_values.append(p_value(found, subgraphs(root, fanout, replace)))
    report(f"subgraphs around a root, replace={replace}", seed, p_values)


def first_batches(loader, epochs):
    """The nodes of the first batch of each epoch."""
    for _ in range(epochs):
        batches = iter(loader)
        yield next(batches).n_id.tolist()
        batches.close()


def test_every_random_part_is_as_likely(store):
    seed = 5
    loader = ng.RandomNodeLoader(store, 2, shuffle=True, seed=seed)
    found = Counter(frozenset(nodes) for nodes in first_batches(loader, 1500))
    chances = alike([frozenset(part) for part in itertools.combinations(range(5), 3)])
    report("random parts", seed, [p_value(found, chances)])


def test_every_choice_of_clusters_is_as_likely(store):
    seed = 5
    loader = ng.ClusterGCNLoader(store, 5, batch_size=2, shuffle=True, seed=seed)
    found = Counter(frozenset(nodes) for nodes in first_batches(loader, 1500))
    chances = alike([frozenset(pair) for pair in itertools.combinations(range(5), 2)])
    report("clusters of a batch", seed, [p_value(found, chances)])


def test_every_order_of_seeds_is_as_likely(store):
    seed = 5
    loader = ng.NeighborLoader(store, [0], [0, 1, 2, 3], batch_size=4, shuffle=True, seed=seed)
    found = Counter(tuple(nodes) for nodes in first_batches(loader, 2400))
    chances = alike(list(itertools.permutations(range(4))))
    report("orders of seeds", seed, [p_value(found, chances)])
