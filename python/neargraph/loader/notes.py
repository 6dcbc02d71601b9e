"""One line of the log for each decision how rows are read: what, why, and what it writes to disk.

What must not live here: the decision itself, which the compiled core makes. The logger is
``neargraph.loader``, the level INFO.
"""

import logging
from collections.abc import Mapping
from typing import Any

from neargraph.units import format_bytes

_LOG = logging.getLogger("neargraph.loader")
_MB = 1_000_000


def log_decision(decided: Mapping[str, Any]) -> None:
    """Logs what was decided; the compiled core calls it."""
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info("%s", decision_line(decided))


def decision_line(decided: Mapping[str, Any]) -> str:
    """What was decided, in one line.

    >>> scan = {"reading": "scan", "window": 61, "phases": 1, "device_s_per_batch": 0.052}
    >>> window = {"reading": "window", "window": 64, "phases": 1, "device_s_per_batch": 0.31}
    >>> decision_line({"chosen": scan, "others": [window], "consumer_s": 0.2})
    'reading by scan, window 61: 52 ms of disk a batch expected; window: 310 ms; the consumer \
takes 200 ms'
    """
    chosen, before = decided["chosen"], decided.get("before")
    parts = [f"reading by {_way(chosen)}: {_ms(chosen)} of disk a batch expected"]
    if before is not None:
        parts[0] = f"{parts[0]}, instead of {_way(before)}"
    parts += _measured(decided)
    parts += [_other(other) for other in decided.get("others", ())]
    consumer = decided.get("consumer_s")
    known = "is not known yet" if consumer is None else f"takes {_milliseconds(consumer)}"
    parts.append(f"the consumer {known}")
    if "epoch_write_bytes" in decided:
        parts.append(_writes(decided))
    return "; ".join(parts)


def _writes(decided: Mapping[str, Any]) -> str:
    """What is written to disk for a while. What was asked for cannot be forbidden as well."""
    count = format_bytes(decided["epoch_write_bytes"], up=True)
    line = f"an epoch writes at most {count} of temporary files in {decided['write_directory']}"
    return line if decided["is_asked"] else f'{line}, which temporary_writes="never" forbids'


def _measured(decided: Mapping[str, Any]) -> list[str]:
    """What batches took before a change."""
    if decided.get("before") is None:
        return []
    stages = (("reading", "reading_s"), ("sampling", "sampling_s"))
    known = [(stage, decided[key]) for stage, key in stages if decided.get(key) is not None]
    took = " and ".join(f"{_milliseconds(seconds)} of {stage}" for stage, seconds in known)
    return [f"measured before: {took} a batch"] if took else []


def _way(chosen: Mapping[str, Any]) -> str:
    """A way of reading in words."""
    if chosen["reading"] == "distribute":
        return f"distribution of {chosen['window']} batches"
    phases = " in two phases" if chosen["phases"] == 2 else ""
    return f"{chosen['reading']}{phases}, window {chosen['window']}"


def _other(other: Mapping[str, Any]) -> str:
    """A way that was not chosen, with its costs."""
    if other["reading"] == "distribute":
        name = "distribution"
    else:
        name = other["reading"] + (" in two phases" if other["phases"] == 2 else "")
    written = other.get("write_bytes_per_batch", 0)
    writes = f" and {format_bytes(int(written))} written" if written >= _MB else ""
    return f"{name}: {_ms(other)}{writes}"


def _ms(chosen: Mapping[str, Any]) -> str:
    return _milliseconds(chosen["device_s_per_batch"])


def _milliseconds(seconds: float) -> str:
    """A time for people.

    >>> _milliseconds(0.0123), _milliseconds(0.0042), _milliseconds(12.3)
    ('12 ms', '4.2 ms', '12.3 s')
    """
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
