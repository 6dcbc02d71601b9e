"""Sampling methods: their options, and what each is supported with.

Everything comes from the one table of the core, `_core.sampling_methods`. The invariant: an option
that a method does not have is refused.
"""

from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

# What an option is where nobody says anything of it.
_DEFAULTS: dict[str, Any] = {"replace": False, "dependent_batches": 1}

MethodName = Literal["uniform", "labor", "weighted"]
"""`method=` of loaders and samplers."""

WEIGHT_ATTR = "edge_weight"
"""What PyG calls the weight that neighbour lists carry."""


def core_method(method: str, **options: Any) -> _core.Method:
    """The method of that name, with options such as `replace`.

    Raises:
        UnsupportedArgument: There is no such method, or it has no such option.
        ValueError: A value that the option does not take.
    """
    table = _core.sampling_methods()
    if method not in table:
        *names, last = map(repr, table)
        raise UnsupportedArgument(f"method is {method!r}; use {', '.join(names)} or {last}")
    dependent = options["dependent_batches"]
    if not 1 <= dependent < 2**32:
        raise ValueError(f"dependent_batches is a count from 1 on, got {dependent}")
    for name, value in options.items():
        if name not in table[method]["options"] and value != _DEFAULTS[name]:
            having = " or ".join(repr(key) for key, row in table.items() if name in row["options"])
            raise UnsupportedArgument(
                f"{name}={value!r} is for method={having}, and method is {method!r}; leave it out"
            )
    taken = {name: options[name] for name in table[method]["options"]}
    made: _core.Method = getattr(_core.Method, method)(**taken)
    return made


def check_served(method: str, by: str, instead: str) -> None:
    """Refuses a method that `by`, a column of the table, does not serve.

    Raises:
        UnsupportedArgument: It does not.
    """
    table = _core.sampling_methods()
    # A name that is not there is refused where the method is made.
    if method in table and not table[method][by]:
        raise UnsupportedArgument(
            f"method={method!r} looks at the {table[method]['needs']} of whole lists, which the "
            f"{by} cannot serve; {instead}"
        )


def method_by_attr(method: str, weight_attr: str | None) -> str:
    """The method that PyG's `weight_attr` asks for beside `method`.

    Raises:
        UnsupportedArgument: Nothing can be sampled by it, or `method` samples by something else.
    """
    if weight_attr is None:
        return method
    if weight_attr != WEIGHT_ATTR:
        raise UnsupportedArgument(
            f"weight_attr={weight_attr!r} is not {WEIGHT_ATTR!r}, the weight that neighbour lists "
            "carry, and others cannot be sampled by; import the edges with it as their "
            f"{WEIGHT_ATTR}, and give weight_attr={WEIGHT_ATTR!r}"
        )
    if method not in ("uniform", "weighted"):
        raise UnsupportedArgument(
            f"weight_attr={weight_attr!r} asks for method='weighted', and method is {method!r}; "
            "leave one of them out"
        )
    return "weighted"
