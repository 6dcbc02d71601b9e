"""Files of the direct layout: naming one by `layout=`, compiling one, listing those of a store.

A file belongs to one version of the store. The compiled core chooses among several files. The
invariant: both layouts give the same batches.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict, cast, final

from neargraph import _core
from neargraph.exceptions import IoFailed, NeargraphError, UnsupportedArgument
from neargraph.loader.compiled import default_directory, make_directory
from neargraph.loader.methods import check_served
from neargraph.loader.reading import DIRECT_SUFFIX
from neargraph.reader import Version
from neargraph.units import format_bytes

LAYOUTS = ("paged", "direct")
"""The names that `layout=` of samplers accepts."""

# Space that is left free beside the file.
_SPARE_BYTES = 64 << 20


class DirectLayout(TypedDict):
    """The description of a direct layout.

    Attributes:
        fingerprint: Fingerprint of the version that it was compiled from.
        lsn: Last commit of that version.
        num_nodes: Number of nodes.
        num_edges: Number of entries in neighbour lists.
        tensors: Names of the tensors whose rows it contains.
        page_bytes: Bytes of a page.
        pages_per_section: Pages that are read together for a primary section.
        address_bytes: Bytes of an address.
        section_bits: Bits of an address that hold the number of the section.
        row_bytes: Bytes of all rows of a node.
        primary_pages: Number of pages with primary sections.
        secondary_pages: Number of pages with secondary sections.
        table_pages: Number of pages of the table of addresses.
        file_bytes: Bytes of the file.
        inflation: `file_bytes` as a multiple of the bytes of rows, degrees and 4-byte neighbours.
    """

    fingerprint: str
    lsn: int
    num_nodes: int
    num_edges: int
    tensors: list[str]
    page_bytes: int
    pages_per_section: int
    address_bytes: int
    section_bits: int
    row_bytes: int
    primary_pages: int
    secondary_pages: int
    table_pages: int
    file_bytes: int
    inflation: float


class DirectReport(DirectLayout):
    """The result of compiling a direct layout.

    Attributes:
        file: Path of the file.
        free_bytes: Free bytes of the file system, before the file was written.
        left_out: Names of the tensors that the layout does not contain. Loaders read them from the
            store.
        written: Whether the file was written.
    """

    file: str
    free_bytes: int
    left_out: list[str]
    written: bool


@final
class DirectFile(DirectLayout):
    """A file of the direct layout inside a store.

    Attributes:
        file: Name of the file.
        is_current: Whether it belongs to the requested version.
    """

    file: str
    is_current: bool


@final
class UnreadableDirectFile(TypedDict):
    """A file of the direct layout that is damaged or has another format version.

    Attributes:
        file: Name of the file.
        problem: The error message of reading it.
    """

    file: str
    problem: str


def check_layout(layout: str, method: str) -> str:
    """Returns ``"paged"`` or ``"direct"`` for a name, or for the path of a direct layout.

    Raises:
        UnsupportedArgument: The layout is not valid, or does not support `method`.
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
    """Returns directory and name of the file of `snapshot` with most of `tensors`.

    If `layout` is a path, it returns that of this file instead.

    Raises:
        CompiledMismatch: No file of this version exists; the message names one of another version.
        CompiledOutdated: The only file has another format version.
        StoreDamaged: The only file is not complete.
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
) -> DirectReport:
    """Compiles a snapshot to the direct layout.

    Args:
        snapshot: A snapshot of a store with one node type and one edge type.
        name: Name of the file, without ``.direct``.
        directory: Directory of the file. None: inside the store.
        page_bytes: Page size in bytes, from 4096 to 65536. Larger pages waste less space, but
            each node reads more bytes.
        attrs: Node tensors to store beside the lists. None: all but sparse ones.
        overwrite: Replace a complete file of this name and snapshot. Others are always replaced.
        dry_run: Describe the file without writing it.
        progress: Called with (phase, done, total).

    Raises:
        ValueError: `name` is not the name of a file.
        UnsupportedArgument: The store does not fit the direct layout; the message says why.
        IoFailed: The disk is too full, or an I/O operation failed.
    """
    directory = directory or default_directory(snapshot.path)
    if name != Path(name).name or not name:
        raise ValueError(
            f"name={name!r} is not a valid file name: expected a name without a folder"
        )
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
            return cast(DirectReport, facts)
        wanted = facts["file_bytes"]
        if wanted + _SPARE_BYTES > free:
            raise IoFailed(
                f"the direct layout needs {format_bytes(wanted)}, and the file system of "
                f"{directory} has {format_bytes(free)} free; name fewer tensors, or a directory on "
                "another disk"
            )
        make_directory(directory, snapshot.path)
        core.write(str(directory), name, progress)
    return cast(DirectReport, facts | {"written": True})


def _is_same(directory: Path, name: str, facts: dict[str, Any]) -> bool:
    """Returns whether the file is complete and equal to the one that compiling would write."""
    try:
        return _core.describe_direct(str(directory), name) == facts
    except NeargraphError:
        return False


def list_direct(path: str | Path, fingerprint: str) -> list[DirectFile | UnreadableDirectFile]:
    """Returns the direct layouts inside a store, in the order of their names.

    Args:
        path: Path of the store.
        fingerprint: Fingerprint of the version that ``is_current`` refers to.
    """
    found: list[DirectFile | UnreadableDirectFile] = []
    for file in sorted((Path(path) / "compiled").glob(f"*{DIRECT_SUFFIX}")):
        try:
            facts = {"file": file.name, **_core.describe_direct(str(file.parent), file.name)}
        except NeargraphError as error:
            # A file may have been removed since it was listed, for example by a compaction.
            if file.exists():
                found.append({"file": file.name, "problem": str(error)})
            continue
        facts["is_current"] = facts["fingerprint"] == fingerprint
        found.append(cast(DirectFile, facts))
    return found
