"""Devices of other publications, as changes to the constants of a mode.

Values that a publication does not give are our assumptions; docs/explanation/ssd-model.md marks
them.
"""

from typing import Any

from neargraph.exceptions import UnsupportedArgument

from .config import ACCELERATORS, Config, Mode, config

PRESETS: dict[str, dict[str, Any]] = {
    # HolisticGNN, section 5: one FPGA with different user logic. "octa" has eight cores, "lsap"
    # only systolic arrays, "hetero" an array with vector units. The values live in the core.
    **{
        name: {f"accelerator.{constant}": value for constant, value in constants.items()}
        for name, constants in ACCELERATORS.items()
    },
    # Flash with three bits per cell, with a sense time for each kind of page.
    "tlc": {"flash.sense_types_ns": [40_000.0, 65_000.0, 65_000.0]},
    # GLIST, section V: an OpenSSD with eight channels and pages of 16 KiB.
    "glist": {"flash.channels": 8, "flash.page_bytes": 16384},
}


def preset(name: str, mode: Mode = "detailed", **changes: Any) -> Config:
    """Returns the constants of a mode, with those of a published device and changes by dotted name.

    Args:
        name: One of `PRESETS`. "octa", "lsap" and "hetero" are the accelerators of HolisticGNN, to
            be compared on one platform that computes inside the SSD. "tlc" is flash with three bits
            per cell, "glist" the flash of GLIST.
        mode: As in `config`.

    Raises:
        UnsupportedArgument: The preset, the mode or a name is unknown.

    Example:
        >>> preset("hetero")["accelerator"]["lanes"]
        32
    """
    if name not in PRESETS:
        raise UnsupportedArgument(f"{name!r} is not a preset: expected one of {', '.join(PRESETS)}")
    return config(mode, **{**PRESETS[name], **changes})
