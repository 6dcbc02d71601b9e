"""X3: plants each known bug and expects the tests to catch it.

Builds the tests as `make test` does, then runs each line of canaries.txt twice, several at once:
without the bug the tests must pass, with it they must fail. Names as arguments choose among the
bugs; then only their tests are built.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("canaries.txt")
# Some tests wait for processes or disks, so that a core has time for one more.
AT_ONCE = (os.cpu_count() or 1) + 1
SECONDS_MAX = 240


@dataclass(frozen=True)
class Tests:
    """What a line of the list runs: some programs of one crate, and in them what `name` matches."""

    package: str
    programs: tuple[str, ...]
    name: str | None

    @staticmethod
    def parse(command: str) -> Tests:
        """From the arguments that `cargo test` would take."""
        parser = argparse.ArgumentParser(prog=LIST.name)
        parser.add_argument("-p", dest="package", required=True)
        parser.add_argument("--test", dest="programs", action="append", default=[])
        parser.add_argument("--lib", dest="programs", action="append_const", const="lib")
        parser.add_argument("name", nargs="?")
        found = parser.parse_args(command.split())
        return Tests(found.package, tuple(found.programs), found.name)

    def arguments(self) -> list[str]:
        """Those of `cargo test` that build no more than these."""
        programs = ("--lib" if name == "lib" else f"--test={name}" for name in self.programs)
        return [f"--package={self.package}", *programs]


@dataclass(frozen=True)
class Program:
    """A program of tests that cargo has built."""

    package: Path
    name: str
    file: str


def canaries(chosen: list[str]) -> list[tuple[str, Tests]]:
    """(name, tests) of each planted bug, or of those that are named."""
    lines = (line.split("#")[0].strip() for line in LIST.read_text().splitlines())
    pairs = (line.split("|") for line in lines if line)
    listed = {name.strip(): Tests.parse(command) for name, command in pairs}
    if unknown := set(chosen) - set(listed):
        sys.exit(f"{LIST.name} has no line for {', '.join(sorted(unknown))}")
    return [(name, tests) for name, tests in listed.items() if name in (chosen or listed)]


def build(only: list[str]) -> list[Program]:
    """Builds all tests, or those that the arguments choose, and says where each program lies."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    command += only or ["--workspace"]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    programs = []
    for message in map(json.loads, lines.splitlines()):
        if message.get("executable") and message["profile"]["test"]:
            target = message["target"]
            name = target["name"] if target["kind"] == ["test"] else target["kind"][0]
            package = Path(message["manifest_path"]).parent
            programs.append(Program(package, name, message["executable"]))
    return programs


def tests_pass(tests: Tests, built: list[Program], canary: str, seconds_max: float) -> bool:
    """Whether the tests pass with one canary planted (none, if empty)."""
    mine = [program for program in built if program.package.name == tests.package]
    wanted = tests.programs or tuple(program.name for program in mine)
    if absent := set(wanted) - {program.name for program in mine}:
        sys.exit(f"{LIST.name}: {tests.package} has no tests {', '.join(sorted(absent))}")
    env = {"NEARGRAPH_CRASH_IMAGES": "6000", "NEARGRAPH_ISOLATION_SECONDS": "10"} | os.environ
    env |= {"NEARGRAPH_CANARY": canary}
    end = time.monotonic() + seconds_max
    return all(
        passes(program, tests.name, env, end - time.monotonic())
        for program in mine
        if program.name in wanted
    )


def passes(program: Program, name: str | None, env: dict[str, str], seconds_max: float) -> bool:
    """Whether one program of tests ends well, and in time."""
    process = subprocess.Popen(
        [program.file, "--quiet"] + ([name] if name else []),
        cwd=program.package,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=max(seconds_max, 1))
    except subprocess.TimeoutExpired:
        # A bug may make a test wait for ever: that is seen, too.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    # A name that nothing matches would pass.
    return process.returncode == 0 and "\nrunning 0 tests" not in output


def main() -> int:
    listed = canaries(sys.argv[1:])
    commands = list(dict.fromkeys(tests for _, tests in listed))
    chosen = dict.fromkeys(word for tests in commands for word in tests.arguments())
    built = build(list(chosen) if sys.argv[1:] else [])

    def without(tests: Tests) -> tuple[bool, float]:
        start = time.monotonic()
        return tests_pass(tests, built, "", SECONDS_MAX), time.monotonic() - start

    with ThreadPoolExecutor(AT_ONCE) as pool:
        healthy = dict(zip(commands, pool.map(without, commands), strict=True))

        def caught(canary: tuple[str, Tests]) -> bool:
            # What waits for ever need not hold up the rest for long.
            good, seconds = healthy[canary[1]]
            seconds_max = min(30 + 5 * seconds, SECONDS_MAX)
            return good and not tests_pass(canary[1], built, canary[0], seconds_max)

        found = []
        for (name, tests), seen in zip(listed, pool.map(caught, listed), strict=True):
            verdict = "caught" if seen else "MISSED"
            verdict = verdict if healthy[tests][0] else "tests fail without it"
            print(f"{name:32} {verdict}", flush=True)
            found.append(seen)
    figure = {"id": "X3", "tried": len(found), "failed": len(found) - sum(found)}
    print("figure: " + json.dumps(figure))
    return 0 if not figure["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
