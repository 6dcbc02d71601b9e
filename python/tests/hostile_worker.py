"""Imports damaged inputs one after the other, in a process that may die of one.

Run as `python hostile_worker.py KIND FOLDER SEED COUNT`, where FOLDER holds a sound input of KIND
that is damaged COUNT times, or as `python hostile_worker.py each FOLDER`, where FOLDER holds one
folder for each input. Prints the number of each case before it is imported and its outcome after:
"imported", "refused: why", or the exception that should not have left the importer.
"""

from __future__ import annotations

import random
import resource
import shutil
import sys
from pathlib import Path

import neargraph as ng
from neargraph.importers import import_graph

MEMORY = "128MB"
ADDRESSES = 4 << 30
FILE_BYTES = 256 << 20
OPCODES = b"().012BCFGIJKLMNPQRSTUVX]abcdeghijklopqrstu}" + bytes(range(0x80, 0x99))
HEADERS = (b"((((", b"|O8", b"<f8", b"-1, ", b"9" * 25, b"[('a', ", b"True", b"\x09\x00", b"1e9")


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with one to four small damages."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(max(1, len(data)))
        kind = rng.randrange(7)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + 1] = bytes([rng.choice(OPCODES)])
        elif kind == 2:
            data[at:at] = bytes(rng.choice(OPCODES) for _ in range(rng.randint(1, 6)))
        elif kind == 3:
            del data[at : at + rng.randint(1, 9)]
        elif kind == 4:
            start = rng.randrange(max(1, len(data)))
            data[at:at] = data[start : start + rng.randint(1, 60)]
        elif kind == 5:
            data[at : at + 4] = rng.choice((b"\xff\xff\xff\x7f", b"\xff" * 4, b"\0" * 4))
        else:
            found = rng.choice(HEADERS)
            at = rng.randrange(min(len(data), 200) or 1)
            data[at : at + len(found)] = found
    return bytes(data)


def outcome(source: Path, out: Path) -> str:
    """What becomes of one import; a refused one must leave nothing."""
    try:
        import_graph(source, out, memory=MEMORY, threads=1)
    except (ng.ImportFailed, ng.BudgetTooSmall) as error:
        why = " ".join(str(error).split())
        return "left something" if list(out.parent.iterdir()) else f"refused: {why}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    shutil.rmtree(out)
    return "imported"


def each(root: Path) -> None:
    """Imports every folder of a folder."""
    out = root.with_name("out") / "g.ng"
    out.parent.mkdir()
    for folder in sorted(root.iterdir()):
        print(folder.name, flush=True, end=" ")
        print(outcome(folder, out), flush=True)


def damaged(kind: str, folder: Path, seed: int, count: int) -> None:
    """Damages the files of a folder one at a time, and imports them."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    sound = {file: file.read_bytes() for file in files}
    source = folder if kind == "folder" else files[0]
    out = folder.with_name("out") / "g.ng"
    out.parent.mkdir()
    for number in range(count):
        print(number, flush=True, end=" ")
        rng = random.Random(f"{kind} {seed} {number}")
        victim = rng.choice(files)
        victim.write_bytes(mutated(sound[victim], rng))
        print(victim.name, outcome(source, out), flush=True)
        victim.write_bytes(sound[victim])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if sys.argv[1] == "each":
        each(Path(sys.argv[2]))
    else:
        damaged(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
