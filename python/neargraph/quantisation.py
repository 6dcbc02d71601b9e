"""`ng.quantise`: a model file in fewer bits, beside the one that it was made of.

What must not live here: how a graph is quantised, which the compiled core knows. The invariant: the
file gets its name after it was compared with its source, so the numbers are those of the file.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._calibration import Calibration
from neargraph._modelfiles import WEIGHTS, write_model
from neargraph.dfg import Dfg
from neargraph.exceptions import UnsupportedArgument
from neargraph.units import format_bytes

# Runs of each graph, of which the median is reported.
_TIMED_RUNS = 3


@dataclass(frozen=True)
class Measured:
    """What a model file gives on some data.

    Attributes:
        name: ``"float"`` or what it was quantised to.
        right: How many of the evaluated nodes have their label; None without labels.
        evaluated: How many nodes were evaluated.
        largest_difference: From the first output of the source, in absolute terms.
        weight_bytes: Bytes of the weights in the file.
        seconds: The median of the runs on the device ``cpu`` with one thread, without planning.
    """

    name: str
    right: int | None
    evaluated: int
    largest_difference: float
    weight_bytes: int
    seconds: float


@dataclass(frozen=True)
class Quantised:
    """A model file that was quantised.

    Attributes:
        path: The file or folder.
        to: What it was quantised to.
        narrowed: Names of the weights that are smaller now.
        kept: By name of each weight of single precision that stays so, the reason.
        formats: By name of a value its (bits, fraction bits); of fixed point alone.
        runs: How often the search ran the graph.
        losses: (single precision, fixed point) on the calibration data; None without a search.
        measured: The source and the file, on the data that was given.
    """

    path: Path
    to: str
    narrowed: tuple[str, ...]
    kept: dict[str, str]
    formats: dict[str, tuple[int, int]] = field(default_factory=dict)
    runs: int = 0
    losses: tuple[float, float] | None = None
    measured: tuple[Measured, ...] = ()

    def table(self) -> str:
        """The comparison as a table of text."""
        head = ("", "nodes right", "largest difference", "bytes of weights", "time of a run")
        rows = [head, *map(_row, self.measured)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
        lines = ("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
                 for row in rows)  # fmt: skip
        return "\n".join(line.rstrip() for line in lines)


def _row(of: Measured) -> tuple[str, ...]:
    share = f"{of.right} of {of.evaluated} ({100 * of.right / max(1, of.evaluated):.2f} %)" if (
        of.right is not None
    ) else "no labels"  # fmt: skip
    return (
        of.name,
        share,
        f"{of.largest_difference:.2e}",
        format_bytes(of.weight_bytes),
        f"{1000 * of.seconds:.2f} ms",
    )


def quantise(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str = "int8",
    data: Any = None,
    rounds: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Quantised:
    """Writes a model file in fewer bits, and compares it with the one that it was made of.

    Args:
        source: A model file, as `neargraph.export` writes it.
        target: The file to write: a path that ends in ``.ngm`` becomes a zip archive, another one
            a folder.
        to: ``"int8"``: weights of linear layers in steps of 8 bits with a scale for each column,
            and rows with a scale each when they are there. ``"f16"``: weights in half precision.
            ``"fixed8"``, ``"fixed16"``, or another width from 2 to 32: fixed point, where the
            number of fraction bits of each value is searched on `data`.
        data: What the model is run on: a PyG ``Data``, a mapping of arrays by name, or an open
            store, whose whole graph comes into memory. It has the inputs of the model, and may have
            labels ``y``, ``val_mask`` and ``test_mask`` (or ids as ``val`` and ``test``). Fixed
            point needs it: labels of the validation nodes decide among formats, so they are not a
            test any more. Nodes of the test split are counted, or all that have labels. Without
            labels formats are searched by the difference from single precision.
        rounds: How often the search tries each value.
        progress: Called with (runs so far, most runs) by the search.

    Raises:
        InvalidModel: The source is not whole, or a weight is not finite or too large; names it.
        UnsupportedModel: No weight can be made smaller.
        UnsupportedArgument: `to` is unknown, or `data` lacks an input.
        ExportFailed: Something is at the target already, or its folder does not exist.

    Example:
        >>> done = ng.quantise("sage.ngm", "sage-int8.ngm", data=data)      # doctest: +SKIP
        >>> print(done.table())                                             # doctest: +SKIP
    """
    before = Dfg.open(source)
    found = None if data is None else Calibration.of(before, data)
    graph, narrowed, kept, searched = _narrow(before.core, to, found, rounds, progress)
    said = dict((before.core.file_facts() or {}).get("metadata", []))
    said.pop("neargraph.batch_pre", None)
    said["neargraph.quantised"] = json.dumps(to)
    model, weights = graph.to_onnx(list(said.items()), WEIGHTS)
    after = Dfg._of(_core.Dfg.from_onnx(model, {WEIGHTS: weights}))
    measured = () if found is None else _measured({"float": before, to: after}, found)
    write_model(Path(target), model, weights)
    return Quantised(
        path=Path(target),
        to=to,
        narrowed=tuple(narrowed),
        kept=dict(kept),
        measured=measured,
        **searched,
    )


def _narrow(
    graph: _core.Dfg,
    to: str,
    data: Calibration | None,
    rounds: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[_core.Dfg, list[str], list[tuple[str, str]], dict[str, Any]]:
    """The graph in fewer bits, names of weights, and what a search says."""
    if to == "int8":
        return *_core.quantise_steps(graph), {}
    if to == "f16":
        return *_core.quantise_half(graph), {}
    bits = re.fullmatch(r"fixed([0-9]{1,2})", to)
    if bits is None:
        raise UnsupportedArgument(
            f"to={to!r} is not known: give 'int8', 'f16', 'fixed8', 'fixed16', or another width"
        )
    if data is None:
        raise UnsupportedArgument(f"to={to!r} searches formats on data: give data=")
    formats, loss, float_loss, runs = _core.search_formats(
        graph, data.inputs, int(bits[1]), rounds, data.labelled, progress
    )
    searched = {
        "formats": {name: (width, fraction) for name, width, fraction in formats},
        "runs": runs,
        "losses": (float_loss, loss),
    }
    return *_core.fixed_point_graph(graph, formats), searched


def _measured(graphs: dict[str, Dfg], data: Calibration) -> tuple[Measured, ...]:
    """All graphs on the data, run in turns; the first is what the others are compared with."""
    outputs: list[NDArray[Any]] = []
    seconds: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(_TIMED_RUNS):
        for name, graph in graphs.items():
            steps = graph.explain(data.inputs)
            seconds[name].append(sum(step["seconds"] for step in steps))
    rows = []
    for name, graph in graphs.items():
        outputs.append(graph.run(data.inputs)[graph.outputs[0]])
        right, evaluated = data.right(outputs[-1])
        difference = float(np.abs(outputs[-1] - outputs[0]).max(initial=0.0))
        weight_bytes = sum(weight["bytes"] for weight in graph.info()["weights"])
        time = median(seconds[name])
        rows.append(Measured(name, right, evaluated, difference, weight_bytes, time))
    return tuple(rows)
