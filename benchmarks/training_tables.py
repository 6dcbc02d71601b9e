"""Medians, ranges, ratios and tables of `training.py`; works on the saved JSON alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

FIO_RATIO = (0.75, 0.85)
# Each run leaves about one of its own behind.
BUSY = 3.0
NAIVE = "naive-uring"
BASELINES = [
    NAIVE,
    "naive-uring+sieve",
    "pyg",
    "graphbolt",
    "ours-memory",
    "ours-memory-torch",
]

Result = dict[str, Any]


def line(result: Result) -> str:
    """One run in one line."""
    if "failed" in result:
        return result["failed"]
    if "ms_per_batch" not in result:
        return f"accuracy {result['accuracy']:.4f} in {result['train_seconds']:.1f} s"
    text = f"{result['seeds_per_s']:9,.0f} seeds/s {result['ms_per_batch']:9.1f} ms/batch"
    reads, read_bytes = reads_of(result)
    text += f"{reads:11,.0f} reads {read_bytes / 1e6:9.1f} MB"
    if "hit_rate" in result:
        text += f"  hit {result['hit_rate']:.3f}  depth {result['mean_depth']:.1f}"
    text += f"  anon {result['peak_anon_bytes'] / 1e6:,.0f} MB"
    if "accuracy" in result:
        text += f"  accuracy {result['accuracy']:.4f}"
    return text + f"  {plan(result)}"


def plan(result: Result) -> str:
    """What a look-ahead chose: its policy, batches ahead, and phases if they take turns.

    Of PyG, whose sampler it used.
    """
    chosen = result.get("chosen")
    if not chosen:
        return str(result.get("sampler", ""))
    turns = ", two phases" if chosen.get("phases") == 2 else ""
    return f"{chosen['reading']} {chosen.get('window', '')}{turns}"


def reads_of(result: Result) -> tuple[float, float]:
    """(reads, bytes) a batch: the system's own count if it has one, else that of its device."""
    reads = result.get("reads", result.get("device_reads_per_batch", 0.0))
    return reads, result.get("read_bytes", result.get("device_bytes_per_batch", 0.0))


def spread(values: list[float]) -> list[float]:
    """[median, smallest, largest]."""
    return [statistics.median(values), min(values), max(values)]


def summary(rounds: list[dict[str, Any]], systems: list[str]) -> dict[str, Any]:
    """By system: median and range of each figure, and ratios to each baseline of its round."""
    found: dict[str, Any] = {"fio": {}}
    for key in ("random_reads_per_s", "sequential_bytes_per_s"):
        found["fio"][key] = spread([round_["fio"][key] for round_ in rounds])
    for name in systems:
        runs = [r[name] for r in rounds if name in r and "failed" not in r[name]]
        failures = [r[name]["failed"] for r in rounds if "failed" in r.get(name, {})]
        if not runs:
            found[name] = {"failed": failures[0] if failures else "not run"}
            continue
        keys = [
            key
            for key, value in runs[0].items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        own: dict[str, Any] = {key: spread([run[key] for run in runs]) for key in keys}
        if failures:
            own["failures"] = failures
        own["ratios"] = ratios(rounds, name)
        own["plans"] = sorted({plan(run) for run in runs} - {""})
        found[name] = own
    naive = against_fio(rounds)
    if naive is not None:
        found["naive_uring_to_fio"] = naive
    return found


def ratios(rounds: list[dict[str, Any]], name: str) -> dict[str, list[float]]:
    """How many times faster than each baseline that ran in the same round."""
    found = {}
    for base in BASELINES:
        if base == name:
            continue
        pairs = [
            r[base]["ms_per_batch"] / r[name]["ms_per_batch"]
            for r in rounds
            if "ms_per_batch" in r.get(base, {}) and "ms_per_batch" in r.get(name, {})
        ]
        if pairs:
            found[base] = spread(pairs)
    return found


def against_fio(rounds: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The read rate of `naive-uring` as a share of fio's random rate right before and after it."""
    runs = [r[NAIVE] for r in rounds if "reads" in r.get(NAIVE, {})]
    shares = [
        run["reads"] / (run["ms_per_batch"] / 1e3) / run["fio_random_reads_per_s"] for run in runs
    ]
    if not shares:
        return None
    return {"share": spread(shares), "verdict": verdict(statistics.median(shares))}


def verdict(share: float) -> str:
    """What ratios to `naive-uring` are worth when it reaches this share of fio's rate."""
    low, high = FIO_RATIO
    if share < low:
        return f"VOID: below {low}, the baseline is slower than it has to be"
    if share > high:
        return f"above {high}: the baseline is better than it has to be, ratios err on the low side"
    return "ratios count"


def _cell(own: Result, key: str, form: str = "{:,.0f}", scale: float = 1.0) -> str:
    return form.format(own[key][0] * scale) if key in own else "-"


def _range(own: Result, key: str) -> str:
    return f"{own[key][1]:,.0f}-{own[key][2]:,.0f}" if key in own else "-"


def _reads(own: Result, key: str, instead: str) -> str:
    return key if key in own else instead


COLUMNS: list[tuple[str, Callable[[Result], str]]] = [
    ("plan", lambda r: "; ".join(r.get("plans", [])) or "-"),
    ("seeds/s", lambda r: _cell(r, "seeds_per_s")),
    ("range", lambda r: _range(r, "seeds_per_s")),
    ("ms/batch", lambda r: _cell(r, "ms_per_batch", "{:,.1f}")),
    ("rows", lambda r: _cell(r, "rows_per_batch")),
    ("useful MB", lambda r: _cell(r, "useful_bytes_per_batch", "{:,.1f}", 1e-6)),
    (
        "read MB",
        lambda r: _cell(r, _reads(r, "read_bytes", "device_bytes_per_batch"), "{:,.1f}", 1e-6),
    ),
    ("reads", lambda r: _cell(r, _reads(r, "reads", "device_reads_per_batch"))),
    ("written MB", lambda r: _cell(r, "temporary_bytes", "{:,.1f}", 1e-6)),
    ("hit rate", lambda r: _cell(r, "hit_rate", "{:.3f}")),
    ("depth", lambda r: _cell(r, "mean_depth", "{:.1f}")),
    ("CPU ms", lambda r: _cell(r, "cpu_ms_per_batch", "{:,.1f}")),
    ("anon MB", lambda r: _cell(r, "peak_anon_bytes", "{:,.0f}", 1e-6)),
    ("HWM MB", lambda r: _cell(r, "vm_hwm_bytes", "{:,.0f}", 1e-6)),
    ("charged MB", lambda r: _cell(r, "peak_charged_bytes", "{:,.0f}", 1e-6)),
    ("accuracy", lambda r: _cell(r, "accuracy", "{:.4f}")),
]


def markdown(report: dict[str, Any]) -> str:
    """The tables of a report."""
    about, arguments, found = report["about"], report["arguments"], report["summary"]
    graph = report["graph"]
    fio = found["fio"]
    lines = [
        f"## {arguments['mode']}: {graph['name']}, cap {_bytes(arguments['cap'])}",
        "",
        f"{graph['nodes']:,} nodes, {graph['entries']:,} entries, {graph['width']} f32 columns; "
        f"fanouts {arguments['fanouts']}, batch {arguments['batch_size']}; "
        f"{len(report['rounds'])} runs, median and range. {about['cores']} cores, Linux "
        f"{about['kernel']}, commit {about['commit']}, read-ahead {about['read_ahead_kb']} KB. "
        f"fio: {fio['random_reads_per_s'][0]:,.0f} random 4 KiB reads/s at depth 64, "
        f"{fio['sequential_bytes_per_s'][0] / 1e9:.2f} GB/s{_slowed(arguments)}.",
        "",
    ]
    budgets = {
        own["store_memory_bytes"][0] for own in found.values() if "store_memory_bytes" in own
    }
    if budgets:
        sizes = " and ".join(f"{size / 1e6:,.0f} MB" for size in sorted(budgets))
        lines += [f"Our ways of reading get {sizes} for caches, window and batches in flight.", ""]
    if report["torch_alone"]:
        alone = report["torch_alone"]
        lines += [
            f"Torch alone needs {alone['peak_anon_bytes'] / 1e6:,.0f} MB, added to the cap, and "
            f"{alone['ms_per_batch']:.1f} ms a batch.",
            "",
        ]
    names = [name for name in found if name not in ("fio", "naive_uring_to_fio")]
    lines += table(["", *(title for title, _ in COLUMNS)], [_row(n, found[n]) for n in names])
    bases = [base for base in BASELINES if base in found and "failed" not in found[base]]
    rows = [_ratio_row(name, found[name], bases) for name in names if "ratios" in found[name]]
    if bases:
        lines += ["", "Times faster than, in the same round:", ""]
        lines += table(["", *bases], rows)
    if "naive_uring_to_fio" in found:
        share = found["naive_uring_to_fio"]
        low, high = share["share"][1:]
        of = f"{share['share'][0]:.2f} [{low:.2f}-{high:.2f}] of fio's rate"
        lines += ["", f"naive-uring reaches {of} ({share['verdict']})."]
    busiest = max(round_["load_average"] for round_ in report["rounds"])
    if busiest > BUSY:
        lines += ["", f"The machine was busy with other things: load average {busiest:.1f}."]
    missing = {r[n].get("cap_missing") for r in report["rounds"] for n in names if n in r}
    lines += [f"\nNot capped: {why}." for why in sorted(filter(None, missing))]
    return "\n".join(lines) + "\n"


def _slowed(arguments: dict[str, Any]) -> str:
    slowed = arguments.get("disk", "None") != "None"
    return " (the kernel held the disk at these rates)" if slowed else ""


def _row(name: str, own: Result) -> list[str]:
    if "failed" in own:
        return [name, own["failed"], *[""] * (len(COLUMNS) - 1)]
    return [name, *(cell(own) for _, cell in COLUMNS)]


def _ratio_row(name: str, own: Result, bases: list[str]) -> list[str]:
    cells = []
    for base in bases:
        ratio = own["ratios"].get(base)
        cells.append(f"{ratio[0]:.2f} [{ratio[1]:.2f}-{ratio[2]:.2f}]" if ratio else "")
    return [name, *cells]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _bytes(text: str) -> str:
    return "none" if text == "None" else f"{int(text) / 1e9:g} GB"
