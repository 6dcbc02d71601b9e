"""What an export tells its caller. No logic lives here."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Exported:
    """A model file that was written, and how it was compared with the model.

    Attributes:
        path: The file or folder.
        inputs: Names of the inputs, in their order.
        outputs: Names of the outputs, in their order.
        num_nodes: Nodes of the graph.
        functions: Functions of the domain ``ai.neargraph`` that the graph calls.
        largest_difference: Between the model and the file, over all sizes that were compared,
            relative to the largest value of the output or to 1.
        checked_in: ``"onnxruntime"``, or None where it is not installed: then only the traced
            program was compared with the model.
        notes: What was not compared, and why.

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
    checked_in: str | None
    notes: tuple[str, ...] = ()
