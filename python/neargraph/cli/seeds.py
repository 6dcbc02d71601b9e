"""The option `--seeds`: the nodes that batches are made around, as loaders accept them.

Creating batches must not live here. Invariant: the option has the same values in every command.
"""

from typing import Annotated, Any

import typer

from neargraph.splits import SPLITS

SEEDS = f"{', '.join(SPLITS)}, all, or a .npy file of node ids"
Seeds = Annotated[
    str | None,
    typer.Option(help=f"Seed nodes: {SEEDS}. Default: train if the store has a split, else all."),
]


def input_nodes(text: str, node_type: str | None) -> Any:
    """Returns the argument ``input_nodes`` of loaders for a value of the option."""
    given: Any = None
    if text in SPLITS:
        given = text
    elif text != "all":
        import numpy as np

        if not text.endswith(".npy"):
            raise ValueError(f"--seeds {text!r} is not valid: expected {SEEDS}")
        given = np.load(text)
    return given if node_type is None else (node_type, given)


def named_or_default(text: str | None, schema: Any, node_type: str | None) -> str:
    """Returns `text`; if it is None, ``"train"`` where `node_type` has splits, else ``"all"``."""
    if text is not None:
        return text
    from neargraph.splits import split_columns

    owners = [owner.name for owner in schema.node_types if split_columns(owner)]
    has_split = node_type in owners or (node_type is None and len(owners) == 1)
    return "train" if has_split else "all"
