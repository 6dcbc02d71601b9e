"""Compares this host's loader, which is run and measured, with simulated devices.

The invariant: the rate of this host is that of its loader, measured if a loader can run. Modelled
rates are marked as modelled.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from neargraph._core import PAGE_SIZES
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.seeds import resolve_input_nodes
from neargraph.units import parse_bytes

from .answer import Answer, Sensitivity
from .chain import UNCACHED, Step, host_steps, platform_steps, rank, where
from .config import DATASETS, PLATFORMS, Config, Mode, change, config, constants, whole
from .host import Host, measure_host, simulate_host
from .modelled import modelled_loader
from .room import Room, room_of_store, room_of_trace, usual_memory
from .runs import Runs, in_parallel, listed, simulate
from .trace import Trace
from .watched import Progress, Watched, watch_loader

if TYPE_CHECKING:
    from neargraph.store import Store

# Constants of a device that are not quantities, so they cannot be halved.
_NO_QUANTITY = (
    "energy.",
    "payload.",
    "discrete.",
    "flash.page_bytes",
    "accelerator.word_bits",
)
# The default batches of a store.
_DEFAULTS = ((3, 3, 3), 128, 8, None, "x", None)
_SHOWN = 5


def what_would_it_buy(
    source: "Store | Trace",
    host: "Mapping[str, Any] | str | os.PathLike[str]",
    *,
    fanouts: Sequence[int] = (3, 3, 3),
    batch_size: int = 128,
    batches: int = 8,
    seed: int = 0,
    repeats: int = 5,
    input_nodes: Any = None,
    tensor: str | None = "x",
    row_bytes: int | None = None,
    memory: str | int | None = None,
    watched: Watched | None = None,
    seconds: float = 10.0,
    warm_seconds: float = 60.0,
    platforms: str | Sequence[str] = "all",
    mode: Mode = "detailed",
    device: Config | None = None,
    progress: Progress | None = None,
    **model: Any,
) -> Answer:
    """Compares the rate of this host's loader with simulated devices.

    Args:
        source: An open store, whose loader is run with the store's memory and measured; or a trace,
            for whose graph the loader is modelled. `fanouts`, `batch_size`, `batches`,
            `input_nodes`, `tensor` and `row_bytes` apply only to a store.
        host: The result of `measure_host`, or a path to measure after arguments are checked.
        seed: The first random seed.
        repeats: Number of random seeds; steps have the range over seeds and batches. A trace that
            was recorded from a store has only its own seed.
        input_nodes: Targets, as in `NeighborLoader`.
        row_bytes: As in `Trace.from_sampler`. The loader is modelled then.
        memory: Memory of this host, for a trace. Default: a quarter of RAM.
        watched: A result of `watch_loader`, instead of running the loader.
        seconds: Seconds for which the loader is measured.
        warm_seconds: The longest time to wait before that for a steady rate.
        platforms: Names, or "all": those of the publication and CC-pipe.
        mode: As in `simulate`.
        device: Constants from `config`. Default: those of the mode.
        progress: Called with (phase, done, total).
        model: ``hidden``, ``outputs``, ``backward`` and ``layer``, as in `simulate`.

    Raises:
        UnsupportedArgument: As in `simulate`, `simulate_host` and `watch_loader`.

    Example:
        >>> answer = what_would_it_buy(store, "/data")                      # doctest: +SKIP
        >>> answer.recommended, answer.speedups["CC-uring"]                 # doctest: +SKIP
        ('CC-uring', 3.5)
    """
    asked = _Asked(
        device=config(mode) if device is None else device,
        names=[*PLATFORMS, "CC-pipe"] if platforms == "all" else listed(platforms),
        how={"mode": mode, **model},
        tell=progress or (lambda *_: None),
    )
    numbers = range(whole("seed", seed, 0, 2**63), seed + whole("repeats", repeats, 1, 1000))
    batches_of = {"fanouts": tuple(fanouts), "batch_size": batch_size, "batches": batches}
    rows = {"tensor": tensor, "row_bytes": row_bytes}
    traces, room = asked.traces(source, numbers, (batches_of, input_nodes, rows), memory)
    simulated = asked.simulated(traces)
    host, uncached = asked.measured(host, traces, model)
    if watched is None and not isinstance(source, Trace) and row_bytes is None:
        times = (seconds, warm_seconds)
        watched = asked.watched(source, (fanouts, batch_size, input_nodes), seed, times, tensor)
    elif watched is None:
        watched = modelled_loader(traces[0], host, room.memory_bytes)
    return asked.answer(traces, simulated, (host, room, watched), uncached)


@dataclass
class _Asked:
    """The question, and the simulations that answer it."""

    device: Config
    names: list[str]
    how: dict[str, Any]
    tell: Progress

    @property
    def page_bytes(self) -> int | None:
        """Size of the pages whose places are recorded. None if pages are placed at random, or if no
        file can have pages of the device's size."""
        pages: int = self.device["flash"]["page_bytes"]
        return pages if pages in PAGE_SIZES and self.how["mode"] != "paper" else None

    def traces(
        self,
        source: "Store | Trace",
        numbers: range,
        of_store: tuple[dict[str, Any], Any, dict[str, Any]],
        memory: str | int | None,
    ) -> tuple[list[Trace], Room]:
        """Returns traces that differ in their seeds, and the memory that their graph needs."""
        batches, input_nodes, rows = of_store
        if isinstance(source, Trace):
            given = (*batches.values(), input_nodes, *rows.values())
            if given != _DEFAULTS:
                raise UnsupportedArgument(
                    "fanouts=, batch_size=, batches=, input_nodes=, tensor= and row_bytes= apply "
                    "only to a store; drop them, because a trace already has its own values"
                )
            budget = usual_memory() if memory is None else parse_bytes(memory)
            return _drawn_again(source, numbers), room_of_trace(source, budget)
        if memory is not None:
            raise UnsupportedArgument(
                "memory= applies only to a trace; set the memory of a store when you open it"
            )
        shape = {**batches, **rows, "page_bytes": self.page_bytes}
        traces = _recorded(source, numbers, input_nodes, shape, self.tell)
        return traces, room_of_store(source, rows["tensor"])

    def measured(
        self,
        host: "Mapping[str, Any] | str | os.PathLike[str]",
        traces: list[Trace],
        model: dict[str, Any],
    ) -> tuple[Host, list[float]]:
        """Returns the host, measured if it is a path, and the ascending targets/s of its uncached
        reader, one for each trace."""
        if not isinstance(host, Mapping):
            host = measure_host(host, progress=self.tell)
        found = [simulate_host(trace, host, device=self.device, **model) for trace in traces]
        return cast(Host, host), sorted(float(one["targets_per_s"]) for one in found)

    def watched(
        self,
        store: "Store",
        batches: tuple[Sequence[int], int, Any],
        seed: int,
        times: tuple[float, float],
        tensor: str | None,
    ) -> Watched:
        """Runs and measures the loader of a store."""
        fanouts, batch_size, input_nodes = batches
        return watch_loader(
            store,
            fanouts,
            batch_size=batch_size,
            input_nodes=input_nodes,
            seed=seed,
            seconds=times[0],
            warm_seconds=times[1],
            progress=self.tell,
            **({} if tensor is not None else {"attrs": []}),
        )

    def run(self, trace: Trace, names: Sequence[str], device: Config | None = None) -> Runs:
        return simulate(trace, platforms=names, device=device or self.device, **self.how)

    def simulated(self, traces: list[Trace]) -> tuple[list[Step], list[Runs]]:
        def tell(done: int, total: int) -> None:
            self.tell("simulating devices", done, total)

        return platform_steps(traces, self.names, self.device, self.how, tell)

    def answer(
        self,
        traces: list[Trace],
        simulated: tuple[list[Step], list[Runs]],
        this: tuple[Host, Room, Watched],
        uncached: list[float],
    ) -> Answer:
        (steps, runs), (host, room, watched) = simulated, this
        # Like this host, the baseline computes on the discrete accelerator.
        cc = self.run(traces[0], ["CC"]).rows[0]
        here = host_steps(watched, host, self.device, cc["compute_s"])
        middle = uncached[len(uncached) // 2]
        own = Step(UNCACHED, where(UNCACHED), middle, uncached[0], uncached[-1], "disk")
        most = max(steps, key=lambda step: step.targets_per_s).name
        seconds = max(watched.on_host(host), cc["compute_s"])
        return Answer(
            host=host,
            room=room,
            reading=watched.reading,
            is_steady=watched.is_steady,
            modelled_targets_per_s=watched.targets_per_batch / seconds,
            steps=sorted([*here, own, *steps], key=_order),
            over_cc={step.name: step.targets_per_s / cc["targets_per_s"] for step in steps},
            sensitive=most,
            sense_us=_sense_us(self.device),
            sensitivities=self._sensitivities(traces[0], most, here[0].targets_per_s),
            seeds=[int(trace.about["seed"]) for trace in traces],
            runs=runs[0],
        )

    def _sensitivities(self, trace: Trace, platform: str, here: float) -> list[Sensitivity]:
        """Returns the constants whose halving and doubling changes the gain most."""
        values = constants(self.device)
        names = [name for name, value in values.items() if _is_quantity(name, value)]

        def gains(name: str) -> list[float]:
            found = []
            for factor in (0.5, 2.0):
                other = json.loads(json.dumps(self.device))
                value = values[name] * factor
                is_whole = isinstance(values[name], int)
                change(other, name, max(1, round(value)) if is_whole else value)
                try:
                    runs = self.run(trace, [platform], other)
                except UnsupportedArgument:
                    # An impossible device, such as one with half a register.
                    return []
                found.append(float(runs["targets_per_s"][0]) / here)
            return found

        def tell(done: int) -> None:
            self.tell("varying constants", done, len(names))

        tell(0)
        both = zip(names, in_parallel(gains, names, tell), strict=True)
        found = [Sensitivity(name, values[name], *pair) for name, pair in both if pair]
        found.sort(key=lambda one: -abs(math.log(one.with_half / one.with_double)))
        return found[:_SHOWN]


def _sense_us(device: Config) -> float:
    flash = device["flash"]
    return float(np.mean(flash["sense_types_ns"] or [flash["sense_ns"]])) / 1e3


def _order(step: Step) -> tuple[bool, int]:
    """Sort key: the simplest first, devices that are not SSDs last."""
    place = rank(step.name)
    return place is None, place or 0


def _is_quantity(name: str, value: Any) -> bool:
    """Whether a constant can be halved and doubled."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(value) and not name.startswith(_NO_QUANTITY)


def _drawn_again(trace: Trace, numbers: range) -> list[Trace]:
    """Returns traces of a data set that differ in their seeds, or a recorded trace alone."""
    about = trace.about
    if about["source"] not in DATASETS or "fingerprint" in about:
        return [trace]
    kept = ("fanouts", "batch_size", "word_bits")
    shape: dict[str, Any] = {name: about[name] for name in kept if name in about}
    shape["batches"] = trace.core.num_batches
    first = int(about["seed"])
    more = (first + 1 + at for at in range(len(numbers) - 1))
    return [trace, *(Trace.of_dataset(about["source"], seed=seed, **shape) for seed in more)]


def _recorded(
    store: "Store", numbers: range, input_nodes: Any, shape: dict[str, Any], tell: Progress
) -> list[Trace]:
    """Records batches of a store, an equal part of them with each seed."""
    ids = None if input_nodes is None else resolve_input_nodes(store, input_nodes).ids
    traces = []
    for seed in numbers:
        targets = None if ids is None else np.random.default_rng(seed).permutation(ids)
        made = Trace.from_sampler(store, targets, seed=seed, progress=tell, **shape)
        traces.append(made)
    return traces
