"""Simulates platforms on traces, with results as columns."""

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

# The arguments that a sweep can vary, in addition to the constants of a device.
_SWEPT_ARGUMENTS = {"batch_size", "hidden", "layer", "outputs", "seed"}
_SWEPT_ARGUMENTS |= {"targets_per_command", "workers", "merged", "grouped", "cache_pages"}


class Runs:
    """The results of runs, with one row for each run.

    ``runs[name]`` is a column as a NumPy array; `details` has the complete result of each run.

    Columns:

    - `platform`, `source`, and `seed` of the trace.
    - `targets_per_s`, `targets_per_joule`.
    - Means over batches (or groups of batches) in seconds: `interval_s`, `flash_s`, `host_s`,
      `pcie_s`, `compute_s`.
    - `gemm_share`: the share of products by weights in the accelerator's time, 0 if not counted.
    - `bound_by`: the resource whose work alone is the lower bound of the time.
    - `headroom`: the time of a batch over that bound.
    - `reads`: flash pages read per batch. `hit_rate`: of the page cache.
    - `value`: the swept value, in the result of `sweep`.

    With several workers, a time is that of the batches that are in the device together, and its
    parts are those of the last one to finish. Without an SSD ("host-DRAM", "host-PMEM"), `host_s`
    is the time of memory accesses, and `reads` is 0.
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
        """Returns the runs with one more column, which has the same value in each row."""
        return Runs([{**row, name: value} for row in self.rows], self.details)

    def __add__(self, other: "Runs") -> "Runs":
        return Runs(self.rows + other.rows, self.details + other.details)


def simulate(
    trace: Trace | None = None,
    *,
    dataset: str | None = None,
    platforms: str | Sequence[str] = "all",
    mode: Mode = "detailed",
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
    """Simulates platforms on a trace, or on batches drawn from a data set.

    Args:
        trace: The trace to simulate.
        dataset: One of `DATASETS`, instead of a trace. `batches`, `batch_size`, `fanouts` and
            `seed` are passed to `Trace.of_dataset`.
        platforms: Names from `PLATFORMS` and `MORE_PLATFORMS`, or "all" for `PLATFORMS`.
        mode: `paper` leaves out the costs that the publication leaves out. `detailed` has all.
        device: Constants from `config`. Default: those of the mode.
        hidden: Number of columns between layers.
        outputs: Number of columns of the result.
        backward: Whether to compute gradients.
        layer: The layer of the model: "sage", "gcn", "gin" or "ngcf".
        placement: The placement of pages on dies. "random". "striped": over channels, dies and
            planes, with the same number of nodes in each page, by the mean degree.
            "direct_layout": striped, with the pages of the direct layout of the trace's store.
            "auto": "random" in mode `paper`; otherwise "direct_layout" if the trace has its pages.
        workers: Number of batches in the device at the same time, 1 to 64. Their hops are
            independent. The next batches start when all have finished. Not with `grouped` or
            `cache_pages`.
        targets_per_command: Targets per command, for "SmartSAGE-coalesced" only; 0 is a batch.
        merged: Whether a page is read only once per hop (GLIST's S). `merged`, `grouped` and
            `cache_pages` are for platforms that read whole pages hop by hop: CC, CC-pipe,
            FPGA-CSD, SmartSage, GList, BG-1.
        grouped: Number of batches that are processed as one (GLIST's G), at most 1,024.
        cache_pages: Number of pages that the SSD's memory keeps between batches (GLIST's C). The
            least recently used are evicted first.

    Raises:
        UnsupportedArgument: A constant is out of range, a platform is unknown, or a row fills a
            page. The message names the constant.
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
        "grouped": whole("grouped", grouped, 1, 1024),
        "cache_pages": whole("cache_pages", cache_pages, 0, 1 << 40),
    }
    both = {"crowd": crowd, "reuse": reuse}
    jobs = [{**job_of(trace, name, device, model, placement), **both} for name in names]
    details = json.loads(_core.simulate(trace.core, json.dumps(jobs)))
    return Runs([_row(trace, run) for run in details], details)


def given_trace(trace: Trace | None, dataset: str | None, drawn: dict[str, Any]) -> Trace:
    """Returns the trace, or one drawn from a data set with arguments of `Trace.of_dataset`."""
    if (trace is None) == (dataset is None):
        given = "neither" if trace is None else "both"
        raise UnsupportedArgument(f"expected either a trace or dataset=, got {given}")
    if trace is None:
        return Trace.of_dataset(str(dataset), **drawn)
    if drawn:
        names = ", ".join(f"{name}=" for name in drawn)
        raise UnsupportedArgument(f"{names} can be given only with dataset=, not with a trace")
    return trace


def _placed(placement: str, trace: Trace, mode: Mode, device: Config) -> str:
    """Returns the placement, with "auto" resolved."""
    if placement not in ("auto", "random", "striped", "direct_layout"):
        raise UnsupportedArgument(
            f'placement={placement!r} is not valid: expected "auto", "random", "striped" or '
            '"direct_layout"'
        )
    if placement != "auto":
        return placement
    is_known = trace.page_bytes == device["flash"]["page_bytes"]
    return "random" if mode == "paper" else "direct_layout" if is_known else "striped"


def job_of(
    trace: Trace, platform: str, device: Config, model: dict[str, Any], placement: str
) -> dict[str, Any]:
    """Returns one simulation for the compiled core. `model` has no number of columns of a row."""
    about = trace.about
    return {
        "platform": platform,
        "config": device,
        "placement": {"random": about["seed"]} if placement == "random" else placement,
        "feature_bytes": about["feature_bytes"],
        "mean_degree": about["mean_degree"],
        "model": {"columns": about["columns"], **model},
    }


def sweep(name: str, values: Iterable[Any], *, mode: Mode = "detailed", **how: Any) -> Runs:
    """Calls `simulate` for each value of one constant or argument.

    `name` is a constant, such as `flash.channels` (or `channels`, if that is unique), or an
    argument of `simulate`, such as `hidden` or `workers`, or `batch_size` for a data set.

    Example:
        >>> found = sweep("flash.channels", [4, 8], dataset="amazon", platforms=["BG-2"])
        >>> found["value"].tolist()
        [4, 8]
    """
    base = how.pop("device", None)
    if name not in _SWEPT_ARGUMENTS:
        name = full_name(base if base is not None else config(mode), name)
    if name == "flash.page_bytes" and mode == "detailed":
        # A trace has places for at most one page size, and all points must be comparable.
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
    """Returns a run as cells of a table: targets/s, times of a batch in us, targets per joule."""
    times = [f"{row[f'{part}_s'] * 1e6:,.1f}" for part in ("interval", *_SHARES)]
    return [f"{row['targets_per_s']:,.0f}", *times, f"{row['targets_per_joule']:,.0f}"]


def in_parallel(
    work: Callable[[Any], T], items: Iterable[Any], tell: Callable[[int], None] | None = None
) -> list[T]:
    """Returns the results of `work` in the order of items. Simulations release Python's lock.

    Args:
        tell: Called after each result, with the number of results.
    """
    found: list[T] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one in pool.map(work, items):
            found.append(one)
            if tell is not None:
                tell(len(found))
    return found


def paper_ratios(repeats: int = 5, progress: Callable[[], None] | None = None) -> dict[str, float]:
    """Returns the throughput of each platform over that of each other, by names such as "BG-2/CC".

    Each value is the mean over `repeats` random seeds, then over the five data sets, in mode
    `paper` with a batch size of 128.
    """
    speeds = np.zeros((len(DATASETS), repeats, len(PLATFORMS)))
    for at, name in enumerate(DATASETS):
        for seed in range(repeats):
            speeds[at, seed] = simulate(dataset=name, seed=seed, mode="paper")["targets_per_s"]
            if progress is not None:
                progress()
    return {
        f"{over}/{under}": float(np.mean(speeds[:, :, one] / speeds[:, :, two]))
        for (one, over), (two, under) in permutations(enumerate(PLATFORMS), 2)
    }


def listed(platforms: str | Sequence[str]) -> list[str]:
    """Returns the names of platforms without repeats.

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
    # Nearly always the same for all batches; the last complete one has a warm cache.
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
