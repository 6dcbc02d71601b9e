"""YAML files that describe data sets: read as plain data, in bounded memory.

Invariant: only mappings, lists, text, numbers and truth values come out. A file larger than 1 MiB,
with aliases (which make endless documents of short ones), or with lists in lists beyond what
describes a data set (whose parsing takes time by the square of the depth), is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neargraph.exceptions import MissingDependency

from .check import fail, need_file

_BYTES_MAX = 1 << 20
_DEPTH_MAX = 64


@contextmanager
def yaml_for(what: str) -> Iterator[None]:
    """Within it PyYAML is imported; the error says that `what` needs it.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs PyYAML; install it with: pip install 'neargraph[graphbolt]'"
        ) from missing


def load_yaml(path: Path | str) -> dict[str, Any]:
    """The mapping that a file holds.

    Raises:
        ImportFailed: The file is missing, too large, not YAML, or not a mapping.
        MissingDependency: PyYAML is not installed.
    """
    file = need_file(path)
    with yaml_for(f"reading {file.name}"):
        import yaml
    if file.stat().st_size > _BYTES_MAX:
        fail(file, "is larger than 1 MiB", "move the data to files beside it")
    try:
        text = file.read_bytes().decode("utf-8")
        depth = 0
        for token in yaml.scan(text):
            if isinstance(token, yaml.AliasToken):
                fail(file, "has aliases (*name)", "replace each alias by its content")
            kind = type(token).__name__
            depth += kind.endswith("StartToken") - kind.endswith("EndToken")
            if depth > _DEPTH_MAX:
                fail(
                    file, f"is not a valid YAML file (more than {_DEPTH_MAX} levels)", "correct it"
                )
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        fail(file, f"is not a valid YAML file ({' '.join(str(error).split())[:200]})", "correct it")
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        fail(
            file,
            "is not a mapping with strings as keys",
            "see the layout of GraphBolt's OnDiskDataset",
        )
    return found
