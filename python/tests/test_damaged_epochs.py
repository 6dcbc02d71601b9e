"""A damaged compiled epoch gives the right batches or an error, never other batches."""

import json
import shutil
import warnings

import numpy as np
import pytest
from epoch_files import BLOCK, as_version_1, head_bytes, regions

import neargraph as ng
from neargraph.cli.app import main
from neargraph.loader.compiling import EpochCompiler
from neargraph.loader.direct import compile_direct
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes
from neargraph.loader.verify import verify_compiled

EPOCHS = 3
BATCH = 40
FANOUTS = [3, 2]
MEMORY = "96MB"


def compile_epochs(path, out, seed=3, epochs=EPOCHS, name="set", first=0):
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=seed)
        inputs = resolve_input_nodes(sampler.snapshot, None)
        plan = SeedPlan(num_seeds=len(inputs), batch_size=BATCH, shuffle=True, seed=seed)
        how = {"directory": out, "name": name, "first_epoch": first}
        return EpochCompiler(sampler, inputs, plan, epochs, **how).run(lambda *_: None)


@pytest.fixture(scope="module")
def origin(homo_graph, tmp_path_factory):
    """A store with three compiled epochs, and epochs of another seed and of another version."""
    folder = tmp_path_factory.mktemp("damaged")
    homo_graph.write(folder / "g.ng")
    path = folder / "g.ng"
    compile_epochs(path, path / "compiled")
    (folder / "other").mkdir()
    compile_epochs(path, folder / "other", seed=4)
    homo_graph.write(folder / "later.ng")
    with ng.open(folder / "later.ng", memory=MEMORY) as store, store.write() as tx:
        tx.add_edge(None, 1, 2)
    (folder / "later").mkdir()
    compile_epochs(folder / "later.ng", folder / "later")
    return folder


@pytest.fixture(scope="module")
def expected(origin):
    """The batches of each epoch, as they are sampled."""
    with ng.open(origin / "g.ng", memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        return {
            epoch: [arrays(batch) for batch in batches(sampler, epoch, False)]
            for epoch in range(2 * EPOCHS)
        }


def batches(sampler, epoch, compiled):
    """An epoch: sampled (False), replayed (True), or replayed where that is possible ("auto")."""
    readings = {False: "on_demand", True: "compiled"}
    reading = readings.get(compiled, ng.Reading("compiled", otherwise="auto"))
    options = {"shuffle": True, "epoch": epoch, "reading": reading}
    return sampler.batches(None, BATCH, **options)


def arrays(batch):
    return [np.copy(a) for a in (batch.nodes(), batch.edge_index(), batch.features("x"))]


def same(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def file_of(path, epoch):
    return path / "compiled" / f"set.{epoch:04}.epoch"


def flips(content, bits):
    for name, place in regions(content).items():
        for bit in bits:
            changed = bytearray(content)
            changed[place] ^= bit
            yield f"flip {bit:#x} of {name}", bytes(changed)


def cuts(content):
    for size in (0, 1, 31, 100, BLOCK, 2 * BLOCK, len(content) // 2, -2 * BLOCK, -BLOCK, -1):
        yield f"cut to {size}", content[:size]
    yield "longer by a block", content + bytes(BLOCK)
    yield "longer by a byte", content + b"\0"
    middle = len(content) // 2 // BLOCK * BLOCK
    yield "a block zeroed", content[:middle] + bytes(BLOCK) + content[middle + BLOCK :]
    yield "shifted by a block", content[:middle] + content[middle - BLOCK : -BLOCK]
    yield "nothing but zeros", bytes(len(content))


def spliced(content, other, what):
    """The head of one file before the batches of another, and the other way round."""
    first = head_bytes(content)
    if first == head_bytes(other):
        yield f"head before the batches of {what}", content[:first] + other[first:]
        yield f"batches behind the head of {what}", other[:first] + content[first:]


def check(path, expected, damage):
    """Replays every epoch; says how many passes raised. Whatever is given has to be right."""
    raised = 0
    for epoch in range(EPOCHS + 1):
        with ng.open(path, memory=MEMORY) as store:
            sampler = ng.NumpySampler(store, FANOUTS, seed=3)
            wanted, given = expected[epoch % EPOCHS], 0
            try:
                for batch in batches(sampler, epoch, True):
                    assert same(arrays(batch), wanted[given]), f"{damage}, epoch {epoch}"
                    given += 1
                    del batch
                assert given == len(wanted), f"{damage}, epoch {epoch}"
            except (ng.StoreDamaged, ng.CompiledMismatch) as error:
                raised += str(path / "compiled") in str(error)
    return raised


def check_auto(path, expected, damage):
    """Where replaying raises, sampling has to take over, with one warning for each pass at most."""
    warned = 0
    for epoch in range(EPOCHS + 1):
        with ng.open(path, memory=MEMORY) as store:
            sampler = ng.NumpySampler(store, FANOUTS, seed=3)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = [arrays(batch) for batch in batches(sampler, epoch, "auto")]
            possible = [expected[epoch % EPOCHS]] + [expected[epoch]] * bool(caught)
            assert any(
                len(found) == len(wanted) and all(map(same, found, wanted)) for wanted in possible
            ), f"{damage}, epoch {epoch}"
            assert len(caught) <= 1, damage
            warned += len(caught)
            for warning in caught:
                assert str(path / "compiled") in str(warning.message)
                assert "sampled instead" in str(warning.message)
    return warned


def copied(origin, tmp_path):
    path = tmp_path / "copy.ng"
    shutil.copytree(origin / "g.ng", path)
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code or 0


def report_of(path, capsys, command):
    code = run(command, path, "--json")
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("epoch", range(EPOCHS))
def test_changed_bytes_and_lengths_are_never_replayed(origin, expected, tmp_path, capsys, epoch):
    path = copied(origin, tmp_path)
    file = file_of(path, epoch)
    content = file.read_bytes()
    others = [
        ("another epoch", file_of(path, (epoch + 1) % EPOCHS).read_bytes()),
        ("another seed", (origin / "other" / file.name).read_bytes()),
        ("another version", (origin / "later" / file.name).read_bytes()),
    ]
    bits = (0x01, 0x80) if epoch == 0 else (0x10,)
    damages = [*flips(content, bits), *cuts(content)]
    for what, other in others:
        damages += spliced(content, other, what)
    silent = 0
    for damage, changed in damages:
        file.write_bytes(changed)
        raised = check(path, expected, damage)
        warned = check_auto(path, expected, damage)
        assert raised > 0, f"{damage} of epoch {epoch} is not seen"
        assert warned > 0, f"{damage} of epoch {epoch} is not warned of"
        silent += raised == 0
        for command in ("verify", "scrub"):
            code, report = report_of(path, capsys, command)
            assert code == 1, f"{command}: {damage}"
            assert not report["ok"]
            assert any(p["file"] == f"compiled/{file.name}" for p in report["problems"]), damage
    assert silent == 0
    assert len(damages) > 40


def exchanged(path, one, other):
    first, second = file_of(path, one), file_of(path, other)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


# What may happen to the files of a set; whether a replay has to be refused.
FATES = {
    "gone": (lambda path, _, epoch: file_of(path, epoch).unlink(), True),
    "renamed out of sight": (
        lambda path, _, epoch: file_of(path, epoch).rename(file_of(path, epoch).with_suffix(".x")),
        True,
    ),
    "under another name": (
        lambda path, _, epoch: file_of(path, epoch).rename(path / "compiled" / "so.9.epoch"),
        False,
    ),
    "exchanged with the next": (
        lambda path, _, epoch: exchanged(path, epoch, (epoch + 1) % EPOCHS),
        False,
    ),
    "in the place of the next": (
        lambda path, _, epoch: shutil.copy(
            file_of(path, epoch), file_of(path, (epoch + 1) % EPOCHS)
        ),
        True,
    ),
    "of another seed": (
        lambda path, origin, epoch: shutil.copy(
            origin / "other" / file_of(path, epoch).name, file_of(path, epoch)
        ),
        True,
    ),
    "of another version": (
        lambda path, origin, epoch: shutil.copy(
            origin / "later" / file_of(path, epoch).name, file_of(path, epoch)
        ),
        True,
    ),
    "beside a copy": (
        lambda path, _, epoch: shutil.copy(file_of(path, epoch), path / "compiled" / "b.1.epoch"),
        False,
    ),
    "beside a foreign file": (
        lambda path, _, epoch: (path / "compiled" / "zz.0000.epoch").write_bytes(b"hello"),
        True,
    ),
    "beside the epochs of another seed": (
        lambda path, origin, epoch: shutil.copy(
            origin / "other" / file_of(path, epoch).name, path / "compiled" / "o.0.epoch"
        ),
        False,
    ),
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("epoch", range(EPOCHS))
def test_files_that_are_lost_moved_or_exchanged_are_right_or_refused(
    origin, expected, tmp_path, capsys, fate, epoch
):
    path = copied(origin, tmp_path)
    change, is_refused = FATES[fate]
    change(path, origin, epoch)
    raised, warned = check(path, expected, fate), check_auto(path, expected, fate)
    assert (raised, warned) == ((EPOCHS + 1, EPOCHS + 1) if is_refused else (0, 0))
    if is_refused:
        for command in ("verify", "scrub"):
            code, report = report_of(path, capsys, command)
            assert (code, report["ok"]) == (1, False), command


def test_a_set_that_was_never_finished_is_refused_and_can_be_finished(origin, expected, tmp_path):
    path = copied(origin, tmp_path)
    file_of(path, 2).unlink()
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        with pytest.raises(ng.StoreDamaged, match=r"epoch 2 cannot .*set\.0002\.epoch is missing"):
            batches(sampler, 0, True)
    report = compile_epochs(path, path / "compiled")
    assert report["kept"] == 2
    assert check(path, expected, "finished") == 0


def test_more_epochs_are_a_set_of_their_own(origin, expected, tmp_path):
    path = copied(origin, tmp_path)
    compile_epochs(path, path / "compiled", epochs=EPOCHS + 1, name=None)
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        for epoch in range(EPOCHS + 1):
            found = [arrays(batch) for batch in batches(sampler, epoch, True)]
            assert all(map(same, found, expected[epoch]))
    for file in (path / "compiled").glob("*.0003.epoch"):
        file.unlink()
    with ng.open(path, memory=MEMORY) as store, pytest.raises(ng.StoreDamaged, match="0003"):
        batches(ng.NumpySampler(store, FANOUTS, seed=3), 0, True)


def test_files_of_the_first_format_are_refused_by_name(origin, expected, tmp_path, capsys):
    path = copied(origin, tmp_path)
    for epoch in range(EPOCHS):
        file = file_of(path, epoch)
        file.write_bytes(as_version_1(file.read_bytes()))
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        with pytest.raises(ng.CompiledOutdated, match=r"set\.0000\.epoch .* format version 1"):
            batches(sampler, 0, True)
    assert check_auto(path, expected, "version 1") == EPOCHS + 1
    code, report = report_of(path, capsys, "verify")
    assert code == 0
    assert len(report["not_checked"]) == EPOCHS
    compile_epochs(path, path / "compiled", name="new")
    assert check(path, expected, "old files beside new ones") == 0
    assert check_auto(path, expected, "old files beside new ones") == 0


def test_a_loader_goes_on_with_the_epochs_that_it_replayed(origin, expected, tmp_path):
    pytest.importorskip("torch")
    path = copied(origin, tmp_path)
    file = file_of(path, 1)
    content = bytearray(file.read_bytes())
    places = regions(bytes(content))
    content[places["batch 4, middle"]] ^= 1
    file.write_bytes(content)
    with ng.open(path, memory=MEMORY) as store:
        how = {
            "reading": ng.Reading("compiled", otherwise="auto"),
            "batch_size": BATCH,
            "shuffle": True,
            "seed": 3,
        }
        loader = ng.NeighborLoader(store, FANOUTS, **how)
        with pytest.warns(UserWarning, match=r"set\.0001\.epoch: batch .*sampled instead") as seen:
            passes = [[batch.n_id.numpy() for batch in loader] for _ in range(2 * EPOCHS)]
        assert len(seen) == 1
        for epoch, found in enumerate(passes):
            wanted = [nodes for nodes, _, _ in expected[epoch % EPOCHS]]
            assert same(found, wanted), f"epoch {epoch}"


def test_files_that_are_exchanged_after_the_loader_was_made_are_seen(origin, tmp_path):
    path = copied(origin, tmp_path)
    with ng.open(path, memory=MEMORY) as store:
        sampler = ng.NumpySampler(store, FANOUTS, seed=3)
        waiting = batches(sampler, 0, True)
        exchanged(path, 0, 1)
        with pytest.raises(ng.CompiledMismatch, match="epoch = 1"):
            next(waiting)
        waiting = batches(sampler, 0, True)
        shutil.copy(origin / "other" / "set.0001.epoch", file_of(path, 0))
        with pytest.raises(ng.CompiledMismatch, match="seed = 4"):
            next(waiting)


def test_scrub_and_verify_read_direct_layouts(origin, tmp_path, capsys):
    path = copied(origin, tmp_path)
    with ng.open(path, memory=MEMORY) as store:
        facts = compile_direct(store.snapshot())
        assert store.scrub()["ok"]
        assert store.scrub()["compiled_epochs"] == EPOCHS
        assert store.scrub()["direct_layouts"] == 1
    file = path / "compiled" / "graph.direct"
    content = file.read_bytes()
    for place in (0, 40, facts["page_bytes"] + 99, len(content) - facts["page_bytes"] + 99):
        changed = bytearray(content)
        changed[place] ^= 1
        file.write_bytes(changed)
        for command in ("verify", "scrub"):
            code, report = report_of(path, capsys, command)
            assert code == 1, (command, place)
            assert [p["file"] for p in report["problems"]] == ["compiled/graph.direct"]
    file.write_bytes(content)
    with ng.open(path, memory=MEMORY) as store:
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        report = store.scrub()
    assert report["ok"]
    assert [skipped["file"] for skipped in report["not_checked"]] == ["compiled/graph.direct"]


def test_what_a_killed_compilation_left_is_named_until_the_next_one(origin, tmp_path, capsys):
    path = copied(origin, tmp_path)
    left = file_of(path, 0).with_name(file_of(path, 0).name + ".partial")
    left.write_bytes(b"ngepoch")
    code, report = report_of(path, capsys, "verify")
    assert code == 0
    assert [skipped["file"] for skipped in report["not_checked"]] == [f"compiled/{left.name}"]
    file_of(path, 0).unlink()
    compile_epochs(path, path / "compiled")
    assert report_of(path, capsys, "verify")[1]["not_checked"] == []


def test_a_rate_that_is_asked_for_holds_for_every_file(origin, monkeypatch):
    path, waits = origin / "g.ng", []
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: 0.0), "sleep": waits.append})
    monkeypatch.setattr("neargraph.loader.verify.time", clock)
    report = {"ok": True}
    verify_compiled(report, path, None, lambda *_: None, bytes_per_s=1000)
    assert report["compiled_epochs"] == EPOCHS
    for epoch in range(EPOCHS):
        # At the end of a file, as long as all its bytes take.
        assert file_of(path, epoch).stat().st_size / 1000 in waits
