"""The command tree, and how an error leaves the program."""

import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

import neargraph
from neargraph.exceptions import NeargraphError
from neargraph.remedies import flag_words, on_command_line

from . import serve
from .backup import backup, restore
from .checkpoint import checkpoint
from .compact import compact
from .compile import compile_
from .doctor import doctor
from .evaluate import evaluate
from .expand import expand
from .export import export
from .import_ import import_
from .infer import infer
from .info import info
from .model import model
from .predict import predict
from .profile import profile
from .quantise import quantise
from .query import query
from .register import register
from .reorganize import reorganize
from .scrub import scrub
from .simulate import simulate
from .top import top
from .topk import topk
from .train import train
from .update import update
from .verify import verify

app = typer.Typer(
    name="neargraph",
    help="Graphs on disk that graph neural networks train from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("import")(import_)
app.command()(expand)
app.command()(export)
app.command()(info)
app.command()(model)
app.command()(verify)
app.command()(update)
app.command()(checkpoint)
app.command()(backup)
app.command()(restore)
app.command()(compact)
app.command("compile")(compile_)
app.command()(reorganize)
app.command()(scrub)
app.command()(train)
app.command()(evaluate)
app.command()(infer)
app.command()(topk)
app.command()(predict)
app.command()(doctor)
app.command()(quantise)
app.command()(simulate)
serve.add(app)
app.command()(register)
app.command()(query)
app.command()(top)
app.add_typer(profile, name="profile")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neargraph {neargraph.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Graphs on disk that graph neural networks train from."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line; exits with 0, 1 (verify found damage), 2 (error) or 130 (Ctrl-C)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    quiet_torch()
    rest = [argument for argument in given if argument != "--debug"]
    try:
        app(rest, prog_name="neargraph")
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except (NeargraphError, ValueError, OSError, MemoryError, ImportError) as error:
        if debug:
            traceback.print_exception(error)
        typer.echo(f"error: {one_line(error, _options(rest))}", err=True)
        sys.exit(2)


def _options(arguments: list[str]) -> frozenset[str]:
    """The options of the command that `arguments` name."""
    command: Any = typer.main.get_command(app)
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    return frozenset(o for p in command.params for o in (*p.opts, *p.secondary_opts))


def quiet_torch() -> None:
    """Hides what torch announces about its own future when PyG is imported."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch(\..*)?$")
    warnings.filterwarnings("ignore", message=r"`torch\.jit", category=FutureWarning)


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
    return " ".join(flag_words(text, options).split()) or type(error).__name__
