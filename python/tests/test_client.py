"""The client of the server, against a server in this process: answers of the engine, byte for byte,
over sockets, threads, event loops and forks."""

import asyncio
import json
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import neargraph as ng
from neargraph.cli import top
from neargraph.cli.app import main
from neargraph.exceptions import request_failed

IDS = [7, 250, 0, 7, 12, 299]


def mean_model() -> ng.Dfg:
    dfg = ng.Dfg()
    h = dfg.create_in("x", "f32", ["nodes", 6])
    edge_index = dfg.create_in("edge_index", np.int64, [2, "edges"])
    draws = np.random.default_rng(2)
    for layer, shape in enumerate([(6, 8), (8, 4)]):
        weight = dfg.create_weight(f"w{layer}", draws.standard_normal(shape, dtype=np.float32))
        h = dfg.create_op("MatMul", [dfg.create_op("SpMM_Mean", [edge_index, h]), weight])
    dfg.create_out("out", h)
    return dfg


@pytest.fixture(scope="module")
def served(homo_graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    homo_graph.write(folder / "homo.ng")
    mean_model().save(folder / "mean.ngm", fanouts=[5, 3])
    listen = ["127.0.0.1:0", f"unix:{folder / 'socket'}"]
    with ng.serve(folder, listen=listen, memory="64MB") as server:
        with ng.Client(server.address) as client:
            made = client.register_model("mean", folder / "mean.ngm")
            assert (made["name"], made["version"]) == ("mean", 1)
        yield server, folder


@pytest.fixture(scope="module")
def wanted(homo_path):
    with ng.Engine(homo_path, mean_model(), fanouts=[5, 3], memory="64MB") as engine:
        return np.concatenate([engine.run([node]) for node in IDS])


@pytest.fixture
def client(served):
    with ng.Client(served[0].address) as client:
        yield client


def test_answers_are_those_of_the_engine_over_each_socket(served, wanted):
    for address in served[0].addresses:
        with ng.Client(address) as client:
            answer = client.answer("mean", IDS)
        assert answer.rows.tobytes() == wanted.tobytes()
        assert answer.rows.shape == (len(IDS), 4)
        assert (answer.model, answer.snapshot.fingerprint != 0) == ("mean@1", True)
        answer.rows[0] = 0  # An array of its own.


def test_a_model_file_is_sent_along_with_a_request(served, client, wanted):
    path = served[1] / "mean.ngm"
    before = [model["version"] for model in client.models()]
    answer = client.answer(path, IDS)
    assert answer.rows.tobytes() == wanted.tobytes()
    assert answer.model.startswith("sha256:")
    fewer = client.run(path, IDS, fanouts=[1, 1])
    assert fewer.shape == (len(IDS), 4)
    assert fewer.tobytes() != wanted.tobytes()
    assert client.analyze(path, IDS).result(timeout=60).tobytes() == wanted.tobytes()
    assert [model["version"] for model in client.models()] == before
    for asked in ({"fanouts": [1, 1]}, {"output": "out"}):
        with pytest.raises(ng.UnsupportedArgument, match="of a registered model cannot be changed"):
            client.run("mean", IDS, **asked)


def test_threads_share_a_client(client, wanted):
    found = {}

    def ask(at):
        found[at] = client.run("mean", [IDS[at]])

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(IDS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.concatenate([found[at] for at in range(len(IDS))]).tobytes() == wanted.tobytes()


def test_an_event_loop_has_many_calls_under_way(served, wanted):
    async def ask():
        async with ng.AsyncClient(served[0].addresses[1]) as client:
            rows = await asyncio.gather(*(client.run("mean", [id]) for id in 20 * IDS))
            with pytest.raises(ng.NotFound, match="no model"):
                await client.run("other", [1])
            late = asyncio.ensure_future(client.run("mean", IDS))
            await asyncio.sleep(0)
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late
            again = await client.run("mean", [IDS[0]])
            return np.concatenate(rows), again

    rows, again = asyncio.run(ask())
    assert rows.tobytes() == 20 * wanted.tobytes()
    assert again.tobytes() == wanted[:1].tobytes()


def test_errors_say_what_and_where_and_what_to_do(client, served):
    with pytest.raises(ng.NotFound) as missing:
        client.run("other", [1])
    error = missing.value
    assert (error.code, error.reason, error.field) == ("NOT_FOUND", "MODEL_NOT_FOUND", "model")
    assert error.remedy == "models of the graph: mean"
    assert str(error) == 'graph "homo" has no model "other"; models of the graph: mean'
    with pytest.raises(ng.NodeOutOfRange) as outside:
        client.run("mean", [300])
    assert isinstance(outside.value, ng.InvalidRequest)
    assert isinstance(outside.value, ng.RequestFailed)
    copy = pickle.loads(pickle.dumps(outside.value))
    assert (str(copy), copy.code, type(copy)) == (
        str(outside.value),
        "OUT_OF_RANGE",
        type(outside.value),
    )
    with pytest.raises(ng.NodeOutOfRange, match="negative"):
        client.run("mean", [-1])
    for wrong in ({"nodes": [1.5]}, {"nodes": [[1]]}, {"edges": [1, 2]}, {}):
        with pytest.raises(ng.UnsupportedArgument):
            client.run("mean", **wrong)
    with pytest.raises(ng.UnsupportedArgument, match="HOST:PORT"):
        ng.Client("http://127.0.0.1")
    with pytest.raises(ng.ServeFailed, match="unknown field"):
        ng.serve(served[1], listen="127.0.0.1:0", colour="red")
    with (
        ng.Client(f"unix:{served[1]}/none", retry=0.0) as nobody,
        pytest.raises(ConnectionError, match="No such file"),
    ):
        nobody.run("mean", [1])


def test_each_code_has_a_class():
    late = request_failed("DeadlineExceeded", "", "late")
    assert isinstance(late, TimeoutError)
    assert late.code == "DEADLINE_EXCEEDED"
    assert isinstance(request_failed("Unauthenticated", "TOKEN", "no"), PermissionError)
    busy = request_failed("ResourceExhausted", "BUDGET_TOO_SMALL", "full", retry_after=0.5)
    assert isinstance(busy, ng.ServerBusy)
    assert isinstance(busy, ng.BudgetTooSmall)
    assert busy.retry_after == 0.5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_that_was_forked_asks_over_a_connection_of_its_own(client, wanted):
    assert client.run("mean", IDS).tobytes() == wanted.tobytes()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, client.run("mean", IDS).tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == wanted.tobytes()
    assert os.waitpid(child, 0)[1] == 0
    assert client.run("mean", IDS).tobytes() == wanted.tobytes()


def test_updates_are_one_commit_and_are_read_back(homo_graph, tmp_path):
    homo_graph.write(tmp_path / "homo.ng")
    with ng.serve(tmp_path, memory="64MB") as server, ng.Client(server.address) as client:
        change_and_read(client)


def change_and_read(client):
    updates = ng.Updates()
    node = updates.add_node({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    updates.add_edge(node, 3)
    applied = client.apply(updates, key=b"one")
    added = applied["results"][0]["node"]
    assert added == 300
    since = applied["snapshot"]["commit"]
    assert client.apply(updates, key=b"one", key_since_commit=since)["repeated"]
    with pytest.raises(ng.UnsupportedArgument, match="without key="):
        client.apply(updates, key_since_commit=since)
    client.update_rows([added, 3], np.ones((2, 6), np.float32), tensor="x")
    rows = client.features([added, 3], "x")
    assert np.array_equal(rows, np.ones((2, 6), np.float32))
    found = client.neighbors([3])
    assert added in found.lists()[0]
    client.delete_edge(added, 3)
    assert added not in client.neighbors([3]).lists()[0]
    with pytest.raises(ng.ReverseMissing, match="import the graph again"):
        client.delete_node(added)


def test_a_job_ends_with_the_rows_of_a_run(client):
    job = client.analyze("mean", IDS)
    assert job.result(timeout=20.0).tobytes() == client.run("mean", IDS).tobytes()
    assert job.progress().state == "done"


def test_commands_ask_and_load_a_server(served, wanted, capfd, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def last_line(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--address", served[0].address, "--model", "mean"])
        assert ended.value.code == 0
        return capfd.readouterr().out

    path = str(served[1] / "mean.ngm")
    with pytest.raises(SystemExit) as ended:
        main(["register", "again", path, "--address", served[0].address, "--json"])
    assert (ended.value.code, json.loads(capfd.readouterr().out)["version"]) == (0, 1)
    found = json.loads(last_line("query", "--nodes", "7,250", "--json"))
    assert np.array_equal(np.float32(found["rows"]), wanted[:2])
    load = ["--rate", "200", "--seconds", "0.5", "--warm-seconds", "0", "--ids", "300"]
    report = json.loads(last_line("bench-server", *load).splitlines()[-1])
    assert (report["open"][0]["requests"], report["open"][0]["missed"]) == (100, 0)


def test_top_shows_rates_and_quantiles_between_two_looks():
    text = """
# TYPE neargraph_requests_total counter
neargraph_requests_total{{method="Run",code="Ok"}} {}
neargraph_request_seconds_bucket{{method="Run",le="0.01"}} {}
neargraph_request_seconds_bucket{{method="Run",le="0.02"}} {}
neargraph_request_seconds_bucket{{method="Run",le="+Inf"}} {}
"""
    before, now = (top.Metrics(text.format(*counts)) for counts in ((9, 9, 9, 9), (29, 19, 29, 29)))
    shown = dict(top.rows(before, now, 2.0))
    assert shown["requests/s"] == "10"
    assert shown["p50, p99 of Run"] == "< 10 ms, 19.80 ms"
    assert shown["shed requests/s"] == "-"


def test_top_shows_the_depth_of_reads_that_were_made():
    text = "neargraph_reads_total {}\nneargraph_device_depth 4\n"
    quiet, busy = (top.Metrics(text.format(reads)) for reads in (100, 300))
    shown = [dict(top.rows(quiet, now, 2.0)) for now in (quiet, busy)]
    assert [(rows["reads/s"], rows["disk queue depth"]) for rows in shown] == [
        ("0", "-"),
        ("100", "4"),
    ]
