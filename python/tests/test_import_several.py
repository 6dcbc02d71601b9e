"""Several inputs, patterns and standard input: one edge list, edges numbered in the order given."""

import gzip
import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from import_command import FULL_DISK, edges_of, import_command, refused

import neargraph as ng
from neargraph.cli.import_options import sources_of
from neargraph.importers import TextHints, import_graph, plan_source

RNG = np.random.default_rng(5)
EDGES = [tuple(map(int, pair)) for pair in RNG.integers(0, 40, (90, 2))]


def lines(edges, joint=" "):
    return "".join(f"{source}{joint}{destination}\n" for source, destination in edges)


def ends(path):
    return [row[:2] for row in edges_of(path)]


@pytest.fixture
def parts(tmp_path):
    """Three files of the same edges: plain, packed, and with another delimiter."""
    (tmp_path / "a.txt").write_text("# the first\n" + lines(EDGES[:30]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(lines(EDGES[30:60]).encode()))
    (tmp_path / "c.csv").write_text(lines(EDGES[60:], ","))
    return [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.csv")]


def test_edges_are_numbered_in_the_order_of_the_files(parts, tmp_path):
    import_graph(parts, tmp_path / "g.ng", edge_ids=True)
    assert ends(tmp_path / "g.ng") == EDGES
    backwards = [parts[2], parts[0], parts[1]]
    import_graph(backwards, tmp_path / "h.ng", edge_ids=True)
    assert ends(tmp_path / "h.ng") == EDGES[60:] + EDGES[:60]


def test_a_list_of_files_gives_the_store_of_one_file(parts, tmp_path):
    (tmp_path / "whole.txt").write_text(lines(EDGES))
    whole = import_graph(tmp_path / "whole.txt", tmp_path / "w.ng")
    assert import_graph(parts, tmp_path / "g.ng")["fingerprint"] == whole["fingerprint"]


def test_a_pattern_stands_for_its_files_by_name(tmp_path):
    for number in (2, 10, 1):
        (tmp_path / f"part-{number}.csv").write_text(f"{number},0\n")
    (tmp_path / "part-3.md").write_text("no edges")
    import_graph(str(tmp_path / "part-*.csv"), tmp_path / "g.ng", edge_ids=True)
    assert ends(tmp_path / "g.ng") == [(1, 0), (10, 0), (2, 0)]


def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path):
    (tmp_path / "e[1].csv").write_text("0,1\n")
    (tmp_path / "e1.csv").write_text("5,6\n")
    import_graph(tmp_path / "e[1].csv", tmp_path / "g.ng", edge_ids=True)
    assert ends(tmp_path / "g.ng") == [(0, 1)]


def test_a_header_that_is_repeated_is_not_an_edge(tmp_path):
    (tmp_path / "a.csv").write_text("dst,src\n1,0\n")
    (tmp_path / "b.csv").write_text("dst,src\n2,1\n")
    (tmp_path / "c.csv").write_text("3,2\n")
    import_graph(str(tmp_path / "*.csv"), tmp_path / "g.ng", edge_ids=True)
    assert ends(tmp_path / "g.ng") == [(0, 1), (1, 2), (2, 3)]


def test_names_are_shared_by_all_files(tmp_path):
    (tmp_path / "a.csv").write_text("zoe,adam\n")
    (tmp_path / "b.csv").write_text("adam,zoe\n")
    import_graph(
        str(tmp_path / "*.csv"), tmp_path / "g.ng", hints=TextHints(strings=True), edge_ids=True
    )
    assert ends(tmp_path / "g.ng") == [("zoe", "adam"), ("adam", "zoe")]


def test_an_empty_file_among_several_is_noted(parts, tmp_path):
    (tmp_path / "empty.csv").write_text("# nothing\n")
    report = import_graph([*parts, tmp_path / "empty.csv"], tmp_path / "g.ng")
    (note,) = [note for note in report["notes"] if note["code"] == "files-empty"]
    assert "empty.csv" in note["message"]
    assert report["rows"] == len(EDGES)
    with pytest.raises(ng.ImportFailed, match=r"empty\.csv"):
        import_graph([*parts, tmp_path / "empty.csv"], tmp_path / "h.ng", strict=True)
    assert not (tmp_path / "h.ng").exists()


def other_header(folder):
    (folder / "a.csv").write_text("src,dst\n0,1\n")
    (folder / "b.csv").write_text("from,to\n0,1\n")
    return ["a.csv", "b.csv"], r"b\.csv: has 2 columns \(from, to\), but .*a\.csv has 2.*src, dst"


def more_columns(folder):
    (folder / "a.csv").write_text("0,1\n")
    (folder / "b.csv").write_text("0,1,5\n")
    return ["a.csv", "b.csv"], r"b\.csv: has 3 columns, but .*a\.csv has 2 columns"


def late_header(folder):
    (folder / "a.csv").write_text("0,1\n")
    (folder / "b.csv").write_text("src,dst\n0,1\n")
    return ["a.csv", "b.csv"], r"b\.csv: has 2 columns \(src, dst\)"


def missing(folder):
    (folder / "a.csv").write_text("0,1\n")
    return ["a.csv", "b.csv", "c.csv"], r"b\.csv: no such file or folder"


def twice(folder):
    (folder / "a.csv").write_text("0,1\n")
    return ["a.csv", "a.csv"], r"a\.csv: is given twice; give each input once"


def linked(folder):
    (folder / "a.csv").write_text("0,1\n")
    (folder / "l.csv").symlink_to("a.csv")
    return ["a.csv", "l.csv"], r"l\.csv: is given twice \(also as .*a\.csv\)"


def all_empty(folder):
    (folder / "a.csv").write_text("")
    (folder / "b.csv").write_text("# no edge\n")
    return ["a.csv", "b.csv"], r"a\.csv and 1 more: holds no edges"


def pipe(folder):
    (folder / "a.csv").write_text("0,1\n")
    os.mkfifo(folder / "b.csv")
    return ["a.csv", "b.csv"], r"b\.csv: is not a regular file but a FIFO"


def no_match(folder):
    return ["part-*.csv"], r"part-\*\.csv: no file matches this pattern"


def other_format(folder):
    (folder / "a.csv").write_text("0,1\n")
    np.savez(folder / "b.npz", edges=np.zeros((2, 2), np.int64))
    return ["a.csv", "b.npz"], r"a\.csv has the format text, but .*b\.npz has the format npz"


def single_format(folder):
    for name in ("a.npz", "b.npz"):
        np.savez(folder / name, edges=np.zeros((2, 2), np.int64))
    return ["a.npz", "b.npz"], r"a\.npz and 1 more: the format npz takes only one input"


def bad_line(folder):
    (folder / "a.csv").write_text("0,1\n")
    (folder / "b.csv").write_text("0,1\n2,x\n")
    return ["a.csv", "b.csv"], r"b\.csv, line 2: \"x\" is not a number"


BAD = {
    f.__name__.replace("_", " "): f
    for f in (
        other_header,
        more_columns,
        late_header,
        missing,
        twice,
        linked,
        all_empty,
        pipe,
        no_match,
        other_format,
        single_format,
        bad_line,
    )
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_among_several_are_named_and_nothing_is_written(case, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    names, message = BAD[case](folder)
    with pytest.raises(ng.ImportFailed, match=message):
        import_graph([folder / name for name in names], out / "g.ng")
    assert list(out.iterdir()) == []


def test_no_input_at_all_is_refused(tmp_path):
    with pytest.raises(ng.ImportFailed, match="no input is given"):
        import_graph([], tmp_path / "g.ng")


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_like_a_file(packed, tmp_path):
    text = lines(EDGES).encode()
    given = gzip.compress(text) if packed else text
    import_command("-", "--out", tmp_path / "g.ng", "--edge-ids", given=given)
    assert ends(tmp_path / "g.ng") == EDGES
    assert [path.name for path in tmp_path.iterdir()] == ["g.ng"]


def test_standard_input_stands_at_its_place_among_files(parts, tmp_path):
    given = lines(EDGES[30:60]).encode()
    import_command(parts[0], "-", parts[2], "-o", tmp_path / "g.ng", "--edge-ids", given=given)
    assert ends(tmp_path / "g.ng") == EDGES


def test_a_stream_of_python_is_read_once(tmp_path):
    stream = io.BytesIO(lines(EDGES).encode())
    import_graph(stream, tmp_path / "g.ng", edge_ids=True)
    assert ends(tmp_path / "g.ng") == EDGES
    with pytest.raises(
        ng.ImportFailed, match="stream of str, not of bytes; open the stream in binary"
    ):
        import_graph(io.StringIO("0 1\n"), tmp_path / "h.ng")


def test_the_copy_of_a_stream_counts_in_the_estimate_and_is_gone_in_the_end(tmp_path):
    text = lines(EDGES).encode()
    plan = plan_source(io.BytesIO(text), folder=tmp_path)
    assert plan.spooled_bytes == len(text)
    assert list(tmp_path.iterdir()) == []
    found = import_command("-", "-o", tmp_path / "g.ng", "--dry-run", given=text)[0]
    assert "of which copies of input" in found
    assert list(tmp_path.iterdir()) == []


def test_the_copy_of_standard_input_is_reported(monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes(3 << 20))))
    (source,) = sources_of(["-"], None, lambda *of_phase: told.append(of_phase))
    assert source.read(1 << 20) == bytes(1 << 20)
    assert source.read(2 << 20) == bytes(2 << 20)
    name = "bytes copied from standard input"
    assert told == [(name, 1 << 20, None), (name, 3 << 20, None)]


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (b"", [], "standard input: is empty"),
        (b"\0\1\2", [], "standard input: is binary data of unknown format; name its format"),
        (b"\0\1\2", ["--format", "text"], "standard input: is binary, not text"),
        (b"0 1\n", ["--format", "npz"], "npz cannot be read from a stream"),
        (b"0 1\n", ["--format", "tex"], "'tex' is not a valid format; use one of text"),
        (b"0 1\nx y\n", [], 'standard input, line 2: "x" is not a number'),
        (gzip.compress(b"0 1\n", mtime=0)[:-9], [], "standard input: is damaged or truncated"),
        (b"0 1\n", ["-"], "- (standard input) is given twice"),
    ],
)
def test_bad_standard_input_is_named_and_nothing_is_written(given, arguments, message, tmp_path):
    assert message in refused("-", *arguments, "--out", tmp_path / "g.ng", given=given)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_needs_a_folder_to_be_copied_to(tmp_path):
    out = tmp_path / "none" / "g.ng"
    said = refused("-", "--out", out, "--dry-run", given=b"0 1\n")
    assert "none: standard input cannot be copied to this folder, which does not exist" in said


def unshared(script):
    """The run of a script in a mount namespace of its own; skips where that is not allowed."""
    ready = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    if ready.returncode:
        pytest.skip("this machine allows no mount namespace")
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("encoding", [[], ["--encoding", "utf-16-le"]])
def test_a_full_disk_is_named_and_leaves_nothing_behind(encoding, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    text = lines(EDGES * 40_000)
    given = tmp_path / "in.txt"
    given.write_bytes(text.encode("utf-16-le") if encoding else text.encode())
    program = f"{sys.executable} -m neargraph import - --out {disk}/g.ng {' '.join(encoding)}"
    command = f"sh -c '{program} < {given}; code=$?; ls -A {disk}; exit $code'"
    done = unshared(FULL_DISK.format(size="4m", folder=disk, command=command))
    assert done.returncode == 2, done
    assert "cannot write the temporary copy of standard input in" in done.stderr
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_killed_import_of_a_stream_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "neargraph", "import", "-", "--out", str(tmp_path / "g.ng")]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    child.stdin.write(lines(EDGES).encode() * 1000)
    child.stdin.flush()
    # The copy has no name from the beginning on, so there is nothing to wait for but its bytes.
    folder = f"/proc/{child.pid}/fd"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
        if any(str(tmp_path) in link and "deleted" in link for link in links):
            break
        time.sleep(0.01)
    else:
        pytest.fail("there is no temporary copy")
    assert list(tmp_path.iterdir()) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    assert list(tmp_path.iterdir()) == []
