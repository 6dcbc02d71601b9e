"""Types of the compiled extension. Arrays are int64 unless said; bulk work releases the GIL.

`mask_width` of a split tensor: absent where PyG's mask was [N]; k where it was [N, k], in which
case split_0 ... split_{k-1} are its columns. `MiniBatch.edges` is [2, e]: sources, destinations.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int64]
Kind = Literal["node", "edge"]
Progress = Callable[[int, int], None]

class Store:
    @property
    def path(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def backend_note(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def catalog(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def reset_stats(self) -> None: ...
    def close(self) -> None: ...
    def neighbors(
        self, edge_type: int, ids: Ids
    ) -> tuple[Ids, Ids, Ids | None, Ids | None, NDArray[np.float32] | None]: ...
    def degrees(self, edge_type: int, ids: Ids) -> Ids: ...
    def rows(self, kind: Kind, type_id: int, tensor: str, ids: Ids) -> NDArray[Any]: ...
    def column(self, kind: Kind, type_id: int, tensor: str) -> NDArray[Any]: ...
    def lookup(self, node_type: int, keys: list[str]) -> Ids: ...
    def names(self, node_type: int, ids: Ids) -> list[str]: ...

class Sampler:
    def __init__(
        self,
        store: Store,
        fanouts: list[list[int]],
        replace: bool,
        seed: int,
        tensors: list[tuple[Kind, int, str]],
    ) -> None: ...
    def sample(self, seeds: list[tuple[int, Ids]], stream: int) -> MiniBatch: ...
    def stream(
        self,
        node_type: int,
        seeds: Ids,
        batch_size: int,
        first_stream: int,
        prefetch: int | None = None,
        threads: int | None = None,
        drop_last: bool = False,
    ) -> BatchStream: ...

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
    def num_sampled_nodes(self, node_type: int) -> list[int]: ...
    def num_sampled_edges(self, edge_type: int) -> list[int]: ...
    def tensor(self, kind: Kind, type_id: int, name: str) -> NDArray[Any]: ...

class BatchStream:
    def __iter__(self) -> BatchStream: ...
    def __next__(self) -> MiniBatch: ...
    def close(self) -> None: ...

class Importer:
    def __init__(
        self,
        out: str,
        memory: int | None = None,
        threads: int | None = None,
        page_bytes: int = 4096,
        fill: float = 0.9,
        overwrite: bool = False,
    ) -> None: ...
    def node_type(self, name: str, num_nodes: int | None = None, strings: bool = False) -> int: ...
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
    def read_text(
        self,
        et: int,
        path: str,
        delimiter: str | None = None,
        comment: str | None = None,
        header: bool = False,
        source_column: int = 0,
        destination_column: int = 1,
        time_column: int | None = None,
        weight_column: int | None = None,
        progress: Progress | None = None,
    ) -> int: ...
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
    def push_rows(self, tensor: int, array: NDArray[Any]) -> None: ...
    def build_topology(self) -> None: ...
    def num_nodes(self, type_id: int) -> int | None: ...
    def estimate(self, edges: int) -> str: ...
    def finish(self, progress: Progress | None = None) -> str: ...
    def abort(self) -> None: ...

def open_store(
    path: str,
    memory: int | None,
    backend: str,
    queue_depth: int | None = None,
    epoch: int | None = None,
) -> Store: ...
def seed_order(
    n: int, seed: int, train_epoch: int, start: int = 0, stop: int | None = None
) -> Ids: ...
def verify(
    path: str,
    memory: int | None = None,
    backend: str = "auto",
    progress: Progress | None = None,
) -> str: ...
def probe(path: str) -> str: ...
