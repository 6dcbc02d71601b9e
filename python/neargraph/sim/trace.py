"""Traces: the nodes and edges that sampling visits, as columns.

A trace is recorded from a store, or drawn for a graph that is known by its counts. A saved trace is
an .npz file of the columns and a description, which NumPy alone can read.
"""

import json
import math
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neargraph import _core
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.fanouts import resolve_fanouts

from .config import DATASETS, whole, word_bits_of

if TYPE_CHECKING:
    from neargraph.store import Store

# Several copies of a trace with this number of visits fit into the memory of a small machine.
VISITS_MAX = 1 << 26
ABOUT = {"source", "feature_bytes", "mean_degree", "columns", "fanouts", "batch_size", "seed"}
ROW_BYTES_MAX = 1 << 22
# Prefix of the columns of places in a file. Pages have the size of those in mode `detailed`.
PLACE = "place_"
PAGE_BYTES = 4096
# The least number of bytes beside a node's row in a page of the direct layout
# (docs/reference/direct.md).
BESIDE_ROW_BYTES = 62
COLUMNS = ["node", "degree", "hop", "first_draw", "position", "found", "first_entry"]


class Trace:
    """The nodes and edges that some batches visit, and the sizes of their graph.

    Attributes:
        about: The description: `source`, `feature_bytes`, `mean_degree`, `columns` (features per
            node), `num_nodes`, `num_edges`, `fanouts`, `batch_size`, `seed`; also `fingerprint` if
            the trace is of a store, and `word_bits` if a column of a row does not have 16 bits.
    """

    def __init__(self, core: _core.Trace, about: dict[str, Any]) -> None:
        self.core = core
        self.about = about

    @classmethod
    def of_dataset(
        cls,
        name: str,
        *,
        batches: int = 1,
        batch_size: int = 128,
        fanouts: Sequence[int] = (3, 3, 3),
        seed: int = 0,
        word_bits: int = 16,
    ) -> "Trace":
        """Draws batches of one of `DATASETS` without creating its graph.

        docs/explanation/ssd-model.md describes the random model.

        Args:
            name: Name of the data set.
            batches: Number of batches.
            batch_size: Targets per batch.
            fanouts: Neighbours per node by hop.
            seed: Random seed of all draws.
            word_bits: Bits of a column of a row in the flash: 8, 16 or 32. Accelerators have
                their own constants, `accelerator.word_bits` and `discrete.word_bits`.

        Raises:
            NameNotFound: The data set is unknown.
            UnsupportedArgument: The batches visit too many nodes, or `word_bits` is not valid.
        """
        bits = word_bits_of(word_bits)
        batches, batch_size, seed = _shape(batches, batch_size, seed)
        wanted = _fanouts(fanouts)
        visits = (
            batches * batch_size * sum(math.prod(wanted[:hop]) for hop in range(len(wanted) + 1))
        )
        if visits > VISITS_MAX:
            raise UnsupportedArgument(
                f"{batches} batches of {batch_size} targets with fanouts {wanted} visit too many "
                f"nodes: {visits:,}, but at most {VISITS_MAX:,} can be simulated; use fewer or "
                "smaller batches, or smaller fanouts"
            )
        core = _core.Trace.of_dataset(name, batches, batch_size, wanted, seed)
        known = DATASETS[name]
        about = {
            "source": name,
            "feature_bytes": known["columns"] * bits // 8,
            "columns": known["columns"],
            "mean_degree": known["edges"] / known["nodes"],
            "num_nodes": known["nodes"],
            "num_edges": known["edges"],
            "log_degree_deviation": 1.0,
        }
        shape = {"fanouts": list(fanouts), "batch_size": batch_size, "seed": seed}
        # Traces with the default word size have no entry, as before other sizes were supported.
        words = {} if bits == 16 else {"word_bits": bits}
        return cls(core, about | shape | words)

    @classmethod
    def from_sampler(
        cls,
        store: "Store",
        seeds: Any = None,
        fanouts: Sequence[int] = (3, 3, 3),
        seed: int = 0,
        *,
        batches: int = 8,
        batch_size: int = 128,
        tensor: str | None = "x",
        row_bytes: int | None = None,
        page_bytes: int | None = PAGE_BYTES,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> "Trace":
        """Records the nodes and edges that the sampler visits in a store of one node type and one
        edge type.

        Args:
            store: An open store.
            seeds: Node ids, `[n]`. None draws them at random from all nodes.
            fanouts: Neighbours per node by hop.
            seed: Random seed of seeds and draws.
            batches: The most batches to record.
            batch_size: Seeds per batch; the last may have fewer.
            tensor: The tensor with the features. None records the topology alone, without rows.
            row_bytes: Bytes of a row, instead of those of a tensor; columns have 4 bytes each.
            page_bytes: Also record the places of nodes in a file of the direct layout with pages of
                this size, which takes a pass over the degrees of all nodes. None does not record
                them; neither are they recorded if a row does not fit into a page.
            progress: Called with (phase, done, total).

        Raises:
            NameNotFound: The nodes have no such tensor. The message lists the alternatives.
            UnsupportedArgument: The store has several types.
        """
        batches, batch_size, seed = _shape(batches, batch_size, seed)
        schema = store.types
        if len(schema.node_types) != 1 or len(schema.edge_types) != 1:
            raise UnsupportedArgument(
                f"a trace requires a store with one node type and one edge type; {store.path} has "
                f"{len(schema.node_types)} node types and {len(schema.edge_types)} edge types"
            )
        (nodes,) = schema.node_types
        (edges,) = schema.edge_types
        bytes_and_columns = _row(nodes, tensor, row_bytes)
        parts = _parts(seeds, nodes.num_nodes, batches, batch_size, seed)
        ends = np.cumsum([len(part) for part in parts]).tolist()
        version = store.snapshot().version
        per_type = resolve_fanouts(schema, _fanouts(fanouts))
        sampler = _core.Sampler(version, per_type, _core.Method.uniform(), seed, [])
        core = sampler.trace(np.concatenate(parts), ends, list(range(len(parts))))
        width, columns = bytes_and_columns
        is_of_tensor = row_bytes is None and width + BESIDE_ROW_BYTES <= (page_bytes or 0)
        if tensor is not None and page_bytes is not None and is_of_tensor:
            core = core.with_places_of(version, page_bytes, tensor, progress)
        about = {
            "source": Path(store.path).name,
            "fingerprint": store.fingerprint,
            "feature_bytes": width,
            "columns": columns,
            "mean_degree": edges.num_edges / max(1, nodes.num_nodes),
            "num_nodes": nodes.num_nodes,
            "num_edges": edges.num_edges,
        }
        shape = {"fanouts": list(fanouts), "batch_size": batch_size, "seed": seed}
        return cls(core, about | shape)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name.

        One value per visited node: `node`, `degree`, `hop`, `first_draw`. One per draw: `position`,
        `found`. One per batch: `first_entry`.
        """
        return self.core.columns()

    @property
    def page_bytes(self) -> int | None:
        """Size of the direct layout's pages whose places are recorded, or None."""
        return self.core.page_bytes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an .npz file. One rename makes the complete file visible."""
        target = Path(path)
        half = target.with_name(f".{target.name}.{os.getpid()}")
        about = np.frombuffer(json.dumps(self.about).encode(), dtype=np.uint8)
        places = {PLACE + name: column for name, column in (self.core.places() or {}).items()}
        try:
            with half.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, about=about, **self.columns, **places)
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], store: "Store | None" = None) -> "Trace":
        """Reads a file that `save` wrote. With `store`, checks that the trace is of its version.

        Raises:
            UnsupportedArgument: The file is not a trace, is truncated, or is of another store.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                columns = {name: file[name] for name in COLUMNS}
                places = {n[len(PLACE) :]: file[n] for n in file.files if n.startswith(PLACE)}
            if not about.keys() >= ABOUT:
                raise KeyError(*(ABOUT - about.keys()))
            core = _core.Trace.of_columns(columns)
            if places:
                core = core.with_places(places)
        except (FileNotFoundError, UnsupportedArgument):
            raise
        except Exception as error:  # parsers of damaged bytes raise nearly anything
            said = " ".join(str(error).split())
            why = said if zipfile.is_zipfile(path) else "truncated, or not an .npz file"
            raise UnsupportedArgument(
                f"{path} is not a complete trace ({why}); record the trace again"
            ) from error
        if store is not None and about.get("fingerprint") != store.fingerprint:
            raise UnsupportedArgument(
                f"{path} was recorded on {about['source']}, not on the current version of "
                f"{store.path}; record the trace again"
            )
        return cls(core, about)

    def __repr__(self) -> str:
        return f"Trace({self.about['source']!r}, batches={self.core.num_batches})"


def _row(nodes: Any, tensor: str | None, row_bytes: int | None) -> tuple[int, int]:
    """Returns the bytes and columns of a row."""
    if row_bytes is not None:
        width = whole("row_bytes", row_bytes, 4, ROW_BYTES_MAX)
        return width, width // 4
    if tensor is None:
        return 0, 0
    found = next((t for t in nodes.tensors if t.name == tensor), None)
    if found is None:
        known = " or ".join([*(t.name for t in nodes.tensors), "none (without rows)"])
        raise NameNotFound(
            f"the nodes of the store have no tensor {tensor!r}: expected {known}; or give "
            "the size of a row with row_bytes="
        )
    return found.num_columns * found.numpy_dtype.itemsize, found.num_columns


def _parts(
    seeds: Any, num_nodes: int, batches: int, batch_size: int, seed: int
) -> list[np.ndarray]:
    """Returns the seeds by batch."""
    count = batches * batch_size
    if seeds is None:
        picked = np.random.default_rng(seed).integers(0, num_nodes, count)
    else:
        picked = np.asarray(seeds)
        if picked.ndim != 1 or picked.dtype.kind not in "iu":
            raise UnsupportedArgument(
                f"seeds= is not valid: expected a list of node ids, got {picked.dtype} of shape "
                f"{list(picked.shape)}"
            )
        picked = picked[:count]
    picked = np.ascontiguousarray(picked, dtype=np.int64)
    if not len(picked):
        raise UnsupportedArgument("seeds= is empty; give node ids, or drop seeds=")
    # A node is a seed only once in a batch.
    return [np.unique(picked[at : at + batch_size]) for at in range(0, len(picked), batch_size)]


def _fanouts(fanouts: Sequence[int]) -> list[int]:
    found = list(fanouts)
    if not 1 <= len(found) <= 16:
        raise UnsupportedArgument(
            f"fanouts={found} is not valid: expected 1 to 16 numbers, one per hop"
        )
    return [whole("fanouts", fanout, 1, VISITS_MAX) for fanout in found]


def _shape(batches: Any, batch_size: Any, seed: Any) -> tuple[int, int, int]:
    return (
        whole("batches", batches, 1, VISITS_MAX),
        whole("batch_size", batch_size, 1, VISITS_MAX),
        whole("seed", seed, 0, 2**64 - 1),
    )
