"""Runs every benchmark, one after the other: no two at once on one machine."""

from __future__ import annotations

import subprocess
import sys

ALL = ["benchmarks.read_rate", "benchmarks.import_rate", "benchmarks.replay"]


def main() -> int:
    return max(subprocess.run([sys.executable, "-m", name]).returncode for name in ALL)


if __name__ == "__main__":
    sys.exit(main())
