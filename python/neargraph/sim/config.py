"""The constants of simulated devices, and how to change them. The values live in the core."""

import json
import math
import numbers
from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

Mode = Literal["paper", "detailed"]
Config = dict[str, Any]

_NAMES = json.loads(_core.sim_names())
PLATFORMS: list[str] = [platform["name"] for platform in _NAMES["platforms"]]
MORE_PLATFORMS: list[str] = [platform["name"] for platform in _NAMES["more_platforms"]]
DATASETS: dict[str, dict[str, Any]] = {found["name"]: found for found in _NAMES["datasets"]}
# The accelerators of HolisticGNN's prototypes, with all their constants.
ACCELERATORS: dict[str, dict[str, Any]] = {
    found["name"]: found["constants"] for found in _NAMES["accelerators"]
}
SWITCHES: list[str] = _NAMES["switches"]
_CONSTANTS: dict[str, dict[str, Any]] = _NAMES["constants"]
LAYERS = ("sage", "gcn", "gin", "ngcf")
WORD_BITS = (8, 16, 32)
WIDTH_MAX = 1 << 16


def config(mode: Mode = "detailed", **changes: Any) -> Config:
    """Returns the constants of a mode, with changes by dotted name.

    Units are in the names. A rate of None means no limit.

    Raises:
        UnsupportedArgument: A mode or a name is unknown, or a value is out of range. The message
            lists the valid ones.

    Example:
        >>> config("paper", **{"flash.channels": 8})["flash"]["channels"]
        8
    """
    found: Config = json.loads(_core.sim_config(mode))
    for name, value in changes.items():
        change(found, name, value)
    return found


def change(into: Config, name: str, value: Any) -> None:
    """Sets one constant. Its name may be short; see `full_name`."""
    name = full_name(into, name)
    _check_value(name, value)
    *groups, last = name.split(".")
    place = into
    for group in groups:
        place = place[group]
    place[last] = value


def full_name(of: Config, name: str) -> str:
    """Returns the dotted name of a constant. Its last part is enough if it is unique.

    Raises:
        UnsupportedArgument: No constant has this name, or several have.

    >>> full_name({"flash": {"channels": 16}, "beside": True}, "channels")
    'flash.channels'
    """
    known = constants(of)
    found = [one for one in known if name == one.rpartition(".")[2]]
    if name in known:
        return name
    if len(found) == 1:
        return found[0]
    if found:
        raise UnsupportedArgument(f"{name!r} is ambiguous: expected one of {', '.join(found)}")
    raise UnsupportedArgument(
        f"{name!r} is not a constant of a device: expected one of {', '.join(known)}"
    )


def check(device: Config) -> None:
    """Checks the names and the values of a device's constants.

    Raises:
        UnsupportedArgument: A constant is missing or unknown, or its value is not valid.

    >>> check(config("paper"))
    """
    if not isinstance(device, dict):
        raise UnsupportedArgument(
            f"device= is not valid: expected a dictionary from sim.config, got {device!r}"
        )
    found, known = constants(device), constants(config("paper"))
    for name in known.keys() - found.keys():
        raise UnsupportedArgument(
            f"device= lacks the setting {name!r}; create the dictionary with sim.config, then "
            "change its values"
        )
    for name, value in found.items():
        if name not in known:
            raise UnsupportedArgument(
                f"{name!r} is not a constant of a device: expected one of {', '.join(known)}"
            )
        _check_value(name, value)


def _check_value(name: str, value: Any) -> None:
    about = _CONSTANTS.get(name)
    if about is None:
        if not isinstance(value, bool):
            raise UnsupportedArgument(f"{name} is {value!r}; use true or false")
        return
    values = value if name.endswith("_types_ns") and isinstance(value, list | tuple) else [value]
    for one in values:
        if not _may_be(name, one, about):
            raise UnsupportedArgument(f"{name} is {one!r}; use {about['allowed']}")


def _may_be(name: str, value: Any, about: dict[str, Any]) -> bool:
    """Whether a value has the type of a constant. The core checks the ranges of times, rates and
    energies."""
    if value is None:
        return name.endswith("_per_s")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if about["among"] is not None:
        return isinstance(value, int) and value in about["among"]
    if about["whole"] is None:
        return math.isfinite(value)
    least, most = about["whole"]
    return isinstance(value, int) and least <= value <= most


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Returns an argument as int, if it is a whole number in a range.

    >>> whole("batches", 8, 1, 10)
    8

    Raises:
        UnsupportedArgument: It is not.
    """
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:
        raise UnsupportedArgument(
            f"{name}={value!r} is not valid: expected a whole number from {least} to {most}"
        )
    return int(value)


def word_bits_of(value: Any) -> int:
    """Returns the argument `word_bits`, if it is one of `WORD_BITS`.

    >>> word_bits_of(8)
    8

    Raises:
        UnsupportedArgument: It is not.
    """
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or int(value) not in WORD_BITS:
        raise UnsupportedArgument(f"word_bits={value!r} is not valid: expected 8, 16 or 32")
    return int(value)


def model_of(hidden: Any, outputs: Any, backward: Any, layer: Any) -> dict[str, Any]:
    """Returns a model for the compiled core, without the number of columns of its rows.

    Raises:
        UnsupportedArgument: A width or the layer is not valid.
    """
    if layer not in LAYERS:
        raise UnsupportedArgument(
            f"layer={layer!r} is not valid: expected one of {', '.join(LAYERS)}"
        )
    return {
        "hidden": whole("hidden", hidden, 1, WIDTH_MAX),
        "outputs": whole("outputs", outputs, 1, WIDTH_MAX),
        "backward": bool(backward),
        "layer": layer,
    }


def constants(of: Config) -> dict[str, Any]:
    """Returns all constants by their dotted names.

    >>> constants({"flash": {"channels": 16}, "beside": True})
    {'flash.channels': 16, 'beside': True}
    """
    found: dict[str, Any] = {}
    for name, value in of.items():
        parts = constants(value) if isinstance(value, dict) else {}
        found |= {f"{name}.{inner}": one for inner, one in parts.items()} or {name: value}
    return found


def switched(base: Config, switch: str, other: Config) -> Config:
    """Returns `base` with one of `SWITCHES` set as in `other`."""
    text = _core.sim_switched(json.dumps(base), switch, json.dumps(other))
    found: Config = json.loads(text)
    return found
