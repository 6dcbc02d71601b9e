"""`neargraph evaluate RUN`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .settings import Json
from .show import print_report


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a training run.", metavar="RUN")],
    split: Annotated[
        Literal["train", "val", "test"], typer.Option(help="Part of the data to evaluate on.")
    ] = "test",
    store: Annotated[
        Path | None,
        typer.Option(
            help="Store directory, if it moved after the run. Default: the store that the run used."
        ),
    ] = None,
    state: Annotated[
        Literal["auto", "last", "best"],
        typer.Option(
            help="Model parameters to load; auto = the parameters that the run itself was tested "
            "with."
        ),
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Evaluate the model of a training run on training, validation or test data.

    The metrics are also written into the folder of the run.
    """
    import neargraph

    neargraph.tune_process()
    from neargraph.train import evaluate

    found = evaluate(run, split, store=store, state=state)
    rows = [("parameters", f"{found['state']}, epoch {found['epoch']}")]
    rows += [(name, f"{value:.4f}") for name, value in found["metrics"].items()]
    print_report(as_json, {"run": str(run), **found}, f"Metrics of {run} on {split}", rows)
