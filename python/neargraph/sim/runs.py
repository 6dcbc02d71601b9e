"""Running platforms on traces, and the results as columns."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any, TypeVar

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

from .config import (
    DATASETS,
    PLATFORMS,
    Config,
    Mode,
    change,
    check,
    config,
    full_name,
    model_of,
    whole,
)
from .trace import Trace

T = TypeVar("T")

PICOS = 1e-12
WORKERS_MAX = 64
_SHARES = ("flash", "host", "pcie", "compute")

# What a sweep may vary beside the constants of a device.
_SWEPT_ARGUMENTS = {"batch_size", "hidden", "layer", "outputs", "seed"}
_SWEPT_ARGUMENTS |= {"targets_per_command", "workers", "merged", "grouped", "cache_pages"}


class Runs:
    """One row a run: columns as NumPy arrays by name, and each run whole in `details`.

    Columns: `platform`, `source`, `seed` of the trace, `targets_per_s`, `targets_per_joule`; means
    over batches, or groups of them, in seconds: `interval_s`, `flash_s`, `host_s`, `pcie_s`,
    `compute_s`; `gemm_share`, the part of the accelerator's time that products by weights take (0
    where none is counted); `bound_by`, the server that no order of events could beat, and
    `headroom`, the time of a batch over that bound; `reads` of flash pages a batch, and `hit_rate`
    of the page cache. A sweep adds the column `value`. With several workers, times are those of the
    batches that are in the device together, and the parts those of the one that was ready last.
    Without an SSD ("host-DRAM", "host-PMEM"), `host_s` is the time of memory, and there are no
    `reads`.
    """

    def __init__(self, rows: list[dict[str, Any]], details: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.details = details

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array([row[name] for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All columns by name."""
        return {name: self[name] for name in (self.rows[0] if self.rows else {})}

    def with_column(self, name: str, value: Any) -> "Runs":
        """The same runs with one more column, the same value in each row."""
        return Runs([{**row, name: value} for row in self.rows], self.details)

    def __add__(self, other: "Runs") -> "Runs":
        return Runs(self.rows + other.rows, self.details + other.details)


def simulate(
    trace: Trace | None = None,
    *,
    dataset: str | None = None,
    platforms: str | Sequence[str] = "all",
    mode: Mode = "paper",
    device: Config | None = None,
    hidden: int = 128,
    outputs: int = 10,
    backward: bool = True,
    layer: str = "sage",
    placement: str = "auto",
    workers: int = 1,
    targets_per_command: int = 0,
    merged: bool = False,
    grouped: int = 1,
    cache_pages: int = 0,
    **drawn: Any,
) -> Runs:
    """Runs platforms on a trace, or on batches drawn of a data set.

    Args:
        trace: What batches visit.
        dataset: In its place, one of `DATASETS`; `batches`, `batch_size`, `fanouts` and `seed` go
            to `Trace.of_dataset`.
        platforms: Names, or "all" of `PLATFORMS`; there are `MORE_PLATFORMS`.
        mode: `paper` leaves out what the publication does, `detailed` has every cost.
        device: Constants, of `config`; those of the mode unless given.
        hidden: Columns between layers.
        outputs: Columns of the result.
        backward: Whether gradients are computed, too.
        layer: What is computed of a node and its neighbours: "sage", "gcn", "gin" or "ngcf".
        placement: Which page lies on which die: "random"; "striped" over channels, dies and planes
            where each page holds what an average degree puts there; "direct_layout", the same with
            the pages of the file that the direct layout makes of the trace's store. "auto" is
            "random" in mode `paper`, else "direct_layout" where the trace knows that file.
        workers: Batches in the device at the same time, 1 to 64, each with hops of its own; the
            next ones begin when all are ready. Not with `grouped` or `cache_pages`.
        targets_per_command: Targets of a command, on "SmartSAGE-coalesced" alone; 0 is a batch.
        merged: A page that a hop wants several times is read once (GLIST's S); this and the next
            two are for platforms that read whole pages hop by hop: CC, CC-pipe, FPGA-CSD,
            SmartSage, GList, BG-1.
        grouped: So many batches are one (GLIST's G), at most 1,024.
        cache_pages: Pages that the SSD's memory keeps from batch to batch (GLIST's C), the least
            recently used go first.

    Raises:
        UnsupportedArgument: For a device that cannot be, an unknown platform, a row that fills a
            page; the message names the constant.
    """
    trace = given_trace(trace, dataset, drawn)
    model = model_of(hidden, outputs, backward, layer)
    device = config(mode) if device is None else device
    check(device)
    placement = _placed(placement, trace, mode, device)
    names = PLATFORMS if platforms == "all" else listed(platforms)
    crowd = {
        "workers": whole("workers", workers, 1, WORKERS_MAX),
        "targets_per_command": whole("targets_per_command", targets_per_command, 0, 1 << 30),
    }
    reuse = {
        "merged": bool(merged),
        "grouped": whole("grouped", grouped, 0, 1 << 16),
        "cache_pages": whole("cache_pages", cache_pages, 0, 1 << 40),
    }
    both = {"crowd": crowd, "reuse": reuse}
    jobs = [{**job_of(trace, name, device, model, placement), **both} for name in names]
    details = json.loads(_core.simulate(trace.core, json.dumps(jobs)))
    return Runs([_row(trace, run) for run in details], details)


def given_trace(trace: Trace | None, dataset: str | None, drawn: dict[str, Any]) -> Trace:
    """The trace, or the one that is drawn of a data set with arguments of `Trace.of_dataset`."""
    if (trace is None) == (dataset is None):
        raise UnsupportedArgument("give a trace or the name of a data set")
    if trace is None:
        return Trace.of_dataset(str(dataset), **drawn)
    if drawn:
        raise UnsupportedArgument(f"{', '.join(drawn)} belong to dataset=, not to a trace")
    return trace


def _placed(placement: str, trace: Trace, mode: Mode, device: Config) -> str:
    """Which placement is meant."""
    if placement not in ("auto", "random", "striped", "direct_layout"):
        raise UnsupportedArgument(
            f'placement "{placement}": use "auto", "random", "striped" or "direct_layout"'
        )
    if placement != "auto":
        return placement
    is_known = trace.page_bytes == device["flash"]["page_bytes"]
    return "random" if mode == "paper" else "direct_layout" if is_known else "striped"


def job_of(
    trace: Trace, platform: str, device: Config, model: dict[str, Any], placement: str
) -> dict[str, Any]:
    """One simulation as the compiled core takes it; `model` lacks the columns of a row."""
    about = trace.about
    return {
        "platform": platform,
        "config": device,
        "placement": {"random": about["seed"]} if placement == "random" else placement,
        "feature_bytes": about["feature_bytes"],
        "mean_degree": about["mean_degree"],
        "model": {"columns": about["columns"], **model},
    }


def sweep(name: str, values: Iterable[Any], *, mode: Mode = "paper", **how: Any) -> Runs:
    """`simulate` for each value of one constant, by its name (`flash.channels`, or `channels` where
    no other ends so), or of one of its arguments, such as `batch_size` of a data set, `hidden` or
    `workers`.

    Example:
        >>> found = sweep("flash.channels", [4, 8], dataset="amazon", platforms=["BG-2"])
        >>> found["value"].tolist()
        [4, 8]
    """
    base = how.pop("device", None)
    if name not in _SWEPT_ARGUMENTS:
        name = full_name(base if base is not None else config(mode), name)
    if name == "flash.page_bytes" and mode == "detailed":
        # Places are known for one size of pages at most, and points have to compare.
        how.setdefault("placement", "striped")

    def one(value: Any) -> Runs:
        device = json.loads(json.dumps(base)) if base is not None else config(mode)
        arguments = dict(how)
        if name in _SWEPT_ARGUMENTS:
            arguments[name] = value
        else:
            change(device, name, value)
        return simulate(mode=mode, device=device, **arguments).with_column("value", value)

    return sum(in_parallel(one, values), Runs([], []))


def speeds_and_times(row: dict[str, Any]) -> list[str]:
    """Of a run, as tables show it: targets a second, times of a batch in us, targets a joule."""
    times = [f"{row[f'{part}_s'] * 1e6:,.1f}" for part in ("interval", *_SHARES)]
    return [f"{row['targets_per_s']:,.0f}", *times, f"{row['targets_per_joule']:,.0f}"]


def in_parallel(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """The results of `work` in the order of items; simulations leave Python alone meanwhile."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))


def paper_ratios(repeats: int = 5, progress: Callable[[], None] | None = None) -> dict[str, float]:
    """Throughput of each platform over that of each other, as "BG-2/CC": the mean over the five
    data sets of the mean over `repeats` random seeds, in mode `paper` at batch 128."""
    speeds = np.zeros((len(DATASETS), repeats, len(PLATFORMS)))
    for at, name in enumerate(DATASETS):
        for seed in range(repeats):
            speeds[at, seed] = simulate(dataset=name, seed=seed)["targets_per_s"]
            if progress is not None:
                progress()
    return {
        f"{over}/{under}": float(np.mean(speeds[:, :, one] / speeds[:, :, two]))
        for (one, over), (two, under) in permutations(enumerate(PLATFORMS), 2)
    }


def listed(platforms: str | Sequence[str]) -> list[str]:
    """Names of platforms, each once.

    >>> listed("CC,BG-2,CC")
    ['CC', 'BG-2']
    """
    several = platforms.split(",") if isinstance(platforms, str) else platforms
    return list(dict.fromkeys(several))


def _row(trace: Trace, run: dict[str, Any]) -> dict[str, Any]:
    batches = run["batches"]

    def mean(values: Iterable[float]) -> float:
        return float(np.mean([*values]))

    issued, hits = (sum(b["outcome"][name] for b in batches) for name in ("issued", "hits"))
    # The same server nearly always; the last whole one stands for all, with a cache that is warm.
    most = max(batch["targets"] for batch in batches)
    last = next(batch for batch in reversed(batches) if batch["targets"] == most)
    bound, server = last["bound"]
    parts = [batch["computing"] for batch in batches]
    computing = sum(part["products"] + part["rest"] for part in parts)
    return {
        "platform": run["platform"]["name"],
        "source": trace.about["source"],
        "seed": trace.about["seed"],
        "targets_per_s": run["targets_per_s"],
        "targets_per_joule": run["targets_per_joule"],
        "interval_s": mean(batch["interval"] * PICOS for batch in batches),
        **{f"{part}_s": mean(b["shares"][part] * PICOS for b in batches) for part in _SHARES},
        "gemm_share": sum(part["products"] for part in parts) / max(1, computing),
        "reads": (issued - hits) / trace.core.num_batches,
        "hit_rate": hits / issued if issued else 0.0,
        "bound_by": server,
        "headroom": last["interval"] / bound if bound else float("inf"),
    }
