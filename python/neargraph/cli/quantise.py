"""`neargraph quantise sage.ngm sage-int8.ngm`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import ModelArgument, opened
from .settings import Json
from .show import bars, console, pairs_table, print_json

_Data = Annotated[
    Path | None,
    typer.Option(
        help="Data on which accuracy is measured: a store, NAME.ng, or a file of arrays by "
        "input name, NAME.npz. Fixed point requires it."
    ),
]


def quantise(
    source: ModelArgument,
    target: Annotated[Path, typer.Argument(help="Model file to create, NAME.ngm.", metavar="OUT")],
    to: Annotated[
        str,
        typer.Option(
            help="Number format: int8, f16, or fixed point with 2 to 32 bits, e.g. fixed8."
        ),
    ] = "int8",
    data: _Data = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=0,
            help="With fixed point: number of passes of the search for the scale of each tensor.",
        ),
    ] = 2,
    as_json: Json = False,
) -> None:
    """Convert the weights of a model file to fewer bits.

    With --data, the command also measures accuracy and time of both models, and prints them side by
    side.
    """
    from neargraph.quantisation import quantise as narrow

    with _opened(data) as found, bars() as progress:
        done = narrow(
            source,
            target,
            to=to,
            data=found,
            rounds=rounds,
            progress=lambda runs, most: progress("search", runs, most),
        )
    if as_json:
        print_json(asdict(done))
        return
    rows: list[tuple[str, Any]] = [
        ("number format", to),
        ("converted weights", ", ".join(done.narrowed)),
    ]
    rows += [(f"not converted: {name}", why) for name, why in done.kept.items()]
    if done.losses is not None:
        before, after = done.losses
        rows.append(("loss", f"{before:.4f} in f32, {after:.4f} in {to}"))
        rows.append(("runs of the search", done.runs))
    out = console()
    out.print(pairs_table(f"Quantised {source} to {target}", rows))
    if done.measured:
        out.print(done.table(), markup=False)


@contextmanager
def _opened(path: Path | None) -> Iterator[Any]:
    """The data of a path, open while it is needed."""
    if path is None:
        yield None
    elif path.is_dir():
        with opened(path) as store:
            yield store
    elif path.suffix == ".npz":
        import numpy as np

        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
        yield found
    else:
        raise UnsupportedArgument(f"--data {path}: expected a store (NAME.ng) or arrays (NAME.npz)")
