"""Pickles that attack their reader: refused by name, in bounded memory, without a crash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_planetoid
from hostile_pickles import CASES

import neargraph as ng
from neargraph.importers import import_graph

WORKER = Path(__file__).with_name("hostile_worker.py")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What a child process of bounded memory made of each case."""
    root = tmp_path_factory.mktemp("pickles")
    sound = root / "sound"
    sound.mkdir()
    tiny_planetoid.write(sound)
    for number, (part, content, _) in enumerate(CASES.values()):
        folder = root / "cases" / f"{number:03}"
        shutil.copytree(sound, folder)
        (folder / f"ind.tiny.{part}").write_bytes(content)
    command = [sys.executable, str(WORKER), "each", str(root / "cases")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return done.returncode, done.stderr, found


def test_the_process_survives_them_all(outcomes):
    code, errors, found = outcomes
    assert code == 0, f"died after {list(CASES)[len(found) - 1]!r}: {errors[-2000:]}"
    assert len(found) == len(CASES)


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_by_what_is_wrong_and_leaves_nothing(case, outcomes):
    outcome = outcomes[2][f"{list(CASES).index(case):03}"]
    part, _, words = CASES[case]
    if words:
        assert outcome.startswith("refused: ")
        assert f"ind.tiny.{part}" in outcome
        assert words in outcome
    else:
        assert outcome.startswith(("imported", "refused: "))


def test_a_sound_set_is_imported_whole(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    tiny_planetoid.write(folder)
    import_graph(folder, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert (store.num_nodes, store.num_edges) == (507, 507)
        assert store.labels.tolist() == [0, 1, 2, 3, *[0] * 501, 1, 0]
        assert store.split("train").tolist() == [0, 1, 2]
        assert store.split("test").tolist() == [505, 506]
