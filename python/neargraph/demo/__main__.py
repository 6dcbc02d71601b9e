"""Trains the same model on the same batches from disk, from memory and from np.memmap.

The graph is several times larger than the memory budget. Then the demo serves the model and changes
the graph while it is served. Takes 1 to 2 minutes and 2.2 GB of disk; 1.1 GB remain in the folder
--out.
"""

import argparse
import json
import sys
from pathlib import Path

from neargraph.cli.app import one_line
from neargraph.exceptions import NeargraphError


def main() -> None:
    """Parses the options, runs the demo, prints the table, and writes the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m neargraph.demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("demo-out"), help="Folder to write. Default: demo-out."
    )
    parser.add_argument(
        "--memory", default="256MB", help="Memory budget of the store, e.g. 512MB. Default: 256MB."
    )
    parser.add_argument(
        "--epochs", type=int, default=1, help="Passes over the training nodes. Default: 1."
    )
    parser.add_argument(
        "--graph",
        choices=("planted", "debian", "data"),
        default="planted",
        help="Graph: generated (planted), the packages in apt's lists (debian), or a data set in "
        "the folder NEARGRAPH_DATA (data). Default: planted.",
    )
    parser.add_argument("--seed", type=int, default=0, help="Random seed. Default: 0.")
    parser.add_argument("--json", action="store_true", help="Print the figures as JSON.")
    arguments = vars(parser.parse_args())
    as_json = arguments.pop("json")
    try:
        from .run import is_equal, run_demo, say
        from .settings import DemoSettings
        from .table import show

        settings = DemoSettings(**arguments)
        figures = run_demo(settings)
        file = settings.out / "demo.json"
        file.write_text(json.dumps(figures, indent=2) + "\n")
    except (NeargraphError, ValueError, OSError) as error:
        sys.exit(f"error: {one_line(error, frozenset(['--memory', '--out']))}")
    except KeyboardInterrupt:
        sys.exit(130)
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)
    picture = figures["picture"] or "none, because matplotlib is not installed"
    seconds = figures["seconds"]
    say(f"picture  {picture}")
    say(f"figures  {file}")
    say(f"time     {seconds['wall']:.0f} s, and {seconds['processor']:.0f} s of processor time")
    say(f"next     neargraph serve {settings.out} --memory {settings.memory}")
    say("         neargraph query --model sage --nodes 17,4      (in another terminal)")
    say(f"disk     {settings.out} keeps the store and the model; rm -r {settings.out} removes them")
    if not is_equal(figures):
        sys.exit("error: the losses or the accuracy differ between disk, memory and np.memmap")


if __name__ == "__main__":
    main()
