"""Parquet and Arrow tables: edges, typed folders, features, string ids, timestamps."""

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store

import neargraph as ng
from neargraph.importers import import_graph

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(4)
SOURCES, DESTINATIONS = RNG.integers(0, 300, (2, 4000))
TIMES = RNG.integers(0, 10**9, 4000)
WEIGHTS = RNG.random(4000).astype(np.float32)


def write(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=777)
        return
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table, max_chunksize=777)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_an_edge_table_brings_time_weight_and_other_columns(ending, tmp_path):
    table = pa.table(
        {
            "source": SOURCES,
            "target": DESTINATIONS.astype(np.int32),
            "time": TIMES,
            "weight": WEIGHTS,
            "kind": (SOURCES % 7).astype(np.int16),
            "vector": pa.FixedSizeListArray.from_arrays(np.arange(8000, dtype=np.float32), 2),
            "note": ["text"] * 4000,
        }
    )
    write(tmp_path / f"e.{ending}", table)
    import_graph(tmp_path / f"e.{ending}", tmp_path / "g.ng")
    edges = RawEdges(SOURCES, DESTINATIONS, np.arange(4000), TIMES, WEIGHTS)
    edges.tensors = {
        "kind": (SOURCES % 7).astype(np.int16),
        "vector": np.arange(8000, dtype=np.float32).reshape(-1, 2),
    }
    check_store(tmp_path / "g.ng", Raw({"node": 300}, {}, {PLAIN: edges}))


def test_a_typed_folder_brings_node_tables(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    rows = [list(map(float, RNG.random(5))) for _ in range(300)]
    x = np.array(rows, dtype=np.float32)
    write(
        folder / "nodes_user.parquet",
        pa.table(
            {
                "id": np.arange(300),
                "x": pa.array(rows, pa.list_(pa.float32())),
                "label": (np.arange(300) % 4).astype(np.int8),
            }
        ),
    )
    write(
        folder / "nodes_item.parquet",
        pa.table({"x_1": np.ones(300, np.float32), "x_0": np.arange(300, dtype=np.float32)}),
    )
    write(
        folder / "edges_user__buys__item.parquet",
        pa.table({"src": SOURCES, "dst": DESTINATIONS, "edge_id": np.arange(4000)[::-1]}),
    )
    import_graph(folder, tmp_path / "g.ng")
    tensors = {
        "user": {"x": x, "y": np.arange(300) % 4},
        "item": {"x": np.stack([np.arange(300), np.ones(300)], 1).astype(np.float32)},
    }
    edges = RawEdges(SOURCES, DESTINATIONS, edge_ids=np.arange(4000)[::-1])
    raw = Raw({"user": 300, "item": 300}, tensors, {("user", "buys", "item"): edges})
    check_store(tmp_path / "g.ng", raw)


def test_string_columns_become_string_ids(tmp_path):
    names = np.array([f"n{k}" for k in range(300)])
    table = pa.table({"src": names[SOURCES], "dst": names[DESTINATIONS]})
    write(tmp_path / "e.parquet", table)
    import_graph(tmp_path / "e.parquet", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        node = store.lookup(["n17"])
        got = store.names(store.snapshot().neighbors(None, node).indices)
        assert sorted(got) == sorted(names[SOURCES[np.equal(DESTINATIONS, 17)]])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [0, -1], "dst": [0, 1]}, "row 1 has the negative node id -1"),
        ({"src": [0, None], "dst": [0, 1]}, "row 1 is null"),
        ({"src": [0.5, 1.0], "dst": [0, 1]}, "node ids have dtype float64"),
        ({"src": [0, 1], "other": [0, 1]}, "no column with a name like 'dst'"),
        ({"src": [0, 1], "dst": [0, 1], "edge_id": [0, 2]}, "row 1 has edge id 2"),
        (
            {"src": [0, 1], "dst": [0, 1], "v": [[1.0], [1.0, 2.0]]},
            "its list does not have 1 values",
        ),
    ],
)
def test_bad_tables_are_named_by_row(columns, message, tmp_path):
    write(tmp_path / "e.parquet", pa.table(columns))
    with pytest.raises(ng.ImportFailed, match=message) as failed:
        import_graph(tmp_path / "e.parquet", tmp_path / "g.ng")
    assert "e.parquet" in str(failed.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.parquet"]


def test_a_truncated_table_is_an_error(tmp_path):
    write(tmp_path / "e.parquet", pa.table({"src": SOURCES, "dst": DESTINATIONS}))
    whole = (tmp_path / "e.parquet").read_bytes()
    (tmp_path / "e.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ng.ImportFailed, match="damaged"):
        import_graph(tmp_path / "e.parquet", tmp_path / "g.ng")
