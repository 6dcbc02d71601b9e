"""X3: plants each known bug and expects the tests to catch it.

Builds the workspace once with `--cfg canaries` into a target folder of its own, then runs each line
of canaries.txt twice: without the bug the tests must pass, with it they must fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("canaries.txt")
SECONDS_MAX = 240


def canaries() -> list[tuple[str, list[str]]]:
    """(name, arguments of cargo test) of each planted bug."""
    lines = (line.split("#")[0].strip() for line in LIST.read_text().splitlines())
    pairs = (line.split("|") for line in lines if line)
    return [(name.strip(), command.split()) for name, command in pairs]


def tests_pass(command: list[str], canary: str) -> bool:
    """Whether the tests pass with one canary planted (none, if empty)."""
    flags = os.environ.get("RUSTFLAGS", "") + " --cfg canaries"
    target = str(ROOT / "target" / "canaries")
    env = {"NEARGRAPH_CRASH_IMAGES": "6000", "NEARGRAPH_ISOLATION_SECONDS": "10"} | os.environ
    env |= {"RUSTFLAGS": flags, "NEARGRAPH_CANARY": canary, "CARGO_TARGET_DIR": target}
    full = ["cargo", "test", "--locked", "--quiet", *command]
    process = subprocess.Popen(
        full,
        cwd=ROOT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS_MAX) == 0
    except subprocess.TimeoutExpired:
        # A bug may make a test wait for ever: that is seen, too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def main() -> int:
    listed = canaries()
    healthy: dict[str, bool] = {}
    caught = []
    for name, command in listed:
        key = " ".join(command)
        if key not in healthy:
            healthy[key] = tests_pass(command, "")
        found = healthy[key] and not tests_pass(command, name)
        verdict = "caught" if found else "MISSED" if healthy[key] else "tests fail without it"
        print(f"{name:32} {verdict}", flush=True)
        caught.append(found)
    figure = {"id": "X3", "tried": len(listed), "failed": len(listed) - sum(caught)}
    print("figure: " + json.dumps(figure))
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
