"""The `neargraph` command.

Each command lives in a module of its own and only parses, calls and prints; `commands.py` lists
them. Invariants: commands that do not train need no torch; an error is one line on stderr and exit
code 2; with ``--json``, stdout has one document.
"""

from .app import app, main

__all__ = ["app", "main"]
