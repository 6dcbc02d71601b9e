"""`neargraph quantise sage.ngm sage-int8.ngm`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from neargraph.exceptions import UnsupportedArgument

from .show import bars, console, pairs_table, print_json


def quantise(
    source: Annotated[Path, typer.Argument(help="The model file, a folder or NAME.ngm.")],
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    to: Annotated[
        str, typer.Option(help="int8, f16, fixed8, fixed16, or fixed with another width.")
    ] = "int8",
    data: Annotated[
        Path | None,
        typer.Option(
            help="What to compare and search on: a store, NAME.ng, or arrays by name, NAME.npz."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=0, help="How often the search tries each value.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Writes a model file in fewer bits, and prints accuracy and time beside single precision."""
    from neargraph.quantisation import quantise as narrow

    with _opened(data) as found, bars(as_json) as progress:
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
    rows: list[tuple[str, Any]] = [("to", to), ("weights", ", ".join(done.narrowed))]
    rows += [(f"kept: {name}", why) for name, why in done.kept.items()]
    if done.losses is not None:
        rows += [("loss", "{:.4f} in f32, {:.4f} here".format(*done.losses)), ("runs", done.runs)]
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
        import neargraph

        with neargraph.open(path) as store:
            yield store
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
        yield found
    else:
        raise UnsupportedArgument(f"{path} is neither a store nor NAME.npz")
