"""Drawings of graphs: valid SVG, every node in its place, no box over another."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import neargraph as ng
from neargraph._drawing import NODES_MAX

SVG = "{http://www.w3.org/2000/svg}"


def chain(length, name="x"):
    dfg = ng.Dfg()
    value = first = dfg.create_in(name, "f32", ["nodes", 3])
    for _ in range(length):
        value = dfg.create_op("Relu", value)
    # A long way round.
    dfg.create_out("out", dfg.create_op("Add", [value, first]))
    return dfg


def shapes(path):
    root = ElementTree.parse(path).getroot()
    boxes = [
        tuple(float(box.get(side)) for side in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("rx")
    ]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    return root, boxes, texts


def test_a_drawing_has_each_node_once_and_no_box_over_another(tmp_path):
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 3])
    edges = dfg.create_in("edge_index", "i64", [2, "edges"])
    weight = dfg.create_weight("lin.weight", np.ones((3, 4), np.float32))
    mean = dfg.create_op("SpMM_Mean", [edges, x])
    both = [dfg.create_op("MatMul", [one, weight]) for one in (mean, x)]
    dfg.create_out("Result", dfg.create_op("Add", both))
    dfg.draw(tmp_path / "a.svg")
    root, boxes, texts = shapes(tmp_path / "a.svg")
    # Two inputs, four nodes, one output.
    assert len(boxes) == 7
    for name in ("x", "edge_index", "SpMM_Mean", "Add", "Result", "f32 [nodes, 4]"):
        assert name in texts
    assert texts.count("lin.weight [3, 4]") == 2
    for i, (x0, y0, w0, h0) in enumerate(boxes):
        assert x0 >= 0
        assert x0 + w0 <= float(root.get("width"))
        for x1, y1, w1, h1 in boxes[i + 1 :]:
            assert x0 + w0 <= x1 or x1 + w1 <= x0 or y0 + h0 <= y1 or y1 + h1 <= y0
    dfg.draw(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    dfg.draw(tmp_path / "c.svg", colours="device", devices=["cpu-scalar"])
    assert "cpu-scalar" in shapes(tmp_path / "c.svg")[2]


def test_arrows_never_point_up(tmp_path):
    chain(20).draw(tmp_path / "a.svg")
    for path in re.findall(r' d="M([^"]+)" fill="none"', (tmp_path / "a.svg").read_text()):
        start, end = path.split("V")[0].split()[1], path.split("V")[-1]
        assert float(start) <= float(end)


def test_names_of_strangers_are_text_and_nothing_else(tmp_path):
    name = '<script>alert("&")</script>\x07\n'
    chain(1, name).draw(tmp_path / "a.svg")
    assert '<script>alert("&")</script>??' in shapes(tmp_path / "a.svg")[2]


def test_a_graph_without_types_is_drawn_and_too_large_ones_are_refused(tmp_path):
    ng.Dfg.from_text('1: "Relu"\n in={"x"}\n out={"y"}').draw(tmp_path / "a.svg")
    assert shapes(tmp_path / "a.svg")[2][:3] == ["x", "Relu", "y"]
    with pytest.raises(ng.UnsupportedArgument, match=f"at most {NODES_MAX}; print it as text"):
        chain(NODES_MAX).draw(tmp_path / "b.svg")
    with pytest.raises(ng.UnsupportedArgument, match="expected 'kind' or 'device'"):
        chain(1).draw(tmp_path / "b.svg", colours="red")
    assert not (tmp_path / "b.svg").exists()
