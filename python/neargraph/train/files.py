"""Small files of a run, each written as a whole: YAML, JSON and CSV.

The invariant: a file is the old one or the new one, whenever the process ends.
"""

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neargraph.exceptions import MissingDependency, UnsupportedArgument

_LARGEST_BYTES = 1 << 20


def write_whole(path: Path, content: bytes) -> None:
    """Writes `content` beside `path`, and renames it."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes plain data as JSON; NaN and infinity do not occur in a result."""
    write_whole(path, json.dumps(value, indent=1, allow_nan=False).encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows with a header of all their keys, in the order of their first appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def write_yaml(path: Path, settings: Mapping[str, Any], remarks: Mapping[str, str]) -> None:
    """Writes one line for each setting, in order; a setting with a remark has it at the end."""
    yaml = _yaml()

    def line(name: str, value: Any) -> str:
        # Inside a list, because YAML puts an end mark behind a scalar that stands alone.
        text = str(yaml.safe_dump([value], default_flow_style=True, width=math.inf)).strip()[1:-1]
        remark = f"  # {remarks[name]}" if name in remarks else ""
        return f"{name}: {text}{remark}\n"

    write_whole(path, "".join(line(*item) for item in settings.items()).encode())


def read_yaml(path: Path) -> dict[str, Any]:
    """The settings of a file, by name; no code of it is run.

    Raises:
        UnsupportedArgument: It is not a mapping of names to values, or not YAML.
        MissingDependency: PyYAML is not installed.
    """
    yaml = _yaml()
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UnsupportedArgument(f"{path}: larger than 1 MiB; it is not a file of settings")
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UnsupportedArgument(f"{path}: not valid YAML ({why})") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UnsupportedArgument(f"{path}: not a mapping of names to values, like 'epochs: 10'")
    return found


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as missing:
        raise MissingDependency(
            f"files of settings need PyYAML ({missing.name} is missing): "
            "pip install 'neargraph[train]'"
        ) from missing
    return yaml
