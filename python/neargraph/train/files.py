"""Small files of a run, each written atomically: YAML, JSON and CSV.

The invariant: whenever the process ends, a file has its old or its new content.
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
    """Writes `content` to a temporary file beside `path`, and renames it."""
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
    """Writes plain data as JSON. NaN and infinity are errors."""
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
    """Writes one line for each setting, in order, with its remark as a comment."""
    yaml = _yaml()

    def line(name: str, value: Any) -> str:
        # Inside a list, because YAML adds an end mark after a lone scalar.
        text = str(yaml.safe_dump([value], default_flow_style=True, width=math.inf)).strip()[1:-1]
        remark = f"  # {remarks[name]}" if name in remarks else ""
        return f"{name}: {text}{remark}\n"

    write_whole(path, "".join(line(*item) for item in settings.items()).encode())


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns the settings of a file by name. Code in the file does not run.

    Raises:
        UnsupportedArgument: The file is not a YAML mapping of names to values.
        MissingDependency: PyYAML is not installed.
    """
    yaml = _yaml()
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UnsupportedArgument(f"{path} is larger than 1 MiB and is not a settings file")
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UnsupportedArgument(f"{path} is not valid YAML ({why})") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UnsupportedArgument(f"{path} is not a mapping of names to values, like 'epochs: 10'")
    return found


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as missing:
        raise MissingDependency(
            f"settings files need PyYAML ({missing.name} is missing): "
            "pip install 'neargraph[train]'"
        ) from missing
    return yaml
