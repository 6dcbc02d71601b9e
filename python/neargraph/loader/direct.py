"""Files of the direct layout: how `layout=` names one, making one, listing those of a store.

A file belongs to one version of the store. Which of several serves is for the compiled core. The
invariant: batches are the same from either layout.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from neargraph import _core
from neargraph.exceptions import IoFailed, NeargraphError, UnsupportedArgument
from neargraph.loader.compiled import default_directory, make_directory
from neargraph.loader.methods import check_served
from neargraph.loader.reading import DIRECT_SUFFIX
from neargraph.reader import Version
from neargraph.units import format_bytes

LAYOUTS = ("paged", "direct")
"""`layout=` of loaders and samplers."""

# Space that is left free beside the file.
_SPARE_BYTES = 64 << 20


def check_layout(layout: str, method: str) -> str:
    """``"paged"`` or ``"direct"``, which a file of the direct layout is, too.

    Raises:
        UnsupportedArgument: There is no such layout, or it cannot draw by `method`.
    """
    if layout.endswith(DIRECT_SUFFIX):
        layout = "direct"
    if layout not in LAYOUTS:
        raise UnsupportedArgument(
            f"layout={layout!r} is not valid: expected 'paged', 'direct', or the path of a file "
            f"NAME{DIRECT_SUFFIX}"
        )
    if layout == "direct":
        check_served(method, "direct layout", "use layout='paged'")
    return layout


def find_direct(snapshot: Version, tensors: Sequence[str], layout: str) -> tuple[str, str]:
    """Directory and name of the file of `snapshot` that has most of `tensors`, or of the named one.

    Raises:
        CompiledMismatch: There is none, or only of other versions; names one.
        CompiledOutdated: There is only one of another version of the format.
        StoreDamaged: There is only one that is not whole.
    """
    if layout.endswith(DIRECT_SUFFIX):
        named = Path(layout).absolute()
        return str(named.parent), named.name
    directory = str(default_directory(snapshot.path))
    return directory, _core.find_direct(snapshot.version, directory, tensors)


def compile_direct(
    snapshot: Version,
    name: str = "graph",
    *,
    directory: Path | None = None,
    page_bytes: int = 4096,
    attrs: Sequence[str] | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Compiles a snapshot to the direct layout; says what the file is, or would be.

    ``left_out`` names the tensors that loaders go on reading from the store.

    Args:
        snapshot: What is compiled, of a store with one node type and one edge type.
        name: The file is ``NAME.direct``.
        directory: Where it goes; None is inside the store.
        page_bytes: 4096 ... 65536. Larger pages waste less, and read more for each node.
        attrs: Node tensors whose rows go beside the lists; None takes all but sparse ones.
        overwrite: Replace a file of that name that is whole and of this snapshot.
        dry_run: Only say what the file would be.
        progress: Called with (phase, done, total).

    Raises:
        UnsupportedArgument: The store cannot be laid out so; says why.
        IoFailed: The disk is too full, or failed.
    """
    directory = directory or default_directory(snapshot.path)
    if name != Path(name).name or not name:
        raise ValueError(f"{name!r} is not the name of a file")
    place = directory if directory.exists() else directory.parent
    path = directory / f"{name}{DIRECT_SUFFIX}"
    tensors = list(attrs) if attrs is not None else None
    core = _core.DirectPlan(snapshot.version, str(place), page_bytes, tensors, progress)
    with closing(core):
        free = shutil.disk_usage(place).free
        facts = core.info() | {"file": str(path), "free_bytes": free, "written": False}
        stored = snapshot.schema.node_type().tensors
        facts["left_out"] = [t.name for t in stored if t.name not in facts["tensors"]]
        if dry_run or (not overwrite and _is_same(directory, path.name, core.info())):
            return facts
        wanted = facts["file_bytes"]
        if wanted + _SPARE_BYTES > free:
            raise IoFailed(
                f"a direct layout of {format_bytes(wanted)} does not fit: the file system of "
                f"{directory} has {format_bytes(free)} free; name fewer tensors, or a directory on "
                "another disk"
            )
        make_directory(directory, snapshot.path)
        core.write(str(directory), name, progress)
    return facts | {"written": True}


def _is_same(directory: Path, name: str, facts: dict[str, Any]) -> bool:
    """Whether the file is there, whole, and what compiling would give."""
    try:
        return _core.describe_direct(str(directory), name) == facts
    except NeargraphError:
        return False


def list_direct(path: str | Path, fingerprint: str) -> list[dict[str, Any]]:
    """The direct layouts inside a store, as they say themselves."""
    found = []
    for file in sorted((Path(path) / "compiled").glob(f"*{DIRECT_SUFFIX}")):
        facts: dict[str, Any] = {"file": file.name}
        try:
            facts |= _core.describe_direct(str(file.parent), file.name)
            facts["is_current"] = facts["fingerprint"] == fingerprint
        except NeargraphError as error:
            if not file.exists():
                continue  # Removed since it was listed, as by a compaction.
            facts["problem"] = str(error)
        found.append(facts)
    return found
