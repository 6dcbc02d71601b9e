"""Feeds a `GraphPlan` to the extension's importer: the only writer of stores in Python.

Edges go first, then the topology is built in the background while tensors stream; where the disk
lacks room for that, tensors wait until the runs of the sort are gone. Invariant: whatever fails on
the way, the staging folder is dropped and nothing is left at the target.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neargraph import _core
from neargraph.exceptions import ImportFailed
from neargraph.remedies import remedy

from .check import fail
from .chunks import chunk_rows, spans
from .memory import Allowance, allowed
from .narrow import narrow_x
from .notes import Note, with_remedies
from .options import ImportOptions
from .plan import (
    Array,
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    NodePlan,
    NpyFile,
    TensorPlan,
    TextColumns,
)
from .sparse import disk_estimate, is_upper_bound, may_be_sparse, stored_estimate
from .split import split_chunks
from .spool import converted_bytes, text_as_utf8

Progress = Callable[[str, int, int | None], None]
"""Called with (phase, done, total or None); phases are "edges", "tensors" and "write"."""

# What an ordinary SSD takes; only the estimate of the time uses it.
_TENSOR_BYTES_PER_SECOND = 5e8
# What estimates of sizes may be wrong by.
_ROOM = 1.1
# Of a row on its way: as it was read, converted, handed over, and encoded.
_COPIES = 4


def run_import(
    plan: GraphPlan,
    out: Path | str,
    options: ImportOptions | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes the store ``out`` and returns the report of the import.

    Raises:
        ImportFailed: The input is inconsistent; nothing is left behind.
        IoFailed: Reading or writing failed, for example because the disk is full.
        BudgetTooSmall: ``options.memory`` is below the minimum, which the message says.
        StoreBusy: Somebody writes to the store that would be replaced.

    The report's ``notes`` are those of `importers.notes`, the plan's and the extension's, some
    with a ``remedy`` that a face has to put into words (`notes.in_words`).
    """
    options = options or ImportOptions()
    check_target(Path(out), options)
    apply_options(plan, options)
    with _allowed(plan, options) as allowance:
        importer = _importer(out, options, allowance)
        try:
            shown = progress or (lambda *_: None)
            return _Run(importer, plan, options, shown, Path(out).absolute().parent).report()
        except BaseException as error:
            # The importer's own drop would do the same; doing it here frees the disk at once.
            importer.abort()
            if isinstance(error, ImportFailed):
                error.notes = with_remedies(error.notes, plan.notes)
            raise


def estimate_import(
    plan: GraphPlan, out: Path | str, options: ImportOptions | None = None
) -> dict[str, Any]:
    """What an import would take, before it starts; nothing is left on disk.

    Keys: ``edges`` (input rows, guessed for text), ``entries``, ``tensor_bytes``,
    ``topology_bytes``, ``disk_bytes`` (both, in whole pages), ``is_upper_bound`` (some x may turn
    out to be mostly zeros when it is read, and then takes less), ``temp_bytes`` (sort and copies
    of input), ``spooled_bytes`` (the copies alone), ``memory_bytes`` (the budget, not what the
    import takes of it), ``seconds``. Orders of magnitude, from counts.
    """
    options = options or ImportOptions()
    apply_options(plan, options)
    edges = sum(edge.num_edges or 0 for edge in plan.edges)
    tensors = sum(stored_estimate(tensor, options) for tensor in _all_tensors(plan))
    on_disk = sum(disk_estimate(tensor, options) for tensor in _all_tensors(plan))
    with declared(plan, out, options) as (importer, _):
        known: dict[str, Any] = json.loads(importer.estimate(edges))
    spooled = plan.spooled_bytes + converted_bytes(plan)
    known["temp_bytes"] += spooled
    if options.memory is not None:
        known["memory_bytes"] = options.memory
    topology = int(known.pop("disk_bytes"))
    moved = max(tensors, _chunk_bytes(plan, options))
    return {
        "edges": edges,
        "entries": known.pop("entries"),
        "tensor_bytes": tensors,
        "topology_bytes": topology,
        "disk_bytes": topology + on_disk,
        "is_upper_bound": any(is_upper_bound(tensor, options) for tensor in _all_tensors(plan)),
        **known,
        "spooled_bytes": spooled,
        "seconds": known["seconds"] + moved / _TENSOR_BYTES_PER_SECOND,
    }


@contextmanager
def declared(
    plan: GraphPlan, out: Path | str, options: ImportOptions
) -> Iterator[tuple[_core.Importer, list[int]]]:
    """An importer that knows the types of a plan, with the numbers of the edge types in order.

    Nothing is left on disk.
    """
    # Under another name, an estimate needs no store to be free of writers and other imports.
    beside = f"{Path(out)}.estimate"
    with _allowed(plan, options) as allowance:
        importer = _importer(beside, options, allowance)
        try:
            yield importer, _declare_types(importer, plan, options)[1]
        finally:
            importer.abort()


def check_target(out: Path, options: ImportOptions) -> None:
    """Refuses a target that exists (without ``overwrite``) or whose folder does not."""
    if out.exists() and not options.overwrite:
        fail(out, "already exists", remedy("ReplaceStore"))
    if not out.absolute().parent.is_dir():
        fail(out, f"its folder {out.absolute().parent} does not exist", "create it first")


def _allowed(plan: GraphPlan, options: ImportOptions) -> AbstractContextManager[Allowance]:
    """The memory of the import, checked against what the plan keeps and its widest row."""
    widest = max(_all_tensors(plan), key=lambda tensor: tensor.row_bytes, default=None)
    row_bytes = widest.row_bytes if widest else 0
    where = f"{plan.origin} [{widest.name}]" if widest else plan.origin
    return allowed(options.memory, plan.held_bytes, _COPIES * row_bytes, where)


def _importer(out: Path | str, options: ImportOptions, allowance: Allowance) -> _core.Importer:
    return _core.Importer(
        str(out),
        allowance.for_core(),
        options.threads,
        options.page_bytes,
        options.fill,
        options.overwrite,
        options.reuse_ids,
        options.strict,
    )


def apply_options(plan: GraphPlan, options: ImportOptions) -> None:
    """Makes a plan one with these options; to do it again changes nothing."""
    if options.num_nodes is not None:
        if len(plan.nodes) != 1:
            what = "has several node types, but num_nodes= applies to one node type"
            fail(plan.origin, what, remedy("LeaveOut", option="num_nodes"))
        known = plan.nodes[0].num_nodes
        if known is not None and known > options.num_nodes:
            what = f"has {known} nodes, more than num_nodes={options.num_nodes}"
            fail(plan.origin, what, remedy("RaiseNumNodes", least=known))
        if known is not None and plan.nodes[0].tensors and known != options.num_nodes:
            what = f"has node tensors of {known} rows, but num_nodes={options.num_nodes} is given"
            fail(plan.origin, what, remedy("LeaveOut", option="num_nodes"))
        plan.nodes[0].num_nodes = options.num_nodes
    if options.relabel:
        _relabel(plan)
    if options.x_dtype is not None:
        narrow_x(plan, options.x_dtype)
    if options.split_sizes is not None:
        split_owner(plan, options.split_type)


def _relabel(plan: GraphPlan) -> None:
    for node in plan.nodes:
        if node.strings:
            what = f"nodes of type {node.name!r} have string ids, so relabel=True is not possible"
            fail(plan.origin, what, remedy("LeaveOut", option="relabel"))
        if node.num_nodes is not None or node.tensors:
            what = f"the input already numbers the nodes of type {node.name!r} from 0"
            fail(plan.origin, what, remedy("LeaveOut", option="relabel"))
        node.relabel = True


def _all_tensors(plan: GraphPlan) -> list[TensorPlan]:
    owners: list[NodePlan | EdgePlan] = [*plan.nodes, *plan.edges]
    return [tensor for owner in owners for tensor in owner.tensors]


def _chunk_bytes(plan: GraphPlan, options: ImportOptions) -> int:
    """Bytes of all chunks that are asked for; those that need a first pass come twice."""

    def passes(tensor: TensorPlan) -> int:
        return 1 + (_is_scaled(tensor) or may_be_sparse(tensor, options))

    return sum(passes(t) * t.row_bytes * (t.num_rows or 0) for t in _all_tensors(plan))


def _is_scaled(tensor: TensorPlan) -> bool:
    return tensor.stored == "i8"


def _declare_types(
    importer: _core.Importer, plan: GraphPlan, options: ImportOptions
) -> tuple[dict[str, int], list[int]]:
    """(number of each node type by name, number of each edge type in order)."""
    node_ids = {node.name: _declare_nodes(importer, node) for node in plan.nodes}
    return node_ids, [_declare_edges(importer, plan, edge, options) for edge in plan.edges]


def _declare_nodes(importer: _core.Importer, node: NodePlan) -> int:
    if node.relabel:
        return importer.relabelled_node_type(node.name)
    return importer.node_type(node.name, None if node.strings else node.num_nodes, node.strings)


def _declare_edges(
    importer: _core.Importer, plan: GraphPlan, edge: EdgePlan, options: ImportOptions
) -> int:
    same = edge.source == edge.destination
    if options.undirected and not same:
        what = f"{_shown(edge)} joins two node types and cannot be undirected"
        fail(plan.origin, what, remedy("StoreReverse"))
    return importer.edge_type(
        edge.source,
        edge.relation,
        edge.destination,
        undirected=options.undirected or edge.undirected,
        unique=options.unique or edge.unique,
        self_loops=options.self_loops if same else "keep",
        reverse=options.reverse or edge.reverse,
        edge_ids=edge.has_edge_ids or options.edge_ids,
        time=edge.has_time,
        weight=edge.has_weight,
    )


class _Run:
    """One import: type numbers, progress counters, and the steps in order."""

    def __init__(
        self,
        importer: _core.Importer,
        plan: GraphPlan,
        options: ImportOptions,
        progress: Progress,
        folder: Path,
    ) -> None:
        self._importer, self._plan, self._options = importer, plan, options
        self._progress, self._folder = progress, folder
        self._tensor_done = 0
        self._tensor_total = _chunk_bytes(plan, options)
        self._rounded = 0
        self._rows = 0

    def report(self) -> dict[str, Any]:
        importer, plan = self._importer, self._plan
        node_ids, edge_ids = _declare_types(importer, plan, self._options)
        for node in plan.nodes:
            for keys in node.keys() if node.keys is not None else ():
                importer.push_keys(node_ids[node.name], keys)
        for edge, number in zip(plan.edges, edge_ids, strict=True):
            self._push_edges(edge, number)
        importer.build_topology()
        if self._lacks_room():
            importer.wait_for_topology(partial(self._progress, "write"))
        for node in plan.nodes:
            for tensor in node.tensors:
                self._push_tensor(node, node_ids[node.name], tensor, node.num_nodes)
        for edge, number in zip(plan.edges, edge_ids, strict=True):
            for tensor in edge.tensors:
                self._push_tensor(edge, number, self._with_loops(edge, tensor), None)
        if self._options.split_sizes is not None:
            self._push_split(node_ids)
        for note in plan.notes:
            importer.add_note(note.code, note.count, note.where, note.message, note.requested)
        report: dict[str, Any] = json.loads(importer.finish(partial(self._progress, "write")))
        report["notes"] = with_remedies(report["notes"], plan.notes)
        if "leftover" in report:
            warnings.warn(
                "the import succeeded, but the replaced store could not be removed: "
                f"{report['leftover']}",
                RuntimeWarning,
                stacklevel=2,
            )
        return report

    def _lacks_room(self) -> bool:
        """Whether the whole store does not fit beside the runs of the sort, which are there."""
        known = json.loads(self._importer.estimate(self._rows))
        rows = sum(disk_estimate(tensor, self._options) for tensor in _all_tensors(self._plan))
        free = shutil.disk_usage(self._folder).free
        return bool(known["temp_bytes"]) and free < _ROOM * (known["disk_bytes"] + rows)

    def _push_edges(self, edge: EdgePlan, number: int) -> None:
        for at, file in enumerate(edge.files):
            self._push_file(number, file, (at, len(edge.files)))
        if edge.files:
            return
        assert edge.chunks is not None
        done = self._rounded = 0
        for chunk in edge.chunks():
            self._push_chunk(number, chunk)
            done += len(chunk.sources)
            self._progress("edges", done, edge.num_edges)
        self._rows += done
        if self._rounded:
            where = f"{self._plan.origin}, {_shown(edge)}"
            message = f"{self._rounded} weights lost digits, because they are stored as f32"
            self._plan.notes.append(Note("narrowed", self._rounded, where, message))

    def _push_file(self, number: int, file: TextColumns | NpyFile, place: tuple[int, int]) -> None:
        """Has the extension read a file, which is number ``place[0]`` of ``place[1]``."""

        def progress(done: int, total: int) -> None:
            # Files count as equally long, so that the bar never goes back.
            self._progress("edges", place[0] * total + done, place[1] * total)

        if isinstance(file, NpyFile):
            self._rows += self._importer.read_npy(number, file.path, file.layout, progress)
            return
        with text_as_utf8(file, self._folder) as arguments:
            self._rows += self._importer.read_text(number, arguments, progress)

    def _push_chunk(self, number: int, chunk: EdgeChunk) -> None:
        importer, weights = self._importer, self._weights(chunk.weights)
        sources, destinations = chunk.sources, chunk.destinations
        if isinstance(sources, list) and isinstance(destinations, list):
            importer.push_string_edges(number, sources, destinations, chunk.times, weights)
        else:
            ends = _ids(sources), _ids(destinations)
            importer.push_edges(number, *ends, chunk.edge_ids, chunk.times, weights)

    def _weights(self, weights: Array | None) -> Array | None:
        if weights is None or weights.dtype == np.float32:
            return weights
        narrow = weights.astype(np.float32)
        same = narrow.astype(weights.dtype) == weights
        self._rounded += int((~same & (weights == weights)).sum())
        return narrow

    def _push_tensor(
        self, owner: NodePlan | EdgePlan, number: int, tensor: TensorPlan, num_rows: int | None
    ) -> None:
        importer, name, shape = self._importer, tensor.name, list(tensor.shape)
        kind: Any = "node" if isinstance(owner, NodePlan) else "edge"
        where = f"{self._plan.origin}, tensor {name!r} of {_shown(owner)}"
        value = self._sparse_value(tensor) if kind == "node" else None
        if value is not None:
            handle = importer.begin_sparse_tensor(kind, number, name, shape, value)
        elif tensor.class_names is not None:
            handle = importer.begin_class_tensor(kind, number, name, tensor.class_names)
        elif tensor.stored is None:
            width = tensor.mask_width
            handle = importer.begin_tensor(kind, number, name, tensor.dtype, shape, width)
        else:
            handle = importer.begin_narrow_tensor(kind, number, name, tensor.stored, shape)
        if tensor.narrowed_from is not None:
            stored = tensor.stored or tensor.dtype
            message = (
                f"rows have dtype {tensor.narrowed_from} in the input and are stored as {stored}"
            )
            note = Note("narrowed", tensor.num_rows or 0, where, message, tensor.stored is not None)
            self._plan.notes.append(note)
        if _is_scaled(tensor):
            self._feed(tensor, lambda piece: importer.measure_rows(handle, piece))
        if value is not None and tensor.csr is not None:
            rows = self._feed_csr(tensor, lambda *csr: importer.push_csr_rows(handle, *csr))
        else:
            rows = self._feed(tensor, lambda piece: importer.push_rows(handle, piece))
        if num_rows is not None and rows != num_rows:
            fail(where, f"has {rows} rows, but there are {num_rows} {kind}s", "correct the input")

    def _sparse_value(self, tensor: TensorPlan) -> str | None:
        """What the entries of sparse rows hold; None where the tensor is stored with its zeros."""
        if not may_be_sparse(tensor, self._options):
            return None
        probe, done = _core.SparseProbe(tensor.columns), self._tensor_done
        known = tensor.num_rows
        if tensor.csr is not None:
            rows = self._feed_csr(tensor, probe.add_csr)
        else:
            rows = self._feed(tensor, probe.add_dense, lambda: known is None or probe.pays(known))
        # A pass that ended early leaves less to do.
        self._tensor_total -= tensor.row_bytes * (known or 0) - (self._tensor_done - done)
        return probe.value if probe.pays(known or rows) else None

    def _feed_csr(self, tensor: TensorPlan, take: Callable[..., None]) -> int:
        """One pass over the rows of a tensor without their zeros; returns how many there were."""
        assert tensor.csr is not None
        rows = 0
        for chunk in tensor.csr():
            take(chunk.indptr, chunk.columns, chunk.values)
            rows += len(chunk.indptr) - 1
            self._count((len(chunk.indptr) - 1) * tensor.row_bytes)
        return rows

    def _count(self, num_bytes: int) -> None:
        self._tensor_done += num_bytes
        self._progress("tensors", self._tensor_done, self._tensor_total)

    def _feed(
        self,
        tensor: TensorPlan,
        take: Callable[[Array], None],
        goes_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """One pass over the rows of a tensor; returns how many there were."""
        rows = 0
        for chunk in tensor.chunks():
            row_bytes = chunk.nbytes // max(1, len(chunk))
            for span in spans(len(chunk), chunk_rows(row_bytes)):
                piece = np.ascontiguousarray(chunk[span])
                take(piece)
                rows += len(piece)
                self._count(piece.nbytes)
                if not goes_on():
                    return rows
        return rows

    def _with_loops(self, edge: EdgePlan, tensor: TensorPlan) -> TensorPlan:
        """The tensor with a row of zeros for each self-loop that may be added.

        Added loops get the edge ids after those of the input, one for each node.
        """
        if self._options.self_loops != "add" or edge.source != edge.destination:
            return tensor
        loops = self._plan.node(edge.source).num_nodes or 0

        def chunks() -> Iterator[Array]:
            kind: np.dtype[Any] = np.dtype(np.uint8)
            for chunk in tensor.chunks():
                kind = chunk.dtype
                yield chunk
            for span in spans(loops, chunk_rows(tensor.row_bytes)):
                yield np.zeros((span.stop - span.start, *tensor.shape), dtype=kind)

        return replace(tensor, chunks=chunks, num_rows=None)

    def _push_split(self, node_ids: dict[str, int]) -> None:
        options = self._options
        assert options.split_sizes is not None
        percent, seed = options.split_sizes, options.seed
        assert isinstance(percent, tuple)
        node = split_owner(self._plan, options.split_type)
        count = self._importer.num_nodes(node_ids[node.name]) or 0
        tensor = TensorPlan("split_0", "u8", (), lambda: split_chunks(count, percent, seed), count)
        self._push_tensor(node, node_ids[node.name], tensor, count)


def split_owner(plan: GraphPlan, wanted: str | None) -> NodePlan:
    """The node type a split is drawn over: the named one, the labelled one, or the only one.

    It has no splits of its own.
    """
    owner = _split_owner(plan, wanted)
    if any(tensor.name.startswith("split_") for tensor in owner.tensors):
        what = f"node type {owner.name!r} already has splits in the input"
        fail(plan.origin, what, remedy("LeaveOut", option="split_sizes"))
    return owner


def _split_owner(plan: GraphPlan, wanted: str | None) -> NodePlan:
    if wanted is not None:
        try:
            return plan.node(wanted)
        except KeyError:
            known = ", ".join(node.name for node in plan.nodes)
            fail(plan.origin, f"has no node type {wanted!r}", f"use one of the node types {known}")
    labelled = [n for n in plan.nodes if any(t.name == "y" for t in n.tensors)]
    candidates = labelled or plan.nodes
    if len(candidates) != 1:
        choices = ", ".join(node.name for node in candidates)
        what = "has several node types that could be split"
        fail(plan.origin, what, remedy("ChooseSplitType", choices=choices))
    return candidates[0]


def _shown(owner: NodePlan | EdgePlan) -> str:
    """How messages call a type."""
    if isinstance(owner, NodePlan):
        return f"node type {owner.name!r}"
    return f"edge type ({owner.source}, {owner.relation}, {owner.destination})"


def _ids(ids: Any) -> Array:
    array = np.asarray(ids)
    if array.dtype.itemsize >= 4:
        return np.ascontiguousarray(array)
    return array.astype(np.int64)
