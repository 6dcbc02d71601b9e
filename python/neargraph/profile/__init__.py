"""Measures the time of each part of training, by model and back end. Needs torch.

`neargraph profile train` prints the results; see ``docs/how-to/profiling.md``.
"""

# First, because it raises the error that says how to install torch.
import neargraph.train  # noqa: F401

from .layers import LayerClock
from .loading import LoadTimes, load_times
from .monitor import Monitor, SystemUse
from .run import ProfileConfig, ProfileEntry, ProfileRun, TooLarge, profile_training

__all__ = [
    "LayerClock",
    "LoadTimes",
    "Monitor",
    "ProfileConfig",
    "ProfileEntry",
    "ProfileRun",
    "SystemUse",
    "TooLarge",
    "load_times",
    "profile_training",
]
