"""A reader that was written from the documents finds what neargraph finds.

The reader is `format_reader.py` and its neighbours, which import nothing of neargraph. Test vectors
and the worked batch are read out of the documents.
"""

import ast
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import format_batches as draw
import numpy as np
import pytest
from format_document import blocks, hexadecimal, numbers, plain, rows, section
from format_epochs import Epoch
from format_log import Store, chain
from format_reader import Entry, crc32c, fnv1a
from graphs import Edges, Graph, Nodes
from realdata import data
from update_model import CITES, KNOWS, WRITES, make_store

import neargraph as ng
from neargraph.cli.app import main
from neargraph.importers import import_graph
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.reading import Reading
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

HERE = Path(__file__).parent
RANDOMNESS = "11. Randomness and batches"


# The document by itself


def test_the_reader_imports_nothing_of_neargraph():
    """Nor do its modules import anything but each other, NumPy and the standard library."""
    files = sorted(HERE.glob("format_*.py"))
    assert len(files) >= 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith(("neargraph", "graphs")) for name in names), file.name


def test_checksums_and_hashes_are_those_of_the_document():
    text = plain((HERE.parents[1] / "docs/reference/format.md").read_text())
    assert f"123456789 is 0x{crc32c(b'123456789'):X}" in text
    for what, value in rows(section("4. Root slots"), "FNV-1a of"):
        assert fnv1a(b"" if what == "no byte" else what.encode()) == int(value, 16)
    found = rows(section("9. The log"), "chain before")
    assert len(found) == 3
    for before, lsn, ops, after in found:
        ops = b"" if ops == "none" else bytes.fromhex(ops)
        assert chain(int(before, 16), int(lsn), ops) == int(after, 16)


def test_random_numbers_are_those_of_the_document():
    text = section("Random numbers")
    for counter, key, result in rows(text, "counter"):
        assert draw.philox(hexadecimal(counter), hexadecimal(key)) == hexadecimal(result)
    key_row, bits_row, below_row, other_row = rows(text, "what")
    key = draw.stream_key(*numbers(key_row[1]))
    assert key == hexadecimal(key_row[2])
    edge_type, destination = numbers(bits_row[1])
    bits = [draw.draw_bits(key, edge_type, destination, k) for k in range(4)]
    assert bits == hexadecimal(bits_row[2])
    (bound,) = numbers(below_row[0])
    assert [draw.below(each, bound) for each in bits] == numbers(below_row[2])
    edge_type, destination = numbers(other_row[1])
    other = [draw.draw_bits(key, edge_type, destination, k) for k in range(2)]
    assert other == hexadecimal(other_row[2])


def test_positions_numbers_of_sources_and_orders_are_those_of_the_document():
    without, replaced, keys, *weighted, sources = rows(section("Positions of a list"), "what")
    key_row, bits_row, _, _ = rows(section("Random numbers"), "what")
    seed, stream = numbers(key_row[1])
    edge_type, destination = numbers(bits_row[1])
    _, _, degree, fanout = numbers(without[1])
    store = SimpleNamespace(neighbors=lambda *_: [None] * degree)
    for row, replace in ((without, False), (replaced, True)):
        how = draw.Sampling(fanouts=[[fanout]] * 3, seed=seed, replace=replace)
        assert how.positions(store, stream, edge_type, destination, 0) == numbers(row[2])
    weights, bits = numbers(keys[1])[2:], hexadecimal(bits_row[2])
    found = [draw.weight_key(*pair) for pair in zip(bits, weights, strict=True)]
    assert found == [draw.real(each) for each in hexadecimal(keys[2])]
    entries = [Entry(0, 0, 0, weight) for weight in weights]
    store = SimpleNamespace(neighbors=lambda *_: entries)
    for row, replace in zip(weighted, (False, True), strict=True):
        (fanout,) = numbers(row[1])
        how = draw.Sampling(fanouts=[[fanout]] * 3, seed=seed, replace=replace, weighted=True)
        assert how.positions(store, stream, edge_type, destination, 0) == numbers(row[2])
    seed, group, node_type, *nodes = numbers(sources[1])
    found = [draw.source_number(seed, group, node_type, node) for node in nodes]
    assert found == hexadecimal(sources[2])
    for _, given, order in rows(section("Seeds of a batch"), "what"):
        length, seed, epoch = numbers(given)
        wanted = numbers(order)
        found = [draw.seed_order(length, seed, epoch, p) for p in range(len(wanted))]
        assert found == wanted


# The worked batch


def worked_example() -> tuple[list[tuple[int, int]], dict[str, list[int]]]:
    """Edges, and the batch as the document has it."""
    edges, batch = blocks(section("A worked batch"))
    pairs = [tuple(numbers(pair)) for pair in edges.split()]
    named = [line.rsplit("  ", 1) for line in batch.splitlines()]
    return pairs, {name.strip(): numbers(values) for name, values in named}


def worked_settings() -> dict[str, int]:
    """What the prose of the worked batch says."""
    text = plain(section("A worked batch"))
    words = {
        "nodes": "One node type with ",
        "batch_size": "in batches of ",
        "seed": "shuffled with seed ",
        "batch": "This is batch ",
        "epoch": "of epoch ",
        "fanout": "fanouts are ",
    }
    return {name: numbers(text[text.index(word) :])[0] for name, word in words.items()}


def test_the_reader_makes_the_worked_batch_from_seed_to_edges():
    edges, wanted = worked_example()
    given = worked_settings()
    entries = [Entry(source, edge_id, 0, 0.0) for edge_id, (source, _) in enumerate(edges)]
    store = SimpleNamespace(
        node_types=[{}],
        edge_types=[{"source": 0, "destination": 0}],
        neighbors=lambda _, node: sorted(entries[i] for i, e in enumerate(edges) if e[1] == node),
    )
    inputs, size = list(range(given["nodes"])), given["batch_size"]
    plan = draw.Plan(inputs=inputs, batch_size=size, shuffle=True, seed=given["seed"])
    epoch, number = given["epoch"], given["batch"]
    stream = plan.stream(epoch, number)
    how = draw.Sampling(fanouts=[[given["fanout"]] * 2], seed=given["seed"])
    (nodes,), (found,) = draw.sample(store, {0: plan.seeds(epoch, number)}, stream, how)
    assert nodes.n_id == wanted["n_id"]
    assert nodes.per_hop == wanted["nodes of hops"]
    assert found.rows == wanted["edge_index row 0"]
    assert found.cols == wanted["edge_index row 1"]
    assert found.e_id == wanted["e_id"]
    assert found.per_hop == wanted["edges of hops"]
    key = draw.stream_key(given["seed"], stream)
    text = plain(section("A worked batch"))
    assert f"key {key[0]:08X} {key[1]:08X}" in text
    assert f"+ 1 = {stream}" in text
    for _, node, degree, bits, below, positions, sources, ids in rows(
        section("A worked batch"), "hop"
    ):
        list_of = store.neighbors(0, int(node))
        count = len(numbers(positions))
        drawn = [draw.draw_bits(key, 0, int(node), k) for k in range(count)]
        assert drawn == hexadecimal(bits)
        assert len(list_of) == int(degree)
        steps = [draw.below(each, int(degree) - k) for k, each in enumerate(drawn)]
        assert steps == numbers(below)
        assert how.positions(store, stream, 0, int(node), 0) == numbers(positions)
        assert [list_of[p].source for p in numbers(positions)] == numbers(sources)
        assert [list_of[p].edge_id for p in numbers(positions)] == numbers(ids)


@pytest.mark.parametrize("reading", ["on_demand", "auto"])
def test_neargraph_makes_the_worked_batch_from_the_edges_of_the_document(tmp_path, reading):
    edges, wanted = worked_example()
    given = worked_settings()
    sources, destinations = np.array(edges, np.int64).T.copy()
    nodes = Nodes(given["nodes"], {"x": np.eye(given["nodes"], dtype=np.float32)})
    graph = Graph({"node": nodes}, {("node", "to", "node"): Edges(sources, destinations)})
    with ng.open(graph.write(tmp_path / "worked.ng"), memory="64MB") as store:
        sampler = ng.NumpySampler(store, [given["fanout"]] * 2, seed=given["seed"])
        epoch = {"epoch": given["epoch"], "reading": reading}
        batches = list(sampler.batches(None, given["batch_size"], shuffle=True, **epoch))
        batch = batches[given["batch"]]
        assert batch.nodes().tolist() == wanted["n_id"]
        assert batch.num_sampled_nodes() == wanted["nodes of hops"]
        rows_of = [wanted["edge_index row 0"], wanted["edge_index row 1"]]
        assert batch.edge_index().tolist() == rows_of
        assert batch.edge_ids().tolist() == wanted["e_id"]
        assert batch.num_sampled_edges() == wanted["edges of hops"]
        assert batch.features("x").argmax(axis=1).tolist() == wanted["n_id"]


# Stores


def all_types(snap: Any) -> Any:
    """The schema with the reverses that the import kept, which the document counts as types."""
    return snap.schema.with_reverse([owner.index for owner in snap.schema.reverse_types])


def compare_store(found: Store, snap: "ng.Snapshot", nodes_max: int = 10**9) -> None:
    """Counts, lists, rows, names and deleted nodes."""
    assert (f"{found.fingerprint:016x}", found.lsn) == (snap.fingerprint, snap.lsn)
    for owner, counts, dead in zip(snap.schema.node_types, found.nodes, found.dead, strict=True):
        assert (owner.num_nodes, owner.num_nodes_live) == (counts.ids, counts.live)
        assert snap.dead_nodes(owner.name).tolist() == sorted(dead)
        live = [node for node in range(counts.ids) if node not in dead]
        some = live[:: max(1, len(live) // nodes_max)]
        for place, tensor in enumerate(owner.tensors):
            stored = [found.stored("node", owner.index, place, node) for node in some]
            rows_of = snap.features(owner.name, some, tensor.name, dtype="stored")
            assert b"".join(stored) == rows_of.tobytes(), tensor.name
            if tensor.scaled:
                values = [found.values("node", owner.index, place, node) for node in some]
                rows_of = snap.features(owner.name, some, tensor.name)
                assert np.array_equal(rows_of.reshape(len(some), -1), np.array(values))
        if owner.has_dictionary:
            names = [found.name(owner.index, node) for node in some]
            assert names == snap.names(some, owner.name)
            assert [found.lookup(owner.index, name) for name in names] == some
            for name in (*names[:3], ""):
                assert found.lookup(owner.index, name + "\N{SNOWMAN}") is None
    for edges, counts in zip(all_types(snap).edge_types, found.edges, strict=True):
        assert (edges.num_edges, edges.num_edge_ids) == (counts.live, counts.ids)
        count = snap.schema.node_type(edges.triple[2]).num_nodes
        some = list(range(0, count, max(1, count // nodes_max)))
        lists = [found.neighbors(edges.index, node) for node in some]
        flat = [entry for entries in lists for entry in entries]
        got = snap.neighbors(edges.triple, some)
        assert np.diff(got.indptr).tolist() == [len(entries) for entries in lists]
        assert got.indices.tolist() == [entry.source for entry in flat]
        for column, name in ((got.edge_ids, "edge_id"), (got.times, "time")):
            assert column is None or column.tolist() == [getattr(entry, name) for entry in flat]
        assert got.weights is None or got.weights.tolist() == [entry.weight for entry in flat]
        for place, tensor in enumerate(edges.tensors):
            ids = list(range(0, counts.ids, max(1, counts.ids // nodes_max)))
            stored = [found.stored("edge", edges.index, place, edge_id) for edge_id in ids]
            assert b"".join(stored) == snap.edge_features(edges.triple, ids, tensor.name).tobytes()


def compare_batch(found: Any, batch: Any, schema: Any) -> None:
    """Nodes and edges of all types."""
    nodes, edges = found
    for block, owner in zip(nodes, schema.node_types, strict=True):
        assert batch.nodes(owner.name).tolist() == block.n_id
        assert batch.num_sampled_nodes(owner.name) == block.per_hop
    for block, owner in zip(edges, schema.edge_types, strict=True):
        assert batch.edge_index(owner.triple).tolist() == block.edge_index
        assert batch.num_sampled_edges(owner.triple) == block.per_hop
        if owner.has_edge_ids:
            assert batch.edge_ids(owner.triple).tolist() == block.e_id
        for column, name in ((batch.times, "time"), (batch.weights, "weight")):
            values = column(owner.triple)
            assert values is None or values.tolist() == [getattr(e, name) for e in block.entries]


METHODS = [
    ({}, {}),
    ({"replace": True}, {"replace": True}),
    ({"method": "labor"}, {"labor": 1}),
    ({"method": "labor", "dependent_batches": 3}, {"labor": 3}),
]

WEIGHTED = [
    ({"method": "weighted"}, {"weighted": True}),
    ({"method": "weighted", "replace": True}, {"weighted": True, "replace": True}),
]


def compare_samples(store: Any, reader: Store, random: Any, hops: int = 3, most: int = 8) -> None:
    """Batches of random seeds, fanouts and streams, with each method."""
    schema = all_types(store)
    own = random.spawn(1)[0]
    for options, how in METHODS + WEIGHTED:
        random = own if "weighted" in how else random
        count = len(schema.edge_types)
        fanouts = random.choice([-1, 0, 1, 2, 5], size=(count, hops), p=[0.1, 0.1, 0.2, 0.3, 0.3])
        if "weighted" in how:
            has_weight = [[t.has_weight] for t in schema.edge_types]
            fanouts = np.where(has_weight, fanouts, np.minimum(fanouts, 0))
        by_type = {t.triple: fanouts[t.index].tolist() for t in schema.edge_types}
        seed, stream = (int(random.integers(0, 2**64, dtype=np.uint64)) for _ in range(2))
        sampler = ng.NumpySampler(store, by_type, seed=seed, attrs=[], **options)
        sampling = draw.Sampling(fanouts=fanouts.tolist(), seed=seed, **how)
        seeds = {}
        for owner in schema.node_types:
            live = sorted(set(range(owner.num_nodes)) - reader.dead[owner.index])
            if live:
                seeds[owner.index] = random.choice(live, size=most).tolist()
        named = {schema.node_types[index].name: ids for index, ids in seeds.items()}
        try:
            wanted = draw.sample(reader, seeds, stream, sampling)
        except draw.BadWeight:
            with pytest.raises(ng.UnsupportedArgument, match="not a valid weight"):
                sampler.sample_many(named, stream=stream)
        else:
            compare_batch(wanted, sampler.sample_many(named, stream=stream), schema)


def change(store: "ng.Store", random: Any, batches: int) -> None:
    """Random updates of every kind."""
    for _ in range(batches):
        with store.write() as tx:
            for _ in range(int(random.integers(1, 25))):
                _change_once(store, tx, random)


def _change_once(store: Any, batch: Any, random: Any) -> None:
    papers, authors = 40, 20
    paper, other = (int(node) for node in random.integers(0, papers, 2))
    author, friend = (int(node) for node in random.integers(0, authors, 2))
    hub, step = random.random() < 0.5, random.random()
    try:
        if step < 0.1:
            batch.add_node("paper", {"x": random.standard_normal(3)}, label=int(step * 90))
        elif step < 0.45:
            target, attr = 0 if hub else other, {"edge_attr": random.standard_normal(2)}
            batch.add_edge(CITES, paper, target, features=attr)
        elif step < 0.6:
            weight = max(0.0, float(random.standard_normal()))
            batch.add_edge(KNOWS, author, friend, weight=weight)
        elif step < 0.8:
            batch.add_edge(WRITES, author, paper, time=int(random.integers(-9, 9)))
        elif step < 0.86:
            batch.delete_edge(KNOWS, author, friend)
        elif step < 0.9:
            batch.delete_edge(CITES, paper, other)
        elif step < 0.93:
            batch.delete_node("paper" if hub else "author", paper if hub else author)
        else:
            batch.update_features("paper", [paper], "x", random.standard_normal((1, 3)))
    except (ng.NodeNotFound, ng.EdgeNotFound):
        pass


@pytest.mark.parametrize("reuse_ids", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_reader_follows_commits_checkpoints_and_samples(tmp_path, seed, reuse_ids):
    random = np.random.default_rng([seed, reuse_ids])
    print(f"seed {seed}, reuse_ids {reuse_ids}")
    path = make_store(tmp_path / "g.ng", papers=40, authors=20, reuse_ids=reuse_ids)
    with ng.open(path, memory="32MB") as store:
        for turn in range(6):
            before = store.lsn
            if turn % 2:
                # A commit of which the log says nothing.
                shape = (store.schema.node_type("paper").num_nodes, 5)
                rows = np.random.default_rng(turn).random(shape, np.float32)
                before = store.add_tensor(f"h{turn}", rows, "paper")
            change(store, random, 4)
            assert store.info()["commits_waiting"] == 4
            copy = tmp_path / f"copy{turn}.ng"
            shutil.copytree(path, copy)
            reader = Store(copy)
            assert reader.base.root.lsn == before
            assert reader.lsn == before + 4 == 4 * turn + 4 + (turn + 1) // 2
            compare_store(reader, store.snapshot())
            compare_samples(store, reader, random)
            store.checkpoint()
            compare_store(Store(path, replay=False), store.snapshot())
        store.compact()
        compare_store(Store(path), store.snapshot())


def test_the_reader_reads_long_lists_wide_rows_and_pages_of_all_sizes(tmp_path):
    random = np.random.default_rng(4)
    print("seed 4")
    for page_bytes in (4096, 8192, 65536):
        nodes, count = 200, 40_000
        destinations = np.where(random.random(count) < 0.5, 3, random.integers(0, nodes, count))
        tensors = {
            "x": random.standard_normal((nodes, 1500)).astype(np.float32),
            "y": random.integers(0, 9, nodes),
        }
        edges = Edges(
            random.integers(0, nodes, count),
            destinations,
            {"edge_attr": random.standard_normal((count, 5)).astype(np.float32)},
            times=random.integers(-5, 5, count),
            weights=random.random(count).astype(np.float32),
        )
        graph = Graph({"node": Nodes(nodes, tensors)}, {("node", "to", "node"): edges})
        path = graph.write(tmp_path / f"{page_bytes}.ng", page_bytes=page_bytes)
        with ng.open(path, memory="64MB") as store:
            reader = Store(path)
            compare_store(reader, store.snapshot(), nodes_max=100)
            compare_samples(store, reader, random, hops=2, most=4)
            for step in range(30):
                times, weights = random.integers(-5, 5, 1000), np.zeros(1000)
                with store.write() as tx:
                    tx.add_edges(None, [step] * 1000, [3, 5] * 500, times=times, weights=weights)
                if step % 10 == 9:
                    store.checkpoint()
                    compare_store(Store(path), store.snapshot(), nodes_max=50)


FIXTURES = HERE.parents[1] / "fixtures"


@pytest.mark.parametrize("version", range(6))
def test_the_reader_reads_the_fixtures_of_every_version(tmp_path, version):
    with tarfile.open(FIXTURES / f"v{version}" / "store.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    path = tmp_path / "store.ng"
    reader, lines = Store(path), []
    assert len(reader.nodes) == (2 if version == 0 else 1)
    for number, counts in enumerate(reader.nodes):
        lines.append(f"nodes {number}: {counts.ids} {counts.live}")
    for number, meta in enumerate(reader.edge_types):
        for node in range(reader.nodes[meta["destination"]].ids):
            entries = reader.neighbors(number, node)
            texts = [f" {e.source}/{e.edge_id}/{e.time}/{e.weight:.9g}" for e in entries]
            lines += [f"list {number} {node}:{''.join(texts)}"] if entries else []
    listed = (FIXTURES / f"v{version}" / "expected.txt").read_text().splitlines()
    assert lines == [line for line in listed if line.startswith(("nodes", "list"))]
    with ng.open(path, memory="64MB") as store:
        compare_store(reader, store.snapshot(), nodes_max=2000)
        compare_samples(store, reader, np.random.default_rng(version), hops=2)


@pytest.mark.parametrize("x_dtype", ["f16", "bf16", "i8"])
def test_the_reader_reads_narrow_rows(tmp_path, x_dtype):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    random = np.random.default_rng(6)
    print("seed 6")
    edges = torch.from_numpy(random.integers(0, 300, (2, 2000)))
    x = torch.from_numpy(random.standard_normal((300, 40)).astype(np.float32))
    ng.from_pyg(pyg.Data(x=x, edge_index=edges), tmp_path / "g.ng", x_dtype=x_dtype)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        compare_store(Store(tmp_path / "g.ng"), store.snapshot())


@pytest.mark.parametrize(
    "parts",
    [
        ("npz_graphs", "cora.npz"),
        ("npz_graphs", "citeseer.npz"),
        ("heterophilous", "minesweeper.npz"),
        ("debian_bookworm", "debian_packages.npz"),
        ("dblp_coauthor_temporal", "dblp.txt.gz"),
    ],
    ids=lambda parts: parts[1],
)
def test_the_reader_reads_real_graphs(tmp_path, parts):
    import_graph(data(*parts), tmp_path / "g.ng")
    random = np.random.default_rng(7)
    print("seed 7")
    with ng.open(tmp_path / "g.ng", memory="128MB") as store:
        reader = Store(tmp_path / "g.ng")
        compare_store(reader, store.snapshot(), nodes_max=400)
        compare_samples(store, reader, random, hops=2)
        if parts[1] == "cora.npz":
            store.reorganize(by="locality")
            compare_store(Store(tmp_path / "g.ng"), store.snapshot())


# Seeds, ranks, epochs


def test_seeds_of_every_rank_epoch_and_batch_are_those_of_the_document():
    random = np.random.default_rng(8)
    print("seed 8")
    for _ in range(150):
        world_size = int(random.integers(1, 5))
        size, count = world_size * int(random.integers(1, 7)), int(random.integers(1, 70))
        shuffle, pad, drop_last = (bool(flag) for flag in random.integers(0, 2, 3))
        given = {"batch_size": size, "shuffle": shuffle, "pad": pad, "drop_last": drop_last}
        given |= {"seed": int(random.integers(0, 2**63)), "world_size": world_size}
        epoch = int(random.integers(0, 2**33))
        for rank in range(world_size):
            plan = SeedPlan(num_seeds=count, rank=rank, **given)
            wanted = draw.Plan(inputs=list(range(count)), rank=rank, **given)
            assert plan.steps == wanted.steps
            for batch in range(plan.steps):
                assert plan.stream(epoch, batch) == wanted.stream(epoch, batch)
                found = plan.places(epoch, batch, batch + 1).tolist()
                assert found == wanted.seeds(epoch, batch), (given, rank, batch)


def test_batches_of_a_split_are_those_of_the_document_on_every_rank(homo_path, homo):
    reader = Store(homo_path)
    splits = next(
        i for i, t in enumerate(reader.node_types[0]["tensors"]) if t["name"] == "split_0"
    )
    inputs = [n for n in range(reader.nodes[0].ids) if reader.stored("node", 0, splits, n) == b"\1"]
    for options, how in METHODS:
        sampler = ng.NumpySampler(homo, [4, 3], seed=9, attrs=[], **options)
        sampling = draw.Sampling(fanouts=[[4, 3]], seed=9, **how)
        for rank in range(2):
            given = {"batch_size": 14, "shuffle": True, "seed": 9, "rank": rank, "world_size": 2}
            plan = SeedPlan(num_seeds=len(inputs), pad=True, **given)
            wanted = draw.Plan(inputs=inputs, pad=True, **given)
            chosen = resolve_input_nodes(homo, "train")
            pipeline = Pipeline(sampler, chosen, plan, Reading(), goes_on=False)
            for number, batch in enumerate(pipeline.run(3)):
                seeds = wanted.seeds(3, number)
                found = draw.sample(reader, {0: seeds}, wanted.stream(3, number), sampling)
                compare_batch(found, batch, homo.schema)
            assert number + 1 == wanted.steps == -(-len(inputs) // 14)


def compile_epochs(path: Path | str, epochs: int, *more: str) -> list[Path]:
    """Compiles epochs of a store."""
    with pytest.raises(SystemExit) as ended:
        main(["compile", str(path), "--epochs", str(epochs), "--memory", "40MB", *more])
    assert not ended.value.code
    return sorted((Path(path) / "compiled").glob("*.epoch"))


def test_compiled_epochs_are_what_the_document_says(tmp_path):
    random = np.random.default_rng(10)
    print("seed 10")
    nodes, triples = {"paper": 9000, "author": 4000}, [("paper", "cites", "paper")]
    triples += [("author", "writes", "paper"), ("paper", "by", "author")]
    split = (random.random(9000) < 0.1).astype(np.uint8)
    tensors = {n: random.standard_normal((c, 800)).astype(np.float32) for n, c in nodes.items()}
    owners = {n: Nodes(c, {"x": tensors[n]}) for n, c in nodes.items()}
    owners["paper"].tensors["split_0"] = split
    edges = {
        (source, relation, destination): Edges(
            random.integers(0, nodes[source], 20_000),
            random.integers(0, nodes[destination], 20_000),
            {"edge_attr": random.standard_normal((20_000, 3)).astype(np.float32)}
            if relation == "writes"
            else {},
            times=random.integers(0, 99, 20_000) if relation == "by" else None,
            weights=random.random(20_000).astype(np.float32) if relation == "cites" else None,
            edge_ids=relation != "cites",
        )
        for source, relation, destination in triples
    }
    path = Graph(owners, edges).write(tmp_path / "g.ng")
    fanouts = [3, 2]
    files = compile_epochs(path, 2, "--fanouts", "3,2", "--batch-size", "50", "--seed", "11")
    assert [file.name.split(".")[1] for file in files] == ["0000", "0001"]
    reader = Store(path)
    inputs = np.flatnonzero(split).tolist()
    plan = draw.Plan(inputs=inputs, batch_size=50, shuffle=True, seed=11)
    sampling = draw.Sampling(fanouts=[fanouts] * 3, seed=11)
    cold = 0
    for number, file in enumerate(files):
        epoch = Epoch(file)
        assert (epoch.epoch, epoch.num_batches) == (number, plan.steps)
        wanted = {"seed": "11", "batch_size": "50", "shuffle": "by seed 11", "rank": "0 of 1"}
        wanted |= {"store": f"{reader.fingerprint:016x}", "batches": str(plan.steps)}
        assert {name: epoch.key[name] for name in wanted} == wanted
        if number == 0:
            compare_hot_rows(epoch, reader)
        else:
            assert epoch.hot_rows == []
        for batch in range(epoch.num_batches):
            found = epoch.batch(batch, reader.node_types, reader.edge_types)
            seeds = {0: plan.seeds(number, batch)}
            expected = draw.sample(reader, seeds, plan.stream(number, batch), sampling)
            cold += compare_record(epoch, found, expected, reader)
    assert cold > 1000


def compare_hot_rows(epoch: Epoch, reader: Store) -> None:
    """Compares the hot rows of a set with those of the store."""
    assert sum(map(len, epoch.hot_rows)) > 0
    for table, hot, found in zip(epoch.tables, epoch.hot, epoch.hot_rows, strict=True):
        kind, owner, place = table["kind"], table["type_id"], table["index"]
        numbers = np.flatnonzero(hot).tolist()
        assert found == [reader.stored(kind, owner, place, number) for number in numbers]


def compare_record(epoch: Epoch, found: Any, expected: Any, reader: Store) -> int:
    """Compares a record with a batch; returns how many rows it holds."""
    nodes, edges = expected
    for block, wanted in zip(found.nodes, nodes, strict=True):
        assert (block["n_id"], block["per_hop"]) == (wanted.n_id, wanted.per_hop)
    for block, wanted, meta in zip(found.edges, edges, reader.edge_types, strict=True):
        assert [block["rows"], block["cols"]] == wanted.edge_index
        assert block["per_hop"] == wanted.per_hop
        assert block["e_id"] == (wanted.e_id if meta["has_edge_ids"] else [])
        times = [entry.time for entry in wanted.entries] if meta["has_time"] else []
        weights = [entry.weight for entry in wanted.entries] if meta["has_weight"] else []
        assert (block["time"], block["weight"]) == (times, weights)
    for table, hot, stored in zip(epoch.tables, epoch.hot, found.rows, strict=True):
        kind, owner, place = table["kind"], table["type_id"], table["index"]
        ids = nodes[owner].n_id if kind == "node" else edges[owner].e_id
        cold = [number for number in ids if not hot[number]]
        assert stored == [reader.stored(kind, owner, place, number) for number in cold]
    return sum(map(len, found.rows))
