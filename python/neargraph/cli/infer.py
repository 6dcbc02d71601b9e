"""`neargraph infer G.ng MODEL.ngm`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import Memory, ModelArgument, StoreArgument
from .settings import Json
from .show import bars, console, print_json, print_report, size, titled

if TYPE_CHECKING:
    from neargraph.layerwise import Inference, InferenceResult
    from neargraph.model_reports import InferencePlan

_Out = Annotated[
    str,
    typer.Option(
        help="Destination of the output: a .npy or .parquet file, or the name of a new tensor "
        "of the store, e.g. embedding. The name of a tensor contains neither '.' nor '/'."
    ),
]


def infer(
    store: StoreArgument,
    model: ModelArgument,
    out: _Out,
    nodes: Annotated[
        str, typer.Option(help="Nodes to compute the output for. The only value is 'all'.")
    ] = "all",
    memory: Memory = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Number of computing threads. Default: one for each core, at most 16."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for intermediate tables. Default: STORE.infer.")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(help="Start from the beginning, even if an interrupted run could resume."),
    ] = False,
    plan: Annotated[
        bool, typer.Option(help="Print the plan of the computation; compute nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compute the output of a model for all nodes, layer by layer.

    An interrupted run resumes when the same command is given again.
    """
    from neargraph.layerwise import Inference

    if nodes != "all":
        raise UnsupportedArgument(
            f"--nodes {nodes} is not valid: infer computes all nodes; for some nodes, use "
            "`neargraph predict`"
        )
    with Inference(store, model, memory=memory, threads=threads) as inference:
        planned = inference.plan
        if plan:
            _print_plan(as_json, planned)
            return
        if not as_json:
            _print_plan(False, planned)
        try:
            result = _run(inference, planned, out, folder, fresh)
        except KeyboardInterrupt:
            place = folder or inference.folder
            typer.echo(f"stopped; run the same command again to resume from {place}", err=True)
            raise typer.Exit(130) from None
    _print_result(as_json, planned, result)


def _run(
    inference: "Inference", plan: "InferencePlan", out: str, folder: Path | None, fresh: bool
) -> "InferenceResult":
    names = [", ".join(name for name, _ in one["tables"]) for one in plan["passes"]]
    with bars() as progress:

        def hear(at: int, _: int, done: int, total: int) -> None:
            progress(f"pass {at + 1}: {names[at]}", done, total)

        return inference.run(out, folder=folder, fresh=fresh, progress=hear)


def _print_plan(as_json: bool, plan: "InferencePlan") -> None:
    if as_json:
        print_json(plan)
        return
    from rich.table import Table

    table = Table()
    for column in ("pass", "nodes", "tables (width)", "scans", "blocks", "reads", "writes"):
        table.add_column(column, justify="left" if column.startswith("table") else "right")
    for at, one in enumerate(plan["passes"]):
        names = ", ".join(f"{name} ({width})" for name, width in one["tables"])
        counts = (f"{one['num_nodes']:,}", names, str(one["scans"]), str(one["blocks"]))
        read, written = size(one["read_bytes"]), size(one["write_bytes"])
        table.add_row(str(at + 1), *counts, read, written)
    console().print(titled("Plan: each scan of a node block reads its tables once", table))


def _print_result(as_json: bool, plan: "InferencePlan", result: "InferenceResult") -> None:
    how, meaning = result.begun
    report = {
        "outputs": {name: str(path) for name, path in result.paths.items()},
        "tensors": result.tensors,
        "begun": how,
        "begun_because": meaning,
        "table_read_bytes": result.table_read_bytes,
        "plan": plan,
    }
    start = "from the beginning" if how == "anew" else how
    begun = [("started", f"{start}: {meaning}")] if meaning else []
    files = [(name, str(path)) for name, path in result.paths.items()]
    tensors = [(name, f"tensor {called} of the store") for name, called in result.tensors.items()]
    rows = [*files, *tensors, *begun]
    print_report(as_json, report, "Inference finished", rows)
