"""Streams of both clients: the loader's batches, progress, copies and graphs that are sent."""

import asyncio
import inspect
import os
import signal
import socket
import threading

import numpy as np
import pytest

import neargraph as ng
from neargraph.client.columns import Columns
from neargraph.importers import import_graph

pa = pytest.importorskip("pyarrow")

FANOUTS, BATCH = [5, 3], 64


@pytest.fixture(scope="module")
def served(homo_graph, hetero_graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    homo_graph.write(folder / "homo.ng")
    hetero_graph.write(folder / "hetero.ng")
    with ng.serve(folder, memory="64MB") as server:
        yield server, folder


@pytest.fixture
def client(served):
    with ng.Client(served[0].address) as client:
        yield client


def content(batch, node_type=None, edge_type=None, names=("x", "y")):
    """What a batch holds, as bytes."""
    arrays = [batch.nodes(node_type), batch.edge_index(edge_type), batch.input_id]
    arrays += [batch.features(name, node_type) for name in names]
    edge_ids = batch.edge_ids(edge_type)
    arrays += [] if edge_ids is None else [edge_ids]
    hops = (batch.num_sampled_nodes(node_type), batch.num_sampled_edges(edge_type))
    return [(a.dtype, a.shape, a.tobytes()) for a in arrays], hops, batch.num_seeds


@pytest.mark.parametrize("seeds", [None, "train", [7, 3, 299, 250, 12] * 30])
def test_batches_are_those_of_a_loader(client, homo, seeds):
    sampler = ng.NumpySampler(homo, FANOUTS, seed=11, attrs=["x", "y"])
    order = {"shuffle": True, "epoch": 2}
    wanted = [content(batch) for batch in sampler.batches(seeds, BATCH, **order)]
    options = {"attrs": ["x", "y"], "graph": "homo", "seed": 11, **order}
    stream = client.sample(seeds, FANOUTS, BATCH, **options)
    batches = list(stream)
    assert [content(batch) for batch in batches] == wanted
    assert [batch.number for batch in batches] == list(range(len(wanted)))
    assert {(batch.num_batches, batch.num_padding) for batch in batches} == {(len(wanted), 0)}
    assert next(stream, None) is None
    later = list(client.sample(seeds, FANOUTS, BATCH, first_batch=1, **options))
    assert [content(batch) for batch in later] == wanted[1:]


def test_ranks_share_batches_as_loaders_do(client, homo):
    sampler = ng.NumpySampler(homo, FANOUTS, seed=1, attrs=["x"])
    inputs = np.arange(150)
    whole = list(sampler.batches(inputs, BATCH))
    options = {"attrs": ["x"], "graph": "homo", "seed": 1}
    parts = [
        list(client.sample(inputs, FANOUTS, BATCH, ranks=(rank, 4), **options)) for rank in range(4)
    ]
    seeds = [
        np.concatenate([b.input_id[: len(b.input_id) - b.num_padding] for b in step])
        for step in zip(*parts, strict=True)
    ]
    assert [s.tolist() for s in seeds] == [batch.input_id.tolist() for batch in whole]
    assert [sum(b.num_padding for b in step) for step in zip(*parts, strict=True)] == [0, 0, 2]


def test_a_reverse_that_is_kept_is_not_sampled(tmp_path):
    (tmp_path / "in").mkdir()
    edges = np.random.default_rng(3).integers(0, 100, (2, 900))
    np.save(tmp_path / "in" / "edge_index.npy", edges)
    import_graph(tmp_path / "in", tmp_path / "both.ng", reverse=True)
    with ng.open(tmp_path / "both.ng", memory="64MB") as store:
        assert store.schema.reverse_types
        batches = ng.NumpySampler(store, FANOUTS, seed=2).batches(None, BATCH)
        wanted = [content(batch, names=()) for batch in batches]
    with ng.serve(tmp_path, memory="64MB") as server, ng.Client(server.address) as client:
        batches = client.sample(None, FANOUTS, BATCH, seed=2)
        assert [content(batch, names=()) for batch in batches] == wanted


def test_batches_of_several_types_become_what_pyg_takes(client, hetero):
    pytest.importorskip("torch_geometric")
    kind = hetero.schema.node_types[0].name
    loader = ng.NeighborLoader(
        hetero, num_neighbors=FANOUTS, batch_size=BATCH, input_nodes=kind, seed=3, attrs=["x"]
    )
    options = {"attrs": ["x"], "graph": "hetero", "node_type": kind, "seed": 3}
    batches = client.sample(None, FANOUTS, BATCH, **options)
    for wanted, batch in zip(loader, batches, strict=True):
        given = batch.pyg()
        assert given.node_types == wanted.node_types
        for name in given.node_types:
            assert given[name].n_id.equal(wanted[name].n_id)
            if "x" in wanted[name]:
                assert given[name].x.equal(wanted[name].x)
        for triple in wanted.edge_types:
            assert given[triple].edge_index.equal(wanted[triple].edge_index)
        assert given[kind].batch_size == wanted[kind].batch_size


def test_streams_that_are_closed_early_make_room_for_others(client):
    options = {"graph": "homo", "attrs": ["x"]}
    for _ in range(20):
        # The server makes few streams at a time, and hears of the end of each soon.
        for _ in range(100):
            try:
                with client.sample(None, FANOUTS, 16, **options) as batches:
                    assert next(batches).num_seeds == 16
            except ng.ServerBusy:
                continue
            break
        else:
            pytest.fail("streams that were closed keep their places")
        assert next(batches, None) is None
    with pytest.raises(ng.NodeOutOfRange):
        next(client.sample([5, 300], FANOUTS, 16, **options))
    with pytest.raises(ng.UnsupportedArgument, match="seeds= is empty"):
        client.sample([], FANOUTS, 16)


def test_an_event_loop_streams_and_asks_at_the_same_time(served, homo):
    sampler = ng.NumpySampler(homo, FANOUTS, seed=0, attrs=["x"])
    wanted = [content(batch, names=["x"]) for batch in sampler.batches("train", 16)]

    async def ask():
        async with ng.AsyncClient(served[0].address) as client:
            options = {"graph": "homo", "attrs": ["x"]}
            found = []
            async for batch in client.sample("train", FANOUTS, 16, **options):
                assert (await client.features(batch.nodes()[:3], "x", graph="homo")).shape == (3, 6)
                found.append(content(batch, names=["x"]))
            async with client.sample(None, FANOUTS, 16, **options) as batches:
                await anext(batches)
            with pytest.raises(StopAsyncIteration):
                await anext(batches)
            late = client.sample(None, FANOUTS, 16, **options)
            waits = asyncio.ensure_future(anext(late))
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            with pytest.raises(StopAsyncIteration):
                await anext(late)
            return found

    assert asyncio.run(ask()) == wanted


def test_a_job_is_watched_until_it_ends(homo_graph, tmp_path):
    dfg = ng.Dfg()
    dfg.create_out("out", dfg.create_op("ReLU", [dfg.create_in("x", "f32", ["nodes", 6])]))
    homo_graph.write(tmp_path / "homo.ng")
    dfg.save(tmp_path / "relu.ngm", fanouts=[])
    with ng.serve(tmp_path, memory="64MB") as server, ng.Client(server.address) as client:
        client.register_model("relu", tmp_path / "relu.ngm")
        job = client.analyze("relu", range(300))
        states = list(job.watch())
        assert states[-1].state == "done"
        done = [state.targets_done for state in states]
        assert done == sorted(done)
        assert done[-1] == 300
        assert list(client.watch(job.id))[-1] == states[-1]
        with pytest.raises(ng.NotFound):
            next(client.watch("nothing"))


def test_a_backup_tells_how_far_it_is(served, client):
    states = list(client.backup("first", graph="homo"))
    assert [state.done for state in states] == [False] * (len(states) - 1) + [True]
    assert states[-1].pages_done == states[-1].pages > 0
    assert ng.verify_backup(served[1] / ".neargraph" / "backups" / "first")
    with pytest.raises(ng.RequestFailed) as again:
        list(client.backup("first", graph="homo"))
    assert again.value.code == "ALREADY_EXISTS"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_stream_belongs_to_the_process_that_opened_it(client):
    stream = client.sample(None, FANOUTS, 16, graph="homo")
    next(stream)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(stream)
        except RuntimeError as error:
            os.write(write, str(error).encode())
        del stream
        os.write(write, f", {next(client.sample(None, FANOUTS, 16, graph='homo'))}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert "before this process was forked" in said
    assert "MiniBatch(seeds=16" in said
    assert next(stream).num_seeds == 16


@pytest.fixture
def interruptible():
    """Ctrl-C as a terminal has it: what a shell starts in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_stream():
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, ng.Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout=None) as client:
        stream = client.watch("job")
        timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        timer.join()
        assert next(stream, None) is None


def test_columns_are_cut_into_pieces_of_one_arrow_stream():
    draws = np.random.default_rng(4)
    rows = draws.standard_normal((50_000, 3, 4), dtype=np.float32)
    given = {"x": rows, "y": np.arange(50_000), "mask": rows[:, 0, 0] > 0, "w": [0.5] * 50_000}
    columns = Columns(given, "nodes")
    assert (columns.num_rows, columns.names) == (50_000, ["x", "y", "mask", "w"])
    pieces = list(columns.pieces())
    assert len(pieces) > 4
    assert max(map(len, pieces)) < 1.1 * (1 << 20)
    table = pa.ipc.open_stream(b"".join(pieces)).read_all()
    flat = table["x"].combine_chunks().flatten().flatten().to_numpy()
    assert flat.tobytes() == rows.tobytes()
    assert table["w"].type == pa.float32()
    assert np.array_equal(table["mask"].to_numpy(), given["mask"])
    for source in (table, table.to_reader()):
        again = pa.ipc.open_stream(b"".join(Columns(source, "nodes").pieces())).read_all()
        assert again.equals(table)
    for wrong, said in (
        ({"x": rows, "y": [1]}, "differ in length"),
        ({"x": ["a"]}, "expected a dtype of numbers"),
        ({"x": 3}, "single number"),
        ([1, 2], "a mapping"),
    ):
        with pytest.raises(ng.UnsupportedArgument, match=said):
            Columns(wrong, "nodes")


def test_a_graph_is_made_of_columns_that_are_sent(tmp_path):
    rows = np.random.default_rng(5).standard_normal((30, 8), dtype=np.float32)
    ends = {"source": np.arange(29), "destination": np.arange(1, 30)}

    def nodes(count):
        return {"paper": {"x": rows[:count]}}

    edges = {("paper", "cites", "paper"): pa.table(ends)}
    with ng.serve(tmp_path, memory="64MB") as server, ng.Client(server.address) as client:
        made = client.update_graph("tiny", nodes(30), edges, reverse=True)
        assert (made["num_nodes"], made["num_edges"]) == (30, 29)
        assert np.array_equal(client.features(np.arange(30), "x"), rows)
        assert client.neighbors([7]).lists()[0].tolist() == [6]
        with pytest.raises(ng.RequestFailed):
            client.update_graph("tiny", nodes(30), edges)

        def broken():
            yield pa.record_batch(ends)
            raise OSError("the disk is gone")

        reader = pa.RecordBatchReader.from_batches(pa.table(ends).schema, broken())
        with pytest.raises(OSError, match="the disk is gone"):
            client.update_graph("half", nodes(30), {("paper", "cites", "paper"): reader})
        assert [graph["name"] for graph in client.graphs()] == ["tiny"]

        async def send():
            async with ng.AsyncClient(server.address) as other:
                few = {name: end[:9] for name, end in ends.items()}
                return await other.update_graph("other", nodes(10), {"cites": few})

        assert asyncio.run(send())["num_nodes"] == 10


def test_both_clients_have_the_same_methods_with_signatures_and_docstrings():
    pairs = [(ng.Client, ng.AsyncClient), (ng.client.Job, ng.client.AsyncJob)]
    for waits, awaits in pairs:
        names = {name for name in vars(waits) if not name.startswith("_")}
        assert names == {name for name in vars(awaits) if not name.startswith("_")}
        for name in names:
            first, second = getattr(waits, name), getattr(awaits, name)
            assert first.__doc__
            parameters = [inspect.signature(one).parameters for one in (first, second)]
            assert parameters[0] == parameters[1]
            if name not in ("sample", "watch", "backup", "job"):
                assert inspect.iscoroutinefunction(second)
    assert "fanouts" in inspect.signature(ng.Client("a:1").sample).parameters
    assert list(inspect.signature(ng.Client("a:1").run).parameters)[:2] == ["model", "nodes"]
