"""Types of the compiled extension. Arrays are int64 by default; bulk work releases the GIL.

`mask_width` of a split tensor is absent if PyG's mask was [N]. It is k if the mask was [N, k]; its
columns are then split_0 ... split_{k-1}. `MiniBatch.edges` is [2, e]: sources, destinations. A
`dtype` of None means `read_dtype` of the catalog. Columns of a `Sampler` may be "sparse"; then
`MiniBatch.tensor` returns (indptr, columns, values).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int64]
Kind = Literal["node", "edge"]
Progress = Callable[[int, int], None]
PhaseProgress = Callable[[str, int, int], None]

PAGE_SIZES: list[int]

class Store:
    @property
    def path(self) -> str: ...
    @property
    def backend(self) -> Literal["uring", "odirect", "pread", "mmap", "memory"]: ...
    @property
    def backend_note(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    def snapshot(self) -> Snapshot: ...
    def write(self) -> Transaction: ...
    def add_tensor(
        self,
        node_type: int,
        name: str,
        dtype: str,
        shape: list[int],
        num_rows: int,
        lsn: int | None,
        rows: Callable[[], NDArray[np.uint8] | None],
    ) -> int: ...
    def checkpoint(self) -> dict[str, int]: ...
    def close_writer(self) -> None: ...
    def scrub(
        self, bytes_per_second: int | None = None, progress: Progress | None = None
    ) -> str: ...
    def backup(
        self, target: str, base: str | None = None, progress: Progress | None = None
    ) -> dict[str, Any]: ...
    def recovery(self) -> tuple[int, bool]: ...
    @property
    def read_only_because(self) -> str | None: ...
    def update_stats(self) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...
    def reset_stats(self) -> None: ...
    def log_reads(self, path: str) -> None: ...
    def end_read_log(self) -> int: ...
    def measure_disk(self) -> tuple[float, float] | None: ...
    def set_disk_rates(self, reads_per_s: float, bytes_per_s: float) -> None: ...
    def disk_curve(self) -> list[tuple[int, float, float]]: ...
    def close(self) -> None: ...

class Snapshot:
    @property
    def checkpoint_id(self) -> int: ...
    @property
    def lsn(self) -> int: ...
    @property
    def checkpoint_lsn(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def num_tensors(self) -> int: ...
    def make_room(self) -> bool:
        """Releases the memory that loaders keep between batches. Returns whether any was kept."""

    def catalog(self) -> str: ...
    def dead_nodes(self, node_type: int) -> Ids: ...
    def neighbors(
        self, edge_type: int, ids: Ids
    ) -> tuple[Ids, Ids, Ids | None, Ids | None, NDArray[np.float32] | None]: ...
    def degrees(self, edge_type: int, ids: Ids) -> Ids: ...
    def rows(
        self, kind: Kind, type_id: int, tensor: str, ids: Ids, dtype: str | None = None
    ) -> NDArray[Any]: ...
    def column(
        self, kind: Kind, type_id: int, tensor: str, dtype: str | None = None
    ) -> NDArray[Any]: ...
    def sparse_rows(
        self, kind: Kind, type_id: int, tensor: str, ids: Ids
    ) -> tuple[Ids, Ids, NDArray[np.float32]]: ...
    def nodes_with(self, node_type: int, tensor: str, value: int) -> Ids | None: ...
    def lookup(self, node_type: int, keys: list[str]) -> Ids: ...
    def names(self, node_type: int, ids: Ids) -> list[str]: ...

class Transaction:
    def add_nodes(self, node_type: int, count: int) -> Ids: ...
    def delete_node(self, node_type: int, id: int) -> None: ...
    def add_edges(
        self,
        edge_type: int,
        sources: Ids,
        destinations: Ids,
        times: Ids | None = None,
        weights: NDArray[np.float32] | None = None,
    ) -> Ids: ...
    def delete_edge(
        self, edge_type: int, source: int, destination: int, edge_id: int | None = None
    ) -> int: ...
    def set_rows(
        self, kind: Kind, type_id: int, name: str, ids: Ids, rows: NDArray[np.uint8]
    ) -> None: ...
    def encode_rows(
        self, kind: Kind, type_id: int, name: str, values: NDArray[np.float32]
    ) -> NDArray[np.uint8]: ...
    def commit(self) -> tuple[int, int]: ...
    def abort(self) -> None: ...

class Method:
    @staticmethod
    def uniform(replace: bool = False) -> Method: ...
    @staticmethod
    def labor(dependent_batches: int = 1) -> Method: ...
    @staticmethod
    def weighted(replace: bool = False) -> Method: ...
    @staticmethod
    def induced() -> Method:
        """All edges between the seeds, in one hop of fanout -1."""

class Shape:
    """The structure of a batch beyond the nodes that its hops reach.

    `times` is ``"uniform"`` or ``"last"``. The times are those of edges, or of the node tensors in
    `node_times`, by node type. `both_ways` gives, by edge type, the edge type with the same edges
    in the other direction. `induced` marks the edge types whose edges between the nodes are all
    in the batch.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        disjoint: bool = False,
        times: str | None = None,
        node_times: list[str | None] | None = None,
        both_ways: list[int | None] | None = None,
        induced: list[bool] | None = None,
        spread: Spread | None = None,
    ) -> None: ...

class Spread:
    """A way to grow batches from their seeds other than by hops.

    A path is a list of edge types. A step leads from a node to a source of its list.
    """

    @staticmethod
    def walks(path: list[int], length: int, bias: tuple[float, float] | None) -> Spread: ...
    @staticmethod
    def visits(
        path: list[int],
        walks: int,
        length: int,
        restart: float,
        neighbors: list[int],
        held_out: tuple[int, float, bool] | None,
    ) -> Spread: ...
    @staticmethod
    def budgets(nodes: list[list[int]], edge_types: list[bool]) -> Spread: ...

class Roots:
    """Nodes that are drawn for each batch.

    ``"nodes"``: all with equal probability. ``"degrees"``: in proportion to the edges that start at
    them. ``"edges"``: as the two ends of edges.
    """

    def __init__(self, snapshot: Snapshot, how: str, count: int, edge_type: int) -> None: ...

class Links:
    """The links that batches are made around: their edge type, and (mode, amount) of negatives.

    With `by_number`, links are given as the numbers of edges, counted list by list.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        edge_type: int,
        negatives: tuple[str, float] | None,
        by_number: bool,
    ) -> None: ...
    @property
    def num_edges(self) -> int | None: ...

class Sampler:
    def __init__(
        self,
        snapshot: Snapshot,
        fanouts: list[list[int]],
        method: Method,
        seed: int,
        columns: list[tuple[Kind, int, str, str | None]],
        shape: Shape | None = None,
        links: Links | None = None,
        roots: Roots | None = None,
    ) -> None: ...
    def sample(self, seeds: list[tuple[int, Ids]], stream: int) -> MiniBatch: ...
    def make(self, inputs: Inputs, stream: int, first: int, batch_size: int) -> MiniBatch:
        """Makes one batch of all `inputs`, as the part of a global batch that begins at `first`."""
    def trace(self, seeds: Ids, ends: list[int], streams: list[int]) -> Trace: ...
    def walk(
        self,
        path: list[int],
        length: int,
        bias: tuple[float, float] | None,
        starts: Ids,
        stream: int,
    ) -> Ids:
        """Returns walks of length + 1 nodes from `starts`, concatenated; -1 after a walk ends."""

    def with_direct(self, directory: str, name: str) -> Sampler: ...
    def stages(self) -> list[tuple[str, float]]: ...
    def waits(self) -> list[tuple[str, float]]: ...
    def busy(self) -> list[str]: ...

class DirectPlan:
    def __init__(
        self,
        snapshot: Snapshot,
        scratch_dir: str,
        page_bytes: int,
        tensors: list[str] | None = None,
        progress: PhaseProgress | None = None,
    ) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def write(self, directory: str, name: str, progress: PhaseProgress | None = None) -> int: ...
    def close(self) -> None: ...

class MiniBatch:
    @property
    def num_seeds(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def nodes(self, node_type: int) -> Ids: ...
    def edges(self, edge_type: int) -> Ids: ...
    def edge_ids(self, edge_type: int) -> Ids | None: ...
    def times(self, edge_type: int) -> Ids | None: ...
    def weights(self, edge_type: int) -> NDArray[np.float32] | None: ...
    def subgraphs(self, node_type: int) -> Ids | None: ...
    @property
    def targets(self) -> Ids: ...
    @property
    def seed_times(self) -> Ids | None: ...
    @property
    def visits(self) -> tuple[Ids, NDArray[np.float32]] | None: ...
    def num_sampled_nodes(self, node_type: int) -> list[int]: ...
    def num_sampled_edges(self, edge_type: int) -> list[int]: ...
    def tensor(self, kind: Kind, type_id: int, name: str) -> Any: ...

class SeedPlan:
    """The order of `num_seeds` seeds, and their division into global batches of `batch_size`.

    It is a pure function of (seed, epoch, batch), so any batch is found without the previous ones.
    The global batches are the same for every world size. A rank takes a contiguous part of each.
    A place is a position in the seeds of the loader, before shuffling.

    Raises:
        ValueError: The arguments are not consistent.
    """

    num_seeds: int
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    pad: bool
    rank: int
    world_size: int
    def __init__(
        self,
        *,
        num_seeds: int,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        pad: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None: ...
    @property
    def local_batch_size(self) -> int:
        """The number of seeds of one rank in a full batch."""

    @property
    def steps(self) -> int:
        """The number of batches in an epoch, the same on every rank."""

    def stream(self, epoch: int, batch: int) -> int:
        """Returns the stream of a global batch, which is the same on every rank."""

    def places(self, epoch: int, first: int, last: int) -> Ids:
        """Returns the places of this rank's seeds in batches `first` ... `last` - 1, in order."""

    def first(self, batch: int) -> int:
        """Returns the position in global batch `batch` at which this rank's part begins."""

    def padding(self, batch: int) -> int:
        """Returns the number of repeated seeds that pad the end of this rank's part of `batch`."""

class Inputs:
    """The seeds of a loader: `ids`, or all nodes of the type except the `deleted` ones."""

    def __init__(
        self,
        node_type: int,
        ids: Ids | None,
        deleted: Ids | None,
        times: NDArray[np.int64] | None = None,
    ) -> None: ...
    @staticmethod
    def links(
        ends: tuple[Ids, Ids] | None = None, times: NDArray[np.int64] | None = None
    ) -> Inputs:
        """Returns links from sources to destinations, or all edges by their numbers."""
    @staticmethod
    def edges(numbers: Ids, times: NDArray[np.int64] | None = None) -> Inputs:
        """Returns the edges with these numbers."""
    @staticmethod
    def groups(node_type: int, ends: Ids, nodes: Ids | None = None) -> Inputs:
        """Returns one group for each place: `nodes`, or all nodes by number, cut at `ends`."""
    @staticmethod
    def drawn() -> Inputs:
        """Returns places for which the sampler draws nodes."""
    @staticmethod
    def clusters(snapshot: Snapshot, node_type: int, count: int) -> Inputs:
        """Returns one cluster for each place: the live nodes in `count` ranges of rows on disk."""
    def nodes(self, places: Ids) -> Ids:
        """Returns the nodes at `places`. Nodes of clusters are in the order of their rows."""

class Epochs:
    """The compiled epochs with `key` in a directory."""

    def __init__(self, directory: str, key: dict[str, str]) -> None: ...

class Loader:
    """The batches of a plan, epoch after epoch.

    `compiled` is (compiled epochs, whether it is an error if they cannot be used).
    """

    def __init__(
        self,
        sampler: Sampler,
        inputs: Inputs,
        plan: SeedPlan,
        *,
        goes_on: bool,
        reading: str = "auto",
        window: int | None = None,
        two_phase: bool | None = None,
        temporary_writes: float | None = None,
        prefetch: int | None = None,
        threads: int | None = None,
        spill_dir: str | None = None,
        compiled: tuple[Epochs, bool] | None = None,
    ) -> None: ...
    def run(self, epoch: int, first: int) -> Run:
        """Returns the batches of an epoch, from batch `first` on."""

    def epoch_of(self, epoch: int) -> int:
        """Returns the epoch whose seeds and draws are used: a compiled one, or `epoch` itself."""

    @property
    def epochs(self) -> list[int] | None:
        """The compiled epochs in use; None if batches are sampled."""

    def chosen(self) -> dict[str, Any] | None: ...
    def choose(self, epoch: int) -> dict[str, Any]:
        """Returns the plan by which look-ahead reads an epoch; waits until it is chosen."""

    def close(self) -> None:
        """Releases the memory that is kept between epochs."""

class Run:
    """The batches of one epoch."""

    def __iter__(self) -> Run: ...
    def __next__(self) -> MiniBatch: ...
    def write_next(self, writer: EpochWriter) -> bool:
        """Writes the next batch to a file. Returns False after the last one."""

    def close(self) -> None: ...

class Survey:
    def __init__(self, sampler: Sampler) -> None: ...
    def count(self, node_type: int, seeds: Ids, batch_size: int, first_stream: int) -> None: ...
    def measure(
        self, node_type: int, seeds: Ids, batch_size: int, first_stream: int, hot: HotSet
    ) -> dict[str, int]: ...
    def choose(self) -> tuple[HotSet, dict[str, int]]: ...
    @property
    def table_bytes(self) -> int: ...
    def record_bytes(self, hot: HotSet) -> int: ...
    def disk_costs(self) -> tuple[float, float]: ...

class HotSet:
    @property
    def num_rows(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def digest(self) -> int: ...
    def stored(self, sampler: Sampler) -> Sampler: ...

class EpochWriter:
    def __init__(
        self,
        snapshot: Snapshot,
        directory: str,
        name: str,
        key: dict[str, str],
        epoch: int,
        epochs: tuple[int, int],
        hot: HotSet,
    ) -> None: ...
    def finish(self) -> int: ...
    def close(self) -> None: ...

class EpochFile:
    def __init__(self, directory: str, name: str) -> None: ...
    def check(self, key: dict[str, str]) -> None: ...
    @property
    def key(self) -> dict[str, str]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def epochs(self) -> tuple[int, int]: ...
    def verify(self, progress: Progress | None = None) -> list[tuple[int, int, str]]: ...
    @property
    def hot_digest(self) -> int: ...
    @property
    def hot_bytes(self) -> int: ...

class Importer:
    def __init__(
        self,
        out: str,
        memory: int | None = None,
        threads: int | None = None,
        page_bytes: int = 4096,
        fill: float = 0.9,
        overwrite: bool = False,
        reuse_ids: bool = False,
        strict: bool = False,
    ) -> None: ...
    def node_type(self, name: str, num_nodes: int | None = None, strings: bool = False) -> int: ...
    def relabelled_node_type(self, name: str) -> int: ...
    def push_keys(self, node_type: int, keys: list[str]) -> None: ...
    def add_note(
        self, code: str, count: int, place: str, message: str, requested: bool
    ) -> None: ...
    def edge_type(
        self,
        source: str,
        relation: str,
        destination: str,
        undirected: bool = False,
        unique: bool = False,
        self_loops: str = "keep",
        reverse: bool = False,
        edge_ids: bool = False,
        time: bool = False,
        weight: bool = False,
    ) -> int: ...
    def push_edges(
        self,
        et: int,
        sources: ArrayLike,
        destinations: ArrayLike,
        edge_ids: ArrayLike | None = None,
        times: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None: ...
    def push_string_edges(
        self,
        et: int,
        sources: list[str],
        destinations: list[str],
        times: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None: ...
    def read_text(self, et: int, text: dict[str, Any], progress: Progress | None = None) -> int: ...
    def preview_text(self, et: int, text: dict[str, Any], rows: int) -> dict[str, Any]: ...
    def read_npy(
        self, et: int, path: str, layout: str | None = None, progress: Progress | None = None
    ) -> int: ...
    def begin_tensor(
        self,
        kind: Kind,
        type_id: int,
        name: str,
        dtype: str,
        shape: Sequence[int],
        mask_width: int | None = None,
    ) -> int: ...
    def begin_class_tensor(
        self, kind: Kind, type_id: int, name: str, class_names: list[str]
    ) -> int: ...
    def begin_sparse_tensor(
        self, kind: Kind, type_id: int, name: str, shape: Sequence[int], value: str
    ) -> int: ...
    def push_csr_rows(
        self,
        tensor: int,
        indptr: Ids,
        columns: NDArray[Any],
        values: NDArray[np.float32] | None = None,
    ) -> None: ...
    def begin_narrow_tensor(
        self, kind: Kind, type_id: int, name: str, dtype: str, shape: Sequence[int]
    ) -> int: ...
    def measure_rows(self, tensor: int, array: NDArray[np.float32]) -> None: ...
    def push_rows(self, tensor: int, array: NDArray[Any]) -> None: ...
    def build_topology(self) -> None: ...
    def wait_for_topology(self, progress: Progress | None = None) -> None: ...
    def num_nodes(self, type_id: int) -> int | None: ...
    def estimate(self, edges: int) -> str: ...
    def finish(self, progress: Progress | None = None) -> str: ...
    def abort(self) -> None: ...

class SparseProbe:
    """A first pass over rows of f32, which finds whether sparse rows save space."""

    def __init__(self, columns: int) -> None: ...
    def add_dense(self, array: NDArray[np.float32]) -> None: ...
    def add_csr(
        self, indptr: Ids, columns: NDArray[Any], values: NDArray[np.float32] | None = None
    ) -> None: ...
    def pays(self, rows: int) -> bool: ...
    @property
    def value(self) -> str: ...

class Plan:
    def run(
        self, inputs: dict[str, NDArray[Any]], hops: list[tuple[str, list[int]]]
    ) -> list[tuple[list[int], NDArray[Any]]]: ...

class Dfg:
    def __init__(self) -> None: ...
    @staticmethod
    def from_onnx(model: bytes, files: dict[str, bytes]) -> Dfg: ...
    @staticmethod
    def from_text(text: str, weights: dict[str, NDArray[Any]]) -> Dfg: ...
    def to_onnx(
        self, metadata: list[tuple[str, str]], weights_name: str
    ) -> tuple[bytes, bytes]: ...
    def create_in(self, name: str, wanted: tuple[str, list[int | str]] | None) -> None: ...
    def create_weight(self, name: str, array: NDArray[Any]) -> None: ...
    def create_op(self, name: str, inputs: list[str], attributes: dict[str, Any]) -> list[str]: ...
    def create_out(self, name: str, value: str) -> None: ...
    def metadata(self) -> list[tuple[str, str]]: ...
    def text(self) -> str: ...
    def inputs(self) -> list[tuple[str, tuple[str, list[str]] | None]]: ...
    def outputs(self) -> list[str]: ...
    def check(self) -> None: ...
    def parts(self, devices: Computing) -> dict[str, Any]: ...
    def file_facts(self) -> dict[str, Any] | None: ...
    def plan(
        self,
        kernels: dict[str, Callable[..., Any]],
        *,
        devices: Computing,
        fuse: bool,
        threads: int,
    ) -> Plan: ...
    def explain(
        self,
        inputs: dict[str, NDArray[Any]] | None,
        *,
        devices: Computing,
        fuse: bool,
        threads: int,
    ) -> list[dict[str, Any]]: ...

class Engine:
    def __init__(
        self,
        snapshot: Snapshot,
        model: Dfg,
        fanouts: list[list[int]],
        *,
        devices: Computing,
        output: str | None,
        prepare: str,
        threads: int,
        batch_nodes: int,
    ) -> None: ...
    def refresh(self, snapshot: Snapshot) -> bool: ...
    def snapshot(self) -> Snapshot: ...
    @property
    def node_type(self) -> int: ...
    @property
    def ready(self) -> float: ...
    def prepared(self) -> tuple[bool, str | None]: ...
    def stats(self) -> dict[str, Any]: ...
    def explain(self) -> str: ...
    def run(self, ids: NDArray[np.int64], seed: int) -> tuple[list[int], NDArray[Any]]: ...
    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], seed: int
    ) -> tuple[list[int], NDArray[Any]]: ...
    def graphs(self, ids: NDArray[np.int64]) -> tuple[list[int], NDArray[Any]]: ...

class Layerwise:
    def __init__(
        self,
        snapshot: Snapshot,
        model: Dfg,
        *,
        threads: int,
        device: Table,
        block_rows: int | None,
        chunk_rows: int | None,
    ) -> None: ...
    def plan(self) -> dict[str, Any]: ...
    def outputs(self) -> list[tuple[str, str]]: ...
    def key(self) -> str: ...
    def run(
        self,
        folder: Path,
        *,
        fresh: bool,
        progress: Callable[[int, int, int, int], None] | None,
    ) -> Inferred: ...

class Inferred:
    def outputs(self) -> list[tuple[str, str, list[int], int]]: ...
    def rows(self, output: int, first: int, end: int) -> NDArray[np.float32]: ...
    def begun(self) -> tuple[str, str]: ...
    def table_read_bytes(self) -> int: ...
    def clear(self) -> None: ...
    def close(self) -> None: ...

def quantise_steps(dfg: Dfg) -> tuple[Dfg, list[str], list[tuple[str, str]]]: ...
def quantise_half(dfg: Dfg) -> tuple[Dfg, list[str], list[tuple[str, str]]]: ...
def fixed_point_graph(
    dfg: Dfg, formats: list[tuple[str, int, int]]
) -> tuple[Dfg, list[str], list[tuple[str, str]]]: ...
def search_formats(
    dfg: Dfg,
    inputs: dict[str, NDArray[Any]],
    bits: int,
    rounds: int,
    labels: tuple[list[int], list[int]] | None = None,
    progress: Progress | None = None,
) -> tuple[list[tuple[str, int, int]], float, float, int]: ...

_Checks = tuple[list[str], list[str], float]
_Change = tuple[str, list[str], list[tuple[str, int]], str | None]
_Output = tuple[str, list[int], NDArray[Any]]

_Files = tuple[bytes, bytes, bytes]
_Asked = tuple[str, _Files | None, list[int], str]
_Run = tuple[str, _Asked, str, str, NDArray[np.int64], NDArray[np.int64], int, int | None, int]

class Client:
    """A client of a server.

    Without a ticket, a method waits for its answer, without the GIL. With a ticket, it returns None
    at once. `fileno` becomes readable when there are answers, and `take` returns all of them.
    """

    def __init__(
        self,
        address: str,
        token: str | None,
        timeout: float | None,
        retry: float,
        tls: tuple[bytes, tuple[bytes, bytes] | None, str | None] | None,
    ) -> None: ...
    def run(self, run: _Run, ticket: int | None) -> Any: ...
    def analyze(self, run: _Run, keep_seconds: int, ticket: int | None) -> Any: ...
    def result(self, job: str, wait_ms: int, ticket: int | None) -> Any: ...
    def features(
        self,
        graph: str,
        node_type: str,
        ids: NDArray[np.int64],
        tensor: str,
        at_snapshot: int | None,
        ticket: int | None,
    ) -> Any: ...
    def neighbors(
        self,
        graph: str,
        edge_type: str,
        ids: NDArray[np.int64],
        limit: int | None,
        at_snapshot: int | None,
        ticket: int | None,
    ) -> Any: ...
    def apply(
        self,
        graph: str,
        changes: list[tuple[str, tuple[Any, ...]]],
        key: tuple[bytes, int | None],
        ticket: int | None,
    ) -> Any: ...
    def register_model(self, message: str, files: _Files | None, ticket: int | None) -> Any: ...
    def call(self, method: str, message: str, ticket: int | None) -> Any: ...
    def sample(
        self, message: str, node_type: str, ids: NDArray[np.int64], ticket: int | None
    ) -> Any: ...
    def watch(self, job: str, ticket: int | None) -> Any: ...
    def backup(self, message: str, ticket: int | None) -> Any: ...
    def next(self, stream: Stream, ticket: int | None) -> Any: ...
    def update_graph(self, head: str, ticket: int | None) -> Any: ...
    def send(self, upload: Upload, piece: bytes, ticket: int | None) -> Any: ...
    def finish(self, upload: Upload, ticket: int | None) -> Any: ...
    def fileno(self) -> int: ...
    def take(self) -> list[tuple[int, BaseException | None, Any]]: ...
    def cancel(self, ticket: int) -> None: ...
    def close(self) -> None: ...

class Stream:
    """A stream of messages. It belongs to the process that opened it."""

    def close(self) -> None: ...

class Upload:
    """A graph that is sent in pieces. Closing it before `Client.finish` discards it."""

    def close(self) -> None: ...

class Server:
    """A server in this process. `config` is JSON with the names of the settings file."""

    def __init__(self, config: str) -> None: ...
    @property
    def addresses(self) -> list[str]: ...
    @property
    def side_address(self) -> str: ...
    def end(self) -> None: ...

class Devices:
    def __init__(self, bundle: str) -> None: ...
    def load_plugin(self, path: str, checks: _Checks) -> dict[str, Any]: ...
    def register_device(self, name: str, priority: int) -> None: ...
    def program(self, base: str, change: _Change, checks: _Checks) -> None: ...
    def bundle(self) -> tuple[str, dict[str, Any]]: ...
    def tables(self) -> tuple[list[tuple[str, int]], list[tuple[str, list[str]]]]: ...
    def simulated(self, model: str, visits: list[int]) -> tuple[float, float]: ...
    def serve(self, dfg: Dfg, fuse: bool) -> Served: ...

class Served:
    def run(
        self, inputs: dict[str, NDArray[Any]], threads: int, profile: bool
    ) -> tuple[list[_Output], list[tuple[str, str | None, float, int]]]: ...

class OnnxRuntime:
    def __init__(
        self, library: str, model: bytes, files: dict[str, bytes], threads: int
    ) -> None: ...
    @property
    def version(self) -> str: ...
    def inputs(self) -> list[str]: ...
    def run(self, inputs: dict[str, NDArray[Any]]) -> list[_Output]: ...

Table = list[str] | Devices
Computing = Table | OnnxRuntime

def plugin_sha256(path: str) -> str: ...
def run_plugin_probe(seconds: int) -> None: ...
def format_bytes(count: int, up: bool) -> str: ...
def open_store(
    path: str,
    memory: int | None,
    backend: str,
    queue_depth: int | None = None,
    recover: bool = True,
    busy_timeout: float = 5.0,
) -> Store: ...
def sampling_methods() -> dict[str, dict[str, Any]]: ...
def compact(
    path: str,
    memory: int | None = None,
    backend: str = "auto",
    progress: Progress | None = None,
    busy_timeout: float = 5.0,
) -> tuple[int, int, int, str | None]: ...
def restore_backup(path: str, target: str, progress: Progress | None = None) -> dict[str, Any]: ...
def verify_backup(path: str, progress: Progress | None = None) -> dict[str, Any]: ...
def is_backup(path: str) -> bool: ...
def reorganize(
    path: str,
    by: str,
    node_type: int,
    fanouts: list[list[int]],
    batch_size: int,
    seeds: Ids | None = None,
    visits: Ids | None = None,
    batches: int = 32,
    dry_run: bool = False,
    memory: int | None = None,
    backend: str = "auto",
    progress: PhaseProgress | None = None,
    busy_timeout: float = 5.0,
) -> str: ...
def verify(
    path: str,
    memory: int | None = None,
    backend: str = "auto",
    progress: Progress | None = None,
) -> str: ...
def probe(path: str) -> str: ...
def describe_direct(directory: str, name: str) -> dict[str, Any]: ...
def find_direct(snapshot: Snapshot, directory: str, tensors: Sequence[str]) -> str: ...
def verify_direct(
    snapshot: Snapshot, directory: str, name: str, progress: Progress | None = None
) -> None: ...
def load_file(directory: str, name: str, backend: str) -> tuple[float, float, int, str]: ...

class Trace:
    @staticmethod
    def of_dataset(
        name: str, batches: int, targets: int, fanouts: list[int], seed: int
    ) -> Trace: ...
    @staticmethod
    def of_columns(columns: dict[str, np.ndarray]) -> Trace: ...
    def columns(self) -> dict[str, np.ndarray]: ...
    def with_places_of(
        self,
        snapshot: Snapshot,
        page_bytes: int,
        tensor: str,
        progress: PhaseProgress | None = None,
    ) -> Trace: ...
    def with_places(self, columns: dict[str, Any]) -> Trace: ...
    def places(self) -> dict[str, Any] | None: ...
    @property
    def page_bytes(self) -> int | None: ...
    @property
    def num_batches(self) -> int: ...

def measure_host(directory: str, name: str, depths: list[int]) -> str: ...
def simulate_host(trace: Trace, job: str, host: str) -> str: ...
def replay_on_host(
    trace: Trace, job: str, directory: str, name: str, depth: int
) -> list[float]: ...
def sim_config(mode: str) -> str: ...
def sim_names() -> str: ...
def sim_switched(config: str, switch: str, other: str) -> str: ...
def simulate(trace: Trace, jobs: str) -> str: ...
def simulate_requests(
    first_page: np.ndarray, pages: np.ndarray, config: str, depth: int
) -> str: ...
def run_server(args: list[str], probe: list[str]) -> int: ...
def run_load(args: list[str]) -> int: ...
