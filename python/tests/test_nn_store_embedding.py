"""Embeddings in a store: the same rows as torch's, in bounded memory, and none lost by a crash."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import neargraph as ng  # noqa: E402
from neargraph.exceptions import (  # noqa: E402
    BudgetTooSmall,
    NameNotFound,
    NodeOutOfRange,
    StateMismatch,
    UnsupportedArgument,
)
from neargraph.nn import (  # noqa: E402
    DotDecoder,
    InDegrees,
    LightGCN,
    StoreEmbedding,
    on_batch,
    task_loss,
)

COUNT, DIM = 300, 12
ROW_BYTES = {"sgd": 4 * DIM + 16, "adagrad": 8 * DIM + 16, "adam": 12 * DIM + 16}


def make(path, count=COUNT):
    """Two node types; no tensors."""
    rng = np.random.default_rng(20)
    edges = Edges(rng.integers(0, count, 900), rng.integers(0, count, 900), edge_ids=False)
    nodes = {"node": Nodes(count), "other": Nodes(3)}
    return Graph(nodes, {("node", "to", "node"): edges}).write(path)


@pytest.fixture
def store(tmp_path):
    with ng.open(make(tmp_path / "g.ng"), memory="64MB") as opened:
        yield opened


def draws(step):
    """The (ids, weights) of a step: some ids are in many steps, and some twice in one."""
    rng = np.random.default_rng(1000 + step)
    ids = np.concatenate([rng.integers(0, COUNT, 25), rng.integers(0, 8, 5)])
    return torch.from_numpy(ids), torch.from_numpy(rng.standard_normal((30, DIM), np.float32))


def train(emb, steps, step):
    """Steps with a loss that depends on the rows, whatever gives them."""
    for at in steps:
        ids, weights = draws(at)
        rows = emb(ids)
        (rows * weights + 0.1 * rows.square()).sum().backward()
        step()


def train_store(emb, begin, end):
    train(emb, range(begin, end), emb.step)


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "adam": lambda p: torch.optim.SparseAdam(p, lr=0.05),
}


@pytest.mark.parametrize("rows", [1, 40, 10_000])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_fifty_steps_give_the_rows_of_torchs_embedding_and_optimiser(store, name, rows):
    memory = rows * ROW_BYTES[name]
    emb = StoreEmbedding(store, DIM, "node", optimizer=name, lr=0.05, memory=memory)
    theirs = torch.nn.Embedding(COUNT, DIM, sparse=True)
    theirs.weight.data.copy_(torch.tensor(store.column("emb", "node")))
    begin = theirs.weight.detach().clone()
    optimiser = OPTIMISERS[name](theirs.parameters())

    def step():
        optimiser.step()
        optimiser.zero_grad()

    train(theirs, range(50), step)
    for at in range(50):
        train_store(emb, at, at + 1)
        assert emb.changed_bytes <= memory
    assert (emb.changed_rows > 0) == (rows > 1)
    with torch.no_grad():
        unwritten = emb(torch.arange(COUNT))
    emb.flush()
    found = torch.tensor(store.column("emb", "node"))
    assert torch.equal(found, unwritten)
    assert (theirs.weight.detach() - begin).abs().max() > 0.2
    # Not to the last bit: torch adds the gradients of an id that is there twice in its own order.
    assert torch.allclose(found, theirs.weight.detach(), rtol=1e-6, atol=1e-6)
    print("largest difference", float((found - theirs.weight.detach()).abs().max()))
    assert emb.steps == 50


def test_the_size_of_the_memory_changes_no_bit(tmp_path):
    found = []
    for at, rows in enumerate((1, 40, 10_000)):
        with ng.open(make(tmp_path / f"{at}.ng"), memory="64MB") as store:
            memory = rows * ROW_BYTES["adam"]
            emb = StoreEmbedding(store, DIM, "node", optimizer="adam", memory=memory)
            train_store(emb, 0, 30)
            emb.flush()
            found.append(store.column("emb", "node"))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def columns(store, name="adam"):
    parts = ("emb", f"emb_{name}", f"emb_{name}_step")
    return [store.column(part, "node") for part in parts]


def test_a_store_that_is_opened_again_goes_on_to_the_last_bit(tmp_path):
    paths = [make(tmp_path / "one.ng"), make(tmp_path / "two.ng")]
    with ng.open(paths[0], memory="64MB") as store:
        emb = StoreEmbedding(store, DIM, "node", optimizer="adam", lr=0.05)
        train_store(emb, 0, 17)
        emb.flush()
        train_store(emb, 17, 30)
        emb.flush()
        wanted = columns(store)
    for begin, end in ((0, 17), (17, 30)):
        with ng.open(paths[1], memory="64MB") as store:
            emb = StoreEmbedding(store, DIM, "node", optimizer="adam", lr=0.05)
            assert emb.steps == begin
            train_store(emb, begin, end)
            emb.flush()
            found = columns(store)
    for one, other in zip(found[:2], wanted[:2], strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("rows", [3, 40, 10_000])
def test_a_run_goes_back_to_its_checkpoint_after_it_wrote_more(tmp_path, rows):
    memory = rows * ROW_BYTES["adagrad"]

    def opened(path):
        return StoreEmbedding(path, DIM, "node", lr=0.05, memory=memory, flush_steps=5)

    with ng.open(make(tmp_path / "one.ng"), memory="64MB") as store:
        emb = opened(store)
        train_store(emb, 0, 40)
        emb.flush()
        wanted = store.column("emb", "node")
    path = make(tmp_path / "two.ng")
    with ng.open(path, memory="64MB") as store:
        emb = opened(store)
        train_store(emb, 0, 7)
        emb.state_dict()
        train_store(emb, 7, 20)
        at_twenty = emb.state_dict()
        with torch.no_grad():
            rows_then = emb(torch.arange(COUNT))
        train_store(emb, 20, 33)
        emb.zero_grad()
        emb._changed.clear()  # What a crash does to memory.
    with ng.open(path, memory="64MB") as store:
        emb = opened(store)
        assert emb.load_state_dict(at_twenty) > 0
        assert emb.steps == 20
        assert torch.equal(torch.tensor(store.column("emb", "node")), rows_then)
        assert emb.load_state_dict(at_twenty) == 0
        train_store(emb, 20, 26)
        emb.flush()
        # Going back twice is going back once.
        assert emb.load_state_dict(at_twenty) > 0
        train_store(emb, 20, 40)
        emb.flush()
        assert np.array_equal(store.column("emb", "node"), wanted)


def test_a_checkpoint_that_cannot_be_gone_back_to_is_refused(store, tmp_path):
    emb = StoreEmbedding(store, DIM, "node")
    train_store(emb, 0, 3)
    first = emb.state_dict()
    train_store(emb, 3, 6)
    second = emb.state_dict()
    # The second one was perhaps never saved: until a row is written the first one does.
    assert emb.load_state_dict(first) > 0
    assert emb.steps == 3
    train_store(emb, 3, 6)
    emb.state_dict()
    train_store(emb, 6, 9)
    emb.flush()
    before = columns(store, "adagrad")
    with pytest.raises(
        StateMismatch, match=r"restored only to step 6, .* of step 3; load the newest"
    ):
        emb.load_state_dict(first)
    with pytest.raises(
        StateMismatch, match="optimizer='adagrad', but this embedding has optimizer='sgd'"
    ):
        StoreEmbedding(store, DIM, "node", optimizer="sgd").load_state_dict(first)
    with pytest.raises(StateMismatch, match="this store is an older copy"):
        emb.load_state_dict({**second, "lsn": store.lsn + 1})
    for one, other in zip(columns(store, "adagrad"), before, strict=True):
        assert np.array_equal(one, other)
    emb = StoreEmbedding(store, DIM, "node", name="plain", undo=False)
    train_store(emb, 0, 3)
    state = emb.state_dict()
    assert emb.load_state_dict(state) == 0
    train_store(emb, 3, 6)
    emb.flush()
    with pytest.raises(StateMismatch, match=r"up to step 6, .* undo=False rows cannot be restored"):
        emb.load_state_dict(state)


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
import neargraph as ng
from neargraph.nn import StoreEmbedding
from test_nn_store_embedding import DIM, train_store
with ng.open(sys.argv[1], memory="64MB") as store:
    emb = StoreEmbedding(store, DIM, "node", optimizer="adam", lr=0.05)
    print(emb.steps, flush=True)
    for step in range(emb.steps, 10_000):
        train_store(emb, step, step + 1)
        if step % 3 == 2:
            emb.flush()
            print(step + 1, flush=True)
"""


def test_a_process_that_is_killed_loses_nothing_that_was_flushed(tmp_path):
    print("seed 21")
    random, path = np.random.default_rng(21), make(tmp_path / "g.ng")
    reference = ng.open(make(tmp_path / "other.ng"), memory="64MB")
    theirs = StoreEmbedding(reference, DIM, "node", optimizer="adam", lr=0.05)
    for _ in range(3):
        here = str(Path(__file__).parent)
        command = [sys.executable, "-W", "ignore", "-c", CHILD, path, here]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert int(child.stdout.readline()) == theirs.steps
            try:
                child.wait(0.05 + random.random() / 2)
            except subprocess.TimeoutExpired:
                os.kill(child.pid, signal.SIGKILL)
            acknowledged = [int(line) for line in child.stdout if line.strip()]
        with ng.open(path, memory="64MB") as store:
            emb = StoreEmbedding(store, DIM, "node", optimizer="adam", lr=0.05)
            assert emb.steps >= max(acknowledged, default=0)
            assert emb.steps % 3 == 0
            train_store(theirs, theirs.steps, emb.steps)
            with torch.no_grad():
                every = torch.arange(COUNT)
                assert torch.equal(emb(every), theirs(every))
            state = [emb._tensors.table(np.arange(COUNT))]
        theirs.flush()
        assert np.array_equal(state[0], theirs._tensors.table(np.arange(COUNT)))
    assert theirs.steps > 0
    reference.close()


def test_a_table_larger_than_memory_stays_within_the_budget(tmp_path):
    count, dim, limit = 120_000, 64, 24_000_000
    with ng.open(make(tmp_path / "g.ng", count), memory=limit) as store:
        emb = StoreEmbedding(store, dim, "node", memory=1_000_000)
        rng = np.random.default_rng(22)
        print("seed 22")
        touched = np.zeros(count, bool)
        for _ in range(12):
            ids = rng.choice(count, 1500, replace=False)
            touched[ids] = True
            emb(torch.from_numpy(ids)).sum().backward()
            emb.step()
            assert emb.changed_bytes <= 1_000_000
        emb.flush()
        stats = store.stats()
        assert stats["budget_peak"] <= stats["budget_limit"] <= limit
        assert count * dim * 4 > limit
        steps = store.column("emb_adagrad_step", "node")
        assert np.array_equal(steps[:, 0] > 0, touched)


@pytest.mark.parametrize("room", [70, 1])
def test_rows_are_read_in_smaller_pieces_where_batches_hold_the_memory(store, monkeypatch, room):
    emb = StoreEmbedding(store, DIM, "node", undo=False)
    kind, sizes = type(store.snapshot()), []
    whole = kind.features

    def features(self, node_type, ids, *rest):
        if len(ids) > room:
            raise BudgetTooSmall(f"{len(ids)} rows do not fit")
        sizes.append(len(ids))
        return whole(self, node_type, ids, *rest)

    expected = store.column("emb", "node")
    monkeypatch.setattr(kind, "features", features)
    with torch.no_grad():
        found = emb(torch.arange(COUNT))
    assert np.array_equal(found.numpy(), expected)
    assert sum(sizes) == COUNT
    assert room / 2 <= max(sizes) <= room
    room = 0
    with pytest.raises(BudgetTooSmall, match="1 rows do not fit"), torch.no_grad():
        emb(torch.arange(COUNT))


def test_rows_that_were_written_leave_their_memory_to_loaders(tmp_path):
    count = 60_000
    with ng.open(make(tmp_path / "g.ng", count), memory="16MB") as store:
        emb = StoreEmbedding(store, 32, "node", memory="4MB", undo=False)
        begun = store.checkpoint()["checkpoint_id"]
        emb(torch.arange(0, count, 6)).sum().backward()
        emb.step()
        emb.flush()
        after = store.checkpoint()
        # The flush itself has written its pages: nothing is left to this checkpoint.
        assert after["pages"] == 0
        assert after["checkpoint_id"] > begun


def test_initial_rows_are_seeded_and_do_not_depend_on_how_many_there_are(tmp_path):
    found = {}
    for seed, count in ((0, 300), (0, 40_000), (1, 300)):
        path = make(tmp_path / f"{seed}-{count}.ng", count)
        with ng.open(path, memory="64MB") as store:
            StoreEmbedding(store, DIM, "node", seed=seed, std=0.5, undo=False)
            found[seed, count] = store.column("emb", "node")
    assert np.array_equal(found[0, 300], found[0, 40_000][:300])
    assert not np.array_equal(found[0, 300], found[1, 300])
    whole = found[0, 40_000]
    assert abs(whole.mean()) < 0.01
    assert abs(whole.std() - 0.5) < 0.01


def test_gradients_of_several_calls_are_one_step_and_no_grad_leaves_none(store):
    emb = StoreEmbedding(store, DIM, "node", optimizer="sgd", lr=1.0)
    with torch.no_grad():
        before = emb(torch.arange(4))
        assert not emb(torch.tensor([1])).requires_grad
    emb(torch.tensor([3]))  # Never used: no gradient, no change.
    loss = emb(torch.tensor([0, 1])).sum() + 2 * emb(torch.tensor([1, 1])).sum()
    loss.backward()
    emb.step()
    with torch.no_grad():
        change = emb(torch.arange(4)) - before
    assert torch.allclose(change[:, 0], torch.tensor([-1.0, -5.0, 0.0, 0.0]), atol=1e-6)
    assert (emb.steps, emb.changed_rows) == (1, 2)
    emb(torch.tensor([2])).sum().backward()
    emb.zero_grad()
    emb.step()
    assert (emb.steps, emb.changed_rows) == (1, 2)
    emb.lr = 0.5
    emb(torch.tensor([2])).sum().backward()
    emb.step()
    with torch.no_grad():
        assert torch.allclose(emb(torch.tensor([2])) - before[2], torch.tensor(-0.5), atol=1e-6)
    emb.flush()


def test_deleted_nodes_are_left_out_and_new_ones_begin_with_zeros(store):
    emb = StoreEmbedding(store, DIM, "other")
    begin = store.column("emb", "other")
    emb(torch.arange(3)).sum().backward()
    with store.write() as tx:
        new = tx.add_node("other")
        tx.delete_node("other", 1)
    emb.step()
    with torch.no_grad():
        assert not emb(torch.tensor([new])).any()
    emb(torch.tensor([new, 0])).sum().backward()
    emb.step()
    emb.flush()
    now = store.column("emb", "other")
    assert (now[[0, 2]] < begin[[0, 2]]).all()
    assert (now[new] < 0).all()
    with torch.no_grad():
        assert torch.equal(emb(torch.tensor([0, 2, 3])), torch.tensor(now[[0, 2, 3]]))


def test_a_loader_that_is_alive_is_not_disturbed_and_new_ones_see_the_rows(store):
    emb = StoreEmbedding(store, DIM, "node", memory=10 * ROW_BYTES["adagrad"])
    inputs = ("node", torch.arange(COUNT))
    loader = ng.NeighborLoader(store, [3, 2], inputs, batch_size=64, attrs={"node": ["emb"]})
    begin = store.column("emb", "node")
    for batch in loader:
        nodes = batch["node"]
        assert np.array_equal(nodes.emb.numpy(), begin[nodes.n_id])
        emb(nodes.n_id).square().sum().backward()
        emb.step()
    emb.flush()
    now = store.column("emb", "node")
    assert not np.array_equal(begin, now)
    for batch in ng.NeighborLoader(store, [3], inputs, batch_size=64, attrs={"node": ["emb"]}):
        assert np.array_equal(batch["node"].emb.numpy(), now[batch["node"].n_id])


def test_a_recommender_learns_users_and_items_that_are_in_the_store_alone(tmp_path):
    buys, bought = ("user", "buys", "item"), ("item", "bought", "user")
    print("seed 23")
    rng = np.random.default_rng(23)
    users, items = rng.integers(0, 80, 600), rng.integers(0, 50, 600)
    nodes = {"user": Nodes(80), "item": Nodes(50)}
    edges = {buys: Edges(users, items), bought: Edges(items, users)}
    path = Graph(nodes, edges).write(tmp_path / "shop.ng")
    with ng.open(path, memory="64MB") as store:
        emb = {kind: StoreEmbedding(store, 16, kind, lr=0.1) for kind in nodes}
        model, degrees = LightGCN(2), InDegrees(store, loops=True)
        links = (buys, torch.from_numpy(np.stack([users, items])))
        how = {"batch_size": 128, "neg_sampling": "binary", "attrs": []}
        loader = ng.LinkNeighborLoader(store, [5, 5], edge_label_index=links, **how)
        losses = []
        for _ in range(8):
            losses.append(0.0)
            for batch in loader:
                x = {kind: emb[kind](ids) for kind, ids in batch.n_id_dict.items()}
                z = on_batch(model, batch, degrees=degrees, x=x)
                scores = DotDecoder()(z["user"], z["item"], batch[buys].edge_label_index)
                loss = task_loss("multilabel", scores, batch[buys].edge_label)
                loss.backward()
                losses[-1] += float(loss.detach()) / len(loader)
                for one in emb.values():
                    one.step()
        assert losses[-1] < losses[0] - 0.1
        for kind, one in emb.items():
            one.flush()
            assert (store.column("emb_adagrad_step", kind)[:, 0] > 0).sum() > 40


def test_what_does_not_fit_is_refused_with_what_would(store):
    StoreEmbedding(store, DIM, "node", undo=False)
    for given, error, message in [
        (
            {"dim": 5},
            UnsupportedArgument,
            r"'emb' of node type 'node' has dtype f32 and rows of shape \[12\]",
        ),
        ({"dim": 0}, UnsupportedArgument, "dim=0, .* expected dim= of 1 or more"),
        ({"node_type": "nobody"}, NameNotFound, "no node type 'nobody'"),
        ({"node_type": None}, NameNotFound, "a node type must be named"),
        ({"optimizer": "lamb"}, UnsupportedArgument, "expected one of 'sgd', 'adagrad', 'adam'"),
        ({"momentum": 0.9}, UnsupportedArgument, "optimizer='adagrad' has no setting 'momentum'"),
        ({"lr": -1.0}, UnsupportedArgument, "lr=-1.0 is not valid for optimizer='adagrad'"),
        ({"optimizer": "adam", "beta1": 1.0}, UnsupportedArgument, "beta1=1.0 is not valid for"),
        ({"memory": 100}, BudgetTooSmall, "one row with dim=12 and its optimiser state take 112"),
        ({"memory": "much"}, ValueError, "is not a valid size"),
    ]:
        with pytest.raises(error, match=message):
            StoreEmbedding(store, **{"dim": DIM, "node_type": "node"} | given)
    emb = StoreEmbedding(store, DIM, "node")
    with pytest.raises(NodeOutOfRange):
        emb(torch.tensor([COUNT]))
    emb(torch.tensor([5, 6])).sum().backward()
    emb.step()
    with pytest.warns(ResourceWarning, match="2 changed rows of embedding 'emb'"):
        del emb
