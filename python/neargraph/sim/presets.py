"""Devices of other publications, as changes to the constants of a mode.

A value that the publication does not give is a proposal of ours and says so in
docs/explanation/ssd-model.md.
"""

from typing import Any

from neargraph.exceptions import UnsupportedArgument

from .config import ACCELERATORS, Config, Mode, config

PRESETS: dict[str, dict[str, Any]] = {
    # HolisticGNN, section 5: one FPGA with different user logic. "octa" is eight cores, "lsap"
    # systolic arrays alone, "hetero" an array with vector units; the values live in the core.
    **{
        name: {f"accelerator.{constant}": value for constant, value in constants.items()}
        for name, constants in ACCELERATORS.items()
    },
    # Flash with three bits a cell, whose pages take turns.
    "tlc": {"flash.sense_types_ns": [40_000.0, 65_000.0, 65_000.0]},
    # GLIST, section V: an OpenSSD with eight channels and pages of 16 KiB.
    "glist": {"flash.channels": 8, "flash.page_bytes": 16384},
}


def preset(name: str, mode: Mode = "detailed", **changes: Any) -> Config:
    """The constants of a mode with those of a published device, and changes by dotted name.

    Args:
        name: One of `PRESETS`: "octa", "lsap" and "hetero" are the accelerators of HolisticGNN,
            to be compared on one platform that computes inside the SSD; "tlc" is slower flash;
            "glist" is GLIST's flash.
        mode: As in `config`.

    Raises:
        UnsupportedArgument: For an unknown preset, mode or name.

    Example:
        >>> preset("hetero")["accelerator"]["lanes"]
        32
    """
    if name not in PRESETS:
        raise UnsupportedArgument(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    return config(mode, **{**PRESETS[name], **changes})
