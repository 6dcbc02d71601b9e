"""Dataflow graphs: trained models as graphs of operations that run without torch.

What must not live here: what an operation means or does, which the compiled core knows.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._modelfiles import MODEL, read_model


class Dfg:
    """A dataflow graph of a model file or of HolisticGNN's text form.

    It runs on the reference device, which is exact and plain: for tests, and to look at a model.

    Example:
        >>> dfg = ng.Dfg.from_text('''
        ... 1: "SpMM_Mean"
        ...   in={"edge_index", "x"}
        ...   out={"1_0"}
        ... ''')
        >>> edge_index = np.array([[1, 2], [0, 0]])
        >>> dfg.run({"x": np.float32([[1], [2], [4]]), "edge_index": edge_index})["1_0"].tolist()
        [[3.0], [0.0], [0.0]]
    """

    def __init__(self, core: _core.Dfg) -> None:
        self.core = core

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Dfg":
        """Reads a model file that `neargraph.export` wrote.

        Args:
            path: A folder, or a zip archive.

        Raises:
            FileNotFoundError: There is nothing at the path.
            InvalidModel: The file is not whole, or has something that is not supported; names it.
        """
        files = read_model(Path(path))
        return cls(_core.Dfg.from_onnx(files.pop(MODEL), files))

    @classmethod
    def from_text(cls, text: str) -> "Dfg":
        """Reads HolisticGNN's text form (Figure 10c of its paper).

        Raises:
            InvalidModel: Names the line or node.
        """
        return cls(_core.Dfg.from_text(text))

    def text(self) -> str:
        """The graph in HolisticGNN's text form. Weights become inputs."""
        return self.core.text()

    @property
    def inputs(self) -> dict[str, tuple[str, list[str]] | None]:
        """For each input its dtype and shape, where counts have names; None if it may be any."""
        return dict(self.core.inputs())

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return self.core.outputs()

    def check(self) -> None:
        """Checks the types and shapes of all operations.

        Raises:
            InvalidModel: Names the node, or an input that has no type.
        """
        self.core.check()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """What the graph gives.

        Args:
            inputs: By name, arrays of float32, int64 or bool.

        Raises:
            InvalidModel: An input is missing, unknown or of another type or shape, or an operation
                cannot be done; names it.
            UnsupportedArgument: An array of another dtype.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        for name, array in arrays.items():
            if np.ndim(inputs[name]) == 0:
                arrays[name] = array.reshape(())
        found = self.core.run(arrays)
        named = zip(self.outputs, found, strict=True)
        return {name: flat.reshape(dims) for name, (dims, flat) in named}
