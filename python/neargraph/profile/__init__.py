"""Where the time of training goes, by model and back end. Needs torch.

`neargraph profile train` prints what this measures, see ``docs/how-to/profiling.md``.
"""

# First, since it says what to install where torch is missing.
import neargraph.train  # noqa: F401

from .layers import LayerClock
from .loading import load_times
from .monitor import Monitor
from .run import ProfileConfig, TooLarge, profile_training

__all__ = ["LayerClock", "Monitor", "ProfileConfig", "TooLarge", "load_times", "profile_training"]
