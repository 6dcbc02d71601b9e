"""The program: its own options, and how it ends.

What must not live here: commands (`commands.py`) and what they print. The invariant: it exits with
0, with 1 where a check found damage, with 2 after an error, and with 130 after Ctrl-C.
"""

import os
import sys
import warnings
from typing import Annotated, Any

import typer

import neargraph
from neargraph.exceptions import NeargraphError

from .errors import one_line, tell, tell_usage
from .frame import Root, with_common
from .settings import reset

__all__ = ["app", "main", "one_line", "quiet_torch"]

# The base of the errors of typer, whatever parser it is built on.
_ParseError: Any = typer.BadParameter.__mro__[2]
_PACKAGE = os.path.dirname(neargraph.__file__)
_PYTHONS_WARNING = warnings.formatwarning
_HELP = (
    "Train and serve graph neural networks on graphs that are larger than memory and are stored on "
    "an SSD."
)

app = typer.Typer(
    name="neargraph",
    cls=Root,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neargraph {neargraph.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options of the program; `app` has its help."""


app.callback(help=_HELP)(with_common(_root, is_root=True))


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line; exits with 0, 1 (verify found damage), 2 (error) or 130 (Ctrl-C)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    reset(json="--json" in given)
    quiet_torch()
    warnings.formatwarning = _warning_line
    try:
        code = app(given, prog_name="neargraph", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except _ParseError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
        else:
            tell_usage(error)
        sys.exit(2)
    except (NeargraphError, ValueError, OSError, MemoryError, ImportError) as error:
        tell(error, given, _options(given))
        sys.exit(2)
    finally:
        warnings.formatwarning = _PYTHONS_WARNING
        reset()


def _warning_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A warning of this package on one line, without its place in the code."""
    if not filename.startswith(_PACKAGE):
        return _PYTHONS_WARNING(message, category, filename, lineno, line)
    return f"warning: {' '.join(str(message).split())}\n"


def _options(arguments: list[str]) -> frozenset[str]:
    """The options of the command that `arguments` name."""
    command: Any = typer.main.get_command(app)
    for argument in arguments:
        if hasattr(command, "get_command"):
            command = command.get_command(None, argument) or command
    return frozenset(o for p in command.params for o in (*p.opts, *p.secondary_opts))


def quiet_torch() -> None:
    """Hides what torch announces about its own future when PyG is imported."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch(\..*)?$")
    warnings.filterwarnings("ignore", message=r"`torch\.jit", category=FutureWarning)
