"""Pages of the reference that are written by hand: they have what the code has.

What must not live here: what the site generates by itself, which `mkdocs build --strict` checks.
"""

import re
from pathlib import Path

import pytest

from neargraph import exceptions

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
BASE = exceptions.NeargraphError
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows(page: str) -> list[list[str]]:
    """The cells of each row of the tables of a page, heads left out."""
    lines = (REFERENCE / page).read_text().splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    found = [[cell.strip() for cell in row] for row in cells]
    return [row for row in found if row[0] not in ("class", "limit", "metric")]


METRICS = rows("metrics.md")


def other_parents(of: type) -> list[str]:
    """The direct parents of an exception; what all of them have is not named."""
    return [parent.__name__ for parent in of.__bases__ if parent is not BASE]


def test_each_exception_has_one_row_with_its_parents():
    listed = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows("errors.md")}
    assert len(listed) == len(rows("errors.md"))
    classes = {name: getattr(exceptions, name) for name in exceptions.__all__}
    del classes["NeargraphError"]
    assert listed == {name: other_parents(of) for name, of in classes.items()}


def test_each_exception_has_a_meaning_and_a_remedy():
    for row in rows("errors.md"):
        assert all(cell.endswith(".") for cell in row[2:]), row


def test_the_metrics_are_those_of_the_list_for_programs():
    lines = (ROOT / "deploy/metrics.txt").read_text().splitlines()
    known = [line.split() for line in lines if line and not line.startswith("#")]
    listed = [[name.strip("`"), kind, *labels.split(", ")] for name, kind, labels, _ in METRICS]
    assert [[word for word in row if word] for row in listed] == known


def figure(text: str) -> int:
    """The number of a cell, such as 2^40, 64 MiB or 32,768."""
    number, _, unit = text.replace(",", "").partition(" ")
    base, _, power = number.partition("^")
    return int(base) ** int(power or 1) * UNITS.get(unit, 1)


def constant(source: str, name: str) -> int:
    """The value of a constant in a source of Rust or Python."""
    start = rf"^(?:pub(?:\(crate\))? )?(?:const )?{name}\b[^=]*= "
    (expression,) = re.findall(start + r"([^;\n]+)", source, re.MULTILINE)
    plain = expression.replace("_", "")
    assert re.fullmatch(r"[0-9() +<*-]+", plain), f"{name} is {expression}, not a sum of shifts"
    return int(eval(plain))


@pytest.mark.parametrize("row", rows("limits.md"), ids=lambda row: row[0][:40])
def test_a_limit_has_the_value_of_its_constant(row):
    name, path = re.fullmatch(r"\[`(\w+)`\]\(\.\./\.\./(.+)\)", row[2]).groups()
    assert figure(row[1]) == constant((ROOT / path).read_text(), name)
