"""`neargraph evaluate RUN`."""

from pathlib import Path
from typing import Annotated

import typer

from .show import print_report


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    store: Annotated[
        Path | None, typer.Option(help="Where the store is now. Default: where it was.")
    ] = None,
    state: Annotated[
        str, typer.Option(help="last or best; auto is what the run was tested with.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measures the model of a run on a split, and writes the metrics to its folder."""
    import neargraph

    neargraph.tune_process()
    from neargraph.train import evaluate

    found = evaluate(run, split, store=store, state=state)
    rows = [("parameters", f"{found['state']}, epoch {found['epoch']}")]
    rows += [(name, f"{value:.4f}") for name, value in found["metrics"].items()]
    print_report(as_json, {"run": str(run), **found}, f"{split} of {run}", rows)
