"""A memory budget that is too small: the message names one that does, in words of its face."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from graphs import homogeneous

import neargraph as ng
from neargraph.cli import main
from neargraph.cli.app import one_line
from neargraph.importers import import_graph
from neargraph.units import format_bytes, parse_bytes

NODES, WIDTH = 3000, 4000
SIZE = r"at least ([0-9.]+ [kMG]?B)"


def named(message: str) -> int:
    """The budget that a message asks for."""
    assert not re.search(r"\d{6}", message), f"not readable: {message}"
    return parse_bytes(re.search(SIZE, message)[1])


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> str:
    """A store of 2 MB whose batches are wide: few numbers of a row are not 0."""
    folder, rng = tmp_path_factory.mktemp("wide"), np.random.default_rng(3)
    rows = scipy.sparse.random_array((NODES, WIDTH), density=0.02, rng=rng, format="csr")
    edges = scipy.sparse.random_array((NODES, NODES), density=0.01, rng=rng, format="csr")
    np.savez(
        folder / "g.npz",
        adj_indptr=edges.indptr,
        adj_indices=edges.indices,
        adj_shape=np.array(edges.shape),
        attr_indptr=rows.indptr,
        attr_indices=rows.indices,
        attr_shape=np.array(rows.shape),
        labels=np.arange(NODES) % 4,
    )
    import_graph(folder / "g.npz", folder / "g.ng", split_sizes=(60, 20, 20))
    return str(folder / "g.ng")


def run(capsys, *arguments) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return left.value.code or 0, capsys.readouterr().err


def test_training_has_as_many_batches_in_flight_as_fit_and_never_fewer_than_one(wide, capsys):
    pytest.importorskip("torch_geometric")
    # Rows of a batch take 48 MB, so that two of them never fit, and each split has several.
    for model in ("sage", "cluster"):
        arguments = ["train", wide, "--memory", "64MB", "--epochs", "1", "--model", model]
        code, said = run(capsys, *arguments, "--batch-size", "200", "--json")
        assert (code, said) == (0, ""), model


def test_a_command_names_its_option_and_a_budget_that_does(wide, capsys):
    pytest.importorskip("torch_geometric")
    code, said = run(capsys, "train", wide, "--memory", "32MB", "--epochs", "1")
    assert code == 2
    assert "--memory" in said
    assert "memory=" not in said
    assert "drop" not in said
    enough = str(named(said))
    code, said = run(capsys, "train", wide, "--memory", enough, "--epochs", "1")
    assert (code, said.count("\n")) == (0, 1), said
    assert said.startswith("epoch 1 of 1: ")


@pytest.mark.parametrize("command", ["train", "compact", "reorganize", "scrub", "verify"])
def test_a_store_that_cannot_be_opened_within_a_budget_says_which_one_does(wide, capsys, command):
    code, said = run(capsys, command, wide, "--memory", "1MB")
    assert (code, "memory=" in said) == (2, False)
    assert "raise --memory to" in said
    budget = named(said)
    with ng.open(wide, memory=budget):
        pass


def test_the_importer_names_its_budget(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    arguments = ["import", tmp_path / "e.csv", "--out", tmp_path / "g.ng"]
    code, said = run(capsys, *arguments, "--memory", "1MB")
    assert (code, "raise --memory to" in said) == (2, True)
    assert run(capsys, *arguments, "--memory", named(said))[0] == 0
    with pytest.raises(ng.BudgetTooSmall, match="raise memory= to at least"):
        import_graph(tmp_path / "e.csv", tmp_path / "h.ng", memory=1000)


def test_in_python_the_message_has_the_argument_and_the_error_its_parts(tmp_path):
    path = homogeneous().write(tmp_path / "g.ng")
    with pytest.raises(ng.BudgetTooSmall, match="raise memory= to at least") as refused:
        ng.open(path, memory=1000)
    error = refused.value
    assert named(str(error)) >= error.minimum_bytes
    with ng.open(path, memory=error.minimum_bytes):
        pass
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.minimum_bytes) == (str(error), error.minimum_bytes)


def test_batches_that_are_kept_are_named_in_python_alone(wide):
    with ng.open(wide, memory="70MB") as store:
        sampler = ng.NumpySampler(store, [15, 10])
        kept = sampler.sample(range(300))
        with pytest.raises(ng.BudgetTooSmall, match="drop the batches that you still keep") as full:
            sampler.sample(range(300, 600))
        minimum = full.value.minimum_bytes
        assert minimum == pytest.approx(kept.nbytes * 2, rel=0.3)
        assert "drop" not in one_line(full.value, frozenset({"--memory"}))


def test_reorganizing_and_compacting_use_half_and_name_the_whole(wide):
    asked = [8_000_000]
    for _ in range(2):  # opening takes some, orders take more: each says what it takes
        refused = pytest.raises(ng.BudgetTooSmall)
        with ng.open(wide, memory=asked[-1]) as store, refused as error:
            store.reorganize(dry_run=True)
        asked.append(error.value.minimum_bytes)
    assert asked == sorted(set(asked))
    with ng.open(wide, memory=asked[-1]) as store:
        store.reorganize(dry_run=True)


NO_MEMORY = """
import resource, sys
import neargraph as ng
with ng.open(sys.argv[1], memory="8GB", backend="pread") as store:
    sampler = ng.NumpySampler(store, [-1, -1])
    sampler.sample(range(3))
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (24 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        sampler.sample(range(1500))
    except ng.BudgetTooSmall as error:
        print(error)
"""


def test_a_system_without_memory_is_a_budget_that_is_too_large(wide):
    ran = subprocess.run([sys.executable, "-c", NO_MEMORY, wide], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"the system cannot allocate [0-9.]+ MB of memory", ran.stdout), ran
    assert "smaller budget" in ran.stdout
    assert "raise" not in ran.stdout


@pytest.mark.parametrize("count", [0, 999, 1000, 64_000_001, 50_415_012, 2**62])
def test_a_bound_from_below_is_never_written_too_low(count):
    text = format_bytes(count, up=True)
    assert count == 0 or parse_bytes(text) >= count
    assert len(re.findall(r"\d", text)) <= 3 or text.endswith("TB")
