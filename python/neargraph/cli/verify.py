"""`neargraph verify G.ng`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.units import parse_bytes

from .options import Backend, BackendName, Memory, complete_stores, opened
from .settings import Json
from .show import bars, console, pairs_table, print_json, print_report, size

_SHOWN = 50
# Entries of reports whose names are not words; and those of a check.
_LABELS = {
    "lsn": "last commit",
    "checkpoint_id": "checkpoint",
    "backups": "backups read",
    "bytes": "size of the backup",
}
_CHECKED = {
    "blocks": "blocks checked",
    "pages": "pages of lists checked",
    "log_commits": "commits in the log",
    "problems_omitted": "problems not listed",
}
# Counts that are shown only if there is something to count.
_RARE = ("pages", "problems_omitted")


def verify(
    store: Annotated[
        Path,
        typer.Argument(
            help="Directory of a store (NAME.ng) or of a backup.",
            metavar="STORE",
            autocompletion=complete_stores,
        ),
    ],
    memory: Memory = None,
    backend: Backend = "auto",
    as_json: Json = False,
) -> None:
    """Check every block and every data structure of a store or a backup.

    The command also checks the files that were compiled from the store. While it runs, no process
    may write to the store. The exit code is 1 if anything is damaged.
    """
    from neargraph import _core

    if _core.is_backup(str(store)):
        if memory is not None or backend != "auto":
            raise typer.BadParameter(
                "--memory and --backend have no effect on a backup; leave them out"
            )
        _verify_backup(store, as_json)
        return
    budget = None if memory is None else parse_bytes(memory)
    with bars() as progress:
        report: dict[str, Any] = json.loads(
            _core.verify(str(store), budget, backend, lambda d, t: progress("verify", d, t))
        )
        _verify_compiled(store, memory, backend, report, progress)
    conclude(store, report, as_json)


def report_rows(report: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A report for people: bytes with units, without entries that have no value."""
    return [
        (_LABELS.get(name, name.replace("_", " ")), size(value) if "bytes" in name else value)
        for name, value in report.items()
        if value is not None and name != "log_goes_on"
    ]


def _verify_backup(backup: Path, as_json: bool) -> None:
    """Reads a backup and all that it was made on; the first damage ends that."""
    import neargraph

    try:
        with bars() as progress:
            found = neargraph.verify_backup(
                backup, progress=lambda done, total: progress("verify", done, total)
            )
    except (neargraph.StoreDamaged, neargraph.StoreNotFound, neargraph.UnsupportedArgument) as bad:
        if as_json:
            print_json({"ok": False, "problems": [{"what": str(bad)}]})
        else:
            console().print(f"{backup}: DAMAGED\n{bad}", markup=False)
        raise typer.Exit(1) from None
    print_report(as_json, {"ok": True, **found}, f"{backup}: ok", report_rows(found))


def _verify_compiled(
    store: Path, memory: str | None, backend: BackendName, report: dict[str, Any], progress: Any
) -> None:
    """Checks what was compiled from the store; direct layouts only of a sound one."""
    from neargraph.loader.verify import verify_compiled

    if not report["ok"] or not (store / "compiled").is_dir():
        verify_compiled(report, store, None, progress)
        return
    with opened(store, memory, backend=backend) as handle:
        verify_compiled(report, store, handle.snapshot(), progress)


def conclude(store: Path, report: Mapping[str, Any], as_json: bool) -> None:
    """Prints what a check found; exit code 1 where that is damage."""
    if as_json:
        print_json(report)
    else:
        _show(store, report)
    if not report["ok"]:
        raise typer.Exit(1)


def _show(store: Path, report: Mapping[str, Any]) -> None:
    out = console()
    problems = report.get("problems", [])
    rows = [
        (_CHECKED.get(key, key.replace("_", " ")), value)
        for key, value in report.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
        if value or key not in _RARE
    ]
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    verdict = "ok" if report["ok"] else f"DAMAGED: {count}"
    out.print(pairs_table(f"{store}: {verdict}", rows))
    for problem in problems[:_SHOWN]:
        where = ", ".join(
            f"{key} {problem[key]}"
            for key in ("file", "page", "block", "batch", "byte")
            if problem.get(key) is not None
        )
        held = f" ({problem['holds']})" if problem.get("holds") else ""
        out.print(f"{where}{held}: {problem.get('what', problem)}", markup=False)
    if len(problems) > _SHOWN:
        out.print(f"... and {len(problems) - _SHOWN} more; use --json for all")
    for note in report.get("notes", []):
        text = f"note: {note['file']}: {note['what']}; the next writer replaces this file"
        out.print(text, markup=False)
    for skipped in report.get("not_checked", []):
        out.print(f"not checked: file {skipped['file']}: {skipped['what']}", markup=False)
    if any(not str(problem.get("file", "")).startswith("compiled/") for problem in problems):
        out.print("Restore the store from a backup, or import it again.")
    elif problems:
        out.print("The store itself is undamaged. Remove the files named above and compile again.")
