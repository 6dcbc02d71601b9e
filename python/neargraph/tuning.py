"""Settings of a process that trains: torch leaves more of the processor to reading.

Imports neither torch nor the compiled core: what is set here has to be set before torch is loaded.
"""

import ctypes
import logging
import os
import sys

_log = logging.getLogger("neargraph.tuning")

# glibc's numbers of these options, and the largest block that `malloc` then takes from its heap.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20
_KEPT_BYTES = 1 << 30


def tune_process() -> dict[str, bool]:
    """Prepares this process for training on the CPU. Call it before ``import torch``.

    With two settings, training from disk took a fifth less processor time on two cores:

    - Threads of torch sleep while they wait for each other, instead of spinning on a core that
      reading and sampling need (``OMP_WAIT_POLICY=PASSIVE``). A value that is set already stays.
    - `malloc` keeps up to 1 GiB of what torch frees, instead of returning it to the kernel, which
      would clear the same memory again for the next batch. glibc only.

    `neargraph train` does this by itself. Both hold for the whole process; child processes inherit
    the first.

    Returns:
        ``passive_wait`` and ``kept_memory``: whether each setting is in force. The first is False
        if torch was imported before, which a warning in the log says, or if ``OMP_WAIT_POLICY`` has
        another value. A variable that is set after torch was imported cannot be told from one that
        was set in time.

    Example:
        >>> import neargraph as ng
        >>> ng.tune_process()                                              # doctest: +SKIP
        {'passive_wait': True, 'kept_memory': True}
        >>> import torch                                                   # doctest: +SKIP
    """
    found = {"passive_wait": _wait_passively(), "kept_memory": _keep_memory()}
    _log.info("tuned for training: %s", found)
    return found


def _wait_passively() -> bool:
    early = "torch" not in sys.modules
    if early:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    elif "OMP_WAIT_POLICY" not in os.environ:
        _log.warning(
            "torch is imported already, so its threads keep spinning while they wait: "
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
