"""The public names of the package, and which of them the reference of Python leaves out.

Names are read from the sources, so that nothing is imported. Invariant: a name that `import
neargraph` offers is in the reference.
"""

from __future__ import annotations

import ast
from typing import Any

from places import ROOT

_PACKAGE = ROOT / "python/neargraph"


def _assigned(path: str) -> dict[str, Any]:
    """The literal values that a module assigns to its names."""
    found: dict[str, Any] = {}
    for node in ast.parse((_PACKAGE / path).read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def missing_names(documented: set[str]) -> list[str]:
    """The public names that no page documents, under their own name or where they are defined."""
    package, exceptions = _assigned("__init__.py"), _assigned("exceptions.py")
    homes: dict[str, str] = package["_LAZY"]
    modules = {home for home in documented if home.count(".") == 1}
    missing = []
    for name in sorted({*package["__all__"], *homes, *exceptions["__all__"]} - {"__version__"}):
        home = homes.get(name, "neargraph.exceptions")
        places = {f"neargraph.{name}", f"{home}.{name}"}
        if home not in modules and not places & documented:
            missing.append(f"neargraph.{name}")
    return missing
