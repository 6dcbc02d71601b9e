"""`ng.quantise`: writes a model file with fewer bits per weight, and compares it with its source.

The quantisation itself must not live here: the compiled core does it. The invariant: the file gets
its name after the comparison with its source, so the reported numbers are those of the file.
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

# Number of timed runs of each graph. The median is reported.
_TIMED_RUNS = 3


@dataclass(frozen=True)
class Measured:
    """Measurements of a model file on the given data.

    Attributes:
        name: ``"float"`` for the source, else the value of `to`.
        right: Number of evaluated nodes that are classified correctly; None without labels.
        evaluated: Number of evaluated nodes.
        largest_difference: Largest absolute difference from the first output of the source.
        weight_bytes: Bytes of the weights in the file.
        seconds: Median time of a run on the device ``cpu`` with one thread, without planning.
    """

    name: str
    right: int | None
    evaluated: int
    largest_difference: float
    weight_bytes: int
    seconds: float


@dataclass(frozen=True)
class Quantised:
    """A quantised model file.

    Attributes:
        path: The file or directory.
        to: The format of the weights, such as ``"int8"``.
        narrowed: Names of the quantised weights.
        kept: Reasons by name of the weights that stay in single precision.
        formats: For fixed point: (bits, fraction bits) by name of a value.
        runs: Number of times that the search ran the graph.
        losses: Losses on the calibration data (single precision, fixed point); None without a
            search.
        measured: Measurements of the source and the file, if data was given.
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
        """Returns the comparison as a table of text."""
        head = ("", "correct nodes", "largest difference", "bytes of weights", "time of a run")
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
    """Writes a model file with fewer bits per weight, and compares it with its source.

    Args:
        source: Path of a model file from `neargraph.export`.
        target: Path of the new file. With the suffix ``.ngm`` it becomes a zip archive, otherwise a
            directory.
        to: The format of the weights:

            - ``"int8"``: weights of linear layers with 8 bits and a scale per column. Their input
              rows are quantised at run time, with a scale per row.
            - ``"f16"``: weights in half precision.
            - ``"fixed8"``, ``"fixed16"``, or another width from 2 to 32: fixed point. A search on
              `data` chooses the number of fraction bits of each value.
        data: The data to run the model on: a PyG ``Data``, a mapping of arrays by name, or an open
            store, whose whole graph is loaded into memory. It must have the inputs of the model. It
            can have labels ``y``, ``val_mask`` and ``test_mask`` (or ids as ``val`` and ``test``).
            Fixed point requires it. Labels of validation nodes select the formats, so these nodes
            are no longer a test. Without labels, the difference from single precision selects them.
            Measurements count the nodes of the test split, or all nodes with labels.
        rounds: Number of times that the search tries each value.
        progress: Function that the search calls with (runs so far, maximum number of runs).

    Raises:
        InvalidModel: The source is incomplete, or a weight is not finite or too large. The message
            names it.
        UnsupportedModel: No weight can be quantised.
        UnsupportedArgument: `to` is not valid, or `data` lacks an input.
        ExportFailed: The target exists, or its parent directory does not.

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
    """Returns the quantised graph, names of weights, and the results of a search."""
    if to == "int8":
        return *_core.quantise_steps(graph), {}
    if to == "f16":
        return *_core.quantise_half(graph), {}
    bits = re.fullmatch(r"fixed([0-9]{1,2})", to)
    if bits is None:
        raise UnsupportedArgument(
            f"to={to!r} is not valid: expected 'int8', 'f16', or 'fixedN' with a width N, such as "
            "'fixed16'"
        )
    if data is None:
        raise UnsupportedArgument(
            f"to={to!r} needs example inputs to choose the fixed-point formats: give data="
        )
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
    """Measures all graphs on the data, in turns, and compares them with the first one."""
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
