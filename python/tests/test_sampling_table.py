"""What methods are supported with: the document's table is the core's, and refusals follow it."""

from pathlib import Path

import pytest

import neargraph as ng
from neargraph import _core

DOCUMENT = Path(__file__).parents[2] / "docs/explanation/reading.md"


def table() -> str:
    """The table as the document must have it."""
    methods = _core.sampling_methods()
    (columns,) = {tuple(row) for row in methods.values()}
    columns = tuple(column for column in columns if column not in ("needs", "options"))
    head = ["method", "looks at", "options", *columns]
    lines = [head, ["---"] * len(head)]
    for name, row in methods.items():
        options = ", ".join(f"`{option}`" for option in row["options"])
        served = ["yes" if row[column] else "no" for column in columns]
        lines.append([f'`"{name}"`', row["needs"], options, *served])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def test_the_table_of_the_document_is_that_of_the_core():
    right = table()
    assert right in DOCUMENT.read_text(), f"the table in {DOCUMENT.name} must be\n{right}"


@pytest.mark.parametrize("method", _core.sampling_methods())
def test_every_option_and_layout_is_refused_or_taken_as_the_table_says(hetero, method):
    row = _core.sampling_methods()[method]
    fanouts = {
        t.triple: [2 * (row["needs"] != "weights" or t.has_weight)]
        for t in hetero.schema.edge_types
    }
    for name, value in (("replace", True), ("dependent_batches", 4)):

        def made(name=name, value=value):
            return ng.NumpySampler(hetero, fanouts, method=method, **{name: value})

        if name in row["options"]:
            made()
        else:
            with pytest.raises(ng.UnsupportedArgument, match=name):
                made()
    if not row["direct layout"]:
        with pytest.raises(ng.UnsupportedArgument, match=f"{method}.*{row['needs']}"):
            ng.NumpySampler(hetero, fanouts, method=method, layout="direct")


def test_every_method_is_explained_by_the_samplers():
    for name in _core.sampling_methods():
        assert f'``"{name}"``' in (ng.NumpySampler.__doc__ or "")
