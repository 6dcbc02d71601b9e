"""`neargraph train G.ng`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .show import Backend, Recover, print_report, size
from .training_line import training_line


def train(
    store: Annotated[Path, typer.Argument(help="The store, NAME.ng.")],
    model: Annotated[str, typer.Option(help="sage, gcn or cluster.")] = "sage",
    fanouts: Annotated[str, typer.Option(help="Neighbours per layer, -1 for all.")] = "15,10",
    memory: Annotated[str | None, typer.Option(help="Memory of the store, like 256MB.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training seeds.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    batch_size: Annotated[int, typer.Option(help="Seeds of a batch.")] = 256,
    hidden: Annotated[int, typer.Option(help="Width of hidden layers.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.003,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of Adam.")] = 0.0,
    dropout: Annotated[float, typer.Option(help="Dropout.")] = 0.5,
    parts: Annotated[int, typer.Option(help="Clusters of the model cluster.")] = 100,
    batch_parts: Annotated[int, typer.Option(help="Clusters of a batch.")] = 16,
    split: Annotated[int, typer.Option(help="Which split, where there are several.")] = 0,
    row_normalize: Annotated[bool, typer.Option(help="Divide feature rows by their sum.")] = False,
    backend: Backend = "auto",
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write here after each epoch; go on from it.")
    ] = None,
    checkpoint_steps: Annotated[int, typer.Option(help="Also every so many steps.")] = 0,
    recover: Recover = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Trains and tests a node classifier from disk."""
    import neargraph

    neargraph.tune_process()
    from neargraph.train import TrainConfig, fit

    config = TrainConfig(
        model=model,
        fanouts=parse_fanouts(fanouts),
        batch_size=batch_size,
        hidden=hidden,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        dropout=dropout,
        seed=seed,
        split=split,
        parts=parts,
        batch_parts=batch_parts,
        row_normalize=row_normalize,
        checkpoint_steps=checkpoint_steps,
    )
    opened = neargraph.open(store, memory=memory, backend=backend, recover=recover)
    with opened as handle, training_line(epochs, as_json) as line:
        result = fit(handle, config, checkpoint=checkpoint, watch=line)
        note = handle.core.backend_note
    report = {"store": str(store), "config": config.plain(), "backend": note, **result.plain()}
    print_report(as_json, report, f"Trained on {store}", _rows(note, result))


def parse_fanouts(text: str) -> tuple[int, ...]:
    """(15, 10) of "15,10".

    >>> parse_fanouts("15,-1")
    (15, -1)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} are no fanouts; write counts like 15,10, or -1") from None


def _rows(note: str, result: Any) -> list[tuple[str, Any]]:
    stats = result.store_stats
    read, useful = stats.get("read_bytes", 0), stats.get("useful_bytes", 0)
    test = "no split" if result.test_accuracy is None else f"{result.test_accuracy:.4f}"
    return [
        ("back end", note),
        ("steps", len(result.losses)),
        ("last loss", f"{result.losses[-1]:.4f}" if result.losses else "none"),
        ("val accuracy", ", ".join(f"{value:.4f}" for value in result.val_accuracy) or "no split"),
        ("test accuracy", test),
        ("seeds/s", f"{result.seeds_per_second:,.0f}"),
        ("read", f"{size(read)} for {size(useful)} that batches took"),
        ("hit rate", f"{100 * stats.get('hit_rate', 0.0):.0f} %"),
        ("budget peak", f"{size(stats.get('budget_peak'))} of {size(stats.get('budget_limit'))}"),
    ]
