"""How a command speaks: verbosity, colour, JSON, tracebacks; and the options that say so.

What must not live here: what is printed. The invariant: `reset` makes the settings of a program
that was just started.
"""

import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer

COMMON = "Common options"
"""The heading of the options that every command has."""


@dataclass
class Settings:
    """What the command line says of its own output."""

    verbose: bool = False
    quiet: bool = False
    no_color: bool = False
    debug: bool = False
    json: bool = False

    @property
    def silent(self) -> bool:
        """Whether neither progress nor notes are printed."""
        return self.quiet or self.json


settings = Settings()
"""Those of the command that runs."""


def reset(json: bool = False) -> None:
    """Forgets what an earlier command line said; ``NO_COLOR`` counts as ``--no-color``."""
    fresh = Settings(no_color=bool(os.environ.get("NO_COLOR")), json=json)
    settings.__dict__.update(fresh.__dict__)


def _option(*names: str, text: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=COMMON, show_default=False)


OPTIONS: dict[str, Any] = {
    "verbose": Annotated[
        bool,
        _option(
            "--verbose", "-v", text="Print times, I/O back end, reads and memory use to stderr."
        ),
    ],
    "quiet": Annotated[bool, _option("--quiet", "-q", text="Print neither progress nor notes.")],
    "no_color": Annotated[
        bool,
        _option(
            "--no-color",
            text="Print no colours. The environment variable NO_COLOR has the same effect.",
        ),
    ],
    "debug": Annotated[bool, _option("--debug", text="Print the Python traceback of an error.")],
}
"""The options of every command, by the setting that each turns on."""

Json = Annotated[
    bool,
    _option(
        "--json",
        text="Print the result as JSON to stdout, and an error as one line of JSON to stderr.",
    ),
]
"""The option of commands that print a result."""
