"""Pictures of dataflow graphs: layers from the inputs down to the outputs, as SVG.

The layout is Sugiyama's: longest paths give layers, barycentres give orders, least squares give
places. What must not live here: what operations do. The invariant: the same graph gives the same
bytes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal
from xml.sax.saxutils import escape

from neargraph.exceptions import UnsupportedArgument

NODES_MAX = 3000
_SWEEPS = 10
_FONT, _SMALL = 13, 10.5
_LINE, _PAD, _GAP_X, _GAP_Y, _MARGIN = 15, 8, 22, 34, 24
_TEXT_MAX = 38
_KINDS = {
    "input": "#ffffff",
    "output": "#ffffff",
    "edges": "#cfe8cf",
    "products": "#cbdcf5",
    "elements": "#fbe9b7",
    "reductions": "#f6cfb3",
    "layout": "#ececec",
}
_DEVICES = ["#cbdcf5", "#cfe8cf", "#fbe9b7", "#f6cfb3", "#e2d0ee", "#cdeaea"]
_LAYOUT = {
    *("Cast", "Compress", "Concat", "ConstantOfShape", "Expand", "Gather", "GatherElements"),
    *("GatherND", "Identity", "Range", "Reshape", "Shape", "Slice", "Squeeze", "Tile"),
    *("Transpose", "Unsqueeze"),
}
_PRODUCTS = {"GEMM", "Linear", "LinearSum", "MatMul", "SegmentMatmul"}
_OF_EDGES = ("Scatter", "SpMM", "SDDMM", "Aggregate", "Edge", "AddSelf", "RemoveSelf", "SelfLoop")
_OTHERS_OF_EDGES = {"BatchPre", "Degree", "GcnNorm"}

# Attributes that say nothing where they are as in most graphs.
_USUAL = {(name, "0") for name in ("allowzero", "transA", "transB", "relu")}
_USUAL |= {("allowzero", "1"), ("alpha", "1.0"), ("beta", "1.0")}


@dataclass
class _Box:
    """A node of the picture; one without lines is where a long arrow passes a layer."""

    lines: list[str] = field(default_factory=list)
    colour: str = "#ffffff"
    is_round: bool = False
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    layer_height: float = 0.0

    @property
    def width(self) -> float:
        if not self.lines:
            return 4.0
        sizes = [_FONT, *[_SMALL] * (len(self.lines) - 1)]
        widest = max(len(t) * s * 0.58 for t, s in zip(self.lines, sizes, strict=True))
        return max(60.0, widest + 2 * _PAD)

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + _PAD if self.lines else 0.0


def svg(parts: dict[str, Any], colours: Literal["kind", "device"] = "kind") -> str:
    """The picture of a graph as `_core.Dfg.parts` describes it.

    Raises:
        UnsupportedArgument: It has more than `NODES_MAX` nodes.
    """
    if colours not in ("kind", "device"):
        raise UnsupportedArgument(f"colours={colours!r} is not valid: expected 'kind' or 'device'")
    if len(parts["nodes"]) > NODES_MAX:
        raise UnsupportedArgument(
            f"the graph has {len(parts['nodes'])} nodes, and a picture shows at most "
            f"{NODES_MAX}; print it as text instead"
        )
    boxes, arrows, legend = _boxes(parts, colours)
    chains = _layered(boxes, arrows)
    layers = _ordered(boxes, chains)
    _placed(boxes, layers, chains)
    return _written(boxes, chains, layers, legend)


def _boxes(
    parts: dict[str, Any], colours: str
) -> tuple[list[_Box], list[tuple[int, int]], dict[str, str]]:
    """Boxes, arrows between them, and the colours that were used."""
    boxes: list[_Box] = []
    arrows: list[tuple[int, int]] = []
    maker: dict[str, int] = {}
    weights = {weight["name"]: weight for weight in parts["weights"]}
    legend: dict[str, str] = {}
    for name in parts["inputs"]:
        maker[name] = len(boxes)
        boxes.append(_Box([_short(name), *_type_of(parts, name)], is_round=True))
    for node in parts["nodes"]:
        at = len(boxes)
        group = kind_of(node["op"]) if colours == "kind" else node["device"] or "no kernel"
        if group not in legend:
            known = _DEVICES[len(legend) % len(_DEVICES)]
            legend[group] = _KINDS[group] if colours == "kind" else known
        said = node["attributes"].items()
        attributes = [f"{key} = {value}" for key, value in said if (key, value) not in _USUAL]
        taken = [_weight(weights[name]) for name in node["inputs"] if name in weights]
        shown = [", ".join(attributes)] if attributes else []
        lines = [node["op"], *map(_short, shown), *taken, *_type_of(parts, node["outputs"][0])]
        boxes.append(_Box(lines, legend[group]))
        arrows += [(maker[name], at) for name in dict.fromkeys(node["inputs"]) if name in maker]
        maker |= dict.fromkeys(node["outputs"], at)
    for name, value in parts["outputs"]:
        if value in weights:
            maker[value] = len(boxes)
            boxes.append(_Box([_short(value), _weight(weights[value])]))
        arrows.append((maker[value], len(boxes)))
        boxes.append(_Box([_short(name), *_type_of(parts, value)], is_round=True))
    return boxes, arrows, legend


def kind_of(op: str) -> str:
    """What an operation does, as far as colours tell.

    Example:
        >>> kind_of("SpMM_Mean"), kind_of("MatMul"), kind_of("Relu")
        ('edges', 'products', 'elements')
    """
    if op.startswith(_OF_EDGES) or op in _OTHERS_OF_EDGES:
        return "edges"
    if op in _PRODUCTS:
        return "products"
    if op in _LAYOUT:
        return "layout"
    return "reductions" if op.startswith("Reduce") else "elements"


def _type_of(parts: dict[str, Any], value: str) -> list[str]:
    found = parts["types"].get(value)
    return [] if found is None else [_short(f"{found[0]} [{', '.join(found[1])}]")]


def _weight(weight: dict[str, Any]) -> str:
    name = weight["name"]
    if weight["elements"] is not None and len(weight["elements"]) <= 16:
        return _short(f"{name} = {weight['elements']}")
    # The shape is worth more than the end of a long name.
    shape = f" [{', '.join(map(str, weight['shape']))}]"
    return _short(name, _TEXT_MAX - len(shape)) + shape


def _short(text: str, most: int = _TEXT_MAX) -> str:
    """A text on one line, cut in its middle where it is long."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    if len(text) <= most:
        return text
    keep = max(4, most - 1)
    return f"{text[: keep // 2]}…{text[len(text) - (keep - keep // 2) :]}"


def _layered(boxes: list[_Box], arrows: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Gives each box a layer, and each arrow a chain of boxes with one in each layer.

    Arrows from one box share their way as long as they can.
    """
    arrows = list(arrows)
    takers: dict[int, list[int]] = defaultdict(list)
    for start, end in arrows:
        boxes[end].layer = max(boxes[end].layer, boxes[start].layer + 1)
        takers[start].append(end)
    has_maker = {end for _, end in arrows}
    for at in range(len(boxes)):
        # What nothing leads to stands right above the first that takes it.
        if at not in has_maker and takers[at]:
            boxes[at].layer = min(boxes[end].layer for end in takers[at]) - 1
    chains = []
    passed: dict[tuple[int, int], int] = {}
    for start, end in arrows:
        chain = [start]
        for layer in range(boxes[start].layer + 1, boxes[end].layer):
            if (start, layer) not in passed:
                passed[start, layer] = len(boxes)
                boxes.append(_Box(layer=layer))
            chain.append(passed[start, layer])
        chains.append([*chain, end])
    return chains


def _ordered(boxes: list[_Box], chains: list[list[int]]) -> list[list[int]]:
    """The boxes of each layer, in an order with few crossings of arrows."""
    layers: list[list[int]] = [[] for _ in range(1 + max((b.layer for b in boxes), default=0))]
    for at, box in enumerate(boxes):
        layers[box.layer].append(at)
    above, below = _neighbours(chains)
    place = {at: float(i) for layer in layers for i, at in enumerate(layer)}

    def key(at: int, near: dict[int, list[int]]) -> float:
        found = near[at]
        return sum(place[one] for one in found) / len(found) if found else place[at]

    for sweep in range(2 * _SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda at: key(at, near))
            place |= {at: float(i) for i, at in enumerate(layer)}
    return layers


def _neighbours(chains: list[list[int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    pairs = (pair for chain in chains for pair in pairwise(chain))
    for start, end in dict.fromkeys(pairs):
        above[end].append(start)
        below[start].append(end)
    return above, below


def _placed(boxes: list[_Box], layers: list[list[int]], chains: list[list[int]]) -> None:
    """Gives each box its place: x near its neighbours, y by its layer."""
    above, below = _neighbours(chains)
    for layer in layers:
        _spread(boxes, layer, [0.0] * len(layer))
    for sweep in range(2 * _SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for at in layer:
                found = [boxes[one].x for one in near[at]] or [boxes[at].x]
                wanted.append(sum(found) / len(found))
            _spread(boxes, layer, wanted)
    left = min((box.x - box.width / 2 for box in boxes), default=0.0)
    top = float(_MARGIN)
    for layer in layers:
        height = max((boxes[at].height for at in layer), default=0.0)
        for at in layer:
            boxes[at].x += _MARGIN - left
            boxes[at].y = top + height / 2
            boxes[at].layer_height = height
        top += height + _GAP_Y


def _spread(boxes: list[_Box], layer: Sequence[int], wanted: Sequence[float]) -> None:
    """Places as near to the wanted ones as the order and the widths allow (least squares).

    Without the widths this is isotonic regression: neighbours that violate the order are pooled.
    """
    offset, offsets = 0.0, []
    for before, at in zip([None, *layer], layer, strict=False):
        if before is not None:
            offset += (boxes[before].width + boxes[at].width) / 2 + _GAP_X
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for want, shift in zip(wanted, offsets, strict=True):
        pools.append((want - shift, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, n), (other, m) = pools[-2:]
            pools[-2:] = [((one * n + other * m) / (n + m), n + m)]
    found = [value for value, count in pools for _ in range(count)]
    for at, value, shift in zip(layer, found, offsets, strict=True):
        boxes[at].x = value + shift


def _written(
    boxes: list[_Box], chains: list[list[int]], layers: list[list[int]], legend: dict[str, str]
) -> str:
    right = max((box.x + box.width / 2 for box in boxes), default=0.0)
    bottom = max((box.y + box.height / 2 for box in boxes), default=0.0)
    width = max(right + _MARGIN, 130.0 * len(legend) + _MARGIN)
    height = bottom + 2 * _MARGIN + _LINE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Arial, sans-serif" '
        f'text-anchor="middle">\n'
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777777"/></marker></defs>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )
    lines = list(_arrows(boxes, chains))
    shapes = [_shape(box) for box in boxes if box.lines]
    return head + "".join(lines) + "".join(shapes) + _key(legend, height) + "</svg>\n"


def _arrows(boxes: list[_Box], chains: list[list[int]]) -> Iterator[str]:
    """The parts of arrows from layer to layer, each once."""
    above, below = _neighbours(chains)
    leaves, enters = _ports(boxes, below), _ports(boxes, above)
    for start, ends in below.items():
        for end in ends:
            box, to = boxes[start], boxes[end]
            x, to_x = leaves[start, end], enters[end, start]
            # Straight down beside the boxes of each layer, and bent between layers.
            y = box.y + box.layer_height / 2
            to_y = to.y - to.layer_height / 2
            last = to.y - to.height / 2 if to.lines else to.y + to.layer_height / 2
            middle = (y + to_y) / 2
            tip = ' marker-end="url(#tip)"' if to.lines else ""
            yield (
                f'<path d="M{x:.1f} {box.y + box.height / 2 if box.lines else y:.1f}V{y:.1f}'
                f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
                f'V{last:.1f}" fill="none" stroke="#777777"{tip}/>\n'
            )


def _ports(boxes: list[_Box], near: dict[int, list[int]]) -> dict[tuple[int, int], float]:
    """Where arrows leave or enter a box: side by side, in the order of the other ends."""
    place: dict[tuple[int, int], float] = {}
    for at, others in near.items():
        room = min(boxes[at].width * 0.7, 26.0 * (len(others) - 1)) if boxes[at].lines else 0.0
        for i, other in enumerate(sorted(others, key=lambda one: (boxes[one].x, one))):
            share = i / (len(others) - 1) - 0.5 if len(others) > 1 else 0.0
            place[at, other] = boxes[at].x + room * share
    return place


def _shape(box: _Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    corner = box.height / 2 if box.is_round else 4
    out = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{corner:.1f}" fill="{box.colour}" stroke="#555555"/>\n'
    )
    for i, text in enumerate(box.lines):
        size, fill = (_FONT, "#111111") if i == 0 else (_SMALL, "#444444")
        y = top + _PAD / 2 + _LINE * (i + 1) - 3.5
        out += f'<text x="{box.x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}">'
        out += f"{escape(text)}</text>\n"
    return out


def _key(legend: dict[str, str], height: float) -> str:
    out = ""
    for i, (name, colour) in enumerate(legend.items()):
        x, y = _MARGIN + 130 * i, height - _MARGIN
        out += f'<rect x="{x}" y="{y - 10:.1f}" width="12" height="12" fill="{colour}" '
        out += f'stroke="#555555"/>\n<text x="{x + 18}" y="{y:.1f}" font-size="{_SMALL}" '
        out += f'text-anchor="start">{escape(_short(name, 16))}</text>\n'
    return out
