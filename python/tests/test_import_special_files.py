"""Inputs that are not regular files: refused at once, by what they are, wherever one is needed."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import tiny_planetoid

FIFO = "not a regular file but a FIFO"


def fifo(path):
    os.mkfifo(path)
    return path


def planetoid(folder, part):
    tiny_planetoid.write(folder)
    (folder / f"ind.tiny.{part}").unlink()
    fifo(folder / f"ind.tiny.{part}")
    return folder


def molecules(folder, part):
    for name, text in (("A", "1, 2\n"), ("graph_indicator", "1\n1\n"), ("node_labels", "0\n1\n")):
        if name != part:
            (folder / f"M_{name}.txt").write_text(text)
    fifo(folder / f"M_{part}.txt")
    return folder


def pages(folder, part):
    (folder / "P_edges.csv").write_text("id1,id2\n0,1\n")
    for name, text in (("P_features.json", '{"0": [1], "1": [2]}'), ("P_target.csv", "")):
        if name != part:
            (folder / name).write_text(text)
    fifo(folder / part)
    return folder / "P_edges.csv"


def lists(folder):
    (folder / "visits_train.txt").write_text("0 1 2 3\n1 5\n2 7 8 9 10 11\n")
    fifo(folder / "visits_time_train.txt")
    return folder / "visits_train.txt"


def temporal(folder):
    (folder / "edges.txt").write_text("0 1 3\n1 2 4\n")
    fifo(folder / "node2label.txt")
    return folder / "edges.txt"


def arrays(folder):
    np.save(folder / "edge_index.npy", np.array([[0, 1], [1, 0]]))
    fifo(folder / "x.npy")
    return folder


def tables(folder):
    fifo(folder / "edges.parquet")
    return folder


def bound(folder):
    # The path itself may be longer than a socket's may be.
    opened = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{opened}/in.csv")
    os.close(opened)
    return folder / "in.csv"


def linked(folder):
    (folder / "in.csv").symlink_to(fifo(folder / "pipe"))
    return folder / "in.csv"


def loop(folder):
    (folder / "in.csv").symlink_to("other.csv")
    (folder / "other.csv").symlink_to("in.csv")
    return folder / "in.csv"


def nowhere(folder):
    (folder / "in.csv").symlink_to("gone.csv")
    return folder / "in.csv"


def folder_as_member(folder):
    np.save(folder / "edge_index.npy", np.array([[0, 1], [1, 0]]))
    (folder / "x.npy").mkdir()
    return folder


CASES = {
    **{f"a FIFO {name}": (lambda d, n=name: fifo(d / n), FIFO)
       for name in ("in.csv", "in.txt", "in.txt.gz", "in.npy", "in.npz", "in.parquet", "in.arrow")},
    **{f"a FIFO in a Planetoid set, {part}": (lambda d, p=part: planetoid(d, p), FIFO)
       for part in ("x", "graph", "test.index")},
    **{f"a FIFO in a TUDataset, {part}": (lambda d, p=part: molecules(d, p), FIFO)
       for part in ("A", "graph_indicator", "node_labels")},
    **{f"a FIFO in a MUSAE set, {part}": (lambda d, p=part: pages(d, p), FIFO)
       for part in ("P_features.json", "P_target.csv")},
    "a FIFO of times": (lists, FIFO),
    "a FIFO of labels": (temporal, FIFO),
    "a FIFO in a folder of arrays": (arrays, FIFO),
    "a FIFO in a folder of tables": (tables, FIFO),
    "a link to a FIFO": (linked, FIFO),
    "a device": (lambda d: "/dev/zero", "not a regular file but a character device"),
    "a socket": (bound, "not a regular file but a socket"),
    "a loop of links": (loop, "cannot be read"),
    "a link that leads nowhere": (nowhere, "is a symbolic link to a path that does not exist"),
    "a folder where an array is needed": (folder_as_member, "not a regular file but a folder"),
}  # fmt: skip
FORMATS = ("text", "lists", "temporal", "table", "npy", "npz", "musae")


def refused(source, out, *options):
    """The message of an import that must end by itself, without a writer for its FIFO."""
    command = [
        sys.executable,
        "-m",
        "neargraph",
        "import",
        str(source),
        "--out",
        str(out),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert not out.exists()
    return done.stderr


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_a_regular_file_is_refused_by_what_it_is(case, tmp_path):
    make, words = CASES[case]
    folder = tmp_path / "in"
    folder.mkdir()
    assert words in refused(make(folder), tmp_path / "g.ng")


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_by_name_does_not_open_it_either(format, tmp_path):
    source = fifo(tmp_path / "P_edges.csv")
    assert FIFO in refused(source, tmp_path / "g.ng", "--format", format)


def test_a_pipe_of_the_shell_is_refused(tmp_path):
    read, write = os.pipe()
    os.write(write, b"0,1\n")
    os.close(write)
    command = [sys.executable, "-m", "neargraph", "import", f"/dev/fd/{read}"]
    command += ["--out", str(tmp_path / "g.ng"), "--format", "text"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, pass_fds=[read], check=False
    )
    os.close(read)
    assert (done.returncode, FIFO in done.stderr) == (2, True)
