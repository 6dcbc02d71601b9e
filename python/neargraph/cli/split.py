"""`neargraph split G.ng`."""

from typing import Annotated, Any, Literal

import typer

from .options import BusyTimeout, Memory, NodeType, Seed, StoreArgument, opened
from .settings import Json
from .show import bars, print_report

_Sizes = Annotated[
    str,
    typer.Option(help="Percentages of nodes for train, val and test.", metavar="TRAIN,VAL,TEST"),
]
_By = Annotated[
    Literal["random", "time", "degree"],
    typer.Option(
        help="Order in which nodes fill train, then val, then test. random: random order. "
        "time: earliest nodes first. degree: nodes with most in-edges first."
    ),
]
_Stratify = Annotated[
    bool, typer.Option("--stratify", help="Apply --sizes to each class of the tensor y separately.")
]
_TimeAttr = Annotated[
    str, typer.Option(help="With --by time: node tensor that contains the times.", metavar="TENSOR")
]
_Index = Annotated[
    int, typer.Option(help="Number of the split to write; a node type can have several.", min=0)
]


def split(
    store: StoreArgument,
    sizes: _Sizes = "60,20,20",
    seed: Seed = 0,
    by: _By = "random",
    stratify: _Stratify = False,
    time_attr: _TimeAttr = "time",
    node_type: NodeType = None,
    index: _Index = 0,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the split with the number --index, if it exists."
        ),
    ] = False,
    memory: Memory = None,
    busy_timeout: BusyTimeout = 5.0,
    as_json: Json = False,
) -> None:
    """Split the nodes of one type into train, val and test.

    The split is written as one commit. With the same seed, a random split equals the split that
    `neargraph import --split-sizes` makes. In a store of many graphs, all nodes of a graph go to
    the same part.
    """
    from neargraph.splitting import SplitOptions, add_split

    how: dict[str, Any] = {"sizes": sizes, "seed": seed, "by": by, "stratify": stratify}
    how |= {"time_attr": time_attr, "index": index, "overwrite": overwrite}
    options = SplitOptions(**how)
    with opened(store, memory, busy_timeout=busy_timeout) as handle, bars() as progress:
        found = add_split(handle, options, node_type, progress=progress)
    report = {"store": str(store), **found, "by": by, "seed": seed, "stratified": stratify}
    labels = {"lsn": "commit", "unit": "unit of assignment"}
    rows = [(labels.get(name, name.replace("_", " ")), value) for name, value in found.items()]
    print_report(as_json, report, f"Split {store}", rows)
