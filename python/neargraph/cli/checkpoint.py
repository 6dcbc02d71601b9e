"""`neargraph checkpoint G.ng`."""

from .options import BusyTimeout, StoreArgument, opened
from .settings import Json
from .show import print_report

_LABELS = {
    "checkpoint_id": "checkpoint",
    "lsn": "last commit",
    "pages": "pages written",
    "table_blocks": "page table blocks written",
}


def checkpoint(
    store: StoreArgument,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Json = False,
) -> None:
    """Write the commits from the log of a store into its main files.

    Other processes see these commits when they next open the store. After a crash of the writer,
    opening the store also writes the commits into the main files.
    """
    with opened(store, busy_timeout=busy_timeout) as handle:
        recovered = handle.info()["commits_recovered"]
        report = {"commits_recovered": recovered, **handle.checkpoint()}
    rows = [(_LABELS.get(name, name.replace("_", " ")), value) for name, value in report.items()]
    print_report(as_json, report, f"Checkpoint of {store}", rows)
