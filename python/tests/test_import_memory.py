"""`--memory` bounds the peak of the whole process, or the import refuses and says what it needs."""

import gzip
import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from neargraph import ImportFailed
from neargraph.importers import import_graph
from neargraph.units import parse_bytes

# The peak is read in the child: the one that its parent gets includes the parent's own memory.
CHILD = """
import sys
from neargraph.cli import main
try:
    main(sys.argv[1:])
    code = 0
except SystemExit as left:
    code = left.code or 0
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print("peak", int(line.split()[1]) * 1024, file=sys.stderr)
sys.exit(code)
"""
RNG = np.random.default_rng(8)
NODES, EDGES, WIDTH = 50_000, 1_500_000, 512
INDEX = RNG.integers(0, NODES, (2, EDGES))


def imported(source, out, memory):
    """(exit code, peak in bytes, what the child said) of an import.

    ``source`` is a path, or a list of arguments of which an open file is standard input.
    """
    given = source if isinstance(source, list) else [source]
    piped = next((one for one in given if hasattr(one, "read")), None)
    arguments = ["-" if one is piped else str(one) for one in given]
    command = [sys.executable, "-c", CHILD, "import", *arguments, "--out", str(out)]
    command += ["--memory", f"{memory}MB"]
    done = subprocess.run(command, stdin=piped, capture_output=True, text=True, check=False)
    *said, peak = done.stderr.splitlines()
    return done.returncode, int(peak.split()[1]), "\n".join(said)


def least(said):
    """The budget that a refusal names, in megabytes."""
    named = re.search(r"raise --memory to at least ([0-9.]+ [kMG]?B)", said)
    assert named is not None, said
    return -(-parse_bytes(named[1]) // 10**6)


def edge_list(folder):
    np.save(folder / "in.npy", INDEX.T)
    return folder / "in.npy"


def arrays(folder, order):
    np.save(folder / "edge_index.npy", INDEX)
    x = RNG.random((NODES, WIDTH), dtype=np.float32)
    np.save(folder / "x.npy", np.asarray(x, order=order))
    np.save(folder / "y.npy", np.arange(NODES))
    return folder


def rows(folder):
    np.save(folder / "indptr.npy", np.linspace(0, EDGES, 20_000_001).astype(np.int64))
    np.save(folder / "indices.npy", INDEX[0].astype(np.int32))
    return folder


def matrices(folder):
    indptr = np.linspace(0, EDGES, NODES + 1).astype(np.int64)
    np.savez(
        folder / "in.npz",
        adj_indptr=indptr,
        adj_indices=INDEX[0],
        attr_indptr=indptr,
        attr_indices=INDEX[1] % 5000,
        attr_shape=np.array([NODES, 5000]),
    )
    return folder / "in.npz"


def text(folder):
    with gzip.open(folder / "in.txt.gz", "wt", compresslevel=1) as stream:
        stream.writelines(f"{a} {b}\n" for a, b in INDEX.T.tolist())
    return folder / "in.txt.gz"


def temporal(folder):
    lines = (f"{a} {b} {a}\n" for a, b in INDEX.T[: EDGES // 3].tolist())
    (folder / "in.txt").write_text("".join(lines))
    (folder / "node2label.txt").write_text("0 1\n")
    return folder / "in.txt"


def parquet(folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"src": INDEX[0], "dst": INDEX[1], "w": RNG.random(EDGES)})
    pq.write_table(table, folder / "in.parquet", row_group_size=EDGES)
    return folder / "in.parquet"


def arrow(folder):
    pa = pytest.importorskip("pyarrow")
    width = [RNG.random(EDGES) for _ in range(6)]
    names = {"src": INDEX[0], "dst": INDEX[1]} | {f"a{k}": c for k, c in enumerate(width)}
    table = pa.table(names)
    with pa.ipc.new_file(folder / "in.arrow", table.schema) as stream:
        stream.write_table(table, max_chunksize=EDGES)
    return folder / "in.arrow"


def keyed(folder):
    """Nodes whose ids are keys, with labels of text and a mask, as CSV."""
    pytest.importorskip("pyarrow")
    few = INDEX[:, :300_000] * 7
    (folder / "edges.csv").write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in few.T))
    lines = (f"{7 * k},class {k % 40},{str(k % 3 == 0).lower()}\n" for k in range(NODES))
    (folder / "nodes.csv").write_text("id,y,train_mask\n" + "".join(lines))
    return folder


def several(folder):
    files = [folder / f"{number}.txt.gz" for number in range(4)]
    for file, part in zip(files, np.split(INDEX, 4, axis=1), strict=True):
        with gzip.open(file, "wt", compresslevel=1) as stream:
            stream.writelines(f"{a} {b}\n" for a, b in part.T.tolist())
    return files


def piped_names(folder):
    few = INDEX[:, :400_000].T.tolist()
    text = "".join(f"naïve {a},naïve {b}\n" for a, b in few)
    (folder / "in.csv").write_bytes(text.encode("utf-16"))
    return [(folder / "in.csv").open("rb"), "--strings", "--encoding", "utf-16"]


def parts(folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, part in enumerate(np.split(INDEX, 4, axis=1)):
        table = pa.table({"src": part[0], "dst": part[1], "w": RNG.random(EDGES // 4)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=EDGES)
    return folder


def shop(folder):
    """Two node types whose keys are text, one with features in CSV."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    few = INDEX[:, :300_000]
    text = "user,item\n" + "".join(f"u{a},i{b}\n" for a, b in few.T)
    (folder / "buys.csv").write_text(text)
    rows = (f"u{k},{k % 90},{k / 3:.4f}\n" for k in range(NODES))
    (folder / "users.csv").write_text("id,age,income\n" + "".join(rows))
    items = {"id": [f"i{k}" for k in range(NODES)], "x_0": RNG.random(NODES)}
    pq.write_table(pa.table(items), folder / "items.parquet")
    tables = ["--nodes", f"user={folder}/users.csv", "--nodes", f"item={folder}/items.parquet"]
    tables += ["--features", "user=age,income"]
    return [*tables, "--edges", f"user,buys,item={folder}/buys.csv"]


def text_labels(folder):
    np.save(folder / "edge_index.npy", INDEX[:, :10])
    np.save(folder / "y.npy", np.array(["no", "yes"])[np.arange(4_000_000) % 2])
    return folder


FITTING = {
    "an edge list": edge_list,
    "arrays": lambda folder: arrays(folder, "C"),
    "arrays in Fortran order": lambda folder: arrays(folder, "F"),
    "rows of few edges": rows,
    "matrices": matrices,
    "packed text": text,
    "edges with times": temporal,
    "one row group": parquet,
    "one record batch": arrow,
    "CSV with keys": keyed,
    "labels of text": text_labels,
    "several packed texts": several,
    "names in UTF-16 from a pipe": piped_names,
    "part files": parts,
    "tables of two types": shop,
}
BUDGETS = {
    "one row group": 175,
    "one record batch": 150,
    "CSV with keys": 190,
    "part files": 175,
    "tables of two types": 220,
}


@pytest.mark.parametrize("name", FITTING)
def test_the_peak_of_the_process_stays_below_the_budget(name, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    memory = BUDGETS.get(name, 120)
    code, peak, said = imported(FITTING[name](folder), tmp_path / "g.ng", memory)
    assert (code, said) == (0, "")
    assert peak <= memory * 10**6


def wide_rows(folder, width=8_000_000):
    np.savez(folder / "in.npz", edges=np.zeros((3, 2), np.int64))
    header = {"descr": "<f4", "fortran_order": False, "shape": (1, width)}
    with (
        zipfile.ZipFile(folder / "in.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("node_features.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)
        for done in range(0, 4 * width, 1 << 20):
            stream.write(bytes(min(1 << 20, 4 * width - done)))
    return folder / "in.npz"


def one_long_row(folder):
    np.savez_compressed(
        folder / "in.npz",
        adj_indptr=np.array([0, 1, 1]),
        adj_indices=np.array([1]),
        attr_indptr=np.array([0, 30_000_000, 30_000_000]),
        attr_indices=np.zeros(30_000_000, np.int8),
        attr_shape=np.array([2, 5]),
    )
    return folder / "in.npz"


def masks(folder):
    np.save(folder / "edge_index.npy", INDEX[:, :10])
    np.save(folder / "y.npy", np.zeros(10_000_000, np.int8))
    for name in ("train", "val", "test"):
        np.save(folder / f"{name}_mask.npy", np.zeros(10_000_000, bool))
    return folder


def attributes(folder):
    (folder / "T_A.txt").write_text("1, 2\n")
    (folder / "T_graph_indicator.txt").write_text("1\n" * 100_000)
    (folder / "T_node_attributes.txt").write_text((",".join(["0.5"] * 30) + "\n") * 100_000)
    return folder


def words(folder):
    (folder / "M_edges.csv").write_text("id1,id2\n0,1\n")
    content = json.dumps({str(k): list(range(k % 90, k % 90 + 9)) for k in range(60_000)})
    with gzip.open(folder / "M_features.json.gz", "wt") as stream:
        stream.write(content)
    return folder / "M_edges.csv"


def table_masks(folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"src": [0], "dst": [1]}), folder / "edges.parquet")
    pq.write_table(pa.table({"train_mask": np.zeros(20_000_000, bool)}), folder / "nodes.parquet")
    return folder


def columns(folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = {"src": INDEX[0], "dst": INDEX[1]} | {f"w{k}": RNG.random(EDGES) for k in range(12)}
    pq.write_table(pa.table(names), folder / "in.parquet", row_group_size=EDGES)
    return folder / "in.parquet"


def targets(folder):
    (folder / "M_edges.csv").write_text("id1,id2\n0,1\n")
    (folder / "M.json").write_text('{"0": [1]}')
    lines = (f"{k},class {k % 9}\n" for k in range(400_000))
    (folder / "M_target.csv").write_text("id,target\n" + "".join(lines))
    return folder / "M_edges.csv"


NEEDY = {
    "rows of 32 MB": wide_rows,
    "a sparse row of 30 million values": one_long_row,
    "masks of 10 million nodes": masks,
    "a table of numbers": attributes,
    "lists in JSON": words,
    "a mask of 20 million rows": table_masks,
    "twelve numbers for each edge": columns,
    "a target for each node": targets,
}


@pytest.mark.parametrize("name", NEEDY)
def test_what_does_not_fit_is_refused_and_the_named_budget_is_enough(name, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    source = NEEDY[name](folder)
    memory, refused = 100, 0
    # Where the length of the input cannot be known, the first answer may be short.
    while refused < 3:
        code, peak, said = imported(source, tmp_path / "g.ng", memory)
        assert peak <= memory * 10**6
        if code == 0:
            break
        assert code == 2
        assert not (tmp_path / "g.ng").exists()
        refused += 1
        assert least(said) > memory
        memory = least(said)
    assert code == 0
    assert 1 <= refused < 3


def test_a_row_of_a_gigabyte_is_refused_before_it_is_read(tmp_path):
    source = wide_rows(tmp_path, 1 << 28)
    assert source.stat().st_size < 6_000_000
    code, peak, said = imported(source, tmp_path / "g.ng", 150)
    assert (code, "raise --memory to" in said) == (2, True)
    assert peak <= 150 * 10**6


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_labels_and_keys_that_are_long_are_refused_by_the_column(ending, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    np.savetxt(folder / "edges.csv", [[0, 1]], "%d", ",", header="src,dst", comments="")
    table = pa.table({"y": ["a" * 2000] * 10})
    if ending == "parquet":
        pq.write_table(table, folder / "nodes.parquet")
    elif ending == "arrow":
        with pa.ipc.new_file(folder / "nodes.arrow", table.schema) as stream:
            stream.write_table(table)
    else:
        (folder / "nodes.csv").write_text("y\n" + ("a" * 2000 + "\n") * 10)
    with pytest.raises(ImportFailed, match=r"\[y\]: a string has 2000 bytes"):
        import_graph(folder, tmp_path / "g.ng")


def test_a_zip_directory_without_end_is_refused_before_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        for number in range(30_000):
            file.writestr(f"{number}.npy", b"")
    code, peak, said = imported(tmp_path / "in.npz", tmp_path / "g.ng", 100)
    assert (code, "its zip directory has" in said) == (2, True)
    assert peak <= 100 * 10**6


def test_a_budget_that_the_interpreter_takes_up_names_the_least_that_works(tmp_path):
    (tmp_path / "in.csv").write_text("0,1\n1,2\n")
    code, _, said = imported(tmp_path / "in.csv", tmp_path / "g.ng", 40)
    assert code == 2
    memory = least(said)
    code, peak, said = imported(tmp_path / "in.csv", tmp_path / "g.ng", memory)
    assert (code, said) == (0, "")
    assert peak <= memory * 10**6
