"""`ng.infer`: inference over all nodes of a store, layer by layer, without torch.

The compiled core splits the model, plans memory and reads, and computes. This module chooses the
working directory and writes results to files or tensors of the store. The invariants: a result
appears under its name when it is complete; a run that ends early leaves its finished work in the
directory, and the next run resumes from there.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import table_of
from neargraph._threads import checked_threads
from neargraph.dfg import Dfg
from neargraph.exceptions import UnsupportedArgument
from neargraph.model_reports import InferencePlan
from neargraph.snapshot import Snapshot
from neargraph.store import Store
from neargraph.update.tensor import add_parts, check_name

if TYPE_CHECKING:
    from neargraph.plugins import Devices

ROWS_TOGETHER = 1 << 16
_THREADS_MAX = 16

Progress = Callable[[int, int, int, int], None]
"""A function that is called with (pass, number of passes, rows done, rows of the pass)."""

Begun = Literal["new", "resumed", "anew"]
"""How a run began: for the first time, from an earlier run, or again from the start."""


class Inference:
    """A model that is split into passes over a store, with the costs of each pass.

    Args:
        store: An open store, or the path of a store, which is then opened and closed.
        model: The path of a model file from `neargraph.export`, or a `Dfg`.
        memory: The memory budget, such as ``"2GB"``. None: that of the open store.
        threads: Number of threads that compute. None: one per core, at most 16.
        device: The device that computes: ``"cpu"``, or ``"cpu-scalar"``, the slow reference. Or a
            `neargraph.Devices` in its present state, with its plug-ins.
        block_nodes: Maximum number of nodes per block. None: as many as fit. Smaller blocks become
            durable more often, but read more.
        chunk_nodes: Maximum number of nodes whose rows are read together.

    Raises:
        InvalidModel: An operation cannot be computed for a part of the nodes, such as a norm over
            all nodes, or the store lacks an input of the model. The message names it.
        BudgetTooSmall: Not even a small block of nodes fits. The message gives the memory needed.

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
        # A store that the caller opened is the only handle that may write.
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
    def plan(self) -> InferencePlan:
        """The passes with their blocks, and the bytes to read, to write and to hold in memory.

        Planning reads no rows.
        """
        plan = cast(InferencePlan, self._core.plan())
        for one in plan["passes"]:
            one["read_bytes"] = one["blocks"] * one["scanned_bytes"] + one["own_bytes"]
        return plan

    @property
    def folder(self) -> Path:
        """The default working directory of a run, beside the store."""
        return Path(os.fspath(self.store.path).rstrip("/") + ".infer")

    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> "InferenceResult":
        """Computes the model's output for all nodes.

        If a run ends early, its finished work stays in the working directory, and the next run
        resumes from there.

        Args:
            out: The destination of the result:

                - A name without a dot or a slash, such as ``"embedding"``: a new tensor of the
                  store (see `Store.add_tensor`). Nodes that were added during the run get rows of
                  zeros. The model must have one output.
                - A path with the suffix ``.npy`` or ``.parquet``: a file. With several outputs,
                  ``"h.npy"`` becomes one file ``"h.OUTPUT.npy"`` for each.
                - None: arrays.
            folder: The working directory for tables. None: `folder`. The tables are removed at the
                end, and the directory if it is empty.
            fresh: Whether to start again instead of resuming an earlier run.
            progress: Function that is called with (pass, number of passes, rows done, rows of the
                pass).

        Raises:
            IoFailed: The disk is full or failed.
            StoreBusy: Another process uses the working directory, or writes to the store when the
                tensor is added.
            StoreDamaged: A table differs from the data that was written.
            UnsupportedArgument: The suffix of `out` is not supported, its library is missing, the
                tensor exists, or a tensor is requested for several outputs.
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
            # A raised error keeps its frames alive, and these would keep the directory locked.
            inferred.close()
        (place / "pins").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            place.rmdir()
        return result

    def _kept(
        self, inferred: _core.Inferred, tensor: str | None, target: Path | None
    ) -> "InferenceResult":
        """Writes the results to their destination."""
        outputs = inferred.outputs()
        begun = cast(tuple[Begun, str], inferred.begun())
        result = InferenceResult(begun, inferred.table_read_bytes())
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
        """Checks, before hours of work, that the tensor can be added to the store."""
        self._writes.turn.refuse_own_transaction("add a tensor")
        outputs = self._core.outputs()
        if len(outputs) > 1:
            raise UnsupportedArgument(
                f"out={tensor!r} names one tensor, but the model has {len(outputs)} outputs: "
                "give a file name, such as out='h.npy', and add each written file with "
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
        """Closes the store if this object opened it."""
        if not self._shares:
            self.store.close()

    def __enter__(self) -> "Inference":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InferenceResult:
    """The results of a run.

    Attributes:
        arrays: Arrays [nodes, ...] by output, if `out` was None.
        paths: Paths of the files by output, if `out` was a path.
        tensors: Names of the new tensors by output, if `out` was a name.
        begun: ``"new"``, ``"resumed"`` or ``"anew"`` (an earlier run could not be resumed), with an
            explanation.
        table_read_bytes: Bytes that were read from intermediate tables.
    """

    def __init__(self, begun: tuple[Begun, str], table_read_bytes: int) -> None:
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
    """Computes a model's output for all nodes of a store; see `Inference` and `Inference.run`.

    Example:
        >>> ng.infer("papers.ng", "sage.ngm", "embedding.npy", memory="2GB")   # doctest: +SKIP
        >>> ng.infer("papers.ng", "sage.ngm", "embedding", memory="2GB")       # doctest: +SKIP
    """
    with Inference(store, model, memory=memory, threads=threads, device=device) as inference:
        return inference.run(out, folder=folder, fresh=fresh, progress=progress)


class _Rows:
    """The rows of one output."""

    def __init__(self, inferred: _core.Inferred, at: int, dims: list[int], count: int) -> None:
        self._inferred, self._at = inferred, at
        self.dims, self.count = tuple(dims), count

    def parts(self) -> Any:
        """Yields the rows in parts."""
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
    """Whether `out` names a tensor: the path of a file has a suffix or a directory."""
    return not any(sign in out for sign in (".", "/", os.sep))


def _check_ending(path: Path) -> None:
    if path.suffix not in (".npy", ".parquet"):
        raise UnsupportedArgument(
            f"out={str(path)!r} is not valid: expected a .npy or .parquet file, or a tensor name "
            "that contains no dot and no slash"
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
    """Writes rows to a temporary file beside `path`, and renames it."""
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
