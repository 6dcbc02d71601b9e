"""A loader that is watched: its requests, and what they take on disks that are known."""

import time

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import neargraph as ng
from neargraph.exceptions import UnsupportedArgument
from neargraph.sim.watched import _warm_up, _watch

HOST = {"reads_per_s": [10_000.0, 100_000.0], "bytes_per_s": 1e9, "read_bytes": 4096}
QUICK = {"seconds": 0.2, "warm_seconds": 0.3, "batch_size": 64}
RECORD = [("offset", "<u8"), ("bytes", "<u4"), ("file", "<u4")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(0, 20_000, (2, 200_000), generator=generator)
    x = torch.rand(20_000, 256, generator=generator)
    path = tmp_path_factory.mktemp("watched") / "wide.ng"
    ng.from_pyg(Data(x=x, edge_index=edges), path)
    return path


def watched(requests, batches=2, **more):
    made = {"reading": "scan", "batches": batches, "targets": 128, "seconds": 0.5}
    made |= {"cpu_seconds": 0.2, "cores": 2, "is_steady": True}
    return ng.sim.Watched(**made, requests=np.array(requests, dtype=RECORD), **more)


def test_the_disk_or_the_processor_takes_the_time_of_a_batch():
    # 20,000 short reads are 0.2 s, 300 with a megabyte more 0.303 s; two batches of them.
    short = [(at * 4096, 4096, 0) for at in range(20_000)]
    long = [(at << 21, 1_004_096, 1) for at in range(300)]
    found = watched(short + long)
    assert found.targets_per_s == 128
    assert found.on_host(HOST) == pytest.approx((0.2 + 0.303) / 2)
    assert found.on_host({**HOST, "reads_per_s": [1e9], "bytes_per_s": 1e12}) == 0.1
    assert watched([], written_bytes=1e9).on_host(HOST) == pytest.approx(2)


def test_a_loader_that_reads_whole_windows_first_takes_the_sum_of_both():
    short = [(at * 4096, 4096, 0) for at in range(20_000)]
    found = watched(short)
    dealt = watched(short)
    dealt.reading = "distribute"
    assert (found.on_host(HOST), dealt.on_host(HOST)) == pytest.approx((0.1, 0.2))
    one, other = found.on_ssd(), dealt.on_ssd()
    assert one["disk_seconds"] == other["disk_seconds"]
    assert other["seconds"] == pytest.approx(other["disk_seconds"] + 0.1)
    assert one["bound_by"] == other["bound_by"] == "processor"


class Bursts:
    """Batches of one seed; those of a window of 50 come at once."""

    def __init__(self):
        self.made = 0

    def __iter__(self):
        while True:
            if self.made % 50 == 0:
                time.sleep(0.05)
            self.made += 1
            yield Data(batch_size=1)

    def chosen(self):
        return {"window": 50}


def test_batches_that_come_in_bursts_are_watched_for_whole_windows():
    loader = Bursts()
    batches = iter(loader)
    # It begins inside of a window.
    next(batches)
    assert _warm_up(loader, batches, 3.0)
    parts = _watch(batches, 0.12, 50, 10.0)
    assert sum(part[2] for part in parts) >= 0.12
    assert all(part[0] > 0 and part[0] % 50 == 0 for part in parts)
    # No whole window fits into this time.
    assert not _warm_up(loader, batches, 0.01)
    assert _watch(iter(Bursts()), 0.01, 50, 0.001)[0][0] == 1


def test_requests_on_a_simulated_ssd_are_whole_pages_of_files_one_behind_the_other():
    device = ng.sim.config("paper")
    # Bytes 3,999 and 4,000 are two pages; the second file begins behind the first, whose end is in
    # its third page.
    found = watched([(3_999, 2, 7), (8_000, 10, 7), (0, 4_000, 9)], batches=1)
    first, pages = found._pages(4_000)
    assert (first.tolist(), pages.tolist()) == ([0, 2, 3], [2, 1, 1])
    one = watched([(0, 4_000, 0)], batches=1)
    one.cpu_seconds = 0.0
    alone = one.on_ssd(device, depth=1)
    # A core, a sense, the channel, the link.
    assert alone["disk_seconds"] == pytest.approx(0.2e-6 + 3e-6 + 5e-6 + 0.5e-6)
    assert one.on_ssd(device)["bound_by"] in ("channels", "dies", "cores", "DRAM", "PCIe")
    one.cpu_seconds = 1.0
    assert one.on_ssd(device) == {**alone, "seconds": 0.5, "bound_by": "processor"}
    # 128 dies program 17 GB/s, so the link's 8 GB/s bound both ways.
    wrote = watched([], written_bytes=1e9)
    wrote.cpu_seconds = 0.0
    found = wrote.on_ssd(device)
    assert found["seconds"] == pytest.approx(1 / 8 + 1 / 8)
    assert found["bound_by"] == "temporary files"
    with pytest.raises(UnsupportedArgument, match="depth=0 is not valid: expected a whole number"):
        one.on_ssd(device, depth=0)


@pytest.mark.parametrize("memory", ["256MB", "12MB"])
def test_a_watched_loader_reads_what_the_store_counts(path, memory):
    with ng.open(path, memory=memory) as store:
        found = ng.sim.watch_loader(store, (5, 5), seed=1, **QUICK)
        assert found.batches > 0
        assert found.targets >= 32 * found.batches
        assert found.cpu_seconds > 0
        held = memory == "256MB"
        assert (len(found.requests) == 0) == held
        if not held:
            assert found.on_ssd()["disk_seconds"] > 0
            longest = max(file.stat().st_size for file in path.glob("*.dat"))
            ends = found.requests["offset"] + found.requests["bytes"]
            assert int(ends.max()) <= longest
        assert found.on_host(HOST) > 0
    for how in ({"seconds": 0}, {"warm_seconds": float("nan")}):
        with ng.open(path) as store, pytest.raises(UnsupportedArgument, match="more than 0"):
            ng.sim.watch_loader(store, **how)
