"""The result of an export. No logic lives here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Exported:
    """A written model file, with the result of its comparison with the model.

    Attributes:
        path: The file or directory.
        inputs: Names of the inputs, in order.
        outputs: Names of the outputs, in order.
        num_nodes: Number of nodes of the graph.
        functions: Functions of the domain ``ai.neargraph`` that the graph calls.
        largest_difference: Largest difference between the model and the file over all compared
            sizes, relative to the largest value of the output or to 1.
        checked_in: ``"onnxruntime"``, or None if it is not installed. Then only the traced program
            was compared with the model.
        notes: The parts that were not compared, with the reasons.

    Example:
        >>> done = ng.export(model, (x, edge_index), "sage.ngm")       # doctest: +SKIP
        >>> done.functions                                             # doctest: +SKIP
        ('ScatterMean',)
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    num_nodes: int
    functions: tuple[str, ...]
    largest_difference: float
    checked_in: Literal["onnxruntime"] | None
    notes: tuple[str, ...] = ()
