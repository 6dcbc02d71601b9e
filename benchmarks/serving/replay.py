"""Asks what a stream file says, of any server or of the engine in this process.

    python -m benchmarks.serving.replay FILE --to peer:127.0.0.1:50051-50054
    python -m benchmarks.serving.replay FILE --to engine:G.ng:MODEL:1600MB
    python -m benchmarks.serving.replay FILE --to neargraph:127.0.0.1:7400:MODEL

First a closed loop until the rate is steady, then a closed loop that is counted (saturation), then
an open loop at falling shares of that rate until the 99th centile is within the limit. An open
loop's arrivals are fixed beforehand and a latency counts from the arrival that was planned, so a
server that stalls is not asked less (no coordinated omission). Errors are counted as missed. No
request is asked twice: repeating a short stream would make caches look better than they are. The
last line is JSON, and has this process's share of a core: where that is large, the load is what is
measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..machine import device_reads
from .streams import Stream, poisson

Ask = Callable[[Any], Awaitable[Any]]
Report = dict[str, Any]
# The shares of the saturated rate that open loops try, one after the other.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25)
STEADY_WINDOWS, STEADY_SPREAD = 3, 0.05


class Target(NamedTuple):
    """What is asked, and counters that it has of its own."""

    ask: Ask
    stats: Callable[[], Awaitable[Report]]


class Feed:
    """The requests of a stream, each given once."""

    def __init__(self, requests: list[Any]) -> None:
        self._requests, self._at = requests, 0

    def take(self) -> Any:
        """The next one."""
        if self._at == len(self._requests):
            raise SystemExit(
                f"all {self._at:,} requests of the stream were asked; make a longer one"
            )
        self._at += 1
        return self._requests[self._at - 1]


def centiles(seconds: list[float]) -> Report:
    """Latencies in milliseconds."""
    if not seconds:
        return {}
    values = 1e3 * np.array(seconds)
    return {
        "p50_ms": float(np.percentile(values, 50)),
        "p99_ms": float(np.percentile(values, 99)),
        "max_ms": float(values.max()),
    }


def cpu_seconds() -> float:
    """Of this process so far."""
    used = os.times()
    return used.user + used.system


async def closed(ask: Ask, feed: Feed, in_flight: int, seconds: float) -> Report:
    """`in_flight` requests at any time, for a while."""
    latencies: list[float] = []
    missed = 0
    start, cpu = time.perf_counter(), cpu_seconds()
    end = start + seconds

    async def one_by_one() -> None:
        nonlocal missed
        while time.perf_counter() < end:
            ids = feed.take()
            asked = time.perf_counter()
            try:
                await ask(ids)
            except Exception:
                missed += 1
            else:
                latencies.append(time.perf_counter() - asked)

    await asyncio.gather(*(one_by_one() for _ in range(in_flight)))
    took = time.perf_counter() - start
    return {
        "requests": len(latencies) + missed,
        "requests_per_s": len(latencies) / took,
        "missed": missed,
        "in_flight": in_flight,
        "load_cores": (cpu_seconds() - cpu) / took,
        **centiles(latencies),
    }


async def opened(ask: Ask, feed: Feed, rate: float, seconds: float, seed: int) -> Report:
    """Requests at arrival times that are fixed beforehand."""
    arrivals = poisson(rate, max(int(rate * seconds), 20), seed) / 1e6
    requests = [feed.take() for _ in arrivals]
    latencies: list[float] = []
    late = 0.0
    missed = 0
    cpu, start = cpu_seconds(), time.perf_counter() + 0.05

    async def one(ids: Any, due: float) -> None:
        nonlocal missed
        try:
            await ask(ids)
        except Exception:
            missed += 1
        else:
            latencies.append(time.perf_counter() - due)

    tasks = []
    for arrival, ids in zip(arrivals, requests, strict=True):
        due = start + arrival
        wait = due - time.perf_counter()
        # A sleep of 0 lets answers be read even where the load is late.
        await asyncio.sleep(max(wait, 0.0))
        late = max(late, time.perf_counter() - due)
        tasks.append(asyncio.create_task(one(ids, due)))
    await asyncio.gather(*tasks)
    took = time.perf_counter() - start
    return {
        "asked_per_s": rate,
        "requests": len(latencies) + missed,
        "requests_per_s": len(latencies) / took,
        "missed": missed,
        "sent_late_ms": 1e3 * late,
        "load_cores": (cpu_seconds() - cpu) / took,
        "arrival_seed": seed,
        **centiles(latencies),
    }


async def counted(disk: Path | None, loop: Awaitable[Report]) -> Report:
    """A loop, with the reads that the disk under a file did meanwhile, for all processes."""
    before = device_reads(disk)[0] if disk else 0
    found = await loop
    return {**found, "device_reads": device_reads(disk)[0] - before} if disk else found


async def warmed(ask: Ask, feed: Feed, args: argparse.Namespace) -> list[float]:
    """Asks until the rate of the last windows differs by little; gives the rate of each window."""
    rates: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < args.warm_seconds:
        rates.append((await closed(ask, feed, args.in_flight, args.window))["requests_per_s"])
        last = rates[-STEADY_WINDOWS:]
        if len(last) == STEADY_WINDOWS and max(last) <= (1 + STEADY_SPREAD) * min(last):
            break
    return rates


async def peer(stack: AsyncExitStack, where: str) -> Target:
    """The peer: 127.0.0.1:FIRST-LAST, a port each worker, asked in turn."""
    import grpc

    from .peer.messages import RUN, STATS, RunReply, RunRequest

    host, _, ports = where.partition(":")
    first, _, last = ports.partition("-")
    calls, counters = [], []
    for port in range(int(first), int(last or first) + 1):
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"{host}:{port}"))
        for path, made in ((RUN, calls), (STATS, counters)):
            made.append(
                channel.unary_unary(
                    path,
                    request_serializer=RunRequest.SerializeToString,
                    response_deserializer=RunReply.FromString,
                )
            )
    busy = [0] * len(calls)

    async def ask(ids: Any) -> Any:
        worker = busy.index(min(busy))
        busy[worker] += 1
        try:
            reply = await calls[worker](RunRequest(nodes=ids.tolist()))
            return np.frombuffer(reply.values, np.float32).reshape(tuple(reply.shape))
        finally:
            busy[worker] -= 1

    async def stats() -> Report:
        every = [json.loads((await call(RunRequest())).values) for call in counters]
        return {key: sum(one[key] for one in every) for key in every[0]}

    return Target(ask, stats)


def threaded(stack: AsyncExitStack, run: Callable[[Any], Any], threads: int) -> Target:
    """A function that blocks, on threads."""
    pool = stack.enter_context(ThreadPoolExecutor(threads))
    loop = asyncio.get_running_loop()

    async def ask(ids: Any) -> Any:
        return await loop.run_in_executor(pool, run, ids)

    async def stats() -> Report:
        return {}

    return Target(ask, stats)


async def engine(stack: AsyncExitStack, where: str, threads: int) -> Target:
    """The engine in this process: STORE:MODEL:MEMORY."""
    import neargraph as ng

    path, model, memory = where.split(":")
    store = stack.enter_context(ng.open(path, memory=memory))
    made = stack.enter_context(ng.Engine(store, model, prepare="hot", threads=1))
    made.wait_until_ready()
    return threaded(stack, made.run, threads)


async def server(stack: AsyncExitStack, where: str, threads: int) -> Target:
    """A neargraph server: ADDRESS:MODEL."""
    import neargraph as ng

    make = vars(ng).get("Client")
    if make is None:
        raise SystemExit("this build of neargraph has no client")
    address, _, model = where.rpartition(":")
    client = make(address)
    stack.callback(client.close)
    return threaded(stack, lambda ids: client.run(model, ids), threads)


async def connect(stack: AsyncExitStack, to: str, threads: int) -> Target:
    """What answers, by its name KIND:WHERE."""
    kind, _, where = to.partition(":")
    if kind == "peer":
        return await peer(stack, where)
    if kind == "engine":
        return await engine(stack, where, threads)
    if kind == "neargraph":
        return await server(stack, where, threads)
    raise SystemExit(f"{to!r} is not peer:..., engine:... or neargraph:...")


async def measure(args: argparse.Namespace) -> Report:
    """Steady, saturated, and open loops until one is within the limit."""
    stream = Stream.load(args.stream)
    feed = Feed(stream.requests)
    async with AsyncExitStack() as stack:
        ask, stats = await connect(stack, args.to, args.in_flight)
        report: Report = {"stream": stream.about, "to": args.to}
        report["warm_rates"] = await warmed(ask, feed, args)
        report["closed"] = await counted(args.disk, closed(ask, feed, args.in_flight, args.seconds))
        report["stats"] = await stats()
        report["open"] = []
        for number, share in enumerate(args.shares):
            rate = share * report["closed"]["requests_per_s"]
            loop = opened(ask, feed, rate, args.seconds, args.seed + number)
            found = await counted(args.disk, loop)
            report["open"].append(found)
            if found["missed"] == 0 and found.get("p99_ms", np.inf) <= args.limit_ms:
                report["within_limit"] = found
                break
        return report


def parser() -> argparse.ArgumentParser:
    """The options of a load."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--in-flight", type=int, default=16, help="of closed loops")
    made.add_argument("--window", type=float, default=3.0, help="seconds of a rate while warming")
    made.add_argument("--warm-seconds", type=float, default=120.0, help="at most")
    made.add_argument("--seconds", type=float, default=20.0, help="of each measured loop")
    made.add_argument("--limit-ms", type=float, default=50.0, help="of the 99th centile")
    made.add_argument("--shares", type=float, nargs="*", default=list(SHARES))
    made.add_argument("--disk", type=Path, help="a file of the disk whose reads are counted")
    made.add_argument("--seed", type=int, default=1, help="of arrivals")
    return made


def main() -> int:
    """Prints a report."""
    options = parser()
    options.add_argument("stream", type=Path)
    options.add_argument("--to", required=True)
    print(json.dumps(asyncio.run(measure(options.parse_args()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
