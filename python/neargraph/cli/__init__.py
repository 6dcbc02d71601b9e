"""The `neargraph` command: import, info, verify, update, checkpoint, train, doctor.

Each command lives in a module of its own and only parses, calls and prints. Invariants: without
torch everything but `train` works; an error is one line on stderr and exit code 2.
"""

from .app import app, main

__all__ = ["app", "main"]
