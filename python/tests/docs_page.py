"""The code blocks of a page of the documentation, and the rules that they keep.

What must not live here: how a block is run, which is `docs_story.py`. The words after the language
of a fence say what is done with it:

- ``python``, ``sh``, ``bash``: run. ``console``: the lines after ``$ `` are run.
- ``output``: what comes is compared, where ``...`` stands for anything. With ``console`` it is what
  stands below each command, with ``text`` the whole block, for the block before it.
- ``exit=2``: the last command ends with this code. ``raises=StoreBusy``: the block ends with it.
- ``file=NAME``: the block is the content of a file, which later blocks use.
- ``no-run REASON``: not run, for one of `REASONS`.

A comment ``<!-- setup python`` or ``<!-- setup sh`` is run and not shown: it makes data that the
page names. Invariant: each block of a page is run, compared, written, or has a reason.
"""

from __future__ import annotations

import codeop
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/docs"))

from markdown_text import FENCE, prose

ROOT = Path(__file__).resolve().parents[2]
RUN = frozenset({"python", "sh", "bash", "console"})
SHOWN = frozenset(
    {"c", "cpp", "csv", "diff", "html", "ini", "json", "proto", "rust", "text", "toml", "yaml"}
)
REASONS = {
    "gpu": "needs a GPU",
    "machines": "needs several machines",
    "hours": "takes longer than a test may",
    "install": "installs or removes software",
    "network": "needs the network",
    "container": "needs a container engine",
    "system": "changes the system, as root",
    "interactive": "needs a terminal",
}
_SETUP = re.compile(r"^<!-- setup (\w+)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
_SETUP_LINES_MAX = 20
_INDENTED = re.compile(r"^(?: {4}|\t)\S")
_LIST = re.compile(r"^\s*(?:[-*+]|\d+\.)\s")


@dataclass(frozen=True)
class Block:
    """A fence, or a hidden comment that makes data; `line` is that of its first line of text."""

    language: str
    text: str
    line: int
    words: tuple[str, ...] = ()
    hidden: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return self.words[1] if self.words[:1] == ("no-run",) and len(self.words) > 1 else None

    @property
    def is_run(self) -> bool:
        """Whether it is run."""
        return self.language in RUN and "no-run" not in self.words and "file" not in self.settings


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, in their order."""
    hidden = [
        Block(at[1], at[2], text.count("\n", 0, at.start()) + 2, hidden=True)
        for at in _SETUP.finditer(text)
    ]
    return sorted([*_fences(text), *hidden], key=lambda block: block.line)


def _fences(text: str) -> Iterator[Block]:
    opened, lines = None, []
    for number, line, is_prose in prose(text):
        at = None if is_prose else FENCE.match(line)
        if opened is None:
            if at:
                opened, lines = at, []
        elif at and at["ticks"].startswith(opened["ticks"]) and not at["info"].strip():
            yield _block(opened["info"], lines, number - len(lines))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))


def _block(info: str, lines: list[str], line: int) -> Block:
    language, *rest = info.split() or [""]
    settings = dict(word.split("=", 1) for word in rest if "=" in word)
    words = tuple(word for word in rest if "=" not in word)
    return Block(language, "\n".join([*lines, ""]), line, words, settings=settings)


def problems_of(text: str) -> list[str]:
    """Rules that blocks of a page do not keep."""
    found = [f"line {b.line}: {what}" for b in blocks_of(text) for what in _problems(b)]
    return found + [f"line {line}: code by indentation; use a fence" for line in _indented(text)]


def _problems(block: Block) -> Iterator[str]:
    if block.hidden:
        if block.language not in RUN - {"console"}:
            yield f"setup in {block.language}; write it in python or sh"
        if block.text.count("\n") > _SETUP_LINES_MAX:
            yield f"setup of more than {_SETUP_LINES_MAX} lines; show readers how it is made"
        return
    if block.language not in RUN | SHOWN:
        yield f"a fence in {block.language!r}, which is not a known language"
    known = {"output"} if block.language in ("console", "text") else set()
    extra = [word for word in block.words if word not in known and block.words[0] != "no-run"]
    if "no-run" in block.words and (block.reason not in REASONS or len(block.words) != 2):
        yield f"no-run without a reason of {', '.join(REASONS)}"
    elif extra:
        yield f"unknown words {' '.join(extra)}"
    for name in block.settings.keys() - {"exit", "raises", "file"}:
        yield f"an unknown setting {name}="
    if block.language == "console" and not block.text.startswith("$ "):
        yield "a console without a prompt; begin with '$ ', or write sh"
    if block.language == "python" and block.is_run and (line := _prompt_stops(block.text)):
        yield f"python's prompt stops at line {line} of the block; end each body by an empty line"
    if block.language in ("sh", "bash") and re.search(r"^\$ ", block.text, re.MULTILINE):
        yield "a prompt in sh; write console, or leave the prompt out"


def _prompt_stops(text: str) -> int | None:
    """The line at which Python's prompt stops when the block is pasted; None if it takes all.

    The prompt ends a body at an empty line and nowhere else.
    """
    compiled, lines = codeop.CommandCompiler(), list[str]()
    for number, line in enumerate(f"{text}\n".split("\n"), 1):
        lines.append(line)
        try:
            if compiled("\n".join(lines), symbol="single") is not None:
                lines.clear()
        except SyntaxError:
            return number
    return None


def _indented(text: str) -> Iterator[int]:
    """Lines that begin a block of code by indentation, outside lists."""
    before, in_list = "", False
    for number, line, is_prose in prose(_SETUP.sub(lambda at: "\n" * at[0].count("\n"), text)):
        if line.strip():
            in_list = bool(_LIST.match(line)) or (in_list and line.startswith((" ", "\t")))
            if is_prose and not in_list and not before.strip() and _INDENTED.match(line):
                yield number
        before = line


def commands_of(block: Block) -> list[tuple[str, str]]:
    """(command, what comes) of each prompt of a console."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def is_as_told(came: str, told: str) -> bool:
    """Whether an output is what a page says; ``...`` stands for anything."""

    def plain(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    pattern = ".*".join(re.escape(part) for part in plain(told).split("..."))
    return re.fullmatch(pattern, plain(came), re.DOTALL) is not None
