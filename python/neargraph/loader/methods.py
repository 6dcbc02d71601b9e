"""Sampling methods, their options, and the features that support them.

All facts come from one table of the core, `_core.sampling_methods`. The invariant: an option that a
method does not have is rejected.
"""

from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

# The values of options that are not given.
_DEFAULTS: dict[str, Any] = {"replace": False, "dependent_batches": 1}

MethodName = Literal["uniform", "labor", "weighted"]
"""The values of `method=`."""

WEIGHT_ATTR = "edge_weight"
"""PyG's name of the weights in neighbour lists."""


def core_method(method: str, **options: Any) -> _core.Method:
    """Returns a method by name, with options such as `replace`.

    Raises:
        UnsupportedArgument: The method does not exist, or does not have the option.
        ValueError: The value of an option is not valid.
    """
    table = _core.sampling_methods()
    if method not in table:
        *names, last = map(repr, table)
        known = f"{', '.join(names)} or {last}"
        raise UnsupportedArgument(f"method={method!r} is not a valid method: expected {known}")
    dependent = options["dependent_batches"]
    if not 1 <= dependent < 2**32:
        raise ValueError(
            f"dependent_batches={dependent} is not valid: expected a count of at least 1"
        )
    for name, value in options.items():
        if name not in table[method]["options"] and value != _DEFAULTS[name]:
            having = " or ".join(repr(key) for key, row in table.items() if name in row["options"])
            raise UnsupportedArgument(
                f"{name}={value!r} has no effect with method={method!r}; leave it out, or use "
                f"method={having}"
            )
    taken = {name: options[name] for name in table[method]["options"]}
    made: _core.Method = getattr(_core.Method, method)(**taken)
    return made


def check_served(method: str, by: str, instead: str) -> None:
    """Checks that `by`, a column of the table, supports a method.

    Raises:
        UnsupportedArgument: It does not.
    """
    table = _core.sampling_methods()
    # `core_method` rejects names that are not valid.
    if method in table and not table[method][by]:
        raise UnsupportedArgument(
            f"the {by} does not support method={method!r}, which needs the "
            f"{table[method]['needs']} of whole neighbour lists; {instead}"
        )


def method_by_attr(method: str, weight_attr: str | None) -> str:
    """Returns the method for PyG's `weight_attr` and `method`.

    Raises:
        UnsupportedArgument: The attribute is not the stored weight, or `method` contradicts it.
    """
    if weight_attr is None:
        return method
    if weight_attr != WEIGHT_ATTR:
        raise UnsupportedArgument(
            f"weight_attr={weight_attr!r} is not supported: neighbour lists store only "
            f"{WEIGHT_ATTR!r}; import the edges with the values of {weight_attr!r} as "
            f"{WEIGHT_ATTR!r}, and give weight_attr={WEIGHT_ATTR!r}"
        )
    if method not in ("uniform", "weighted"):
        raise UnsupportedArgument(
            f"weight_attr={weight_attr!r} means method='weighted', which contradicts "
            f"method={method!r}; leave one of them out"
        )
    return "weighted"
