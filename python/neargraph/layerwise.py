"""`ng.infer`: what a trained model gives for all nodes of a store, layer by layer, without torch.

The compiled core splits the model, plans memory and reads, and computes; this module names folders
and writes results, into files or as tensors of the store. The invariants: a result appears under
its name when it is complete; what is done of a run that ends early stays in its folder, and the
next run goes on from there.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import table_of
from neargraph._threads import checked_threads
from neargraph.dfg import Dfg
from neargraph.exceptions import UnsupportedArgument
from neargraph.snapshot import Snapshot
from neargraph.store import Store
from neargraph.update.tensor import add_parts, check_name

if TYPE_CHECKING:
    from neargraph.plugins import Devices

ROWS_TOGETHER = 1 << 16
_THREADS_MAX = 16

Progress = Callable[[int, int, int, int], None]
"""Hears which pass goes on, of how many, and how many of its rows are done, of how many."""


class Inference:
    """A model split into passes over a store, and what they will cost.

    Args:
        store: The open store, or the path of one, which is then opened and closed.
        model: The path of a model file that `neargraph.export` wrote, or a `Dfg`.
        memory: The memory budget, such as ``"2GB"``; None is that of the open store.
        threads: Threads that compute; None is one per core, at most 16.
        device: What computes: ``"cpu"``, or ``"cpu-scalar"``, which is slow and plain; or a
            `neargraph.Devices` as it is now, with its plug-ins.
        block_nodes: Nodes of a block at most; None is as many as fit. Smaller blocks are made
            durable more often, and read more.
        chunk_nodes: Nodes whose rows are read together at most.

    Raises:
        InvalidModel: The model does something that cannot be done for some nodes at a time, such as
            a norm over all nodes, or takes what the store does not have; names it.
        BudgetTooSmall: Not even a small block of nodes fits; says what would.

    Example:
        >>> inference = ng.Inference("papers.ng", "sage.ngm", memory="2GB")    # doctest: +SKIP
        >>> [(p["blocks"], p["tables"]) for p in inference.plan["passes"]]
        [(4, [['relu', 256]]), (1, [['out', 47]])]
        >>> inference.run("embedding.npy")
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        model: Dfg | str | os.PathLike[str],
        *,
        memory: str | int | None = None,
        threads: int | None = None,
        device: "str | Devices" = "cpu",
        block_nodes: int | None = None,
        chunk_nodes: int | None = None,
    ) -> None:
        table = table_of([device] if isinstance(device, str) else device)
        if threads is not None:
            checked_threads(threads)
        self.model = model if isinstance(model, Dfg) else Dfg.open(model)
        self._shares = isinstance(store, Store) and memory is None
        path = store.path if isinstance(store, Store) else os.fspath(store)
        self.store = store if isinstance(store, Store) and self._shares else Store(path, memory)
        # The one that was given may have batches open, and writes alone then.
        self._writes = store if isinstance(store, Store) else self.store
        try:
            self._snapshot: Snapshot = self.store.snapshot()
            self._core = _core.Layerwise(
                self._snapshot.version,
                self.model.core,
                threads=threads or min(os.cpu_count() or 1, _THREADS_MAX),
                device=table,
                block_rows=block_nodes,
                chunk_rows=chunk_nodes,
            )
        except BaseException:
            self.close()
            raise

    @property
    def plan(self) -> dict[str, Any]:
        """Passes, blocks, and the bytes that are read, written and held; nothing was read yet."""
        plan: dict[str, Any] = self._core.plan()
        for one in plan["passes"]:
            one["read_bytes"] = one["blocks"] * one["scanned_bytes"] + one["own_bytes"]
        return plan

    @property
    def folder(self) -> Path:
        """Where tables lie while a run goes on: beside the store."""
        return Path(os.fspath(self.store.path).rstrip("/") + ".infer")

    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> "InferenceResult":
        """Computes all nodes.

        Args:
            out: A name without a dot or a slash, such as ``"embedding"``, adds a tensor of this
                name to the store (`Store.add_tensor`): nodes that were added since the run began
                have rows of zeros. A path that ends in ``.npy`` or ``.parquet`` is a file. None
                returns arrays. With several outputs, ``"h.npy"`` stands for files
                ``"h.OUTPUT.npy"``, and a tensor is refused.
            folder: Where tables lie while it goes on; None is `folder`. They are removed at the
                end, and the folder with them if nothing else is in it.
            fresh: Do not go on where an earlier run ended.
            progress: Called with (pass, passes, rows, rows of the pass).

        Raises:
            IoFailed: The disk is full, or failed; what is done stays in the folder.
            StoreBusy: Another process computes into the folder, or writes to the store when the
                tensor is added; what is done stays in the folder.
            StoreDamaged: A table is not what was written.
            UnsupportedArgument: ``out`` has another ending, or its library is missing; a tensor of
                this name is there already; a tensor is wanted of several outputs.
        """
        tensor = out if isinstance(out, str) and _is_name(out) else None
        target = None if out is None or tensor is not None else Path(out)
        if target is not None:
            _check_ending(target)
        if tensor is not None:
            self._check_tensor(tensor)
        place = self.folder if folder is None else Path(folder)
        place.mkdir(exist_ok=True)
        inferred = self._core.run(place, fresh=fresh, progress=progress)
        try:
            result = self._kept(inferred, tensor, target)
            inferred.clear()
        finally:
            # An error keeps its frames, and they keep the folder; the next run needs it.
            inferred.close()
        (place / "pins").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            place.rmdir()
        return result

    def _kept(
        self, inferred: _core.Inferred, tensor: str | None, target: Path | None
    ) -> "InferenceResult":
        """The results where they shall be."""
        outputs = inferred.outputs()
        result = InferenceResult(inferred.begun(), inferred.table_read_bytes())
        for at, (name, node_type, dims, num_rows) in enumerate(outputs):
            rows, part = _Rows(inferred, at, dims, num_rows), name if len(outputs) > 1 else None
            if tensor is not None:
                self._add_tensor(tensor, node_type, rows)
                result.tensors[name] = tensor
            elif target is not None:
                path = _named(target, part)
                _write(path, rows)
                result.paths[name] = path
            else:
                result.arrays[name] = rows.all()
        return result

    def _check_tensor(self, tensor: str) -> None:
        """Before hours of work: whether the store can get the tensor."""
        self._writes.turn.refuse_own_transaction("add a tensor")
        outputs = self._core.outputs()
        if len(outputs) > 1:
            raise UnsupportedArgument(
                f"the model has {len(outputs)} outputs, and a run adds one tensor, so that it can "
                'go on after it was stopped: write files, such as "h.npy", and add those with '
                "store.add_tensor"
            )
        for _, node_type in outputs:
            check_name(self._writes.schema.node_type(node_type), tensor)

    def _add_tensor(self, name: str, node_type: str, rows: "_Rows") -> None:
        owner = self._snapshot.schema.node_type(node_type)
        dims = list(rows.dims)
        parts, of = rows.parts(), self._snapshot
        add_parts(self._writes, owner, name, "f32", dims, rows.count, parts, of)

    def close(self) -> None:
        """Closes the store, if it was opened for this."""
        if not self._shares:
            self.store.close()

    def __enter__(self) -> "Inference":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InferenceResult:
    """What a run gave.

    Attributes:
        arrays: By output, a row for each node, where no file was asked for.
        paths: By output, the file.
        tensors: By output, the tensor that the store has now.
        begun: ``"new"``, ``"resumed"`` or ``"anew"``, and what that means.
        table_read_bytes: Bytes that were read of intermediate tables.
    """

    def __init__(self, begun: tuple[str, str], table_read_bytes: int) -> None:
        self.arrays: dict[str, NDArray[np.float32]] = {}
        self.paths: dict[str, Path] = {}
        self.tensors: dict[str, str] = {}
        self.begun = begun
        self.table_read_bytes = table_read_bytes


def infer(
    store: Store | str | os.PathLike[str],
    model: Dfg | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    memory: str | int | None = None,
    threads: int | None = None,
    device: "str | Devices" = "cpu",
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> InferenceResult:
    """What a model gives for all nodes of a store; see `Inference` and `Inference.run`.

    Example:
        >>> ng.infer("papers.ng", "sage.ngm", "embedding.npy", memory="2GB")   # doctest: +SKIP
        >>> ng.infer("papers.ng", "sage.ngm", "embedding", memory="2GB")       # doctest: +SKIP
    """
    with Inference(store, model, memory=memory, threads=threads, device=device) as inference:
        return inference.run(out, folder=folder, fresh=fresh, progress=progress)


class _Rows:
    """The rows of an output."""

    def __init__(self, inferred: _core.Inferred, at: int, dims: list[int], count: int) -> None:
        self._inferred, self._at = inferred, at
        self.dims, self.count = tuple(dims), count

    def parts(self) -> Any:
        """Some rows after the other."""
        for first in range(0, self.count, ROWS_TOGETHER):
            flat = self._inferred.rows(self._at, first, first + ROWS_TOGETHER)
            yield flat.reshape(-1, *self.dims)

    def all(self) -> NDArray[np.float32]:
        out = np.empty((self.count, *self.dims), np.float32)
        first = 0
        for part in self.parts():
            out[first : first + len(part)] = part
            first += len(part)
        return out


def _is_name(out: str) -> bool:
    """Whether a result becomes a tensor: a file has an ending, or a folder before it."""
    return not any(sign in out for sign in (".", "/", os.sep))


def _check_ending(path: Path) -> None:
    if path.suffix not in (".npy", ".parquet"):
        raise UnsupportedArgument(
            f"{path}: a result is a .npy or .parquet file, or a tensor of the store, whose name "
            "has neither a dot nor a slash"
        )
    if path.suffix == ".parquet":
        _parquet()


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UnsupportedArgument(
            "a .parquet file needs pyarrow: pip install 'neargraph[parquet]'"
        ) from error
    return pyarrow


def _named(path: Path, name: str | None) -> Path:
    return path if name is None else path.with_name(f"{path.stem}.{name}{path.suffix}")


def _write(path: Path, rows: _Rows) -> None:
    """Writes rows beside their place, and then gives the file its name."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix == ".npy":
            _write_npy(partial, rows)
        else:
            _write_parquet(partial, rows)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _write_npy(path: Path, rows: _Rows) -> None:
    shape = (rows.count, *rows.dims)
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in rows.parts():
            file.write(part.tobytes())


def _write_parquet(path: Path, rows: _Rows) -> None:
    arrow = _parquet()
    width = int(np.prod(rows.dims, dtype=np.int64))
    kind = arrow.list_(arrow.float32(), width)
    schema = arrow.schema([("id", arrow.int64()), ("row", kind)])
    with arrow.parquet.ParquetWriter(path, schema) as writer:
        first = 0
        for part in rows.parts():
            ids = arrow.array(np.arange(first, first + len(part)))
            flat = arrow.array(part.reshape(-1))
            column = arrow.FixedSizeListArray.from_arrays(flat, width)
            writer.write_table(arrow.table([ids, column], schema=schema))
            first += len(part)
