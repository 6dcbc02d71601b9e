"""`neargraph compact G.ng`."""

from neargraph.units import format_bytes

from .options import BusyTimeout, Memory, StoreArgument, opened
from .settings import Json
from .show import bars, print_report


def compact(
    store: StoreArgument,
    memory: Memory = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Json = False,
) -> None:
    """Rewrite a store without unused space, with each neighbour list in one piece.

    While the command runs, it needs disk space for a second copy of the store. Ids and content stay
    the same.
    """
    with opened(store, memory, busy_timeout=busy_timeout) as handle, bars() as progress:
        report = handle.compact(lambda done, total: progress("compact", done, total))
    rows = [
        ("before", format_bytes(report["bytes_before"])),
        ("after", format_bytes(report["bytes_after"])),
        ("checkpoint", report["checkpoint_id"]),
    ]
    print_report(as_json, report, f"Compacted {store}", rows)
