"""How an error leaves the program: one line on stderr, as text or as JSON.

What must not live here: which errors are raised. The invariant: whatever ends a command with exit
code 2 prints exactly one line here, in the words of the options of that command.
"""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from neargraph.exceptions import NeargraphError
from neargraph.remedies import flag_words, on_command_line

from .settings import settings


def tell(error: BaseException, arguments: Sequence[str], options: frozenset[str]) -> None:
    """Prints an error of a command with these arguments, which has these options."""
    if settings.debug:
        traceback.print_exception(error)
    if not settings.json:
        print(f"error: {one_line(error, options)}", file=sys.stderr)
        return
    # The message without the advice, which stands beside it.
    bare = str(error.with_advice(lambda _: "")) if isinstance(error, NeargraphError) else ""
    remedies = list(getattr(error, "remedies", ()))
    advice = [words for r in remedies if (words := on_command_line(r, options))]
    message = _flat(flag_words(bare, options)) if bare else one_line(error, options)
    facts = {
        "type": type(error).__name__,
        "message": message,
        "advice": ", or ".join(advice) or getattr(error, "remedy", "") or None,
        "remedies": remedies,
        "path": _path(error, message, arguments),
    }
    _print_json(facts)


def tell_usage(error: Any) -> None:
    """Prints what is wrong with a command line; `error` is typer's."""
    # Checks of values are those of pydantic, which says so first.
    text = _flat(error.format_message()).replace("Value error, ", "").rstrip(".")
    # Of options that do not go together, no value is invalid.
    text = text.removeprefix("Invalid value: ")
    text = text[:1].lower() + text[1:]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "neargraph"
    see = f"see {command} --help"
    if settings.json:
        facts = {"type": "UsageError", "message": text, "advice": see, "remedies": []}
        _print_json({**facts, "path": None})
    else:
        print(f"error: {text}{' ' if text.endswith('?') else '; '}{see}", file=sys.stderr)


def tell_interrupt() -> None:
    """Prints that the user stopped the command."""
    if settings.json:
        facts = {"type": "Interrupted", "message": "interrupted", "advice": None}
        _print_json({**facts, "remedies": [], "path": None})
    else:
        print("interrupted", file=sys.stderr)


def one_line(error: BaseException, options: frozenset[str] = frozenset()) -> str:
    """The message of an error on one line, for a command with `options`; else its class.

    Settings have the names of the options there.
    """
    if isinstance(error, NeargraphError):
        text = error.with_advice(lambda remedy: on_command_line(remedy, options))
    elif isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = str(error)
    return _flat(flag_words(text, options)) or type(error).__name__


def _flat(text: str) -> str:
    return " ".join(text.split())


def _print_json(facts: dict[str, Any]) -> None:
    print(json.dumps({"error": facts}, default=str), file=sys.stderr)


def _path(error: BaseException, message: str, arguments: Sequence[str]) -> str | None:
    """The file that an error is about: its own, or the longest argument that the message names.

    >>> _path(ValueError(), "/tmp/none.ng: there is no store", ["info", "/tmp/none.ng"])
    '/tmp/none.ng'
    """
    filename = getattr(error, "filename", None)
    if filename is not None:
        return str(filename)
    named = [word for word in arguments if os.path.abspath(word) in message and os.sep in message]
    named += [word for word in arguments if os.sep in word and word in message]
    return max(named, key=len, default=None)
