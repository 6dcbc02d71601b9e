"""Devices of other publications, as changes to the constants of a mode.

A value that the publication does not give is a proposal of ours and says so in docs/ssd-model.md.
"""

from typing import Any

from neargraph.exceptions import UnsupportedArgument

from .config import Config, Mode, config

# HolisticGNN, section V: one FPGA at 730 MHz with different user logic.
_FPGA = {"accelerator.hertz": 730e6}

PRESETS: dict[str, dict[str, Any]] = {
    # Eight cores do everything, one multiplication or addition a cycle each.
    "octa": {**_FPGA, "accelerator.rows": 8, "accelerator.columns": 1, "accelerator.lanes": 8},
    # Systolic arrays alone: whatever is no product runs on the core that feeds them.
    "lsap": {**_FPGA, "accelerator.rows": 16, "accelerator.columns": 8, "accelerator.lanes": 1},
    # 64 elements of a systolic array, and four vector units.
    "hetero": {**_FPGA, "accelerator.rows": 8, "accelerator.columns": 8, "accelerator.lanes": 32},
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
