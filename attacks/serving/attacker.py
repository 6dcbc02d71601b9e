"""One script in a process of its own: `python -m attacks.serving.attacker NAME PLACE`.

It says "ready", waits for a line with seconds, goes on for that long, and prints its counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

from . import calls, connections, side
from .scripts import SCRIPTS, Place

LOADED = (calls, connections, side)


def main() -> None:
    # What is measured is the server: the script shall not take the processor from it.
    os.nice(19)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    name, place = sys.argv[1], Place(**json.loads(sys.argv[2]))
    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line:
        return
    place.end = time.monotonic() + float(line)
    SCRIPTS[name](place)
    print(json.dumps(place.counts), flush=True)


if __name__ == "__main__":
    main()
