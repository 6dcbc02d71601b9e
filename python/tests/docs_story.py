"""Runs the blocks of a page as one story: `python docs_story.py PAGE FOLDER`.

Blocks of Python share their names, blocks of a shell one shell, and both a working folder. Prompts
run with the environment's programs; `neargraph` is the package that this Python imports. Servers
listen on free ports: the addresses of the pages, 127.0.0.1:7400 and :7401, stand for them.
Invariant: whatever a page started has ended when this program ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from docs_page import ROOT, Block, blocks_of, commands_of, is_as_told

ADDRESS, SIDE = "127.0.0.1:7400", "127.0.0.1:7401"
# Folders of a clone that pages may name.
CLONE = ("examples", "fixtures")
SECONDS_MAX = 300.0
# A server in the background: later blocks find it listening.
_SERVER = re.compile(r"\bserve\b[^\n#]*&[ \t]*(#.*)?$", re.MULTILINE)


class StoryFailed(Exception):
    """A block does not do what its page says."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Shell:
    """One bash for all blocks of a page, with its folder, variables and jobs."""

    def __init__(self, folder: Path, private: Path, environment: dict[str, str]) -> None:
        self._private, self._count = private, 0
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            text=True,
            start_new_session=True,
        )
        # Job control, for pages that end a job with `kill %1`.
        self._send("set -m\n")

    def _send(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def run(self, command: str) -> tuple[str, int, str]:
        """(output, exit code, folder) after a command; it runs in the shell itself."""
        # Files of its own, because a job that goes on also goes on writing.
        self._count += 1
        script, out, result = (
            self._private / f"{self._count}.{name}" for name in ("command", "out", "result")
        )
        script.write_text(command)
        self._send(
            f"source {script} </dev/null >{out} 2>&1\n"
            f'printf "%s\\n%s\\n" "$?" "$PWD" >{result}.new\n'
            f"mv {result}.new {result}\n"
        )
        deadline = time.monotonic() + SECONDS_MAX
        while not result.exists():
            if self._bash.poll() is not None:
                return out.read_text(errors="replace"), self._bash.returncode, ""
            if time.monotonic() > deadline:
                said = out.read_text(errors="replace")
                raise StoryFailed(f"takes more than {SECONDS_MAX:.0f} s\n{said}")
            time.sleep(0.01)
        code, folder = result.read_text().splitlines()
        return out.read_text(errors="replace"), int(code), folder

    def close(self) -> None:
        """Ends the shell and all that it started."""
        for end in (signal.SIGTERM, signal.SIGKILL):
            for process in _session(self._bash.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, end)
            deadline = time.monotonic() + 5
            while _session(self._bash.pid) and time.monotonic() < deadline:
                self._bash.poll()
                time.sleep(0.01)
        self._bash.wait()


def _session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program may have blanks and brackets.
            state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


class Story:
    """A page that is run from its top to its bottom."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page, self._folder = page, folder
        self._private = folder / ".story"
        self._private.mkdir(parents=True)
        for name in CLONE:
            (folder / name).symlink_to(ROOT / name)
        listen, side = free_ports(2)
        self._addresses = {ADDRESS: f"127.0.0.1:{listen}", SIDE: f"127.0.0.1:{side}"}
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._last = ""
        self._shell = Shell(folder, self._private, self._environment())

    def _environment(self) -> dict[str, str]:
        programs = self._private / "bin"
        programs.mkdir()
        package = Path(sys.modules["neargraph"].__file__ or "").parents[1]
        wrapper = programs / "neargraph"
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} --command "$@"\n')
        wrapper.chmod(0o755)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        told = {"STORY_ADDRESSES": json.dumps(self._addresses)}
        python = {"PYTHONPATH": str(package), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **told, **python, "PATH": path, "COLUMNS": "100", "TERM": "dumb"}

    def run(self) -> None:
        """Runs all blocks.

        Raises:
            StoryFailed: A block does not do what the page says.
        """
        os.chdir(self._folder)
        # As at a prompt: modules that the page writes can be imported.
        sys.path.insert(0, "")
        try:
            for block in blocks_of(self._page.read_text()):
                try:
                    self._run(block)
                except StoryFailed as error:
                    raise StoryFailed(f"{self._page.name}:{block.line}: {error}") from None
        finally:
            self._shell.close()

    def _run(self, block: Block) -> None:
        text = self._here(block.text)
        if "file" in block.settings:
            Path(block.settings["file"]).write_text(text)
        elif block.language == "text" and "output" in block.words:
            self._compare(self._last, block.text)
        elif not block.is_run:
            return
        elif block.language == "python":
            self._python(block, text)
        elif block.language == "console":
            for command, told in commands_of(block):
                self._command(self._here(command), int(block.settings.get("exit", 0)))
                if "output" in block.words:
                    self._compare(self._last, told)
        else:
            ends = int(block.settings.get("exit", 0))
            # The shell ends with the first command that fails.
            self._command(text if ends else f"set -e\n{text}\nset +e\n", ends)

    def _here(self, text: str) -> str:
        """A text of the page with the addresses of this run."""
        for told, here in self._addresses.items():
            text = text.replace(told, here)
        return text

    def _compare(self, came: str, told: str) -> None:
        for there, here in self._addresses.items():
            came = came.replace(here, there)
        if not is_as_told(came, told):
            raise StoryFailed(f"the page says\n{told}\nwhat comes is\n{came}")

    def _python(self, block: Block, text: str) -> None:
        """Runs a block of Python; traces name lines of the page."""
        awaited = block.settings.get("raises")
        out = io.StringIO()
        try:
            code = compile("\n" * (block.line - 1) + text, str(self._page), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, self._names)
        except Exception as error:
            if awaited is None or not any(c.__name__ == awaited for c in type(error).__mro__):
                raise StoryFailed(traceback.format_exc()) from None
        else:
            if awaited is not None:
                raise StoryFailed(f"nothing raises {awaited}")
        self._last = out.getvalue()

    def _command(self, command: str, ends: int) -> None:
        self._last, code, folder = self._shell.run(command)
        if code != ends:
            raise StoryFailed(f"{command.strip()}\nends with {code}:\n{self._last}")
        os.chdir(folder)
        if _SERVER.search(command):
            self._await_server()

    def _await_server(self) -> None:
        host, port = self._addresses[ADDRESS].split(":")
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                return
            time.sleep(0.05)
        raise StoryFailed("the server does not listen")


def command(arguments: list[str]) -> None:
    """`neargraph` as pages call it: commands that have an address get that of this run."""
    from neargraph.cli.app import main

    addresses = json.loads(os.environ["STORY_ADDRESSES"])
    name, *rest = arguments or [""]
    given = {word.split("=")[0] for word in rest}
    if name == "serve" and not given & {"--config", "--help"}:
        places = {"--listen": addresses[ADDRESS], "--side": addresses[SIDE]}
        rest += [word for pair in places.items() if pair[0] not in given for word in pair]
    elif name in ("query", "register", "top") and not given & {"--address", "--help"}:
        rest += ["--address", addresses[ADDRESS]]
    main([name, *rest] if arguments else [])


def _stop(*_: object) -> None:
    raise StoryFailed("stopped from outside")


if __name__ == "__main__":
    if sys.argv[1] == "--command":
        command(sys.argv[2:])
    else:
        import neargraph  # noqa: F401

        signal.signal(signal.SIGTERM, _stop)
        try:
            Story(Path(sys.argv[1]), Path(sys.argv[2])).run()
        except StoryFailed as failed:
            print(failed)
            sys.exit(1)
