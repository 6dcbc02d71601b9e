"""Dataflow graphs from Python: changed model files are refused, runs name what is wrong."""

import hashlib
import json
import os
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
        ({"edge_index": np.zeros((1, 2), np.int64)}, "edges are"),
        ({"x": np.zeros((3, 2), np.int64)}, "wanted f32, found i64"),
        ({"x": np.zeros((3, 3), np.float32)}, "node 2: GEMM: inner lengths that differ: 3 and 2"),
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
    refused(changed, "model.safetensors is not the file that its manifest names")
    newer = {"format": "neargraph model", "version": 2, "files": dict.fromkeys(FILES, "")}
    refused(write(tmp_path / "c", manifest=newer), "of version 2; this program reads")
    refused(write(tmp_path / "d", manifest=[1]), "manifest.json is not a manifest")
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
        (archive("less.ngm", FILES), "has model.onnx, model.safetensors, not just"),
    ]:
        with pytest.raises(InvalidModel, match=words):
            ng.Dfg.open(path)
    (tmp_path / "text.ngm").write_text("hello")
    with pytest.raises(InvalidModel, match="not a folder or zip archive"):
        ng.Dfg.open(tmp_path / "text.ngm")
    cut = (tmp_path / "whole.ngm").read_bytes()[:-30]
    (tmp_path / "cut.ngm").write_bytes(cut)
    with pytest.raises(InvalidModel, match="not a folder or zip archive"):
        ng.Dfg.open(tmp_path / "cut.ngm")
