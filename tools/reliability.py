"""Runs the tests behind the promises and writes their figures to reliability.json.

A test reports by printing a line `figure: {"id": ..., "tried": ..., "failed": ..., "seed": ...}`.
This tool runs the suites, collects those lines, adds commit and machine, and fails if any figure
does.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = [
    ["cargo", "test", "--locked", "--workspace", "--", "--nocapture"],
    [sys.executable, "-m", "pytest", "-s", "-m", "reliability"],
    [sys.executable, "tools/power_cut.py"],
    ["tools/deny.sh"],
    [sys.executable, "tools/canaries.py"],
]
PROMISED = ["C1", "C2", "C4", "C5", "D1", "D2", "D3", "D4", "D5", "D7", "D8", "D9"]
PROMISED += ["G1", "G2", "G3", "I1", "I2", "M1", "P1", "X1", "X3", "Y1"]


def run(command: list[str]) -> tuple[list[dict[str, object]], bool]:
    """The figures that a suite prints, and whether it passed."""
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    figures = []
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        at = line.find("figure: {")
        if at >= 0:
            figure = json.loads(line[at + len("figure: ") :])
            figures.append(figure | {"seconds": round(time.monotonic() - start, 1)})
    return figures, process.wait() == 0


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
    }


def commit() -> str:
    """The commit that is checked out, with a mark if the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def main() -> int:
    figures: list[dict[str, object]] = []
    passed = True
    for command in SUITES:
        found, good = run(command)
        figures += found
        passed &= good
    absent = sorted(set(PROMISED) - {str(figure["id"]) for figure in figures})
    report = {"commit": commit(), "machine": machine(), "figures": figures, "absent": absent}
    (ROOT / "reliability.json").write_text(json.dumps(report, indent=1) + "\n")
    for figure in figures:
        print(json.dumps(figure))
    if absent:
        print(f"no figure for {', '.join(absent)}")
    return 0 if passed and not absent and not any(f["failed"] for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
