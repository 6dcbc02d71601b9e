"""Every kind of error of the core has a class, and every remedy has words for each face."""

import pickle
import re
from pathlib import Path

import pytest
import typer

import neargraph as ng
from neargraph import exceptions
from neargraph.cli.app import app, one_line
from neargraph.remedies import _WORDS, in_python, on_command_line

CRATES = Path(__file__).resolve().parents[2] / "crates"


def variants(enum: str) -> list[str]:
    text = (CRATES / "ng-types" / "src" / "remedy.rs").read_text()
    body = re.search(rf"enum {enum} {{\n(.*?)^}}", text, re.M | re.S)[1]
    return re.findall(r"^    ([A-Z]\w+)", body, re.M)


KINDS, REMEDIES = variants("ErrorKind"), variants("Remedy")
COMMANDS = typer.main.get_command(app).commands
OPTIONS = {
    name: frozenset(o for p in command.params for o in (*p.opts, *p.secondary_opts))
    for name, command in COMMANDS.items()
}


def test_no_enum_can_grow_unseen():
    open_enums = [p for p in CRATES.glob("*/src/**/*.rs") if "#[non_exhaustive]" in p.read_text()]
    assert open_enums == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Stopped", "Defect"}))
def test_every_kind_that_callers_tell_apart_has_a_class(kind):
    assert issubclass(getattr(exceptions, kind), ng.NeargraphError)


def test_the_words_are_those_of_the_remedies_of_the_core():
    assert len(KINDS) > 20
    assert list(_WORDS) == REMEDIES


@pytest.mark.parametrize("name", REMEDIES)
def test_every_remedy_has_words_of_each_face(name):
    remedy = {"name": name} | ({"at_least_bytes": 64_000_001} if name == "RaiseMemory" else {})
    python, command = in_python(remedy), on_command_line(remedy)
    assert python
    assert "--" not in re.sub("`[^`]*`", "", python)
    # No command reads rows in another way.
    assert bool(command) == (name != "ReadOnDemand")
    assert not re.search(r"\w=(?!\.)", command)
    known = frozenset().union(*OPTIONS.values())
    assert known.issuperset(re.findall(r"--[a-z-]+", command))
    for text in (python, command):
        assert "{" not in text.replace("columns={", "")
        assert ("64.1 MB" in text) == (name == "RaiseMemory")


def test_a_command_is_told_of_its_own_options_alone():
    error = ng.BudgetTooSmall("too small", 64_000_000)
    error.remedies = [*error.remedies, {"name": "SmallerBatches"}]
    assert str(error) == (
        "too small; raise memory= to at least 64 MB, or use smaller batches or fanouts"
    )
    said = one_line(error, OPTIONS["train"])
    assert said == "too small; raise --memory to at least 64 MB, or give a smaller --batch-size"
    assert one_line(error, OPTIONS["verify"]) == "too small; raise --memory to at least 64 MB"
    assert "a quarter of this machine" in one_line(error, OPTIONS["info"])


def test_an_error_of_the_core_carries_its_remedies_and_keeps_them_in_a_copy(tmp_path):
    with pytest.raises(ng.StoreNotFound, match="`neargraph import`") as missing:
        ng.open(tmp_path / "none.ng")
    error = missing.value
    assert error.remedies == [{"name": "Import"}]
    assert "import" not in error.args[0]
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.remedies) == (str(error), error.remedies)
