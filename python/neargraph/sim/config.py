"""Which devices there are, and how to change one. The values live in the compiled core."""

import json
from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

Mode = Literal["paper", "detailed"]
Config = dict[str, Any]

_NAMES = json.loads(_core.sim_names())
PLATFORMS: list[str] = [platform["name"] for platform in _NAMES["platforms"]]
MORE_PLATFORMS: list[str] = [platform["name"] for platform in _NAMES["more_platforms"]]
DATASETS: dict[str, dict[str, Any]] = {found["name"]: found for found in _NAMES["datasets"]}
SWITCHES: list[str] = _NAMES["switches"]
LAYERS = ("sage", "gcn", "gin", "ngcf")


def config(mode: Mode = "paper", **changes: Any) -> Config:
    """The constants of a mode, with changes by dotted name.

    Units are in the names. Rates may be None, which is no limit.

    Raises:
        UnsupportedArgument: For an unknown mode or name. Values are checked by `simulate`.

    Example:
        >>> config("paper", **{"flash.channels": 8})["flash"]["channels"]
        8
    """
    found: Config = json.loads(_core.sim_config(mode))
    for name, value in changes.items():
        change(found, name, value)
    return found


def change(into: Config, name: str, value: Any) -> None:
    """Sets one constant by its name, as `full_name` takes it."""
    *groups, last = full_name(into, name).split(".")
    place = into
    for group in groups:
        place = place[group]
    place[last] = value


def full_name(of: Config, name: str) -> str:
    """The dotted name of a constant, whose last part is enough where no other ends so.

    Raises:
        UnsupportedArgument: If there is none of that name, or more than one.

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
        raise UnsupportedArgument(f"{name!r} may be {' or '.join(found)}; write it out")
    raise UnsupportedArgument(f"a device has no {name!r}; there are {', '.join(known)}")


def constants(of: Config) -> dict[str, Any]:
    """All constants by their dotted names.

    >>> constants({"flash": {"channels": 16}, "beside": True})
    {'flash.channels': 16, 'beside': True}
    """
    found: dict[str, Any] = {}
    for name, value in of.items():
        parts = constants(value) if isinstance(value, dict) else {}
        found |= {f"{name}.{inner}": one for inner, one in parts.items()} or {name: value}
    return found


def switched(base: Config, switch: str, other: Config) -> Config:
    """`base` with one of `SWITCHES` as in `other`."""
    text = _core.sim_switched(json.dumps(base), switch, json.dumps(other))
    found: Config = json.loads(text)
    return found
