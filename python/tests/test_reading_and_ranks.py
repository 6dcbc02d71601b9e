"""`reading=` and `ranks=`: what they accept, what they mean, and what they reject."""

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import neargraph as ng
from neargraph.loader.compiling import EpochCompiler
from neargraph.loader.direct import compile_direct
from neargraph.loader.ranks import Ranks
from neargraph.loader.reading import NAMES, Reading
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

BATCH = 64
PLAIN = ("auto", "on_demand", "window", "scan", "distribute")


def batches_of(store, reading, layout="paged"):
    """The nodes and features of one epoch."""
    sampler = ng.NumpySampler(store, [3, 2], seed=5, layout=layout)
    made = sampler.batches("train", BATCH, shuffle=True, reading=reading)
    return [(batch.nodes().tolist(), batch.features("x").tobytes()) for batch in made]


@pytest.fixture
def epochs(homo, tmp_path):
    """A directory with one compiled epoch of `batches_of`."""
    sampler = ng.NumpySampler(homo, [3, 2], seed=5)
    inputs = resolve_input_nodes(sampler.snapshot, "train")
    plan = SeedPlan(num_seeds=len(inputs), batch_size=BATCH, shuffle=True, seed=5)
    EpochCompiler(sampler, inputs, plan, 1, directory=tmp_path / "epochs").run(lambda *_: None)
    return tmp_path / "epochs"


def test_a_name_is_a_reading_with_default_settings():
    for name in NAMES:
        assert Reading.of(name) == Reading(name)
    assert Reading() == Reading("auto")
    assert Reading.of(given := Reading("scan", window=8)) is given


@pytest.mark.parametrize(
    ("way", "layout", "compiled", "rows"),
    [
        *((name, "paged", False, name) for name in PLAIN),
        ("compiled", "paged", True, "auto"),
        ("direct_layout", "direct", False, "on_demand"),
        ("g/own.direct", "g/own.direct", False, "on_demand"),
        (Path("g/own.direct"), "g/own.direct", False, "on_demand"),
        (Path("no/such/folder"), "paged", "no/such/folder", "auto"),
        ("/", "paged", "/", "auto"),
    ],
    ids=str,
)
def test_a_way_means_a_layout_or_compiled_epochs_or_a_way_of_reading_rows(
    way, layout, compiled, rows
):
    reading = Reading(way)
    assert (reading.layout, reading.compiled, reading.rows) == (layout, compiled, rows)
    assert reading.must_replay == (compiled is not False)


@pytest.mark.parametrize("name", PLAIN)
def test_batches_are_the_same_by_name_and_with_settings(homo, name):
    expected = batches_of(homo, "on_demand")
    assert batches_of(homo, name) == expected
    assert batches_of(homo, Reading(name, prefetch=1, threads=1, check_rows=True)) == expected


def test_a_path_names_the_compiled_epochs_of_a_directory(homo, epochs, tmp_path):
    expected = batches_of(homo, "on_demand")
    for path in (str(epochs), epochs):
        assert batches_of(homo, path) == expected
    (epoch,) = epochs.glob("*.epoch")
    epoch.unlink()
    with pytest.raises(ng.CompiledMismatch):
        batches_of(homo, epochs)
    with pytest.raises(ng.CompiledMismatch):
        batches_of(homo, tmp_path / "missing")


def test_a_path_names_a_file_of_the_direct_layout(homo, tmp_path):
    pytest.importorskip("torch_geometric")
    compile_direct(homo.snapshot(), "own", directory=tmp_path)
    how = {"batch_size": BATCH, "seed": 5}
    expected = list(ng.NeighborLoader(homo, [3, 2], "train", **how))
    for path in (str(tmp_path / "own.direct"), tmp_path / "own.direct"):
        for batch, plain in zip(
            ng.NeighborLoader(homo, [3, 2], "train", reading=path, **how), expected, strict=True
        ):
            assert batch.n_id.equal(plain.n_id)
            assert batch.x.equal(plain.x)
    with pytest.raises(ng.NeargraphError, match=r"other\.direct"):
        list(ng.NeighborLoader(homo, [3], "train", reading=tmp_path / "other.direct", **how))


@pytest.mark.parametrize("typo", ["sacn", "on-demand", "Scan", "direct", "", "no/such/folder"])
def test_a_typo_lists_the_names(homo, typo):
    for make in (Reading, Reading.of, lambda way: batches_of(homo, way)):
        with pytest.raises(ValueError, match="is not a valid reading: expected 'auto'") as caught:
            make(typo)
        assert f"reading={typo!r}" in str(caught.value)
        assert all(repr(name) in str(caught.value) for name in NAMES)
        assert "\n" not in str(caught.value)


def test_otherwise_reads_rows_where_no_compiled_epochs_match(homo, epochs):
    expected = batches_of(homo, "on_demand")
    (epoch,) = epochs.glob("*.epoch")
    epoch.unlink()
    for otherwise in PLAIN:
        reading = Reading(epochs, otherwise=otherwise)
        assert (reading.must_replay, reading.rows) == (False, otherwise)
        assert batches_of(homo, reading) == expected
    with pytest.raises(ng.CompiledMismatch):
        batches_of(homo, Reading(epochs))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"way": 3}, "reading=3 is not a valid reading"),
        ({"way": None}, "reading=None is not a valid reading"),
        ({"way": "compiled", "otherwise": "compiled"}, "otherwise='compiled' is not valid"),
        ({"way": "compiled", "otherwise": "sacn"}, "expected 'auto', 'on_demand'"),
        ({"window": 0}, "window=0 is not valid: expected a whole number of at least 1"),
        ({"window": True}, "window=.* is not valid: expected"),
        ({"prefetch": 1.5}, "prefetch=.* is not valid: expected"),
        ({"threads": "4"}, "threads=.* is not valid: expected"),
        ({"two_phase": "no"}, "two_phase='no' is not valid"),
        ({"check_rows": "yes"}, "check_rows='yes' is not valid"),
        ({"temporary_writes": "2"}, "temporary_writes='2' is not valid"),
        ({"temporary_writes": "-1x"}, "temporary_writes='-1x' is not valid"),
        ({"temporary_writes": 2}, "temporary_writes=2 is not valid"),
        ({"temporary_writes": None}, "temporary_writes=None is not valid"),
    ],
    ids=str,
)
def test_values_that_are_not_valid_are_rejected(given, words):
    with pytest.raises(ValueError, match=words) as caught:
        Reading(**given)
    assert not isinstance(caught.value, ng.UnsupportedArgument)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"way": "on_demand", "window": 4}, "window=4 has no effect"),
        ({"way": "on_demand", "two_phase": False}, "two_phase=False has no effect"),
        ({"way": "on_demand", "temporary_writes": "1x"}, "temporary_writes='1x' has no effect"),
        ({"way": "window", "two_phase": True}, "two_phase=True has no effect"),
        ({"way": "distribute", "two_phase": False}, "two_phase=False forbids"),
        ({"way": "distribute", "temporary_writes": "2x"}, "temporary_writes='2x' has no effect"),
        ({"two_phase": True, "temporary_writes": "never"}, "temporary_writes='never' forbids"),
        ({"way": "compiled", "window": 4}, "window=4 has no effect.*otherwise='auto'"),
        ({"way": "compiled", "threads": 2}, "threads=2 has no effect"),
        ({"way": "direct_layout", "window": 4}, "window=4 has no effect"),
        ({"way": "direct_layout", "otherwise": "scan"}, "otherwise='scan' has no effect"),
        ({"way": "scan", "otherwise": "auto"}, "otherwise='auto' has no effect"),
        ({"way": "compiled", "otherwise": "on_demand", "window": 4}, "window=4 has no effect"),
    ],
    ids=str,
)
def test_settings_without_an_effect_are_rejected(given, words):
    with pytest.raises(ng.UnsupportedArgument, match=words) as caught:
        Reading(**given)
    assert "\n" not in str(caught.value)
    # Without one of the settings, the others are valid.
    for name in given.keys() - {"way"}:
        rest = {key: value for key, value in given.items() if key != name}
        if len(given.keys() - {"way"}) == 1:
            Reading(**rest)


def test_temporary_writes_are_a_multiple_of_the_tensors():
    limits = {"auto": None, "never": 0.0, "2x": 2.0, "0.5x": 0.5}
    for text, limit in limits.items():
        assert Reading(temporary_writes=text).write_limit() == limit


def test_readings_are_values():
    given = Reading("scan", window=8, two_phase=True, temporary_writes="2x", prefetch=3, threads=2)
    same = Reading("scan", window=8, two_phase=True, temporary_writes="2x", prefetch=3, threads=2)
    assert given == same
    assert hash(given) == hash(same)
    assert given != Reading("scan", window=8)
    assert Reading("scan") != "scan"
    for reading in (given, Reading("compiled", otherwise="window"), Reading(Path("own.direct"))):
        assert pickle.loads(pickle.dumps(reading)) == reading
    with pytest.raises(FrozenInstanceError):
        given.window = 9


def test_ranks_are_given_as_a_pair_or_in_full():
    assert Ranks.of(None) == Ranks() == Ranks(0, 1)
    assert Ranks.of((1, 4)) == Ranks(1, 4, pad=None)
    assert Ranks.of(given := Ranks(1, 4, pad=False)) is given
    assert pickle.loads(pickle.dumps(given)) == given != Ranks(1, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("Auto", "ranks='Auto' is not valid: expected 'auto'"),
        (2, "ranks=2 is not valid"),
        ([0, 2], r"ranks=\[0, 2\] is not valid"),
        ((0, 2, True), "is not valid: expected 'auto'"),
        ((2, 2), "rank=2 is not valid: expected a whole number from 0 to 1"),
        ((-1, 2), "rank=.* is not valid: expected"),
        ((0, 0), "world_size=0 is not valid: expected a whole number of at least 1"),
        ((0, "2"), "world_size=.* is not valid: expected"),
        ((True, 2), "rank=.* is not valid: expected"),
    ],
    ids=str,
)
def test_ranks_that_are_not_valid_are_rejected(given, words):
    with pytest.raises(ValueError, match=words):
        Ranks.of(given)


def test_padding_is_true_or_false_or_left_to_the_loader():
    for pad in (True, False, None):
        assert Ranks(0, 2, pad).pad is pad
    with pytest.raises(ValueError, match="pad='no' is not valid: expected True, False or None"):
        Ranks(0, 2, "no")


@pytest.fixture
def alone(monkeypatch):
    """No variables of torchrun."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_auto_is_one_process_without_torchrun(alone):
    assert Ranks.of("auto") == Ranks(0, 1)


def test_auto_reads_the_variables_of_torchrun(alone, homo):
    pytest.importorskip("torch_geometric")
    alone.setenv("RANK", "2")
    alone.setenv("WORLD_SIZE", "4")
    assert Ranks.of("auto") == Ranks(2, 4)
    how = {"input_nodes": "train", "batch_size": 16, "seed": 7}
    auto = ng.NeighborLoader(homo, [2], ranks="auto", **how)
    given = ng.NeighborLoader(homo, [2], ranks=(2, 4), **how)
    whole = ng.NeighborLoader(homo, [2], **how)
    ids = [batch.input_id.tolist() for batch in auto]
    assert ids == [batch.input_id.tolist() for batch in given]
    assert ids != [batch.input_id.tolist() for batch in whole]


@pytest.mark.parametrize(
    ("rank", "world_size", "words"),
    [
        ("1", None, "RANK and WORLD_SIZE, got '1' and None"),
        (None, "2", "got None and '2'"),
        ("one", "2", "got 'one' and '2'"),
        ("2", "2", "rank=2 is not valid: expected a whole number from 0 to 1"),
        ("0", "0", "world_size=.* is not valid: expected"),
    ],
)
def test_auto_rejects_variables_that_are_not_valid(alone, rank, world_size, words):
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            alone.setenv(name, value)
    with pytest.raises(ValueError, match=words) as caught:
        Ranks.of("auto")
    assert "\n" not in str(caught.value)


_PROCESS = """
import sys
import torch.distributed as dist
from neargraph.loader.ranks import Ranks
rank = int(sys.argv[1])
before = Ranks.of("auto")
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
during = Ranks.of("auto")
dist.barrier()
dist.destroy_process_group()
print(before == Ranks(5, 8), during == Ranks(rank, 2), Ranks.of("auto") == before)
"""


def test_auto_prefers_an_initialised_process_group(alone, tmp_path):
    pytest.importorskip("torch")
    alone.setenv("RANK", "5")
    alone.setenv("WORLD_SIZE", "8")
    command = [sys.executable, "-c", _PROCESS]
    running = [
        subprocess.Popen([*command, str(rank), tmp_path / "group"], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    assert [one.communicate(timeout=300)[0].split() for one in running] == [[b"True"] * 3] * 2


def test_padding_of_the_last_batch_is_chosen_by_pad(homo):
    pytest.importorskip("torch_geometric")
    seeds = np.arange(21)

    def sizes(pad):
        made = [
            ng.NeighborLoader(homo, [2], seeds, batch_size=8, ranks=Ranks(rank, 2, pad))
            for rank in range(2)
        ]
        return [[(b.batch_size, getattr(b, "num_padding", 0)) for b in loader] for loader in made]

    assert sizes(True) == sizes(None) == [[(4, 0), (4, 0), (3, 0)], [(4, 0), (4, 0), (3, 1)]]
    assert sizes(False) == [[(4, 0), (4, 0)]] * 2
