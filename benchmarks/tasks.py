"""Answers for whole graphs and for pairs of nodes, beside PyG and onnxruntime on the same graphs.

    NEARGRAPH_DATA=... python -m benchmarks.tasks                  # all sets
    NEARGRAPH_DATA=... python -m benchmarks.tasks --sets MUTAG gowalla --models SAGE

Models with pooling answer for all graphs of a set through `Engine.graphs`; recommenders score
check-ins through `Engine.scores`. A difference is relative to the largest value, or to 1. Models
and references are those of `python/tests/export_tasks.py`. Writes `.bench/tasks.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .places import BENCH, ROOT, data_folder

sys.path.insert(0, str(ROOT / "python" / "tests"))

OF_PAIRS = "gowalla"
OF_GRAPHS = ("MUTAG", "ENZYMES", "PROTEINS", "bbbp", "hiv")
COMPARED = ("engine", "some again", "onnxruntime")
WANTED = 1e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    sets = [*OF_GRAPHS, OF_PAIRS]
    parser.add_argument("--sets", nargs="*", default=sets, choices=sets, metavar="SET")
    parser.add_argument("--models", default="", help="Pattern of the models to run.")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    print("| set | model | answers | " + " | ".join(COMPARED) + " | seconds |")
    print("|---|---|---|" + "---|" * len(COMPARED) + "---|")
    for name in given.sets:
        for model, result in _compared(name, given.models):
            rows.append({"set": name, "model": model} | result)
            shown = [f"{result[key]:.1e}" if key in result else "" for key in COMPARED]
            cells = [name, model, f"{result['answers']:,}", *shown, f"{result['seconds']:.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "tasks.json").write_text(json.dumps(rows))
    bad = [row for row in rows if not _worst(row) <= WANTED]
    print(f"\n{len(rows) - len(bad)} of {len(rows)} within {WANTED:.0e}")
    return 1 if bad or not rows else 0


def _worst(row: dict[str, Any]) -> float:
    return max(float(row[key]) for key in COMPARED if key in row)


def _compared(name: str, pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import export_tasks as tasks
    from export_sets import store_of

    import neargraph as ng

    folder = BENCH / "export_matrix" / "stores"
    folder.mkdir(parents=True, exist_ok=True)
    data = data_folder(".")
    of_pairs = name == OF_PAIRS
    models = tasks.PAIR_MODELS if of_pairs else tasks.GRAPH_MODELS
    graphs = None if of_pairs else tasks.Graphs(name, data, folder)
    with (
        ng.open(store_of(name, data, folder), memory="512MB") as store,
        tempfile.TemporaryDirectory() as room,
    ):
        for number, model in enumerate(model for model in models if re.search(pattern, model)):
            path, start = Path(room) / str(number), time.monotonic()
            try:
                if graphs is None:
                    result = tasks.compare_pairs(model, store, path)
                else:
                    result = tasks.compare_graphs(model, name, store, graphs, path)
            except Exception as error:
                print(f"{name}, {model}: {type(error).__name__}: {error}", file=sys.stderr)
                result = {"engine": float("nan"), "answers": 0}
            yield model, result | {"seconds": time.monotonic() - start}


if __name__ == "__main__":
    sys.exit(main())
