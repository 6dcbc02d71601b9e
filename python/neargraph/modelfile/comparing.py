"""Comparison of a traced program and a model file with the model, at several sizes.

The bound is that of the engine: 1e-5 times the larger of 1 and the largest value of the output. The
invariant: nothing is reported as compared that was not run.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neargraph.exceptions import ExportFailed

from .inputs import Count, Flat, Inputs

BOUND = 1e-5

Run = Callable[[Sequence[Any]], Sequence[Any]]


def cases(inputs: Inputs) -> list[tuple[str, list[Any]]]:
    """Returns (name, flat values) of the example, a larger, a smaller and an edgeless one.

    Example:
        >>> [name for name, _ in cases(inputs)]                         # doctest: +SKIP
        ['example', 'larger', 'smaller', 'no edges']
    """
    known = list(inputs.count_names())
    larger = {count: count[1] + count[1] // 2 + 3 + i for i, count in enumerate(known)}
    smaller = {count: max(2, count[1] // 3) + i for i, count in enumerate(known)}
    no_edges: dict[Count, int] = {
        count: 0 if count in inputs.edge_counts else size for count, size in smaller.items()
    }
    return [
        ("example", inputs.values),
        ("larger", inputs.resized(larger, seed=1)),
        ("smaller", inputs.resized(smaller, seed=2)),
        ("no edges", inputs.resized(no_edges, seed=3)),
    ]


class Wanted:
    """The model's output for each case. `notes` has the cases for which the model itself fails."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        flat = Flat(model, inputs).eval()
        self.cases: list[tuple[str, list[Any], tuple[Tensor, ...]]] = []
        self.notes: list[str] = []
        for name, values in cases(inputs):
            try:
                with torch.no_grad():
                    self.cases.append((name, values, flat(*values)))
            except Exception as error:
                if name == "example":
                    raise ExportFailed(f"the model fails on the example: {error}") from error
                self.notes.append(
                    f"input case {name!r} was not compared, because the model itself fails: {error}"
                )

    def largest_difference(self, run: Run, what: str) -> float:
        """Returns the largest difference over all cases, relative to the largest value or to 1.

        Raises:
            ExportFailed: The difference exceeds `BOUND`, or `run` fails.
        """
        return max(self._difference(run, what, *case) for case in self.cases)

    def _difference(
        self, run: Run, what: str, name: str, values: list[Any], wanted: Sequence[Tensor]
    ) -> float:
        sizes = ", ".join(str(list(v.shape)) for v in values if isinstance(v, Tensor))
        try:
            found = [torch.as_tensor(one) for one in run(values)]
        except Exception as error:
            text = str(error).strip().splitlines()[0] if str(error) else ""
            raise ExportFailed(
                f"{what} fails on inputs of shapes {sizes}: {type(error).__name__}: {text}"
            ) from error
        worst = 0.0
        for one, other in zip(found, wanted, strict=True):
            if one.shape != other.shape:
                raise ExportFailed(
                    f"{what} returns shape {list(one.shape)}, but the model returns "
                    f"{list(other.shape)}, on inputs of shapes {sizes}"
                )
            worst = max(worst, relative_difference(one, other))
        if not worst <= BOUND:
            raise ExportFailed(
                f"{what} differs from the model by {worst:.1e} on inputs of shapes {sizes} "
                f"(case {name!r}), more than {BOUND}: please report this with the layers of the "
                "model"
            )
        return worst


def relative_difference(found: Tensor, wanted: Tensor) -> float:
    """Returns the largest difference of two tensors, divided by the largest of `wanted` or by 1.

    Example:
        >>> relative_difference(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 5.0]))
        0.2
    """
    if wanted.numel() == 0:
        return 0.0
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    difference = torch.where(same, 0.0, (found - wanted).abs()).max()
    finite = wanted[wanted.isfinite()]
    largest = finite.abs().max().item() if finite.numel() else 0.0
    return difference.item() / max(1.0, largest)
