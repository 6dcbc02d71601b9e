"""What the site changes in docstrings before it shows them.

Docstrings of this package have a section "Example", which griffe takes for a note. Invariant: a
docstring on the site says what it says in the source.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Makes "Example" a section of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the section of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub("Examples:", obj.docstring.value)
