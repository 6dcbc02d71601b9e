"""`neargraph update`: files of events, what stops them, and how a run goes on."""

import json
from pathlib import Path

import numpy as np
import pytest
from update_model import CITES, KNOWS, WRITES, make_store

import neargraph as ng
from neargraph.cli import main

EVENTS = [
    {"op": "add_node", "node_type": "paper", "id": 12, "x": [1.0, 2.0, 3.0], "y": 4},
    {"op": "add_node", "node_type": "author"},
    {"op": "add_edge", "edge_type": "cites", "source": 12, "destination": 3, "edge_attr": [5, 6]},
    {"op": "add_edge", "edge_type": "cites", "source": 1, "destination": 3, "edge_attr": [7, 8]},
    {"op": "add_edge", "edge_type": "author__writes__paper", "source": 6, "destination": 3,
     "time": -9},
    {"op": "add_edge", "edge_type": "knows", "source": 6, "destination": 0, "weight": 0.5},
    {"op": "update", "node_type": "paper", "id": 3, "x": [9, 9, 9]},
    {"op": "update", "edge_type": "cites", "edge_id": 0, "edge_attr": [1, 1]},
    {"op": "delete_edge", "edge_type": "cites", "source": 1, "destination": 3, "edge_id": 1},
    {"op": "delete_node", "node_type": "paper", "id": 11},
]  # fmt: skip
COLUMNS = ("op", "node_type", "edge_type", "id", "source", "destination", "edge_id", "time",
           "weight", "y")  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return make_store(tmp_path / "g.ng")


def write_csv(path: Path, events: list[dict]) -> Path:
    names = [*COLUMNS, "x_0", "x_1", "x_2", "edge_attr_0", "edge_attr_1"]
    lines = [",".join(names)]
    for event in events:
        flat = {f"{k}_{i}": v for k in ("x", "edge_attr") for i, v in enumerate(event.get(k, []))}
        lines.append(",".join(str({**event, **flat}.get(name, "")) for name in names))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_parquet(path: Path, events: list[dict]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(events, schema=arrow.schema([
        *((name, arrow.string()) for name in COLUMNS[:3]),
        *((name, arrow.int64()) for name in COLUMNS[3:8]),
        ("weight", arrow.float64()), ("y", arrow.int64()),
        ("x", arrow.list_(arrow.float32())), ("edge_attr", arrow.list_(arrow.float32())),
    ])), path)  # fmt: skip
    return path


def write_npz(path: Path, events: list[dict]) -> Path:
    empty = {"id": -1, "edge_id": -1, "weight": 0.0, "x": [0, 0, 0], "edge_attr": [0, 0]}
    texts = dict.fromkeys(COLUMNS[:3], "")
    names = [*COLUMNS, "x", "edge_attr"]
    columns = {
        name: np.array([event.get(name, {**empty, **texts}.get(name, 0)) for event in events])
        for name in names
    }
    np.savez(path, **columns)
    return path


def succeeds(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code in (0, None)


def run(capsys, *arguments) -> dict:
    capsys.readouterr()
    succeeds(["update", *map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)


def fails(capsys, *arguments) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["update", *map(str, arguments)])
    assert end.value.code == 2
    return capsys.readouterr().err


def check_applied(path: str) -> None:
    with ng.open(path, memory="32MB") as store:
        snap = store.snapshot()
        assert snap.features("paper", [12, 3]).tolist() == [[1, 2, 3], [9, 9, 9]]
        assert snap.features("paper", [12], "y").tolist() == [4]
        assert snap.neighbors(CITES, [3]).indices.tolist() == [12]
        assert snap.edge_features(CITES, [0, 1]).tolist() == [[1, 1], [7, 8]]
        assert snap.neighbors(WRITES, [3]).times.tolist() == [-9]
        assert snap.neighbors(KNOWS, [0]).weights.tolist() == [0.5]
        assert snap.dead_nodes("paper").tolist() == [11]
        assert snap.schema.node_type("author").num_nodes == 7


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("write", [write_csv, write_parquet, write_npz])
def test_events_of_every_format_are_applied_in_order(path, tmp_path, capsys, write, batch):
    suffix = write.__name__.removeprefix("write_")
    events = EVENTS
    if suffix == "npz":
        # Every row of an array has a value, so one file holds rows of one kind of owner.
        events = [{**event, "y": event.get("y", 0)} for event in EVENTS if event["op"] != "update"]
        updates = [event for event in EVENTS if event["op"] == "update"]
        for number, event in enumerate(updates):
            columns = {k: np.array([v]) for k, v in event.items()}
            np.savez(tmp_path / f"update{number}.npz", **columns)
    source = write(tmp_path / f"events.{suffix}", events)
    facts = run(capsys, path, "--from", source, "--commit-every", batch)
    assert (facts["rows"], facts["applied"], facts["skipped"]) == (len(events), len(events), 0)
    assert facts["commits"] == facts["lsn"] == -(-len(events) // batch)
    assert facts["ops"]["add_edge"] == 4
    if suffix == "npz":
        for number in range(2):
            run(capsys, path, "--from", tmp_path / f"update{number}.npz")
    check_applied(path)


def test_a_bad_row_stops_the_run_and_says_how_to_go_on(path, tmp_path, capsys):
    bad = {"op": "delete_edge", "edge_type": "cites", "source": 8, "destination": 9}
    source = write_csv(tmp_path / "events.csv", [*EVENTS[:5], bad, *EVENTS[5:]])
    said = fails(capsys, path, "--from", source, "--commit-every", 2)
    assert "row 6: edge 8 -> 9 of type" in said
    assert "--skip-rows 4" in said
    with ng.open(path, memory="32MB") as store:
        assert store.lsn == 2
    source = write_csv(tmp_path / "events.csv", EVENTS)
    assert (
        run(capsys, path, "--from", source, "--commit-every", 2, "--skip-rows", 4)["applied"] == 6
    )
    check_applied(path)


def test_bad_rows_can_be_left_out(path, tmp_path, capsys):
    bad = [
        {"op": "delete_edge", "edge_type": "cites", "source": 8, "destination": 9},
        {"op": "paint", "id": 3},
        {"op": "delete_node", "node_type": "paper"},
        {"op": "add_edge", "edge_type": "cites", "source": "one", "destination": 9},
        {"op": "add_edge", "edge_type": "knows", "source": 0, "destination": 1},
        {"op": "update", "node_type": "paper", "id": 99, "x": [1, 1, 1]},
        {"op": "add_node", "node_type": "paper", "x": [1, 1]},
        {"op": "delete_node", "node_type": "author", "id": 2, "y": 1},
    ]
    mixed = [row for pair in zip(EVENTS, bad, strict=False) for row in pair] + EVENTS[len(bad) :]
    source = write_csv(tmp_path / "events.csv", mixed)
    facts = run(capsys, path, "--from", source, "--commit-every", 5, "--on-error", "skip")
    assert (facts["applied"], facts["skipped"]) == (len(EVENTS), len(bad))
    text = "\n".join(facts["messages"])
    for part in ("row 2: edge ", "op 'paint' is not valid", "a value in column 'id'", "'one'",
                 "has weights", "ids are below", "could not convert",
                 "does not use column 'y'"):  # fmt: skip
        assert part in text, (part, text)
    check_applied(path)


def test_a_dry_run_checks_the_file_and_changes_nothing(path, tmp_path, capsys):
    source = write_csv(tmp_path / "events.csv", EVENTS)
    facts = run(capsys, path, "--from", source, "--dry-run")
    assert (facts["rows"], facts["lsn"], facts["commits"]) == (10, 0, 0)
    source = write_csv(tmp_path / "events.csv", [{"op": "add_node", "node_type": "venue"}])
    assert "no node type 'venue'" in fails(capsys, path, "--from", source, "--dry-run")


def test_files_that_mean_nothing_are_refused(path, tmp_path, capsys):
    cases = {
        "a.csv": ("op,id,colour\nadd_node,1,red\n", "column 'colour'"),
        "b.csv": ("id\n1\n", "no column 'op'"),
        "c.csv": ("op,x_0,x_2\nadd_node,1,2\n", "column x_1 is missing"),
        "d.csv": ("op,id\nadd_node\n", "line 2 has 1 fields"),
        "e.csv": ("", "no column 'op'"),
        "f.txt": ("op\n", "is not the extension of an event file"),
        "g.csv": ("op,node_type,id\nadd_node,paper,99\n", "gets id 12, not 99"),
    }
    for name, (text, wanted) in cases.items():
        (tmp_path / name).write_text(text)
        assert wanted in fails(capsys, path, "--from", tmp_path / name), name
    assert "missing.csv" in fails(capsys, path, "--from", tmp_path / "missing.csv")
    assert "skip" in fails(capsys, path, "--from", tmp_path / "a.csv", "--on-error", "ask")


def test_the_result_is_shown_and_info_counts_live_nodes(path, tmp_path, capsys):
    source = write_csv(tmp_path / "events.csv", EVENTS)
    succeeds(["update", path, "--from", str(source)])
    assert "add_edge 4" in capsys.readouterr().out
    succeeds(["checkpoint", path, "--json"])
    assert json.loads(capsys.readouterr().out)["lsn"] == 1
    succeeds(["info", path])
    shown = capsys.readouterr().out
    assert "deleted nodes" in shown
    assert "last commit" in shown
