"""D2: cuts a real file system off in the middle of commits, mounts it again, and looks.

A loop-mounted file system is shut down by ioctl without flushing its journal, at a random moment of
a writer that tells elsewhere what it has acknowledged. Needs the right to mount; says so where it
is missing. CUTS sets how many cuts there are on each file system.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHUTDOWN = 0x8004587D  # XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN
WITHOUT_FLUSH = 2
IMAGE_BYTES = 512 << 20
CUTS_OF_A_STORE = 15
SEED = 1
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}


def build() -> Path:
    """The writer."""
    command = ["cargo", "build", "--locked", "-p", "ng-store", "--example", "crash_writer"]
    command += ["--message-format=json-render-diagnostics"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = map(json.loads, output.stdout.splitlines())
    return Path([m["executable"] for m in messages if m.get("executable")][-1])


def mount(image: Path, point: Path) -> None:
    subprocess.run(["mount", "-o", "loop", image, point], check=True, capture_output=True)


def unmount(point: Path) -> None:
    """Unmounts; a process that was just killed may hold it for a moment."""
    for _ in range(50):
        if subprocess.run(["umount", point], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError(f"cannot unmount {point}")


def cut(point: Path) -> None:
    """Shuts the file system down: nothing that is not on the device will be."""
    directory = os.open(point, os.O_RDONLY)
    fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
    os.close(directory)


class Running:
    """A writer, and the last commit that it has acknowledged."""

    def __init__(self, writer: Path, store: Path, seed: int) -> None:
        command = [str(writer), "write", str(store), str(seed)]
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.acked = 0
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith("lsn ") and line.endswith("\n"):
                self.acked = int(line[4:])
            if line == "ready\n":
                self.ready.set()
        self.ready.set()

    def end(self) -> int:
        """Kills the writer; the last commit that it acknowledged."""
        self.child.kill()
        self.child.wait()
        self.thread.join()
        return self.acked


def cut_often(writer: Path, image: Path, point: Path, seed: int, cuts: int) -> tuple[int, int]:
    """How many cuts left something wrong, and how many commits there were."""
    draws = random.Random(seed)
    store = point / "store"
    mount(image, point)
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    subprocess.run([writer, "build", store, str(seed)], check=True)
    os.sync()
    acked, wrong = 0, 0
    for number in range(cuts):
        running = Running(writer, store, seed)
        if number % 5 < 4:
            running.ready.wait(60)
        time.sleep(draws.random() * 0.3)
        cut(point)
        acked = max(acked, running.end())
        unmount(point)
        mount(image, point)
        if number % 3 == 2 and number + 1 < cuts:
            continue  # The next writer is the one that has to recover.
        check = [writer, "check", store, str(seed), str(acked)]
        looked = subprocess.run(check, capture_output=True, text=True)
        if looked.returncode != 0:
            print(f"seed {seed}, cut {number}: {looked.stdout}{looked.stderr}", flush=True)
            wrong += 1
            break
    unmount(point)
    return wrong, acked


def cut_system(name: str, writer: Path, cuts: int) -> dict[str, object]:
    """Cuts one kind of file system; says why not if it cannot be."""
    if shutil.which(MAKE[name][0]) is None:
        return {"skipped": f"no {MAKE[name][0]}"}
    with tempfile.TemporaryDirectory() as scratch:
        image, point = Path(scratch) / "image", Path(scratch) / "mount"
        point.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run([*MAKE[name], image], check=True, capture_output=True)
        try:
            mount(image, point)
        except subprocess.CalledProcessError as error:
            return {"skipped": error.stderr.decode().strip()}
        unmount(point)
        tried, failed, commits = 0, 0, 0
        for round_ in range(-(-cuts // CUTS_OF_A_STORE)):
            wrong, acked = cut_often(writer, image, point, SEED + round_, CUTS_OF_A_STORE)
            tried, failed, commits = tried + CUTS_OF_A_STORE, failed + wrong, commits + acked
        return {"tried": tried, "failed": failed, "commits": commits}


def main() -> int:
    start = time.monotonic()
    cuts = int(os.environ.get("CUTS", "30"))
    writer = build()
    found = {name: cut_system(name, writer, cuts) for name in MAKE}
    total = {
        key: sum(int(str(f.get(key, 0))) for f in found.values()) for key in ("tried", "failed")
    }
    print("figure: " + json.dumps({"id": "D2", **total, "lost": total["failed"], **found}))
    print(f"{time.monotonic() - start:.1f} s")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
