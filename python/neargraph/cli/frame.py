"""What all commands have in common: lazy loading, help with examples, options on both sides.

What must not live here: what a command does, or the list of them (`commands.py`). The invariant:
the list of commands, help and completion import no command but the one that is named.
"""

import functools
import inspect
import logging
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .commands import COMMANDS, GROUPS, Entry
from .errors import tell_interrupt
from .settings import COMMON, OPTIONS, settings

_BY_NAME = {entry.name: entry for entry in COMMANDS}
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}
"""How a `typer.Typer` of this program prints help."""
_PASSED_ON: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}


class _Help:
    """Help in plain text: options under headings, then examples as they are typed."""

    examples: Sequence[str] = ()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as their help names them, those that may be left out in brackets."""
        pieces = ["[OPTIONS]"]
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            if param.param_type_name == "argument":
                name = (param.metavar or param.name).upper() + "..." * (param.nargs != 1)
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, own options, and those of all commands."""
        sections: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            record = param.get_help_record(ctx)
            if record is None:
                continue
            is_argument = param.param_type_name == "argument"
            own = "Arguments" if is_argument else "Options"
            panel = COMMON if param.name == "help" else getattr(param, "rich_help_panel", None)
            sections.setdefault(panel or own, []).append(record)
        for heading in sorted(sections, key=lambda name: name == COMMON):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])

    def format_epilog(self, _: Any, formatter: Any) -> None:
        """The examples, each on a line of its own."""
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Command(_Help, TyperCommand):
    """A command whose help has headings and examples."""


class Group(_Help, TyperGroup):
    """A command with commands of its own."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As of a command, and the commands inside."""
        return [*_Help.collect_usage_pieces(self, ctx), "COMMAND [ARGS]..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options, then commands."""
        _Help.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class Root(Group):
    """The program: commands under headings, each loaded when it is named."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.commands = _Loaded()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggests names for a mistyped one."""
        if args and args[0] not in _BY_NAME and not args[0].startswith("-"):
            close = " or ".join(map(repr, get_close_matches(args[0], _BY_NAME)))
            hint = f"; did you mean {close}?" if close else ""
            ctx.fail(f"{args[0]!r} is not a command{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _: Any, formatter: Any) -> None:
        """The table, group by group."""
        width = max(map(len, _BY_NAME)) + 2
        for group in GROUPS:
            with formatter.section(group):
                for entry in COMMANDS:
                    if entry.group == group:
                        formatter.write(f"  {entry.name:{width}}{entry.summary}\n")

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completes the names of commands from the table, so that none is loaded for it."""
        self.commands = {
            entry.name: Command(entry.name, short_help=entry.summary) for entry in COMMANDS
        }
        return super().shell_complete(ctx, incomplete)


class _Loaded(MutableMapping[str, Any]):
    """The commands by name, in the order of the table; each is loaded when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load(_BY_NAME[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)


def load(entry: Entry) -> Any:
    """The command of an entry of the table, imported and built."""
    module, name = entry.place
    found = getattr(import_module(f".{module}", __package__), name)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
        command.name = entry.name
    elif entry.passes_on:
        command = _built(found, entry.name, **_PASSED_ON)
    else:
        command = _built(with_common(found), entry.name)
    for one in (command, *getattr(command, "commands", {}).values()):
        one.examples = entry.examples
    if not entry.passes_on:
        _, _, rest = (command.help or "").partition("\n\n")
        command.help = f"{entry.summary}\n\n{rest}".rstrip()
    return command


def _built(function: Callable[..., None], name: str, **how: Any) -> Any:
    alone = typer.Typer(**PLAIN)
    alone.command(name, cls=Command, **how)(function)
    return typer.main.get_command(alone)


def with_common(command: Callable[..., None], is_root: bool = False) -> Callable[..., None]:
    """The command with the options that every command has, which it does not see itself.

    ``is_root``: the options stand before the name of a command, which runs afterwards.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    given = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [parameter.replace(kind=keyword) for parameter in given]
    for name, annotation in OPTIONS.items():
        parameters.append(inspect.Parameter(name, keyword, default=False, annotation=annotation))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        start = time.perf_counter()
        for name in OPTIONS:
            # What was given before the name of the command stays given.
            if values.pop(name):
                setattr(settings, name, True)
        if settings.verbose and settings.quiet:
            raise typer.BadParameter("--verbose and --quiet exclude each other")
        settings.json = settings.json or bool(values.get("as_json"))
        try:
            with _decisions():
                command(**values)
        except KeyboardInterrupt:
            tell_interrupt()
            raise typer.Exit(130) from None
        if settings.verbose and not is_root:
            typer.echo(f"time in total: {time.perf_counter() - start:.2f} s", err=True)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def _decisions() -> Iterator[None]:
    """With ``--verbose``, what loaders decide goes to stderr; on a terminal training shows it."""
    if not settings.verbose or sys.stderr.isatty():
        yield
        return
    log, handler = logging.getLogger("neargraph"), logging.StreamHandler(sys.stderr)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
