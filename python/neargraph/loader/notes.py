"""One log line per decision about reading: the choice, the reason, and the bytes it writes to disk.

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
    """Logs a decision. The compiled core calls this function."""
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info("%s", decision_line(decided))


def decision_line(decided: Mapping[str, Any]) -> str:
    """Returns a decision in one line.

    >>> scan = {"reading": "scan", "window": 61, "phases": 1, "device_s_per_batch": 0.052}
    >>> window = {"reading": "window", "window": 64, "phases": 1, "device_s_per_batch": 0.31}
    >>> decision_line({"chosen": scan, "others": [window], "consumer_s": 0.2})
    "reading='scan', window=61: expected 52 ms of disk time per batch; reading='window' would \
take 310 ms; the training loop takes 200 ms per batch"
    """
    chosen, before = decided["chosen"], decided.get("before")
    instead = "" if before is None else f", instead of {_way(before)}"
    expected = f"expected {_ms(chosen)} of disk time per batch"
    parts = [f"{_way(chosen)}{instead}: {expected}"]
    parts += _measured(decided)
    parts += [_other(other) for other in decided.get("others", ())]
    consumer = decided.get("consumer_s")
    if consumer is None:
        parts.append("the time of the training loop is not known yet")
    else:
        parts.append(f"the training loop takes {_milliseconds(consumer)} per batch")
    if "epoch_write_bytes" in decided:
        parts.append(_writes(decided))
    return "; ".join(parts)


def _writes(decided: Mapping[str, Any]) -> str:
    """Returns the part about temporary files, with the way to prevent them unless they were set."""
    count = format_bytes(decided["epoch_write_bytes"], up=True)
    line = f"an epoch writes at most {count} of temporary files in {decided['write_directory']}"
    return line if decided["is_asked"] else f'{line} (none with temporary_writes="never")'


def _measured(decided: Mapping[str, Any]) -> list[str]:
    """Returns the part about the time of batches before a change, if it is known."""
    if decided.get("before") is None:
        return []
    stages = (("reading", "reading_s"), ("sampling", "sampling_s"))
    known = [(stage, decided[key]) for stage, key in stages if decided.get(key) is not None]
    took = " and ".join(f"{_milliseconds(seconds)} of {stage}" for stage, seconds in known)
    return [f"measured before: {took} per batch"] if took else []


def _way(chosen: Mapping[str, Any]) -> str:
    """Returns a way of reading in words."""
    if chosen["reading"] == "distribute":
        return f"reading='distribute', {chosen['window']} batches at a time"
    phases = " in two phases" if chosen["phases"] == 2 else ""
    return f"reading={chosen['reading']!r}{phases}, window={chosen['window']}"


def _other(other: Mapping[str, Any]) -> str:
    """Returns a way that was not chosen, with its costs."""
    name = f"reading={other['reading']!r}"
    if other["reading"] != "distribute" and other["phases"] == 2:
        name += " in two phases"
    written = other.get("write_bytes_per_batch", 0)
    writes = f" and write {format_bytes(int(written))}" if written >= _MB else ""
    return f"{name} would take {_ms(other)}{writes}"


def _ms(chosen: Mapping[str, Any]) -> str:
    return _milliseconds(chosen["device_s_per_batch"])


def _milliseconds(seconds: float) -> str:
    """Returns a duration with a unit.

    >>> _milliseconds(0.0123), _milliseconds(0.0042), _milliseconds(12.3)
    ('12 ms', '4.2 ms', '12.3 s')
    """
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
