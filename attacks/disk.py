"""S6: a disk error stays local: three graphs are served, one on a failing disk, one that rots.

    python -m attacks.disk

Graph "bad" lies on a file system of its own, on a loop device whose image is cut short while the
server runs: reads behind the cut fail with EIO. Pages of graph "rotten" are overwritten in its
files. Graph "good" is as it was. All are asked at the same time. Wanted: requests about "good"
never fail; requests about the others are answered or fail with an error that names the graph and
the page; nothing panics; and once the image has its length again, "bad" answers as before. Needs
the right to mount; without it the part with EIO is skipped and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .process import HOME, Report, Server, registered, report, served_folder, small_graph, table

IMAGE_SLACK = 64 << 20
# A page, or the bytes of a file that the device does not give.
NAMES_PAGE = re.compile(r"page \d+|block \d+|offset \d+|\d+ bytes at \d+ of \S+")


@contextmanager
def failing_disk(store: Path, point: Path) -> Iterator[Path | None]:
    """Mounts a copy of a store from an image of its own; the image, or none if it cannot be."""
    image = HOME / "bad.img"
    size = sum(file.stat().st_size for file in store.iterdir()) + IMAGE_SLACK
    image.write_bytes(b"")
    os.truncate(image, size)
    # No journal: what is cut off shall be data alone.
    make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0", str(image)]
    point.mkdir(parents=True, exist_ok=True)
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
    try:
        subprocess.run(make, check=True, capture_output=True)
        device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no failing disk: {error}")
        yield None
        return
    mounted = subprocess.run(
        ["mount", "-o", "errors=continue", device, str(point)], capture_output=True, text=True
    )
    try:
        if mounted.returncode != 0:
            print(f"no failing disk: {mounted.stderr}")
            yield None
            return
        shutil.rmtree(point / "lost+found", ignore_errors=True)
        for file in store.iterdir():
            shutil.copy(file, point / file.name)
        os.sync()
        yield image
    finally:
        subprocess.run(["umount", "-l", str(point)], capture_output=True)
        subprocess.run(["losetup", "-d", device], capture_output=True)
        image.unlink(missing_ok=True)


def extents(file: Path) -> list[tuple[int, int]]:
    """Where a file lies on its device: first byte and length of each extent."""
    said = subprocess.run(
        ["filefrag", "-b1", "-v", str(file)], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(r"^\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+)\.\.\s*(\d+):", said, re.MULTILINE)
    return [(int(first), int(last) - int(first) + 1) for first, last in found]


def largest(store: Path) -> Path:
    """The largest file of a store: its rows."""
    return max((file for file in store.iterdir() if file.is_file()), key=lambda f: f.stat().st_size)


class Asker:
    """Asks one graph for rows, neighbours and answers of its model, on a thread."""

    def __init__(self, address: str, graph: str, nodes: int, seed: int) -> None:
        self.graph = graph
        self.codes: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.unnamed: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address, nodes, seed))
        self._thread.start()

    def _run(self, address: str, nodes: int, seed: int) -> None:
        import neargraph as ng

        draws = random.Random(seed)
        with ng.Client(address, timeout=20.0, retry=0.0) as client:
            while not self._stop.is_set():
                ids = [draws.randrange(nodes) for _ in range(8)]
                for what in (
                    lambda ids=ids: client.run("m", ids, graph=self.graph),
                    lambda ids=ids: client.features(ids, "x", graph=self.graph),
                    lambda ids=ids: client.neighbors(ids, 10, graph=self.graph),
                ):
                    try:
                        what()
                    except ng.RequestFailed as error:
                        self._note(error.code, str(error))
                    else:
                        self.codes["OK"] += 1

    def _note(self, code: str, message: str) -> None:
        self.codes[code] += 1
        told = re.sub(r"\d+", "N", message)
        self.messages[told] += 1
        if self.graph not in message or not NAMES_PAGE.search(message):
            self.unnamed[told] += 1

    def stop(self) -> Report:
        """What it saw."""
        self._stop.set()
        self._thread.join()
        return {
            "graph": self.graph,
            "codes": dict(self.codes),
            "messages": dict(self.messages.most_common(8)),
            "unnamed": dict(self.unnamed.most_common(8)),
        }


def asked(server: Server, graphs: dict[str, int], seconds: float, seed: int) -> list[Report]:
    """Asks all graphs at the same time."""
    askers = [
        Asker(server.address, graph, nodes, seed + at)
        for at, (graph, nodes) in enumerate(graphs.items())
    ]
    time.sleep(seconds)
    return [asker.stop() for asker in askers]


def rot(store: Path, share: float, seed: int) -> int:
    """Overwrites bytes in pages of the largest file of a store; how many pages."""
    draws, file = random.Random(seed), largest(store)
    pages = file.stat().st_size // 4096
    chosen = draws.sample(range(1, pages), max(1, int(share * pages)))
    with file.open("r+b") as opened:
        for page in chosen:
            opened.seek(4096 * page + draws.randrange(4000))
            opened.write(draws.randbytes(16))
        opened.flush()
        os.fsync(opened.fileno())
    return len(chosen)


def drop_caches() -> None:
    """Empties the page cache where that is allowed: what was read before is read again."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as error:
        print(f"the page cache was not emptied: {error}")


def attacked(args: argparse.Namespace) -> Report:
    store = args.store or small_graph("planted", width=256, nodes=60_000)
    folder = served_folder("disk", {"good": store, "rotten": store})
    phases: dict[str, list[Report]] = {}
    with failing_disk(store, folder / "bad.ng") as image:
        names = ["good", "rotten", *(["bad"] if image else [])]
        if image is None:
            (folder / "bad.ng").rmdir()
        options = ["--memory", args.memory, "--cache", "0", "--log", "warn"]
        with Server(folder, options) as server:
            nodes = registered(server, args.model, names, "metadata").nodes
            graphs = dict.fromkeys(names, nodes)
            phases["before"] = asked(server, graphs, args.seconds, args.seed)
            rotten = rot(folder / "rotten.ng", args.share, args.seed)
            size = image.stat().st_size if image else 0
            if image:
                places = extents(largest(folder / "bad.ng"))
                cut = max(first for first, _ in places) if len(places) > 1 else places[0][0]
                cut = max(cut, places[-1][0] + places[-1][1] // 2)
                os.truncate(image, cut)
            drop_caches()
            phases["damaged"] = asked(server, graphs, args.seconds, args.seed + 10)
            if image:
                # The bytes behind the cut are gone, so it is rot from now on, and no longer EIO.
                os.truncate(image, size)
                drop_caches()
            phases["later"] = asked(server, graphs, args.seconds, args.seed + 20)
            lives, panics = server.lives(), server.panics()
            code = server.end()
    return {
        "eio": image is not None,
        "rotten_pages": rotten,
        "lives": lives,
        "panics": panics,
        "exit_code": code,
        "phases": phases,
    }


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, help="a store, which is copied")
    parser.add_argument("--model", type=Path, help="its model")
    parser.add_argument("--memory", default="16MB", help="of each graph: less than its rows")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--share", type=float, default=0.2, help="of pages that rot")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    args = options()
    print(f"seed {args.seed}", flush=True)
    found = attacked(args)
    rows, others_failed, unnamed, seen = [], 0, 0, Counter[str]()
    for phase, graphs in found["phases"].items():
        for one in graphs:
            failed = sum(n for code, n in one["codes"].items() if code != "OK")
            healthy = one["graph"] == "good" or phase == "before"
            others_failed += failed if healthy else 0
            unnamed += sum(one["unnamed"].values())
            seen[one["graph"]] += 0 if healthy else failed
            first = next(iter(one["messages"]), "")
            rows.append([phase, one["graph"], one["codes"].get("OK", 0), failed, first])
    bars = {
        "requests about other graphs that failed = 0": others_failed == 0,
        "errors that do not name graph and page = 0": unnamed == 0,
        "damage was met": all(seen[name] > 0 for name in seen if name != "good"),
        "panics = 0": found["panics"] == 0 and found["lives"],
    }
    failed = sum(not met for met in bars.values())
    figure = {"id": "S6", "tried": sum(r[2] + r[3] for r in rows), "failed": failed}
    text = "# A disk error stays local\n\n"
    text += table(["phase", "graph", "answered", "failed", "with, for example"], rows) + "\n"
    text += table(["bar", ""], [[b, "met" if met else "**missed**"] for b, met in bars.items()])
    if not found["eio"]:
        text += "\nThe part with EIO was skipped: no file system can be mounted here.\n"
    report("disk", {**figure, "seed": args.seed, "bars": bars, **found}, text)
    print(f"figure: {json.dumps({**figure, 'seed': args.seed})}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
