"""Every layer that is exported, on every real set: the engine beside PyG, as one table.

A cell exports a model of the layer from the store of the set, samples a batch, and compares with
eager PyG on the whole batch: the file in onnxruntime, and the engine on the reference device, on
`cpu`, there without fusion, and there trimmed to the hops of the batch. A difference is relative to
the largest value, or to 1. Cells that were done are kept in `.bench/export_matrix/`, so that a run
that was stopped goes on. Layers and sets are those of `python/tests/export_cells.py` and
`export_sets.py`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .places import BENCH, ROOT, data_folder

sys.path.insert(0, str(ROOT / "python" / "tests"))

FOLDER = BENCH / "export_matrix"
WANTED = 1e-5
# Where onnxruntime alone is further away, and why. In float64 the engine and PyG are right there.
KNOWN = {
    ("coauthor_physics", "PNA"): "the deviation of PyG is 0 below a threshold, and the rounding of "
    "a variance decides on which side of it an element is"
}
COMPARED = ("onnxruntime", "cpu-scalar", "cpu", "unfused", "trimmed")
Cell = tuple[str, str]
Result = dict[str, Any]


def main() -> int:
    from export_cells import layers_of
    from export_sets import LEFT_OUT, SETS

    given = _arguments(list(SETS))
    log = FOLDER / "cells.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    done = {} if given.again else _read(log)
    for name in given.sets:
        todo = [layer for layer in layers_of(name) if (name, layer) not in done]
        todo = [layer for layer in todo if re.search(given.layers, layer)]
        with log.open("a") as out:
            for layer, result in _run(name, todo):
                done[name, layer] = result
                out.write(json.dumps({"set": name, "layer": layer} | result) + "\n")
                out.flush()
                print(f"{name}, {layer}: {_shown(result)}", file=sys.stderr)
    _print_table(done, given.sets)
    for name, why in LEFT_OUT.items():
        print(f"\nleft out: {name}: {why}")
    return _verdict(done)


def _arguments(sets: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=sets, choices=sets, metavar="SET")
    parser.add_argument("--layers", default="", help="Pattern of the layers to run.")
    parser.add_argument("--again", action="store_true", help="Forget what was done before.")
    return parser.parse_args()


def _read(log: Path) -> dict[Cell, Result]:
    lines = log.read_text().splitlines() if log.exists() else []
    entries = [json.loads(line) for line in lines]
    return {(entry.pop("set"), entry.pop("layer")): entry for entry in entries}


def _run(name: str, layers: list[str]) -> Iterator[tuple[str, Result]]:
    if not layers:
        return
    import torch
    from export_cells import compare
    from export_sets import store_of

    import neargraph as ng

    torch.set_num_threads(1)
    stores = FOLDER / "stores"
    stores.mkdir(exist_ok=True)
    with ng.open(store_of(name, data_folder("."), stores), memory="512MB") as store:
        for layer in layers:
            start = time.monotonic()
            folder = FOLDER / "models" / name
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / re.sub(r"\W+", "_", layer)
            try:
                result = compare(name, layer, store, path)
            except Exception as error:
                result = {"refused": f"{type(error).__name__}: {error}".splitlines()[0]}
            yield layer, result | {"seconds": round(time.monotonic() - start, 1)}


def _differences(result: Result) -> dict[str, float]:
    return {name: result[name] for name in COMPARED if name in result}


def _judged(cell: Cell, result: Result) -> dict[str, float]:
    found = _differences(result)
    return {name: n for name, n in found.items() if name != "onnxruntime" or cell not in KNOWN}


def _shown(result: Result) -> str:
    if "refused" in result:
        return f"refused: {result['refused']}"
    return ", ".join(f"{name} {worst:.1e}" for name, worst in _differences(result).items())


def _print_table(done: dict[Cell, Result], sets: list[str]) -> None:
    """Layers by sets: the largest difference of the engine's variants, and that of onnxruntime."""
    shown = [name for name in sets if any(one == name for one, _ in done)]
    layers = dict.fromkeys(layer for name in shown for one, layer in done if one == name)
    print(f"wanted: at most {WANTED:.0e} in each cell (engine / onnxruntime)\n")
    print("| layer | " + " | ".join(shown) + " |")
    print("|---|" + "---|" * len(shown))
    for layer in layers:
        row = (done.get((name, layer)) for name in shown)
        print(f"| {layer} | " + " | ".join(map(_cell, row)) + " |")


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    if "refused" in result:
        return "refused"
    found = _differences(result)
    other = found.pop("onnxruntime")
    return f"{max(found.values()):.0e} / {other:.0e}"


def _verdict(done: dict[Cell, Result]) -> int:
    """Names what was refused or differs too much; 1 if there is any."""
    bad = {
        cell: result
        for cell, result in done.items()
        if "refused" in result or not max(_judged(cell, result).values()) <= WANTED
    }
    for (name, layer), why in KNOWN.items():
        if (name, layer) in done and (name, layer) not in bad:
            print(f"\n{name}, {layer}: {_shown(done[name, layer])}: {why}")
    for (name, layer), result in bad.items():
        print(f"\n{name}, {layer}: {_shown(result)}")
    good = [_judged(cell, result) for cell, result in done.items() if cell not in bad]
    print(f"\n{len(good)} of {len(done)} cells within the bound\n")
    print("| compared with PyG | cells | largest difference |")
    print("|---|---|---|")
    for name in COMPARED:
        found = [one[name] for one in good if name in one]
        print(f"| {name} | {len(found)} | {max(found, default=0.0):.1e} |")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
