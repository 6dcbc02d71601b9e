"""Makes the batches of one way through the public faces alone."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng

from .digest import Flat, flat_numpy, flat_pyg
from .stores import BATCHES, SEED, Graph
from .ways import CONTENTS, READINGS, THREADS, Content, Options, Way

EPOCH = 1
# What a sampler takes; `batches` and loaders take the rest.
OF_SAMPLER = ("replace", "method", "dependent_batches", "attrs", "x_dtype", "x_format")
OF_READING = tuple(field.name for field in fields(ng.Reading))


def options_of(way: Way) -> Options:
    """The keyword arguments of a way."""
    return CONTENTS[way.content].options | READINGS[way.reading] | THREADS[way.threads]


class Maker:
    """Makes batches of one open store.

    Args:
        store: The store.
        graph: What is sampled of it.
        ids: The seeds of contents that name none.
    """

    def __init__(self, store: Any, graph: Graph, ids: Any) -> None:
        self._store, self._graph, self._ids = store, graph, ids

    def batches(self, way: Way) -> Iterator[Flat]:
        """The first batches of a way, flat."""
        content, options = CONTENTS[way.content], options_of(way)
        make = {
            "sampler": self._sampler,
            "loader": self._loader,
            "resumed": self._resumed,
            "processes": self._processes,
            "one by one": self._one_by_one,
        }[way.face]
        return make(content, options)

    def _shape(self, content: Content) -> tuple[list[int], Any, int]:
        """Fanouts, seeds, batch size."""
        graph = self._graph
        seeds: Any = self._ids if content.seeds == "ids" else content.seeds
        if graph.node_type is not None:
            seeds = graph.node_type if seeds is None else (graph.node_type, seeds)
        size = content.batch_size or graph.batch_size
        return list(content.fanouts or graph.fanouts), seeds, size

    def _split(self, options: Options) -> tuple[Options, Options]:
        """What a sampler takes, and what its `batches` take."""
        own = {k: v for k, v in options.items() if k in OF_SAMPLER}
        others = {k: v for k, v in options.items() if k not in own}
        if others.get("way") == "direct_layout":
            own["layout"] = "direct"
            del others["way"]
        return own, _with_reading(others)

    def _sampler(self, content: Content, options: Options) -> Iterator[Flat]:
        fanouts, seeds, size = self._shape(content)
        own, others = self._split(options)
        sampler = ng.NumpySampler(self._store, fanouts, seed=SEED, **own)
        batches = sampler.batches(seeds, size, epoch=EPOCH, **others)
        with contextlib.closing(batches):
            for batch in islice(batches, BATCHES):
                yield flat_numpy(batch, sampler.schema, own.get("attrs"))

    def _one_by_one(self, content: Content, options: Options) -> Iterator[Flat]:
        """`NumpySampler.sample` of the seeds of each batch, under the batch's stream."""
        fanouts, seeds, size = self._shape(content)
        own, others = self._split(options)
        sampler = ng.NumpySampler(self._store, fanouts, seed=SEED, **own)
        plain = ng.NumpySampler(self._store, [], seed=SEED, attrs=[])
        batches = plain.batches(seeds, size, epoch=EPOCH, **others)
        count = self._num_seeds(content)
        with contextlib.closing(batches):
            for number, batch in enumerate(islice(batches, BATCHES)):
                stream = EPOCH * -(-count // size) + number
                ids = batch.nodes(self._graph.node_type)[: batch.num_seeds]
                given = ids if self._graph.node_type is None else (self._graph.node_type, ids)
                made = sampler.sample(given, stream=stream)
                made.input_id = batch.input_id
                yield flat_numpy(made, sampler.schema, own.get("attrs"))

    def _num_seeds(self, content: Content) -> int:
        if content.seeds == "ids":
            return len(self._ids)
        if content.seeds is None:
            return int(self._store.schema.node_type(self._graph.node_type).num_nodes)
        return len(self._store.split(content.seeds, self._graph.node_type))

    def _new_loader(self, content: Content, options: Options) -> Any:
        fanouts, seeds, size = self._shape(content)
        loader = ng.NeighborLoader(
            self._store, fanouts, seeds, batch_size=size, seed=SEED, **_with_reading(options)
        )
        loader.set_epoch(EPOCH)
        return loader

    def _loader(self, content: Content, options: Options) -> Iterator[Flat]:
        with contextlib.closing(self._new_loader(content, options)) as loader:
            yield from _first(loader, BATCHES)

    def _resumed(self, content: Content, options: Options) -> Iterator[Flat]:
        """Some batches of one loader, the others of one that takes its state."""
        with contextlib.closing(self._new_loader(content, options)) as loader:
            yield from _first(loader, BATCHES // 2)
            state = loader.state_dict()
        with contextlib.closing(self._new_loader(content, options)) as loader:
            loader.load_state_dict(state)
            yield from _first(loader, BATCHES - BATCHES // 2)

    def _processes(self, content: Content, options: Options) -> Iterator[Flat]:
        return self._loader(content, options | {"num_workers": 2})


def _with_reading(options: Options) -> Options:
    """The same with the settings of reading as one argument."""
    settings = {k: v for k, v in options.items() if k in OF_READING}
    others = {k: v for k, v in options.items() if k not in settings}
    return others | {"reading": ng.Reading(**settings)}


def _first(loader: Any, count: int) -> Iterator[Flat]:
    with contextlib.closing(iter(loader)) as batches:
        for batch in islice(batches, count):
            yield flat_pyg(batch)


def compile_all(path: Path, graph: Graph, ids: Any, is_homogeneous: bool) -> None:
    """The compiled epochs of a store, and its direct layout; what is there is kept."""
    from neargraph.cli.app import main

    seeds = path.with_suffix(".npy")
    np.save(seeds, ids)
    common = ["--json", "--memory", f"{graph.memory_mb['small']}MB"]
    runs = [_compile_arguments(content, graph, seeds) for content in CONTENTS.values()]
    if is_homogeneous:
        runs.append(["--layout", "direct"])
    for arguments in filter(None, runs):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main(["compile", str(path), *common, *arguments])


def _compile_arguments(content: Content, graph: Graph, seeds: Path) -> list[str]:
    if not content.is_compiled:
        return []
    fanouts = ",".join(map(str, content.fanouts or graph.fanouts))
    size = content.batch_size or graph.batch_size
    options = content.options
    arguments = ["--fanouts", fanouts, "--batch-size", str(size), "--seeds", str(seeds)]
    arguments += ["--seed", str(SEED), "--first-epoch", str(EPOCH)]
    arguments += ["--method", options.get("method", "uniform")]
    arguments += ["--dependent-batches", str(options.get("dependent_batches", 1))]
    arguments += ["--shuffle" if options.get("shuffle") else "--no-shuffle"]
    arguments += ["--replace"] if options.get("replace") else []
    return arguments + (["--node-type", graph.node_type] if graph.node_type else [])
