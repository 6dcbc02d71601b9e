"""The limit on the number of threads."""

import operator

from neargraph.exceptions import UnsupportedArgument

THREADS_MAX = 1024
"""More threads would take minutes to start, or reach the machine's limit."""


def checked_threads(threads: int) -> int:
    """Returns the number of threads if it is valid.

    Raises:
        UnsupportedArgument: The number is below 1 or above `THREADS_MAX`.

    Example:
        >>> checked_threads(2)
        2
    """
    count = operator.index(threads)
    if not 1 <= count <= THREADS_MAX:
        raise UnsupportedArgument(
            f"threads={count} is not valid: expected a number from 1 to {THREADS_MAX:,}"
        )
    return count
