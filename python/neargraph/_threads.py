"""How many threads may be asked for."""

import operator

from neargraph.exceptions import UnsupportedArgument

THREADS_MAX = 1024
"""More would take minutes to start, or bring a machine to its limit of threads."""


def checked_threads(threads: int) -> int:
    """The number of threads, if it can be started.

    Raises:
        UnsupportedArgument: It is below 1 or above `THREADS_MAX`.

    Example:
        >>> checked_threads(2)
        2
    """
    count = operator.index(threads)
    if not 1 <= count <= THREADS_MAX:
        raise UnsupportedArgument(f"threads is {count}; it has to be in 1 ... {THREADS_MAX:,}")
    return count
