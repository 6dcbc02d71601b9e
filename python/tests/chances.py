"""What tests of draws share: chi-square against exact chances, and the figure of G2.

`make reliability` collects the figures of the tests that are marked `reliability`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

# How likely right draws may be to fail the tests of one figure, all of them together.
LEVEL = 1e-4
# Below this expected count the distribution of chi-square is a bad approximation.
LEAST_EXPECTED = 5


def p_value(found: Mapping[Any, int], chances: Mapping[Any, float]) -> float:
    """How likely counts at least as uneven as `found` are, given the exact chance of each outcome.

    Outcomes that are expected less than 5 times count as one. An outcome without a chance fails.
    """
    stats = pytest.importorskip("scipy.stats")
    assert sum(chances.values()) == pytest.approx(1)
    assert set(found) <= {key for key, chance in chances.items() if chance > 0}
    total = sum(found.values())
    common = [key for key, chance in chances.items() if chance * total >= LEAST_EXPECTED]
    observed = [found.get(key, 0) for key in common]
    expected = [chances[key] * total for key in common]
    if total - sum(expected) >= LEAST_EXPECTED:
        observed.append(total - sum(observed))
        expected.append(total - sum(expected))
    assert len(observed) > 1
    scale = sum(observed) / sum(expected)
    return float(stats.chisquare(observed, np.array(expected) * scale).pvalue)


def alike(outcomes: Sequence[Any]) -> dict[Any, float]:
    """The same chance for each outcome."""
    return dict.fromkeys(outcomes, 1 / len(outcomes))


def report(what: str, seed: int, p_values: Sequence[float]) -> None:
    """Prints the figure of chi-square tests and fails where one of them does."""
    failed = sum(not value >= LEVEL / len(p_values) for value in p_values)
    figure = {"id": "G2", "what": f"chi-square of {what}", "tried": len(p_values)}
    figure |= {"failed": failed, "smallest_p": min(p_values), "seed": seed}
    print(f"figure: {json.dumps(figure)}")
    assert failed == 0
