"""GraphSAINT: batches are induced subgraphs of drawn nodes, and coefficients count the draws."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from chances import p_value, report
from graphs import homogeneous
from sampled import PLAIN, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402

from neargraph.loader import norms as norms_module  # noqa: E402

SEED = 2
NEEDS_TORCH_SPARSE = (
    "PyG's GraphSAINT samplers need torch_sparse; to compare with them: python -m benchmarks.venvs "
    "pyg && .bench/venvs/pyg/bin/python -m pytest -s python/tests/test_saint.py -k pygs_own"
)


def small(seed=1, num_nodes=7, num_edges=14):
    """A small graph without parallel edges; its last node has no edges."""
    rng = np.random.default_rng(seed)
    pairs = [(s, d) for s in range(num_nodes - 1) for d in range(num_nodes - 1) if s != d]
    chosen = [pairs[at] for at in sorted(rng.choice(len(pairs), num_edges, replace=False))]
    return np.array(chosen).T.copy(), num_nodes


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    edge_index, count = small()
    data = Data(
        x=torch.arange(count, dtype=torch.float32).view(-1, 1),
        edge_index=torch.from_numpy(edge_index),
        num_nodes=count,
    )
    path = tmp_path_factory.mktemp("saint") / "small.ng"
    ng.from_pyg(data, path, reverse=True)
    with ng.open(path, memory="64MB") as store:
        yield store


SAMPLERS = {
    "nodes": lambda store, **more: ng.GraphSAINTNodeSampler(store, 20, **more),
    "edges": lambda store, **more: ng.GraphSAINTEdgeSampler(store, 12, **more),
    "walks": lambda store, **more: ng.GraphSAINTRandomWalkSampler(store, 8, 3, **more),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The graph of many tests, with its reverse."""
    graph = homogeneous()
    edges, nodes = graph.edges[PLAIN], graph.nodes["node"]
    data = Data(
        x=torch.from_numpy(nodes.tensors["x"]),
        edge_index=torch.from_numpy(np.stack([edges.sources, edges.destinations])),
        edge_attr=torch.from_numpy(edges.tensors["edge_attr"]),
    )
    path = tmp_path_factory.mktemp("saint") / "large.ng"
    ng.from_pyg(data, path, reverse=True)
    with ng.open(path, memory="200MB") as store:
        yield store, graph


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_batch_is_the_subgraph_that_its_nodes_induce(large, kind):
    store, graph = large
    edges = graph.edges[PLAIN]
    loader = SAMPLERS[kind](store, num_steps=6, seed=4)
    assert len(loader) == 6
    nodes = []
    for batch in loader:
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        inside = np.isin(edges.sources, n_id) & np.isin(edges.destinations, n_id)
        assert np.array_equal(np.sort(e_id), np.flatnonzero(inside))
        assert np.array_equal(n_id[batch.edge_index[0]], edges.sources[e_id])
        assert np.array_equal(n_id[batch.edge_index[1]], edges.destinations[e_id])
        assert np.array_equal(batch.x.numpy(), graph.nodes["node"].tensors["x"][n_id])
        assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][e_id])
        assert len(np.unique(n_id)) == len(n_id) > 0
        assert "batch_size" not in batch
        assert "node_norm" not in batch
        nodes.append(tuple(sorted(n_id.tolist())))
    assert len(set(nodes)) == 6
    assert [tuple(sorted(b.n_id.tolist())) for b in loader] != nodes


def check_sets(what, loader, chances):
    """The sets of nodes come as often as they should."""
    found = Counter(frozenset(batch.n_id.tolist()) for batch in loader)
    report(f"nodes of SAINT by {what}", SEED, [p_value(found, chances)])


@pytest.mark.reliability
def test_nodes_are_drawn_by_their_outgoing_edges(store):
    (sources, _), count = small()
    chance = np.bincount(sources, minlength=count) / len(sources)
    chances = Counter()
    for drawn in itertools.product(range(count), repeat=3):
        chances[frozenset(drawn)] += np.prod(chance[list(drawn)])
    check_sets("nodes", ng.GraphSAINTNodeSampler(store, 3, 5000, seed=SEED), chances)


@pytest.mark.reliability
def test_edges_are_drawn_without_replacement_by_the_degrees_of_their_ends(store):
    (sources, destinations), count = small()
    weights = (
        1 / np.bincount(destinations, minlength=count)[destinations]
        + 1 / np.bincount(sources, minlength=count)[sources]
    )
    chances, every = Counter(), weights.sum()
    for one, two, three in itertools.permutations(range(len(sources)), 3):
        drawn = [one, two, three]
        left = every - weights[one]
        chance = weights[one] / every * weights[two] / left * weights[three] / (left - weights[two])
        chances[frozenset([*sources[drawn].tolist(), *destinations[drawn].tolist()])] += chance
    check_sets("edges", ng.GraphSAINTEdgeSampler(store, 3, 5000, seed=SEED), chances)


@pytest.mark.reliability
def test_walks_follow_in_neighbours_and_stay_where_there_are_none(store):
    (sources, destinations), count = small()
    step = np.zeros((count, count))
    for source, destination in zip(sources, destinations, strict=True):
        step[destination, source] += 1
    lonely = step.sum(axis=1) == 0
    assert lonely.any()
    step[lonely, lonely] = 1
    step /= step.sum(axis=1, keepdims=True)
    chances = Counter()
    for walk in itertools.product(range(count), repeat=3):
        chance = step[walk[0], walk[1]] * step[walk[1], walk[2]] / count
        chances[frozenset(walk)] += chance
    loader = ng.GraphSAINTRandomWalkSampler(store, 1, 2, 5000, seed=SEED)
    check_sets("walks", loader, chances)


def pygs_norms(kind, store, graph, coverage, num_steps):
    """PyG's `_compute_norm` over the subgraphs that the coefficients are counted by: those of the
    epochs from 2^40 on, as long as it takes."""
    edges, count = graph.edges[PLAIN], 300
    node_count, edge_count = torch.zeros(count), torch.zeros(len(edges.sources))
    loader = SAMPLERS[kind](store, num_steps=num_steps, seed=4, attrs=[])
    loader.set_epoch(1 << 40)
    samples = seen = 0
    while seen < count * coverage:
        for batch in loader:
            node_count[batch.n_id] += 1
            edge_count[batch.e_id] += 1
            seen += batch.num_nodes
        samples += num_steps
    edge_norm = (node_count[torch.from_numpy(edges.sources)] / edge_count).clamp_(0, 1e4)
    edge_norm[torch.isnan(edge_norm)] = 0.1
    node_count[node_count == 0] = 0.1
    return samples / node_count / count, edge_norm


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("coverage", [1, 7])
def test_coefficients_are_those_of_pyg(large, kind, coverage):
    store, graph = large
    node_norm, edge_norm = pygs_norms(kind, store, graph, coverage, num_steps=3)
    loader = SAMPLERS[kind](store, num_steps=3, sample_coverage=coverage, log=False, seed=4)
    for _ in range(3):
        for batch in loader:
            assert batch.node_norm.dtype == batch.edge_norm.dtype == torch.float32
            assert torch.allclose(batch.node_norm, node_norm[batch.n_id], rtol=1e-6)
            assert torch.allclose(batch.edge_norm, edge_norm[batch.e_id], rtol=1e-6)


@pytest.mark.parametrize("kind", ["nodes", "walks"])
def test_pygs_own_samplers_have_the_same_coefficients_on_average(tmp_path, kind):
    """Both count their own draws, so that they agree up to chance."""
    pytest.importorskip("torch_sparse", reason=NEEDS_TORCH_SPARSE)
    from torch_geometric import loader as pyg

    # torch_sparse walks from nodes without neighbours to arbitrary ones, so every node has some.
    ring = np.stack([np.arange(8), np.roll(np.arange(8), 1)])
    ends = np.hstack([ring, [[0, 0, 3, 5, 5], [3, 5, 0, 1, 7]]])
    data = Data(edge_index=torch.from_numpy(ends), num_nodes=8)
    ng.from_pyg(data, tmp_path / "ring.ng")
    how = {"sample_coverage": 6000, "log": False}
    torch.manual_seed(SEED)
    nodes, edges = torch.zeros(8), torch.zeros(13)
    with ng.open(tmp_path / "ring.ng", memory="64MB") as store:
        if kind == "nodes":
            theirs = pyg.GraphSAINTNodeSampler(data, 3, num_steps=50, **how)
            ours = ng.GraphSAINTNodeSampler(store, 3, 300, **how, seed=SEED)
        else:
            # PyG's walks follow edges forwards, ours backwards.
            turned = Data(edge_index=data.edge_index.flip(0), num_nodes=8)
            theirs = pyg.GraphSAINTRandomWalkSampler(turned, 3, 2, num_steps=50, **how)
            ours = ng.GraphSAINTRandomWalkSampler(store, 3, 2, 300, **how, seed=SEED)
        samples = ours._source.collator.norms.num_samples
        for batch in ours:
            nodes[batch.n_id], edges[batch.e_id] = batch.node_norm, batch.edge_norm
    wanted = theirs.edge_norm
    if kind == "walks":
        # It is the count of the source by that of the edge: a turned edge has the other source.
        source, destination = data.edge_index
        wanted = wanted * theirs.node_norm[destination] / theirs.node_norm[source]
    assert (nodes > 0).all()
    assert (edges > 0).all()
    of_nodes = float((nodes / theirs.node_norm - 1).abs().max())
    of_edges = float((edges / wanted - 1).abs().max())
    print(f"differences from PyG: at most {of_nodes:.1%} for 8 nodes, {of_edges:.1%} for 13 edges")
    print(f"{samples:,} samples of ours, about as many of PyG's, seed {SEED}")
    # Both sides saw each node 4,000 times or more and each edge 600 times or more: the bounds are
    # 4 standard deviations of the rarest. Counts of the other end differ by half and more.
    assert of_nodes < 0.1
    assert of_edges < 0.22


def test_counts_are_kept_used_again_and_refused_where_they_are_damaged(large, tmp_path):
    store, _ = large
    how = {"num_steps": 2, "sample_coverage": 2, "save_dir": str(tmp_path / "kept"), "log": False}
    first = epoch_of(SAMPLERS["nodes"](store, **how, seed=1))
    (kept,) = (tmp_path / "kept").iterdir()
    before = {file.name: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert epoch_of(SAMPLERS["nodes"](store, **how, seed=1)) == first
    assert {file.name: file.stat().st_mtime_ns for file in kept.iterdir()} == before
    # What is kept is what is used.
    nodes = np.load(kept / "nodes.npy")
    np.save(kept / "nodes.npy", nodes * 2)
    doubled = epoch_of(SAMPLERS["nodes"](store, **how, seed=1))
    norms = [[np.array(b[None, "node_norm"][1]) for b in run] for run in (first, doubled)]
    for one, other in zip(*norms, strict=True):
        assert np.allclose(one[one < 1], 2 * other[one < 1])
    # Other settings have counts of their own.
    for kind, seed in (("nodes", 2), ("walks", 1)):
        SAMPLERS[kind](store, **how, seed=seed)
    assert len(list((tmp_path / "kept").iterdir())) == 3

    def damage(name, change):
        content = (kept / name).read_bytes()
        (kept / name).write_bytes(change(content))
        with pytest.raises(ng.StateMismatch, match="save_dir") as caught:
            SAMPLERS["nodes"](store, **how, seed=1)
        assert "\n" not in str(caught.value)
        (kept / name).write_bytes(content)

    damage("nodes.npy", lambda content: content[:100])
    damage("nodes.npy", lambda content: b"")
    damage("edges.npy", lambda content: content[:-4])
    damage("counts.json", lambda content: b"{")
    damage("counts.json", lambda content: b"[]")
    damage("counts.json", lambda content: json.dumps({"key": "k", "num_samples": 2}).encode())
    damage("counts.json", lambda content: content.replace(b'"num_samples": ', b'"num_samples": -'))
    (kept / "edges.npy").unlink()
    with pytest.raises(ng.StateMismatch, match="save_dir"):
        SAMPLERS["nodes"](store, **how, seed=1)


def test_processes_that_count_the_same_share_one_folder(large, tmp_path, monkeypatch):
    """The last one finds what the first one left, whichever was there when it began."""
    store, _ = large
    how = {"num_steps": 2, "sample_coverage": 2, "log": False, "seed": 1}
    alone = epoch_of(SAMPLERS["nodes"](store, **how, save_dir=str(tmp_path / "alone")))
    shared, found = str(tmp_path / "shared"), []

    def counted(*args):
        norms = count(*args)
        if not found:
            found.append(None)
            found[0] = epoch_of(SAMPLERS["nodes"](store, **how, save_dir=shared))
        return norms

    count = norms_module._count
    monkeypatch.setattr(norms_module, "_count", counted)
    assert epoch_of(SAMPLERS["nodes"](store, **how, save_dir=shared)) == found[0] == alone
    (kept,) = (tmp_path / "shared").iterdir()
    assert kept.name.startswith("saint-")


def test_other_numbers_of_steps_have_counts_of_their_own(large, tmp_path):
    store, _ = large
    for steps in (2, 3):
        how = {"num_steps": steps, "sample_coverage": 2, "log": False}
        kept = SAMPLERS["nodes"](store, **how, save_dir=str(tmp_path))
        without = SAMPLERS["nodes"](store, **how)
        assert epoch_of(kept) == epoch_of(without)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("form", ["pyg", "paper"])
def test_deleted_nodes_are_not_divided_by(tmp_path, form):
    ring = torch.stack([torch.arange(20), torch.arange(20).roll(1)])
    ng.from_pyg(Data(edge_index=ring, num_nodes=20), tmp_path / "ring.ng", reverse=True)
    with ng.open(tmp_path / "ring.ng", memory="64MB") as store:
        with store.write() as tx:
            for node in range(10):
                tx.delete_node(None, node)
        loader = ng.GraphSAINTRandomWalkSampler(
            store, 5, 1, 10, sample_coverage=400, log=False, norms=form
        )
        collator = loader._source.collator
        seen = torch.cat([batch.n_id for batch in loader])
        assert set(seen.tolist()) == set(range(10, 20))
        # A node is in a share of the batches; 10 nodes times that share make its coefficient.
        norms, counts = collator.norms, collator.norms.nodes[10:].astype(float)
        assert 400 * 10 <= counts.sum() < 420 * 10
        for batch in loader:
            node = batch.n_id.numpy() - 10
            expected = norms.num_samples / (counts[node] + (form == "paper")) / 10
            assert np.allclose(batch.node_norm, expected)


def test_a_state_belongs_to_its_coefficients(large):
    store, _ = large

    def make(**more):
        return SAMPLERS["nodes"](store, num_steps=2, log=False, **more)

    plain, pyg = make(), make(sample_coverage=2)
    paper = make(sample_coverage=2, norms="paper")
    for saved, other in ((pyg, plain), (plain, pyg), (pyg, make(sample_coverage=9))):
        with pytest.raises(ng.StateMismatch, match="sample_coverage"):
            other.load_state_dict(saved.state_dict())
    for saved, other in ((pyg, paper), (paper, pyg)):
        with pytest.raises(ng.StateMismatch, match="norms"):
            other.load_state_dict(saved.state_dict())
    make(sample_coverage=2).load_state_dict(pyg.state_dict())


def test_counts_without_a_folder_leave_nothing_behind(large):
    store, _ = large
    folder = Path(store.path).parent
    beside = sorted(p.name for p in folder.iterdir())
    SAMPLERS["walks"](store, num_steps=2, sample_coverage=1, log=False)
    assert sorted(p.name for p in folder.iterdir()) == beside


@pytest.mark.parametrize("kind", SAMPLERS)
def test_state_reading_ranks_and_processes(large, kind):
    store, _ = large
    how = {"num_steps": 6, "seed": 4, "sample_coverage": 1, "log": False}
    expected = epoch_of(SAMPLERS[kind](store, **how))
    for more in (
        {"reading": "scan"},
        {"reading": "on_demand"},
        {"reading": ng.Reading(threads=1)},
        {"num_workers": 2},
    ):
        assert epoch_of(SAMPLERS[kind](store, **how, **more)) == expected, more
    loader = SAMPLERS[kind](store, **how)
    passes = iter(loader)
    next(passes)
    state = loader.state_dict()
    other = SAMPLERS[kind](store, **how)
    other.load_state_dict(state)
    assert epoch_of(other) == expected[1:]
    ranks = [SAMPLERS[kind](store, **how, ranks=(rank, 2)) for rank in range(2)]
    assert [len(rank) for rank in ranks] == [6, 6]
    parts = [[b.n_id.tolist() for b in rank] for rank in ranks]
    assert all(one != two for one, two in zip(*parts, strict=True))
    for rank in range(2):
        loader = SAMPLERS[kind](store, **how, ranks=(rank, 2), num_workers=1)
        assert [b.n_id.tolist() for b in loader] == parts[rank]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_more_draws_than_memory_holds_are_refused_before_any_of_them(large, kind):
    makes = {
        "nodes": lambda store: ng.GraphSAINTNodeSampler(store, 2**40),
        "edges": lambda store: ng.GraphSAINTEdgeSampler(store, 2**40),
        "walks": lambda store: ng.GraphSAINTRandomWalkSampler(store, 2**40, 2),
    }
    with pytest.raises(ng.BudgetTooSmall):
        next(iter(makes[kind](large[0])))


def test_what_a_store_lacks_is_said_in_one_line(homo, hetero, large, tmp_path):
    plain = homogeneous()
    plain.edges[PLAIN].edge_ids, plain.edges[PLAIN].tensors = False, {}
    with ng.open(plain.write(tmp_path / "plain.ng"), memory="64MB") as without_ids:
        for make, named in (
            (lambda: ng.GraphSAINTEdgeSampler(homo, 5), "--reverse"),
            (lambda: ng.GraphSAINTNodeSampler(without_ids, 5, sample_coverage=1), "--edge-ids"),
            (lambda: ng.GraphSAINTNodeSampler(hetero, 5), "node type"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 0), "batch_size"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, num_steps=0), "num_steps"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, sample_coverage=-1), "sample_coverage"),
            (lambda: ng.GraphSAINTRandomWalkSampler(homo, 5, 0), "walk_length"),
            (lambda: ng.GraphSAINTRandomWalkSampler(homo, 5, 2**40), "walk_length"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 2**70), "batch_size"),
            (lambda: ng.GraphSAINTNodeSampler(homo, None), "batch_size"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, sampler=[1]), "leave it out"),
            (
                lambda: ng.GraphSAINTNodeSampler(homo, 5, sample_coverage=1, save_dir=__file__),
                "save_dir.*file",
            ),
            (
                lambda: ng.GraphSAINTNodeSampler(
                    homo, 5, sample_coverage=1, save_dir=f"{__file__}/a"
                ),
                "save_dir.*file",
            ),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, shuffle=True), "shuffle"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, drop_last=True), "drop_last"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, input_nodes="train"), "input_nodes"),
            (lambda: ng.GraphSAINTNodeSampler(homo, 5, reading="direct_layout"), "layout"),
            (lambda: list(ng.GraphSAINTEdgeSampler(large[0], 1501)), "1501"),
        ):
            with pytest.raises((ng.NeargraphError, ValueError, TypeError), match=named) as caught:
                make()
            assert "\n" not in str(caught.value)
