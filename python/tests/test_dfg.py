"""Dataflow graphs from Python: changed model files are refused, runs name what is wrong."""

import hashlib
import json
import os
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import neargraph as ng
from neargraph.exceptions import InvalidModel, UnsupportedArgument

MEAN = """
1: "SpMM_Mean"
  in={"edge_index", "x"}
  out={"1_0"}
2: "GEMM"
  in={"1_0", "Weight"}
  out={"2_0"}
"""
FILES = ("model.onnx", "model.safetensors")


def inputs():
    return {
        "edge_index": np.array([[1, 2, 0], [0, 0, 1]]),
        "x": np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32),
        "Weight": np.array([[1], [10]], dtype=np.float32),
    }


def test_a_graph_in_the_form_of_the_paper_runs_on_arrays():
    dfg = ng.Dfg.from_text(MEAN)
    assert dfg.inputs == {"edge_index": None, "x": None, "Weight": None}
    assert dfg.outputs == ["2_0"]
    assert dfg.run(inputs())["2_0"].tolist() == [[54.0], [21.0], [0.0]]
    turned = inputs() | {"Weight": np.array([[1, 10]], dtype=np.float32).T}
    assert dfg.run(turned)["2_0"].tolist() == [[54.0], [21.0], [0.0]]
    assert ng.Dfg.from_text(dfg.text()).text() == dfg.text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Weight": None}, 'input "Weight" is missing'),
        ({"weight": np.zeros(1)}, "not a contiguous array of f32, i64 or bool"),
        ({"weight": np.zeros(1, np.float32)}, 'no input "weight"'),
        ({"edge_index": np.array([[3], [0]])}, "SpMM_Mean: index 3 at place 0 is out of range"),
        ({"edge_index": np.zeros((1, 2), np.int64)}, r"shape \[2, edges\]"),
        ({"x": np.zeros((3, 2), np.int64)}, "expected f32, found i64"),
        (
            {"x": np.zeros((3, 3), np.float32)},
            "node 2: GEMM: the inner dimensions of the matrices differ: 3 and 2",
        ),
    ],
)
def test_a_run_that_cannot_be_names_the_input_or_node(change, words):
    given = {name: array for name, array in (inputs() | change).items() if array is not None}
    with pytest.raises((InvalidModel, UnsupportedArgument), match=words):
        ng.Dfg.from_text(MEAN).run(given)


def write(folder, manifest=None, **files):
    """A model file of nothing that is valid but its manifest."""
    folder.mkdir()
    contents = {name: files.get(name[6:], name.encode()) for name in FILES}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    said = {"format": "neargraph model", "version": 1, "files": hashes}
    (folder / "manifest.json").write_text(json.dumps(manifest or said))
    return folder


def test_files_that_are_not_those_of_the_manifest_are_refused(tmp_path):
    def refused(path, words):
        with pytest.raises(InvalidModel, match=words):
            ng.Dfg.open(path)

    refused(write(tmp_path / "a"), "not an ONNX file")
    changed = write(tmp_path / "b")
    (changed / "model.safetensors").write_bytes(b"other")
    refused(changed, "the content of model.safetensors does not match the hash in manifest.json")
    newer = {"format": "neargraph model", "version": 2, "files": dict.fromkeys(FILES, "")}
    refused(write(tmp_path / "c", manifest=newer), "version 2: expected")
    refused(write(tmp_path / "d", manifest=[1]), "manifest.json is not a valid manifest")
    linked = write(tmp_path / "e")
    (linked / "model.onnx").unlink()
    (linked / "model.onnx").symlink_to(tmp_path / "a" / "model.onnx")
    refused(linked, "cannot be read")
    piped = write(tmp_path / "f")
    (piped / "model.onnx").unlink()
    os.mkfifo(piped / "model.onnx")
    refused(piped, "is not a regular file")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ng.Dfg.open(tmp_path / "nothing")


def test_archives_that_exports_do_not_write_are_refused(tmp_path):
    folder = write(tmp_path / "a")
    names = [*FILES, "manifest.json"]

    def archive(name, packed, compression=zipfile.ZIP_STORED):
        with zipfile.ZipFile(tmp_path / name, "w", compression) as made:
            for one in packed:
                made.write(folder / one, one)
        return tmp_path / name

    for path, words in [
        (archive("whole.ngm", names), "not an ONNX file"),
        (archive("packed.ngm", names, zipfile.ZIP_DEFLATED), "is compressed"),
        (archive("less.ngm", FILES), "contains model.onnx, model.safetensors: expected"),
    ]:
        with pytest.raises(InvalidModel, match=words):
            ng.Dfg.open(path)
    (tmp_path / "text.ngm").write_text("hello")
    with pytest.raises(InvalidModel, match="not a valid model directory or archive"):
        ng.Dfg.open(tmp_path / "text.ngm")
    cut = (tmp_path / "whole.ngm").read_bytes()[:-30]
    (tmp_path / "cut.ngm").write_bytes(cut)
    with pytest.raises(InvalidModel, match="not a valid model directory or archive"):
        ng.Dfg.open(tmp_path / "cut.ngm")


def sparse(path, size, end=b""):
    """A file of zeros that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size - len(end))
        file.seek(0, os.SEEK_END)
        file.write(end)
    return path


def allocated(path, words):
    """The most memory that refusing a file took, by Python's own count."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidModel, match=words):
            ng.Dfg.open(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "size"),
    [("model.onnx", 2**31), ("model.safetensors", 2**40), ("manifest.json", 2**20)],
)
def test_a_file_that_is_too_large_is_refused_before_it_is_read(name, size, tmp_path):
    folder = write(tmp_path / "large")
    sparse(folder / name, size)
    assert allocated(folder, f"{name} has {size:,} bytes: the maximum") < 2**20


def test_archives_say_no_size_that_is_believed(tmp_path):
    assert allocated(sparse(tmp_path / "large.ngm", 2**41), "bytes: the maximum") < 2**20
    # The last 22 bytes of an archive say how long its directory is, and where it begins.
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3, 3, 2**30, 0, 0)
    directory = sparse(tmp_path / "directory.ngm", 2**30 + 22, end)
    assert allocated(directory, "the central directory of the archive is too large") < 2**20
    folder = write(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "whole.ngm", "w") as made:
        for one in (*FILES, "manifest.json"):
            made.write(folder / one, one)
    data = (tmp_path / "whole.ngm").read_bytes()
    # Sizes of the first entry in the directory, packed and unpacked.
    at = data.index(b"PK\1\2") + 20
    (tmp_path / "lies.ngm").write_bytes(data[:at] + b"\xff\xff\xff\x70" * 2 + data[at + 8 :])
    assert allocated(tmp_path / "lies.ngm", "model.onnx has 1,895,825,407 bytes") < 2**20


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.ngm")
    for path in ("/dev/zero", "/dev/full", tmp_path / "pipe.ngm"):
        assert allocated(path, "is not a regular file") < 2**20
    folder = write(tmp_path / "a")
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").mkdir()
    assert allocated(folder, "model.onnx is not a regular file") < 2**20
    (tmp_path / "endless").symlink_to("endless")
    with pytest.raises((FileNotFoundError, InvalidModel)):
        ng.Dfg.open(tmp_path / "endless")


def test_damaged_archives_are_refused_and_raise_nothing_else(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    draws = random.Random(seed)
    dfg = ng.Dfg()
    dfg.create_out("out", dfg.create_op("ReLU", dfg.create_in("x", "f32", ["nodes", 2])))
    dfg.save(tmp_path / "m.ngm")
    whole = (tmp_path / "m.ngm").read_bytes()
    path, refused = tmp_path / "damaged.ngm", 0
    for _ in range(300):
        data = bytearray(whole[: draws.choice([len(whole), draws.randrange(1, len(whole))])])
        for _ in range(draws.randrange(1, 5)):
            # The directory lies in the last part.
            at = len(data) - 1 - draws.randrange(min(len(data), draws.choice([400, 10**6])))
            data[max(at, 0)] = draws.choice([0, 1, 255, draws.randrange(256)])
        path.write_bytes(data)
        try:
            ng.Dfg.open(path)
        except InvalidModel:
            refused += 1
    assert refused > 150
