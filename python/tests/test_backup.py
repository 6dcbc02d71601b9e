"""Backups through Python and the command line, beside a writer in another process too."""

import json
import subprocess
import sys

import numpy as np
import pytest

import neargraph as ng
from neargraph.cli import main
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

WRITER = """
import sys
import neargraph as ng
with ng.open(sys.argv[1], memory="64MB") as store:
    for number in range(6):
        with store.write() as tx:
            tx.update_features(None, [number], "x", [[number] * 16])
        if number == 3:
            store.checkpoint()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "g.ng"
    run_import(plan_generated(800, 4000, 16, 4), path, ImportOptions(split_sizes=(60, 20, 20)))
    return path


def run(*arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def content(store, **options):
    with ng.open(store, memory="64MB", **options) as handle:
        snapshot = handle.snapshot()
        nodes = np.arange(handle.num_nodes)
        rows = np.asarray(snapshot.features(None, nodes, "x"))
        return handle.info()["fingerprint"], rows.tobytes()


def test_a_chain_of_backups_of_a_store_that_is_written_to_is_restored(store, tmp_path):
    with ng.open(store, memory="64MB") as handle:
        first = handle.backup(tmp_path / "a")
        before = content(store)
        with handle.write() as tx:
            tx.update_features(None, [5], "x", [[1.5] * 16])
            tx.add_edge(None, 3, 4)
        calls = []
        second = handle.backup(
            tmp_path / "b", base=tmp_path / "a", progress=lambda *call: calls.append(call)
        )
        with handle.write() as tx:
            with pytest.raises(ng.StoreBusy):
                handle.backup(tmp_path / "c")
            tx.add_edge(None, 5, 6)
    assert (first["lsn"], second["lsn"], second["base"]) == (0, 1, "a")
    assert 0 < second["pages_copied"] < first["pages_copied"] == first["pages"]
    assert not second["log_goes_on"]
    assert calls[-1][0] == calls[-1][1] > 0
    for name, report in (("a", first), ("b", second)):
        target = tmp_path / f"{name}.ng"
        found = ng.restore(tmp_path / name, target)
        assert found == ng.verify_backup(tmp_path / name)
        assert (found["lsn"], found["fingerprint"]) == (report["lsn"], report["fingerprint"])
        assert (content(target) == before) == (name == "a")
    with ng.open(tmp_path / "b.ng", memory="64MB") as handle:
        assert np.allclose(handle.snapshot().features(None, [5], "x"), 1.5)


def test_a_backup_beside_a_writer_has_the_newest_checkpoint_and_says_so(store, tmp_path, capsys):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, store], stdin=-1, stdout=-1, text=True
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        code, out, _ = run("backup", store, tmp_path / "a", "--json", capsys=capsys)
        assert code == 0
        report = json.loads(out)
        assert (report["lsn"], report["log_goes_on"]) == (4, True)
        code, out, err = run("backup", store, tmp_path / "again", capsys=capsys)
        assert (code, "last commit" in out, "lsn" in out) == (0, True, False)
        assert "warning: the backup lacks the commits after commit 4" in err
        assert "client.backup(NAME)" in err
        code, out, _ = run("restore", tmp_path / "a", tmp_path / "a.ng", capsys=capsys)
        assert (code, "Restored" in out) == (0, True)
        with ng.open(tmp_path / "a.ng", memory="64MB") as handle:
            rows = np.asarray(handle.snapshot().features(None, [3, 4], "x"))
        assert (rows[0] == 3).all()
        assert not (rows[1] == 4).all()
        writer.communicate("\n")
    arguments = ["backup", store, tmp_path / "b", "--base", tmp_path / "a"]
    code, out, _ = run(*arguments, "--json", capsys=capsys)
    assert (code, json.loads(out)["lsn"], json.loads(out)["log_goes_on"]) == (0, 6, False)
    assert ng.restore(tmp_path / "b", tmp_path / "b.ng")["backups"] == 2
    assert content(tmp_path / "b.ng") == content(store)


def test_damage_a_missing_base_and_targets_that_exist_are_one_line(store, tmp_path, capsys):
    with ng.open(store, memory="64MB") as handle:
        handle.backup(tmp_path / "a")
        handle.backup(tmp_path / "b", base=tmp_path / "a")
        with pytest.raises(ng.UnsupportedArgument, match="exists"):
            handle.backup(tmp_path / "b")
    code, out, err = run("verify", tmp_path / "b", "--json", capsys=capsys)
    assert (code, json.loads(out)["ok"], json.loads(out)["backups"]) == (0, True, 2)
    code, out, err = run("restore", tmp_path / "b", store, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, err = run("verify", tmp_path / "b", "--memory", "64MB", capsys=capsys)
    assert code == 2
    (tmp_path / "a").rename(tmp_path / "c")
    with pytest.raises(ng.StoreNotFound, match=r"its base .* is missing"):
        ng.restore(tmp_path / "b", tmp_path / "b.ng")
    assert run("verify", tmp_path / "b", capsys=capsys)[0] == 1
    pages = bytearray((tmp_path / "c" / "pages").read_bytes())
    pages[5000] ^= 1
    (tmp_path / "c" / "pages").write_bytes(pages)
    code, out, err = run("verify", tmp_path / "c", capsys=capsys)
    assert (code, err) == (1, "")
    assert "DAMAGED" in out
    assert "block 1 " in out
    code, out, err = run("restore", tmp_path / "c", tmp_path / "c.ng", capsys=capsys)
    assert (code, err.count("\n"), "block 1 " in err) == (2, 1, True)
    assert not (tmp_path / "c.ng").exists()


def test_a_damaged_store_is_not_backed_up(store, tmp_path, capsys):
    rotten = store / "e0.topo.dat"
    damaged = bytearray(rotten.read_bytes())
    damaged[100] ^= 1
    rotten.write_bytes(damaged)
    code, out, err = run("backup", store, tmp_path / "a", capsys=capsys)
    assert (code, out) == (2, "")
    assert "e0.topo.dat" in err
    assert "block 0" in err
    assert [path.name for path in tmp_path.iterdir()] == ["g.ng"]
