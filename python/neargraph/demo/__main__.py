"""`python -m neargraph.demo`: the whole demo, start to end."""

import argparse
import json
import sys
from pathlib import Path

from neargraph.cli.app import one_line, quiet_torch
from neargraph.exceptions import NeargraphError


def main() -> None:
    """Parses the few options, runs, and leaves the figures as JSON beside the picture."""
    quiet_torch()
    parser = argparse.ArgumentParser(prog="python -m neargraph.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="where to write")
    parser.add_argument("--memory", default="256MB", help="memory budget of the store")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--graph", choices=("auto", "debian", "data", "generated"), default="auto")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        from .run import DemoSettings, run_demo

        figures = run_demo(DemoSettings(**vars(arguments)))
    except (NeargraphError, ValueError, OSError) as error:
        sys.exit(f"error: {one_line(error)}")
    (arguments.out / "demo.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
