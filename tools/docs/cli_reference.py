"""The reference of the command line, from the commands themselves.

Commands of Python are read through typer; those of the compiled core print their help by
themselves. Invariant: each command and option that the program has is on the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from places import ROOT

_PYTHON = ROOT / "python"


def cli_reference() -> str:
    """The page as Markdown, one heading for each command."""
    sys.path.insert(0, str(_PYTHON))
    try:
        import typer

        from neargraph.cli.app import app
    except ImportError as error:
        return f"The commands are not listed, because the package is not built here: {error}."
    return "\n\n".join(_command(typer.main.get_command(app), "neargraph"))


def _command(command: Any, path: str) -> Iterator[str]:
    """One command and those below it."""
    yield f"## `{path}`"
    passes_on = bool(getattr(command, "context_settings", {}).get("ignore_unknown_options"))
    inside = getattr(command, "commands", {})
    if passes_on:
        yield _said(path)
        return
    yield _usage(command, path, bool(inside))
    if command.help:
        yield _paragraphs(command.help)
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    if arguments:
        yield _table("argument", arguments)
    if options:
        yield _table("option", options)
    if inside:
        yield "| command | |\n|---|---|\n" + "\n".join(
            f"| [`{name}`](#{_anchor(path, name)}) | {_first_sentence(below)} |"
            for name, below in sorted(inside.items())
        )
    for name, below in sorted(inside.items()):
        yield from _command(below, f"{path} {name}")


def _anchor(path: str, name: str) -> str:
    return f"{path} {name}".replace(" ", "-")


def _usage(command: Any, path: str, has_commands: bool) -> str:
    words = [path]
    if command.params:
        words.append("[OPTIONS]")
    for param in command.params:
        if param.param_type_name == "argument":
            name = _name(param) + ("..." if param.nargs == -1 or param.multiple else "")
            words.append(name if param.required else f"[{name}]")
    if has_commands:
        words.append("COMMAND [ARGUMENTS]...")
    return f"```text\n{' '.join(words)}\n```"


def _first_sentence(command: Any) -> str:
    text = " ".join((command.help or "").split())
    return _cell(re.split(r"(?<=\.)\s", text, maxsplit=1)[0])


def _paragraphs(text: str) -> str:
    """Help as Markdown: paragraphs stay, and lines indented by two or more become code."""
    parts = []
    for part in re.split(r"\n\s*\n", text.replace("\b", "").strip("\n")):
        lines = [line for line in part.split("\n") if line.strip()]
        if lines and all(line.startswith(("  ", "\t")) for line in lines):
            parts.append("```sh\n" + "\n".join(line.strip() for line in lines) + "\n```")
        else:
            parts.append("\n".join(line.strip() for line in lines))
    return "\n\n".join(parts)


# A default that a command writes into its help by itself.
_DEFAULT = re.compile(r"\s*\[default: ([^\]]*)\]$")


def _table(kind: str, params: list[Any]) -> str:
    lines = [f"| {kind} | value | default | meaning |", "|---|---|---|---|"]
    for param in params:
        shown = "<br>".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
        if kind == "argument":
            shown = f"`{_name(param)}`"
        meaning = _cell(" ".join(_DEFAULT.sub("", param.help or "").split()))
        lines.append(f"| {shown} | {_value(param)} | {_default(param)} | {meaning} |")
    return "\n".join(lines)


def _name(param: Any) -> str:
    return str(param.metavar or param.name).upper().rstrip(".")


def _value(param: Any) -> str:
    """What a parameter takes: its choices, or its type; flags take nothing."""
    if getattr(param, "is_flag", False) or getattr(param, "count", False):
        return "flag"
    kind = param.type_descriptor.annotation
    choices = [member.value for member in kind] if _is_enum(kind) else get_args(kind)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    many = ", may be repeated" if param.multiple or param.nargs == -1 else ""
    bounds = "" if param.min is None else f" >= {param.min}"
    bounds += "" if param.max is None else f"{',' if bounds else ''} <= {param.max}"
    return f"{_TYPES.get(kind, 'text')}{bounds}{many}"


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


_TYPES = {int: "whole number", float: "number", Path: "path", bool: "flag"}


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    if at := _DEFAULT.search(param.help or ""):
        value = at[1]
    if callable(value) or value is None or value == () or value == []:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    value = getattr(value, "value", value)
    return f"`{_cell(str(value))}`" if str(value) else ""


def _cell(text: str) -> str:
    """Text for a cell of a table: bars and brackets stay what they are."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def _said(path: str) -> str:
    """The help of a command that prints it by itself."""
    line = [sys.executable, "-m", "neargraph", *path.split()[1:], "--help"]
    environment = {"PYTHONPATH": str(_PYTHON), "PATH": "/usr/bin:/bin", "COLUMNS": "100"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, env=environment)
    if done.returncode:
        return f"The compiled extension is not built here: `{path} --help` prints the options."
    return f"```text\n{done.stdout.rstrip()}\n```"
