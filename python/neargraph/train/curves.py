"""Curves of a run as SVG, drawn without another package.

The choice of curves must not live here. The invariant: colours come from the page, so a picture
works in light and dark mode.
"""

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
_POINTS_MAX = 600

Curve = tuple[str, Sequence[float], Sequence[float]]
"""(name, positions on the x axis, values)"""


def svg(curves: Sequence[Curve], x_label: str, title: str) -> str:
    """Returns a picture of curves over a common x axis; empty if no curve has a value."""
    shown = [curve for curve in curves if len(curve[2])]
    if not shown:
        return ""
    xs = [x for _, places, _ in shown for x in places]
    ys = [y for _, _, values in shown for y in values]
    # The x axis has steps or epochs, which are whole numbers.
    x_axis, y_axis = _axis(min(xs), max(xs), least=1), _axis(min(ys), max(ys))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(x_axis, y_axis, x_label),
    ]
    for number, (name, places, values) in enumerate(shown):
        points = " ".join(
            f"{_across(x, x_axis):.1f},{_down(y, y_axis):.1f}"
            for x, y in _thinned(list(zip(places, values, strict=True)))
        )
        parts.append(f'<polyline class="curve c{number}" points="{points}"/>')
        if len(values) == 1:
            across, down = points.split(",")
            parts.append(f'<circle class="dot c{number}" cx="{across}" cy="{down}" r="3"/>')
        if len(shown) > 1:
            at = _LEFT + 8 + 150 * number
            parts.append(f'<text class="name c{number}" x="{at}" y="{_TOP + 12}">')
            parts.append(f"{escape(name)}</text>")
    return "".join([*parts, "</svg>"])


def _axis(low: float, high: float, least: float = 0.0) -> list[float]:
    """Returns round ticks that enclose the smallest and largest value, at least `least` apart.

    >>> _axis(1, 3, least=1)
    [1, 2, 3]
    """
    if low == high:
        half = max((abs(low) or 1) / 2, least)
        low, high = low - half, high + half
    raw = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = max(least, next(size * m for m in (1, 2, 5, 10) if size * m >= raw))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [tick * step for tick in range(first, last + 1)]


def _across(x: float, axis: list[float]) -> float:
    return _LEFT + (x - axis[0]) / (axis[-1] - axis[0]) * (_WIDTH - _LEFT - _RIGHT)


def _down(y: float, axis: list[float]) -> float:
    return _HEIGHT - _BOTTOM - (y - axis[0]) / (axis[-1] - axis[0]) * (_HEIGHT - _TOP - _BOTTOM)


def _grid(x_axis: list[float], y_axis: list[float], x_label: str) -> list[str]:
    parts = []
    for tick in y_axis:
        y = _down(tick, y_axis)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4}">{tick:.4g}</text>')
    for tick in x_axis:
        x, y = _across(tick, x_axis), _HEIGHT - _BOTTOM + 14
        parts.append(f'<text class="tick middle" x="{x}" y="{y}">{tick:.4g}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text class="tick middle" x="{middle}" y="{_HEIGHT - 4}">{x_label}</text>')
    return parts


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns at most `_POINTS_MAX` points, each of which is the mean of a group."""
    size = -(-len(points) // _POINTS_MAX)
    if size <= 1:
        return points
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [(_mean([x for x, _ in g]), _mean([y for _, y in g])) for g in groups]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
