"""`neargraph model sage.ngm`."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import ModelArgument
from .settings import Json
from .show import console, pairs_table, print_json, size, titled


def model(
    file: ModelArgument,
    draw: Annotated[
        Path | None, typer.Option(help="SVG file to which the dataflow graph is drawn, NAME.svg.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the dataflow graph as text.")] = False,
    as_json: Json = False,
) -> None:
    """Show the inputs, weights and operators of a model file.

    The command also shows the device that runs each operator. It reports problems that would make
    the model fail when it runs.
    """
    from neargraph._modelfiles import hashes_of
    from neargraph.dfg import Dfg

    if text and as_json:
        raise UnsupportedArgument("--text and --json exclude each other; give one")
    dfg = Dfg.open(file)
    if draw is not None:
        dfg.draw(draw)
    if text:
        typer.echo(dfg.text(), nl=False)
        return
    facts: dict[str, Any] = {**dfg.info(), "sha256": hashes_of(file)}
    if as_json:
        print_json({"path": str(file)} | facts)
        return
    out = console()
    out.print(pairs_table(str(file), _summary(facts)))
    out.print(_table("Inputs", ("name", "dtype", "shape"), map(_typed, facts["inputs"])))
    out.print(_table("Outputs", ("name", "dtype", "shape"), map(_typed, facts["outputs"])))
    weights = ((w["name"], w["dtype"], _shape(w["shape"]), size(w["bytes"])) for w in _large(facts))
    out.print(_table("Weights", ("name", "dtype", "shape", "bytes"), weights))
    columns = ("operation", "count", "device")
    out.print(_table("Operations of the graph", columns, _counted(facts["nodes"], "none")))
    if facts["steps"]:
        out.print(_table("Steps of a run", columns, _counted(facts["steps"], "no device")))
    for problem in facts["problems"]:
        out.print(f"problem: {problem}", markup=False)


def _summary(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    said = facts["metadata"]
    weights = Counter[str]()
    for weight in facts["weights"]:
        weights[weight["dtype"]] += weight["bytes"]
    domains = "".join(f", {name} {version}" for name, version in facts["domains"])
    rows: list[tuple[str, Any]] = [
        ("parameters", facts["num_parameters"]),
        ("weights", ", ".join(f"{size(n)} of {dtype}" for dtype, n in weights.items()) or "none"),
        ("operations", facts["num_nodes"]),
        ("operator sets", f"ONNX {facts['opset']}{domains}"),
        ("fanouts", json.dumps(said["fanouts"]) if "fanouts" in said else None),
        ("tensors of a batch", ", ".join(facts["tensors"]) or None),
        ("SHA-256 of the store's schema", said.get("schema_sha256")),
        ("exported by neargraph", said.get("neargraph_version")),
    ]
    known = {"fanouts", "schema_sha256", "neargraph_version", "batch_pre"}
    rows += [(name, json.dumps(value)) for name, value in said.items() if name not in known]
    return rows + [(f"SHA-256 of {name}", value) for name, value in facts["sha256"].items()]


def _large(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The weights, without numbers and shapes that belong to the computation."""
    return [w for w in facts["weights"] if w["shape"] and w["dtype"] not in ("i64", "bool")]


def _counted(entries: list[dict[str, Any]], without: str) -> list[tuple[str, str, str]]:
    """(operation, count, device); `without` is said of those that no device does."""
    counts = Counter((one["op"], one["device"] or without) for one in entries)
    listed = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(op, f"{count:,}", device) for (op, device), count in listed]


def _typed(entry: dict[str, Any]) -> tuple[str, str, str]:
    if entry["dtype"] is None:
        return entry["name"], "any", "any"
    return entry["name"], entry["dtype"], _shape(entry["shape"])


def _shape(shape: list[Any]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _table(title: str, columns: tuple[str, ...], rows: Any) -> Any:
    from rich.table import Table

    table = Table()
    for column in columns:
        right = column in ("count", "bytes")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return titled(title, table)
