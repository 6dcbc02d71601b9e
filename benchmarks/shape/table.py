"""What a run found, as lines, as a table and as files; works on the saved JSON alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from neargraph.units import format_bytes

from .plan import Plan

Found = dict[str, Any]


def line(step: str, found: Found) -> str:
    """One step in one line."""
    return (
        f"{step}: {found['wall_seconds']:.1f} s, peak of memory "
        f"{format_bytes(found['peak_rss_bytes'])}, of disk "
        f"{format_bytes(found['disk_peak_bytes'])}; {said(step, found)}"
    )


def said(step: str, found: Found) -> str:
    """What a step is about, in words."""
    if step == "import":
        dropped = found["rows"] - found["entries"]
        return (
            f"{found['entries']:,} edges ({dropped:,} drawn twice were dropped), "
            f"store {format_bytes(found['disk_bytes'])}, "
            f"edges {found['edge_seconds']:.0f} s, sort {found['sort_seconds']:.0f} s, "
            f"rows {found['rows_seconds']:.0f} s, publishing {found['publish_seconds']:.0f} s"
        )
    if "skipped" in found:
        return f"skipped: {found['skipped']} ({format_bytes(found['bytes_per_epoch'])} wanted)"
    if step in ("epoch", "naive", "compiled"):
        return (
            f"{found['batches']:,} batches of {found['nodes'] / found['batches']:,.0f} nodes in "
            f"{found['seconds']:.1f} s{opening(found)}, {found['seeds_per_s']:,.0f} seeds/s, "
            f"{found['reads']:,} reads of {format_bytes(found['read_bytes'])}, "
            f"{format_bytes(found['temporary_write_bytes'])} of temporary files written, "
            f"{way(found)}"
            f"anonymous memory of the last half over the first {found['flatness']:.2f}"
        )
    if step == "accuracy":
        same = "equal" if found["same_losses"] else "DIFFER"
        return (
            f"{found['accuracy']:.3f} on {found['tested']:,} validation seeds after "
            f"{found['batches']} batches, {found['chance']:.4f} by chance; the first "
            f"{found['compared']} losses at both sizes of memory {same}"
        )
    if step == "update":
        return (
            f"{found['operations']:,} operations in {found['seconds']:.2f} s, checkpoint "
            f"{found['checkpoint_seconds']:.2f} s"
        )
    return "sound"


def opening(found: Found) -> str:
    """What opening the store and finding the seeds took, where that was measured."""
    seconds = found.get("opening_seconds")
    return f" after {seconds:.1f} s to open the store and find its seeds" if seconds else ""


def way(found: Found) -> str:
    """How rows were read, where a loader chose it, and the memory of the store."""
    memory = f"in {format_bytes(found['memory'])}, "
    if "chosen" not in found:
        return memory
    chosen = found["chosen"] or {"reading": "batch by batch"}
    window = f", window {chosen['window']}" if chosen.get("window") else ""
    turns = ", in two phases" if chosen.get("phases") == 2 else ""
    return f"{chosen['reading']}{window}{turns} {memory}"


def record(plan: Plan, seed: int, peak: int, about: Found, found: dict[str, Found]) -> Found:
    """Everything about a run as plain data."""
    return {
        "shape": plan.shape.name,
        "scale": plan.scale,
        "seed": seed,
        "nodes": plan.nodes,
        "edges": plan.edges,
        "drawn": plan.drawn,
        "import_memory": plan.import_memory,
        "memory": plan.memory,
        "planned_peak_bytes": peak,
        "about": about,
        "steps": found,
    }


def text(saved: Found) -> str:
    """The table of a run, with the ratio to reading row by row."""
    about, steps = saved["about"], saved["steps"]
    lines = [
        f"{saved['shape']} at scale {saved['scale']:g}, seed {saved['seed']}: "
        f"{saved['nodes']:,} nodes, {saved['drawn']:,} edges drawn; commit {about['commit']}, "
        f"{about['cores']} cores, {format_bytes(about['memory_bytes'])} of memory, load "
        f"{about['load_average'][0]:.1f}; planned peak on disk "
        f"{format_bytes(saved['planned_peak_bytes'])}",
        "",
        "| step | time | peak RSS | peak on disk | |",
        "|---|---|---|---|---|",
    ]
    for step, found in steps.items():
        cells = (
            f"{found['wall_seconds']:.1f} s",
            format_bytes(found["peak_rss_bytes"]),
            format_bytes(found["disk_peak_bytes"]),
            said(step, found),
        )
        lines.append(f"| {step} | {' | '.join(cells)} |")
    if {"epoch", "naive"} <= set(steps):
        ratio = steps["epoch"]["seeds_per_s"] / steps["naive"]["seeds_per_s"]
        lines += ["", f"Seeds a second of the epoch over those of naive-uring: {ratio:.1f}"]
    return "\n".join(lines)


def write(path: Path, saved: Found) -> None:
    """NAME.json and NAME.md."""
    path.with_suffix(".json").write_text(json.dumps(saved, indent=1) + "\n")
    title = f"# {saved['shape']} at scale {saved['scale']:g}"
    path.with_suffix(".md").write_text(f"{title}\n\n{text(saved)}\n")
