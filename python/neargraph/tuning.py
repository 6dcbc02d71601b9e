"""Process settings for training: torch leaves more processor time to reading.

This module imports neither torch nor the compiled core, because its settings must be made before
torch is loaded.
"""

import ctypes
import logging
import os
import sys
from typing import TypedDict

_log = logging.getLogger("neargraph.tuning")

# glibc's numbers of these options, and the largest block that `malloc` may take from its heap.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20
_KEPT_BYTES = 1 << 30


class ProcessTuning(TypedDict):
    """The settings of `tune_process` that are in force."""

    passive_wait: bool
    kept_memory: bool


def tune_process() -> ProcessTuning:
    """Prepares this process for training on the CPU. Call it before ``import torch``.

    It makes two settings. On two cores, they saved a fifth of the processor time of training from
    disk:

    - Threads of torch sleep while they wait for each other, instead of spinning on a core that
      reading and sampling need (``OMP_WAIT_POLICY=PASSIVE``). A value that is already set stays.
    - `malloc` keeps up to 1 GiB of the memory that torch frees (glibc only). Otherwise the memory
      returns to the kernel, which clears it again for the next batch.

    `neargraph train` calls this function itself. Both settings apply to the whole process. Child
    processes inherit the first.

    Returns:
        ``passive_wait`` and ``kept_memory``: whether each setting is in force. ``passive_wait`` is
        False if torch was imported before (the log then has a warning), or if ``OMP_WAIT_POLICY``
        has another value. It is True even if the variable was set after the import of torch,
        because this cannot be detected.

    Example:
        >>> import neargraph as ng
        >>> ng.tune_process()                                              # doctest: +SKIP
        {'passive_wait': True, 'kept_memory': True}
        >>> import torch                                                   # doctest: +SKIP
    """
    found: ProcessTuning = {"passive_wait": _wait_passively(), "kept_memory": _keep_memory()}
    _log.info("tuned for training: %s", found)
    return found


def _wait_passively() -> bool:
    early = "torch" not in sys.modules
    if early:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    elif "OMP_WAIT_POLICY" not in os.environ:
        _log.warning(
            "torch is already imported, so its threads keep spinning while they wait: "
            "call tune_process() before `import torch`, or set OMP_WAIT_POLICY=PASSIVE"
        )
    return os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"


def _keep_memory() -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    wanted = ((_MMAP_THRESHOLD, _LARGEST_BLOCK), (_TRIM_THRESHOLD, _KEPT_BYTES))
    return all(mallopt(option, value) == 1 for option, value in wanted)
