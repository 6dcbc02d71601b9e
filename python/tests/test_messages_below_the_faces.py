"""Messages below the faces name no option of the command line: remedies have the words of each."""

import ast
import re
from pathlib import Path

import pytest

import neargraph
from neargraph.remedies import _PYTHON_WORDS, in_python, on_command_line, remedy

PACKAGE = Path(neargraph.__file__).parent
# The faces, and the one place that knows the words of both.
FACES = ("cli/", "demo/", "remedies.py")
# Literals that are not messages: custom properties of style sheets, and arguments of git. Exports
# to other formats are part of the command line alone, and name the options of a later import.
NO_MESSAGES = ("sim/page.py", "train/report.py", "sim/provenance.py")
NO_MESSAGES += tuple(f"datasets/{name}.py" for name in ("leftovers", "npz", "parquet", "pyg_file"))
COMMAND = re.compile(r"(`+)neargraph [^`]*\1|(?<=`)neargraph [^`]*$")
OPTION = re.compile(r"(?<![\w-])--[a-z]")


def literals(path):
    """(line, text) of each string of a module; the pieces of an f-string are one text."""
    tree = ast.parse(path.read_text())
    pieces = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces.update(map(id, node.values))
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield node.lineno, "".join(parts)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in pieces
        ):
            yield node.lineno, node.value


def named_options(path):
    return [
        f"{path.name}:{line}: {text.strip()[:80]}"
        for line, text in literals(path)
        if OPTION.search(COMMAND.sub("", text))
    ]


def test_no_message_below_the_faces_names_an_option():
    modules = sorted(PACKAGE.rglob("*.py"))
    below = [
        path
        for path in modules
        if not path.relative_to(PACKAGE).as_posix().startswith((*FACES, *NO_MESSAGES))
    ]
    assert len(below) > 150
    assert [found for path in below for found in named_options(path)] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('fail("give --strings")', 1),
        ('fail(f"raise --memory to {size}")', 1),
        ('fail("import again with `neargraph import --edge-ids`")', 0),
        ('fail(f"go on: `neargraph train --resume {path}`")', 0),
        ('"""Reads what ``neargraph export --format npz`` wrote."""', 0),
        ('fail("`neargraph import` takes --strings")', 1),
    ],
)
def test_a_message_that_names_an_option_is_found(source, count, tmp_path):
    (tmp_path / "m.py").write_text(source)
    assert len(named_options(tmp_path / "m.py")) == count


FIELDS = {
    "option": "num_nodes",
    "what": "x to floats",
    "encoding": "latin-1",
    "least": 7,
    "choices": "user, item",
}


@pytest.mark.parametrize("name", _PYTHON_WORDS)
def test_every_remedy_of_python_code_has_words_of_each_face(name):
    given = remedy(name, **FIELDS)
    python, command = in_python(given), on_command_line(given)
    assert OPTION.search(python) is None
    assert re.search(r"\w=(?!\.)(?!NAME)\w", re.sub(r"--columns \S+", "", command)) is None
    for text in (python, command):
        assert text
        assert not re.search(r"\{\w+\}", text)
