"""Coefficients that correct the bias of drawn subgraphs, by the definition of PyG or of the paper.

Counts of nodes and edges are memory-mapped files, whose pages the system can drop when it needs
memory. The invariant: a folder of counts is complete or absent, and is used only for the same draws
on the same version of a store.
"""

import errno
import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._room import scratch_folder
from neargraph.exceptions import StateMismatch, UnsupportedArgument, advised
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.progress import progress_bar
from neargraph.loader.reading import Reading
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, SeedPlan

# As in PyG: bounds of a coefficient whose count is small or 0.
_EDGE_NORM_MAX, _EDGE_NORM_NONE, _NODE_COUNT_NONE = 1e4, 0.1, 0.1
# Epochs whose draws are counted. Training does not reach them.
_FIRST_EPOCH = 1 << 40
_FACTS = "counts.json"

Counts = NDArray[np.uint32]


@dataclass(frozen=True)
class Kept:
    """A folder of counts.

    Attributes:
        folder: Path of the folder.
        key: The settings that determine the draws.
        nodes: Number of nodes.
        edges: Number of edge ids.
        num_nodes: Number of nodes that can be drawn.
    """

    folder: Path
    key: str
    nodes: int
    edges: int
    num_nodes: int

    @property
    def sizes(self) -> dict[str, int]:
        """The number of counts in each file."""
        return {"nodes": self.nodes, "edges": self.edges}


@dataclass(frozen=True)
class Norms:
    """Counts of nodes and edges in `num_samples` subgraphs.

    Attributes:
        nodes: Counts by node id.
        edges: Counts by edge id.
        num_samples: Number of subgraphs.
        num_nodes: Nodes that can be drawn: those that are not deleted.
        form: The definition of the coefficients, "pyg" or "paper".
        kept: The folder of the counts; None if they are in a temporary file.
    """

    nodes: Counts
    edges: Counts
    num_samples: int
    num_nodes: int
    form: str = "pyg"
    kept: "Kept | None" = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.kept is None:
            raise UnsupportedArgument(
                "the coefficients of sample_coverage= are in an unlinked temporary file, which a "
                "spawned process cannot open; give save_dir=, or use "
                "multiprocessing_context='fork'"
            )
        return _open_as, (self.kept, self.form)

    def of(self, batch: MiniBatch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns ``node_norm`` [n] and ``edge_norm`` [e] of a batch."""
        ids, edge_ids = batch.nodes(), batch.edge_ids()
        assert edge_ids is not None
        counts = self.nodes[ids].astype(np.float32)
        if self.form == "paper":
            # For Poisson counts, the expectation of 1 / (count + 1) is 1 / mean, up to a share of
            # exp(-mean). It is also finite for a count of 0.
            counts += 1
            edge = counts[batch.edge_index()[1]] / (self.edges[edge_ids].astype(np.float32) + 1)
            return np.float32(self.num_samples / self.num_nodes) / counts, edge
        sources = counts[batch.edge_index()[0]]
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = np.clip(sources / self.edges[edge_ids], 0, _EDGE_NORM_MAX)
        edge = np.where(np.isnan(edge), _EDGE_NORM_NONE, edge)
        counts[counts == 0] = _NODE_COUNT_NONE
        node = self.num_samples / counts / self.num_nodes
        return node.astype(np.float32), edge.astype(np.float32)


def count_norms(
    sampler: NumpySampler,
    steps: InputNodes,
    *,
    coverage: int,
    num_steps: int,
    folder: str | None,
    name: str,
    shown: bool,
) -> Norms:
    """Counts nodes and edges of subgraphs with `coverage` times as many nodes as the store.

    Args:
        sampler: The sampler of the subgraphs, without rows.
        steps: The batches of an epoch.
        coverage: Average count of a node.
        num_steps: The number of subgraphs is a multiple of this, as in PyG.
        folder: The folder in which counts are kept; None uses a temporary file.
        name: The settings that determine the draws, beside store and seed.
        shown: Show a progress bar on a terminal.

    Raises:
        UnsupportedArgument: The store keeps no edge ids.
        StateMismatch: The counts in `folder` are damaged, or belong to other draws.
        ValueError: `folder` is a file.
    """
    schema = sampler.snapshot.schema
    edge_type = schema.edge_types[0]
    if not edge_type.has_edge_ids:
        what = (
            f"sample_coverage={coverage} needs edge ids, which this store does not have "
            "(sample_coverage=0 does not need them)"
        )
        raise advised(UnsupportedArgument(what), "KeepEdgeIds")
    owner = schema.node_types[0]
    key = f"{name}:{num_steps}:{sampler.snapshot.fingerprint}:{sampler.seed}"
    digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    sizes = (owner.num_nodes, edge_type.num_edge_ids, owner.num_nodes_live)
    kept = Kept(Path(folder or "") / f"saint-{digest}", key, *sizes)
    how = (sampler, steps, kept, coverage, num_steps, shown)
    if folder is None:
        with scratch_folder(sampler.snapshot.path) as passing:
            # Mapped files exist until the last array over them is dropped.
            return _count(Path(passing), *how)
    if not kept.folder.exists():
        room = _room_in(Path(folder), kept.folder.name)
        try:
            norms = _count(room, *how)
            facts = {"key": key, "num_samples": norms.num_samples}
            (room / _FACTS).write_text(json.dumps(facts))
            _publish(room, kept.folder)
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise
    return _open(kept)


def _room_in(folder: Path, name: str) -> Path:
    """Creates a folder inside `folder`, which is created if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"save_dir={str(folder)!r} is not a valid folder: a part of this path is a file; "
            "give another path"
        ) from error
    return Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))


def _publish(room: Path, kept: Path) -> None:
    """Renames counts to their final name, unless another process was first with the same ones."""
    try:
        room.rename(kept)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(room)


def _open_as(kept: Kept, form: str) -> Norms:
    return replace(_open(kept), form=form)


def _open(kept: Kept) -> Norms:
    wrong = StateMismatch(
        f"{kept.folder} is damaged, or contains the counts of another loader; remove this "
        "folder, or give another save_dir="
    )
    sizes = kept.sizes
    try:
        facts = json.loads((kept.folder / _FACTS).read_text())
        arrays = {name: np.load(kept.folder / f"{name}.npy", mmap_mode="r") for name in sizes}
    except (OSError, ValueError, EOFError) as error:
        raise wrong from error
    for name, array in arrays.items():
        if array.shape != (sizes[name],) or array.dtype != np.uint32:
            raise wrong
    num_samples = facts.get("num_samples") if isinstance(facts, dict) else None
    if not isinstance(num_samples, int) or num_samples < 1 or facts.get("key") != kept.key:
        raise wrong
    return Norms(arrays["nodes"], arrays["edges"], num_samples, kept.num_nodes, kept=kept)


def _count(
    room: Path,
    sampler: NumpySampler,
    steps: InputNodes,
    kept: Kept,
    coverage: int,
    num_steps: int,
    shown: bool,
) -> Norms:
    arrays: dict[str, Any] = {
        name: np.lib.format.open_memmap(room / f"{name}.npy", "w+", np.uint32, (size,))
        for name, size in kept.sizes.items()
    }
    plan = SeedPlan(num_seeds=num_steps, batch_size=1, seed=sampler.seed)
    pipeline = Pipeline(sampler, steps, plan, Reading("on_demand"), goes_on=False)
    wanted, seen, passes = coverage * kept.num_nodes, 0, 0
    with progress_bar(wanted, "GraphSAINT coefficients", shown) as advance:
        while seen < wanted:
            before = seen
            for batch in pipeline.run(_FIRST_EPOCH + passes):
                ids, edge_ids = batch.nodes(), batch.edge_ids()
                assert edge_ids is not None
                arrays["nodes"][ids] += 1
                # Both directions of an undirected edge have one id.
                arrays["edges"][np.unique(edge_ids)] += 1
                seen += len(ids)
                del batch
            passes += 1
            advance(seen - before)
            if seen == before:
                raise UnsupportedArgument(
                    "all sampled subgraphs are empty, so there are no nodes to count for "
                    "sample_coverage=; use sample_coverage=0"
                )
    pipeline.close()
    return Norms(arrays["nodes"], arrays["edges"], passes * num_steps, kept.num_nodes)
