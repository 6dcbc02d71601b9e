"""The tables and the picture of `beside`."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..training_tables import table
from .record import shown, verdict

Report = dict[str, Any]
FLOOR_WANTED = 0.8
LOAD_CORES = 0.25


@dataclass(frozen=True)
class Case:
    """Two systems of a session, and the ratio that is wanted."""

    name: str
    session: str
    ours: str
    theirs: str
    wanted: float


CASES = [
    Case("uniform, 1 node", "uniform", "server", "peer", 1.5),
    Case("uniform, 64 nodes", "uniform64", "server", "peer", 1.5),
    Case("Zipf 1.0, no answers kept", "zipf", "server", "peer", 1.5),
    Case("Zipf 1.0, answers kept here alone", "zipf", "server_kept", "peer", 4.0),
    Case("Zipf 1.0, equal bytes of answers on both", "zipf", "server_kept", "peer_kept", 1.5),
    Case("uniform, rows of int8 in memory", "uniform", "int8", "peer", 10.0),
    Case("uniform, first layer computed before", "uniform", "first_layer", "peer", 10.0),
]


def runs(results: Report, session: str, system: str) -> list[Report]:
    """The searches of a system, by round."""
    found = []
    while run := results.get(f"{session}/{len(found)}/{system}"):
        found.append(run)
    return found


def within(run: Report) -> float:
    """Requests a second within the limit; 0 where no rate was."""
    return float(run.get("within_limit", {}).get("requests_per_s", 0.0))


def saturated(run: Report) -> float:
    """Requests a second of the closed loop."""
    return float(run["closed"]["requests_per_s"])


def rates(results: Report, case: Case) -> tuple[list[float], list[float], bool]:
    """Rates of ours and of theirs by round, and whether they are saturated ones: those are compared
    where theirs are within the limit at no rate."""
    ours, theirs = (runs(results, case.session, one) for one in (case.ours, case.theirs))
    is_saturated = not any(map(within, theirs))
    rate = saturated if is_saturated else within
    return list(map(rate, ours)), list(map(rate, theirs)), is_saturated


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Ours over theirs, round by round."""
    return [a / b if b else float("nan") for a, b in zip(ours, theirs, strict=False)]


def reads(run: Report) -> float:
    """Reads of a request, by the server's metrics."""
    counts = run["counts"]
    return counts["reads"] / counts["requests"] if counts.get("requests") else float("nan")


def of_floor(run: Report, rate: float) -> float:
    """Requests/s within the limit over what the disk could serve at its random rate."""
    return within(run) * reads(run) / rate


def _cases(results: Report) -> list[str]:
    rate = results["fio"]["reads_per_s"]
    head = ["", "server, requests/s within the limit", "peer", "ratio (range)", "wanted"]
    head += ["reads a request", "of the disk's floor", "load, cores at most"]
    rows = []
    for case in CASES:
        ours, theirs = (runs(results, case.session, one) for one in (case.ours, case.theirs))
        of_ours, of_theirs, is_saturated = rates(results, case)
        if not (found := ratios(of_ours, of_theirs)):
            continue
        cores = [loop["load_cores"] for run in ours + theirs for loop in run["open"]]
        rows.append(
            [
                case.name,
                shown([within(run) for run in ours]),
                shown([within(run) for run in theirs]),
                f"{shown(found, 2)}{' saturated' if is_saturated else ''}",
                verdict(statistics.median(found), case.wanted),
                f"{statistics.median(map(reads, ours)):.1f}",
                shown([of_floor(run, rate) for run in ours], 2),
                f"{max(cores):.2f}",
            ]
        )
    return table(head, rows)


def _systems(results: Report) -> list[str]:
    head = ["session", "system", "saturated, requests/s", "p50 ms", "p99 ms", "missed"]
    head += ["p99 ms at the rate within", "memory, MB at most", "kills", "warming, requests/s"]
    rows = []
    for key in results:
        session, _, system = key.partition("/warm/")
        if not system:
            continue
        closed = [run["closed"] for run in runs(results, session, system)]
        best = [
            run["within_limit"]["p99_ms"]
            for run in runs(results, session, system)
            if "within_limit" in run
        ]
        memory = results.get(f"{session}/memory/{system}", {})
        peak, rates = memory.get("peak_bytes"), results[key]
        rows.append(
            [
                session,
                system,
                shown([loop["requests_per_s"] for loop in closed]),
                shown([loop["p50_ms"] for loop in closed], 1),
                shown([loop["p99_ms"] for loop in closed], 1),
                str(sum(loop["missed"] for loop in closed)),
                shown(best, 1),
                f"{peak / 1e6:,.0f}" if peak else str(memory.get("cap", "-")),
                str(memory.get("kills", "-")),
                f"{rates[0]:.0f} ... {rates[-1]:.0f} ({len(rates)} windows)",
            ]
        )
    return table(head, rows)


def markdown(report: Report) -> str:
    """All tables, with what has to stand beside them."""
    results = report["results"]
    about, fio = report["about"], results["fio"]
    lines = [
        f"Commit {about['commit']}, {about['utc']} UTC, {about['cores']} cores. Random reads of 4 "
        f"KiB: {fio['reads_per_s']:,.0f}/s by {fio['by']}.",
        "",
        *_cases(results),
        "",
        f"Wanted of uniform requests: {FLOOR_WANTED} of the disk's floor; of the load: "
        f"{LOAD_CORES} cores at most.",
        "",
    ]
    for key, found in results.items():
        if key.startswith("workers"):
            rates = ", ".join(f"{name}: {run[-1]:.0f}/s" for name, run in found["rates"].items())
            lines.append(f"Peer by {key} a request: {rates}; kept: {found['best']}.")
    accuracies = [
        f"{key.rpartition('/')[2]} {found:.4f}"
        for key, found in results.items()
        if "/accuracy/" in key
    ]
    lines += ["", f"Accuracy on test nodes: {', '.join(accuracies) or 'not asked'}.", ""]
    return "\n".join([*lines, *_systems(results)])


def draw_picture(report: Report, path: Path) -> None:
    """Ours and theirs by case, with the ratio that was found and the one that is wanted."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    results = report["results"]
    known = {case: rates(results, case) for case in CASES}
    known = {case: found for case, found in known.items() if ratios(*found[:2])}
    made, axes = pyplot.subplots(figsize=(10, 0.8 * len(known) + 1.5))
    labels = []
    for place, (case, (ours, theirs, is_saturated)) in enumerate(known.items()):
        sides = (-0.2, ours, "#2b6a99", "neargraph"), (0.2, theirs, "#b0b0b0", "grpcio and PyG")
        for offset, values, colour, name in sides:
            middle = statistics.median(values)
            bars = [[middle - min(values)], [max(values) - middle]]
            label = None if place else name
            axes.barh(place + offset, middle, 0.38, xerr=bars, color=colour, label=label)
            axes.text(max(values), place + offset, f" {middle:,.0f}", va="center", fontsize=8)
        times = statistics.median(ratios(ours, theirs))
        how = ", saturated" if is_saturated else ""
        labels.append(f"{case.name}{how}\n{times:.1f} times; wanted {case.wanted:g}")
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set(xlabel="requests/s, 99 % of them within the limit", title="The server and its peer")
    axes.margins(x=0.1)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right")
    made.tight_layout()
    made.savefig(path, dpi=120)
