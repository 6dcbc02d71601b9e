"""A soak: what a day brings, in minutes, at 80 % of saturation; what the server holds stays flat.

    python -m benchmarks.serving.soak --minutes 20 [--store G.ng --model sage.ngm --memory 2GB]

Saturation is what a closed loop reaches beside the same updates. Beside the load there are updates
(rows, edges that come and go), reloads by SIGHUP, incremental backups, new versions of the model to
which an alias moves while the old version goes, and clients that come and go; each as often as
`DAY` says, spread over the run. RSS is sampled every second under load, descriptors and threads at
rest, after the first quarter and at the end. Wanted after the first quarter (5 of 20 minutes): RSS
grows by at most 1 %, descriptors and threads by 0; after a compact the store has grown by no more
than the data that was added; no request fails but by being shed; nothing panics.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks import wire
from attacks.process import (
    HOME,
    Load,
    Registered,
    Report,
    Server,
    Usage,
    binary,
    load_command,
    registered,
    report,
    served_folder,
    small_graph,
    table,
)

# How often each comes in a day, and so in a run.
DAY = {"reload": 24, "backup": 24, "swap": 12, "reconnect": 400}
SHARE = 0.8
WARM = 0.25
RSS_GROWTH_MAX = 0.01
WINDOW = 30.0
# Threads of the server that have had nothing to do for 10 seconds end.
REST = 13.0
# A graph remembers the keys of its last 4,032 batches, and what was answered to them.
KEYS_BYTES = 4032 * 100
# Each file of a store ends with a page that is not full.
ROUNDING = 256 << 10
BACKUP = "/neargraph.v1.ServerService/Backup"
# `done` of the last message.
DONE = b"\x28\x01"


@dataclass
class Sample:
    """What the server held at a time."""

    at: float
    rss: int
    descriptors: int
    threads: int
    disk: int


class Regularly:
    """Does something `times` times, evenly over `seconds`, on a thread; errors are counted."""

    def __init__(self, does: Callable[[int], None], times: int, seconds: float) -> None:
        self.done = 0
        self.errors: Counter[str] = Counter()
        self._does, self._times, self._pause = does, times, seconds / (times + 1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        start = time.monotonic()
        for number in range(self._times):
            due = start + (number + 1) * self._pause
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            try:
                self._does(number)
            except Exception as error:
                self.errors[f"{type(error).__name__}: {error}"[:300]] += 1
            else:
                self.done += 1

    def end(self) -> Report:
        """Waits for what is under way."""
        self._stop.set()
        self._thread.join()
        return {"done": self.done, "errors": dict(self.errors)}


class Updates:
    """Batches of changes at a steady rate; what they add is counted."""

    def __init__(self, address: str, nodes: int, width: int, rate: float, seed: int) -> None:
        self.batches = 0
        self.bytes_added = 0
        self.errors: Counter[str] = Counter()
        self._given = (address, nodes, width, rate)
        self._draws = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        import numpy as np

        import neargraph as ng

        address, nodes, width, rate = self._given
        size, draws = 10, self._draws
        live: list[tuple[int, int]] = []
        rows = np.random.default_rng(3)
        start = time.monotonic()
        with ng.Client(address, timeout=60.0, retry=10.0) as client:
            number = 0
            while not self._stop.wait(max(0.0, start + number * size / rate - time.monotonic())):
                number += 1
                updates, added, gone = ng.Updates(), [], []
                for _ in range(size):
                    kind = draws.random()
                    if kind < 0.5:
                        row = rows.standard_normal((1, width), dtype=np.float32)
                        updates.update_rows([draws.randrange(nodes)], row, tensor="x")
                    elif kind < 0.75 or len(live) < 100:
                        edge = (draws.randrange(nodes), draws.randrange(nodes))
                        updates.add_edge(*edge)
                        added.append(edge)
                    else:
                        edge = live.pop(draws.randrange(len(live)))
                        updates.delete_edge(*edge)
                        gone.append(edge)
                try:
                    client.apply(updates, graph="g")
                except ng.RequestFailed as error:
                    self.errors[f"{error.code}: {error}"[:200]] += 1
                else:
                    self.batches += 1
                    live += added
                    # An edge is kept in both directions, 8 bytes each at most.
                    self.bytes_added += 16 * (len(added) - len(gone))

    def end(self) -> Report:
        """Waits for the batch under way."""
        self._stop.set()
        self._thread.join()
        return {
            "batches": self.batches,
            "bytes_added": self.bytes_added,
            "errors": dict(self.errors),
        }


def tree_bytes(folder: Path) -> int:
    """Bytes of all files of a folder, as the disk counts them."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def compacted(store: Path) -> int:
    """Bytes of a store after a compact; what recovery has to do is done before."""
    import neargraph as ng

    with ng.open(store, memory="512MB") as opened:
        opened.compact()
    return tree_bytes(store)


class Events:
    """What an operator does, on one server."""

    def __init__(self, server: Server, model: Path) -> None:
        self.server, self.model = server, model
        self.last_backup = ""

    def reload(self, number: int) -> None:
        """Other settings, by SIGHUP."""
        limit = 1024 + number % 2
        config = self.server.folder / "server.toml"
        config.write_text(f"[limits]\nconnections = {limit}\n")
        self.server.signal(signal.SIGHUP)

    def backup(self, number: int) -> None:
        """An increment on the last backup; every sixth is whole, and the older ones go."""
        folder = self.server.folder / "backups"
        base = self.last_backup if number % 6 else ""
        target = f"b{number}"
        request = wire.field(1, "g") + wire.field(2, target) + wire.field(3, base)
        told = wire.messages_of(self.server.address, BACKUP, request)
        if not told or DONE not in told[-1]:
            raise RuntimeError(f"backup {target} on {base!r} did not end: {len(told)} messages")
        if not base:
            for old in folder.iterdir():
                if old.name != target:
                    shutil.rmtree(old, ignore_errors=True)
        self.last_backup = target

    def swap(self, number: int) -> None:
        """A new version; the alias that is asked moves to it; the version before it goes."""
        import neargraph as ng

        with ng.Client(self.server.address, timeout=120.0) as client:
            made = client.register_model("m", self.model, graph="g", prepare="hot")
            version = int(made["version"])
            client.set_alias("live", f"m@{version}", graph="g")
            client.unregister_model(f"m@{version - 1}", graph="g")

    def reconnect(self, number: int) -> None:
        """A client that comes, asks and goes, on each kind of socket."""
        import neargraph as ng

        shm = f"shm:{self.server.folder / 'ring'}"
        address = (self.server.address, f"unix:{self.server.unix}", shm)[number % 3]
        with ng.Client(address, timeout=20.0) as client:
            client.run("live", [number % 100], graph="g")


def saturation(server: Server, args: argparse.Namespace) -> float:
    command = [binary("neargraph-bench-server"), "--address", f"unix:{server.unix}"]
    command += ["--model", "live", "--graph", "g", "--nodes", str(args.nodes), "--shares"]
    command += ["--window", "2", "--warm-seconds", "20", "--seconds", "8"]
    return float(Load(command).found()["closed"]["requests_per_s"])


def loads(server: Server, args: argparse.Namespace, rate: float, seconds: float) -> list[Report]:
    """The load, window by window, each with new connections."""
    found: list[Report] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 2.0:
        command = load_command(server, "live", "g", rate, min(WINDOW, left))
        command += ["--nodes", str(args.nodes), "--timeout-ms", "5000"]
        command += ["--seed", str(args.seed + len(found))]
        found.append(Load(command).found())
        last = found[-1]
        last["memory"] = memory(server)
        held = ", ".join(f"{user} {size >> 20}" for user, size in last["memory"].items())
        print(
            f"{seconds - left:6.0f} s: {last['requests_per_s']:,.0f}/s, p99 {last['p99_ms']:.1f} "
            f"ms, missed {last['missed_by_code']}, MB: {held}",
            flush=True,
        )
    return found


def memory(server: Server) -> dict[str, int]:
    """Bytes that the server holds, and of them what each part says that it holds."""
    found = {"RSS": server.usage().rss}
    for line in server.get("/metrics")[1].splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(("neargraph_memory_bytes", "neargraph_cache_bytes")):
            user = name.partition('user="')[2].partition('"')[0] or "answers"
            found[user] = found.get(user, 0) + int(float(value))
    return found


def sampled(server: Server, samples: list[Sample], stop: threading.Event) -> None:
    start = time.monotonic()
    store = server.folder / "g.ng"
    while not stop.wait(1.0):
        used = server.usage()
        held = (used.rss, used.descriptors, used.threads)
        samples.append(Sample(time.monotonic() - start, *held, tree_bytes(store)))


def at_rest(server: Server) -> Usage:
    """What the server holds once nothing is asked: threads that only wait have ended by then."""
    time.sleep(REST)
    return server.usage()


def updates_of(server: Server, served: Registered, args: argparse.Namespace, seed: int) -> Updates:
    """Updates from now on."""
    return Updates(server.address, served.nodes, served.width, args.updates, seed)


def together(changed: list[Report]) -> Report:
    """The updates of all parts together."""
    errors = {text: count for one in changed for text, count in one["errors"].items()}
    sums = {key: sum(one[key] for one in changed) for key in ("batches", "bytes_added")}
    return {**sums, "errors": errors}


def growth(samples: list[Sample], seconds: float) -> Report:
    """RSS after the first quarter, by the medians of an eighth of the run, and at its end."""
    begin = WARM * seconds + REST
    first = [s.rss for s in samples if begin <= s.at < begin + 0.125 * seconds]
    last = [s.rss for s in samples if s.at >= samples[-1].at - REST - 0.125 * seconds]
    rss = [statistics.median(part) for part in (first, last)]
    return {"rss": rss, "rss_growth": round(rss[1] / rss[0] - 1, 4)}


def cached(found: list[Report]) -> list[int]:
    """Bytes that the parts say that they hold, after the first quarter and at the end: medians of
    an eighth of the windows. Caches that still fill grow within the bound that they were given."""
    held = [sum(size for user, size in one["memory"].items() if user != "RSS") for one in found]
    begin, part = round(WARM * len(held)), max(1, len(held) // 8)
    return [round(statistics.median(some)) for some in (held[begin:][:part], held[-part:])]


def soak(args: argparse.Namespace) -> Report:
    import neargraph as ng

    store = args.store or small_graph("planted")
    folder = served_folder("soak", {"g": store})
    before = compacted(folder / "g.ng")
    (folder / "server.toml").write_text("")
    options = ["--memory", args.memory, "--config", str(folder / "server.toml"), "--log", "error"]
    options += ["--backups", str(folder / "backups"), "--shm", str(folder / "ring")]
    seconds = 60.0 * args.minutes
    times = {what: max(3, round(n * args.days)) for what, n in DAY.items()}
    with Server(folder, options) as server:
        served = registered(server, args.model)
        with ng.Client(server.address) as client:
            client.set_alias("live", "m@1", graph="g")
        # Each update makes some answers unknown again: without them others are saturated.
        updates = updates_of(server, served, args, args.seed - 1)
        saturated = saturation(server, args)
        first = updates.end()
        rate = SHARE * saturated
        print(f"saturated at {saturated:,.0f}/s; {rate:,.0f}/s for {seconds:.0f} s", flush=True)
        samples: list[Sample] = []
        stop = threading.Event()
        sampler = threading.Thread(target=sampled, args=(server, samples, stop))
        sampler.start()
        events = Events(server, served.model)
        going = {
            what: Regularly(getattr(events, what), count, seconds) for what, count in times.items()
        }
        found, changed, quiet = [], [], []
        for part, share in enumerate((WARM, 1.0 - WARM)):
            updates = updates_of(server, served, args, args.seed + part)
            found += loads(server, args, rate, share * seconds)
            changed.append(updates.end())
            quiet.append(at_rest(server))
        did = {what: one.end() for what, one in going.items()} | {
            "updates": together([first, *changed])
        }
        stop.set()
        sampler.join()
        metrics = server.metrics()
        panics, lives = server.panics(), server.lives()
        code = server.end()
    after = compacted(folder / "g.ng")
    codes: Counter[str] = Counter()
    for one in found:
        codes.update(one["missed_by_code"])
    return {
        "saturated": saturated,
        "rate": rate,
        "requests": sum(one["requests"] for one in found),
        "missed_by_code": dict(codes),
        "p99_ms": [one["p99_ms"] for one in found],
        "held": growth(samples, seconds)
        | {"at_rest": [vars(one) for one in quiet], "by_parts": cached(found)},
        "memory": [one["memory"] for one in found],
        "did": did,
        "disk": {"before": before, "after": after, "added": did["updates"]["bytes_added"]},
        "panics": panics,
        "lives": lives,
        "exit_code": code,
        "metrics": metrics,
        "samples": [vars(s) for s in samples[:: max(1, len(samples) // 300)]],
    }


def bars_of(found: Report) -> dict[str, bool]:
    held, disk = found["held"], found["disk"]
    bad = {code: n for code, n in found["missed_by_code"].items() if code != "ResourceExhausted"}
    failed = sum(len(one["errors"]) for one in found["did"].values())
    first, last = held["at_rest"]
    room = max(disk["added"], 0) + KEYS_BYTES + ROUNDING
    return {
        "RSS grows <= 1 %": held["rss_growth"] <= RSS_GROWTH_MAX,
        "descriptors grow by 0": last["descriptors"] <= first["descriptors"],
        "threads grow by 0": last["threads"] <= first["threads"],
        "disk grows by what was added": disk["after"] - disk["before"] <= room,
        "no request failed": not bad,
        "nothing else failed": failed == 0,
        "no panic, exit code 0": found["panics"] == 0 and found["exit_code"] == 0,
    }


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--days", type=float, default=1.0, help="of events in this time")
    parser.add_argument("--store", type=Path, help="a store, which is copied")
    parser.add_argument("--model", type=Path, help="its model")
    parser.add_argument("--memory", default="256MB", help="of the graph")
    parser.add_argument("--nodes", type=int, default=8, help="of a request")
    parser.add_argument("--updates", type=float, default=200.0, help="updates/s")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    args = options()
    print(f"seed {args.seed}", flush=True)
    found = soak(args)
    bars, held, disk = bars_of(found), found["held"], found["disk"]
    rows: list[Sequence[object]] = [
        ["minutes, requests/s asked", f"{args.minutes:g}, {found['rate']:,.0f}"],
        ["requests; missed", f"{found['requests']:,}; {found['missed_by_code']}"],
        ["p99 by window, ms", ", ".join(f"{p99:.1f}" for p99 in found["p99_ms"])],
        ["RSS, MB", " -> ".join(f"{rss / 2**20:.1f}" for rss in held["rss"])],
        ["RSS growth", f"{100 * held['rss_growth']:.2f} %"],
        ["of it in caches, MB", " -> ".join(f"{size / 2**20:.1f}" for size in held["by_parts"])],
        *[
            [f"{what} at rest", " -> ".join(str(one[what]) for one in held["at_rest"])]
            for what in ("descriptors", "threads")
        ],
        ["store after a compact", f"{disk['before']:,} -> {disk['after']:,} bytes"],
        ["bytes added by updates", f"{disk['added']:,}"],
        *[[what, json.dumps(did)] for what, did in found["did"].items()],
        *[[bar, "met" if met else "**missed**"] for bar, met in bars.items()],
    ]
    failed = sum(not met for met in bars.values())
    figure: dict[str, Any] = {"id": "soak", "tried": len(bars), "failed": failed, "seed": args.seed}
    text = "# Soak\n\n" + table(["what", "found"], rows)
    report("soak", {**figure, "minutes": args.minutes, "bars": bars, **found}, text)
    print(f"figure: {json.dumps(figure)}; all of it in {HOME}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
