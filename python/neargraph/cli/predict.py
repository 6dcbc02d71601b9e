"""`neargraph predict G.ng sage.ngm`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UnsupportedArgument

from .options import (
    Backend,
    Memory,
    ModelArgument,
    NodeType,
    Prepare,
    Recover,
    Seed,
    StoreArgument,
    opened,
)
from .settings import Json
from .show import bars, print_json, print_report

# Nodes whose answers are printed as a table; more belong into a file.
_SHOWN = 20
# Nodes between two steps of the progress bar.
_TOGETHER = 4096

_Nodes = Annotated[
    str,
    typer.Option(
        help="Nodes to classify: train, val, test, all, ids (e.g. 17,4), or a .npy file of "
        "node ids."
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option(
        help="File for the output rows of the model: .npy, or .parquet with a column of node ids."
    ),
]
_Top = Annotated[int, typer.Option(help="Number of classes to print for each node.")]


def predict(
    store: StoreArgument,
    model: ModelArgument,
    nodes: _Nodes = "test",
    node_type: NodeType = None,
    seed: Seed = 0,
    top: _Top = 1,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the output rows of the model instead of classes.")
    ] = False,
    out: _Out = None,
    memory: Memory = None,
    prepare: Prepare = "metadata",
    threads: Annotated[
        int | None,
        typer.Option(help="Number of computing threads. Default: one for each core, at most 4."),
    ] = None,
    backend: Backend = "auto",
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Classify nodes of a store with a trained model.

    The command does not need torch.
    """
    import numpy as np

    import neargraph
    from neargraph.loader.seeds import resolve_input_nodes

    _check(out, top)
    how: dict[str, Any] = {"prepare": prepare, "threads": threads}
    with (
        opened(store, memory, backend=backend, recover=recover) as handle,
        neargraph.Engine(handle, model, **how) as engine,
        bars() as bar,
    ):
        given = (node_type or engine.node_type, _wanted(nodes))
        inputs = resolve_input_nodes(handle.snapshot(), given)
        ids = inputs.nodes(np.arange(len(inputs), dtype=np.int64))
        parts = []
        for first in range(0, len(ids), _TOGETHER):
            parts.append(engine.run(ids[first : first + _TOGETHER], seed))
            bar("nodes", first + len(parts[-1]), len(ids))
        rows = np.concatenate(parts) if parts else engine.run(ids, seed)
        names = _class_names(handle.schema.node_type(engine.node_type))
    if out is not None:
        _write(out, ids, rows)
    report: dict[str, Any] = {"store": str(store), "model": str(model), "seed": seed}
    report |= {"nodes": len(ids), "shape": list(rows.shape)}
    if out is not None:
        report["out"] = str(out)
        print_report(as_json, report, f"Output rows of {model}", list(report.items()))
        return
    answers = _raw(ids, rows) if raw else _classes(ids, rows, top, names)
    if as_json:
        print_json({**report, "answers": answers})
        return
    shown = [(f"node {one['node']}", _text(one)) for one in answers[:_SHOWN]]
    if len(answers) > _SHOWN:
        shown.append(("...", f"{len(answers) - _SHOWN:,} more; use --json or --out for all"))
    title = f"Output rows of {model}" if raw else f"Classes predicted by {model} (probability)"
    print_report(False, report, title, shown)


def _check(out: Path | None, top: int) -> None:
    if top < 1:
        raise UnsupportedArgument(f"--top is {top}; expected at least 1")
    if out is not None and out.suffix not in (".npy", ".parquet"):
        raise UnsupportedArgument(
            f"--out {str(out)!r} is not valid: expected a name ending in .npy or .parquet"
        )


def _wanted(text: str) -> Any:
    """What loaders take as ``input_nodes``."""
    import numpy as np

    from neargraph.splits import SPLITS

    if text in SPLITS:
        return text
    if text == "all":
        return None
    if text.endswith(".npy"):
        return np.load(text)
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise UnsupportedArgument(
            f"--nodes {text!r} is not valid: expected {', '.join(SPLITS)}, all, ids (e.g. 17,4), "
            "or a .npy file"
        )
    return np.array([int(part) for part in parts], dtype=np.int64)


def _class_names(owner: Any) -> Sequence[str]:
    return next((tensor.class_names for tensor in owner.tensors if tensor.name == "y"), ())


def _raw(ids: Any, rows: Any) -> list[dict[str, Any]]:
    pairs = zip(ids.tolist(), rows.tolist(), strict=True)
    return [{"node": node, "row": row} for node, row in pairs]


def _classes(ids: Any, rows: Any, top: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """The most probable classes of each node; rows are taken for logits.

    >>> import numpy as np
    >>> _classes(np.array([7]), np.float32([[0, 9]]), 1, ["a", "b"])[0]["classes"][0]["name"]
    'b'
    """
    import numpy as np

    if rows.ndim != 2 or rows.dtype.kind != "f" or rows.shape[1] < 2:
        raise UnsupportedArgument(
            f"the model returns rows of shape {list(rows.shape[1:])}, not classes; give --raw"
        )
    shifted = np.exp(rows - rows.max(axis=1, keepdims=True))
    shares = shifted / shifted.sum(axis=1, keepdims=True)
    best = np.argsort(-shares, axis=1, kind="stable")[:, :top]
    answers = []
    for node, of_node, all_shares in zip(ids.tolist(), best.tolist(), shares, strict=True):
        classes = []
        for kind in of_node:
            found: dict[str, Any] = {"class": kind, "probability": float(all_shares[kind])}
            if kind < len(names):
                found["name"] = names[kind]
            classes.append(found)
        answers.append({"node": node, "classes": classes})
    return answers


def _text(answer: dict[str, Any]) -> str:
    if "row" in answer:
        return str(answer["row"])
    named = (
        f"{one.get('name', one['class'])} ({one['probability']:.3f})" for one in answer["classes"]
    )
    return ", ".join(named)


def _write(out: Path, ids: Any, rows: Any) -> None:
    import numpy as np

    if out.suffix == ".npy":
        np.save(out, rows)
        return
    from neargraph.exceptions import MissingDependency

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingDependency(
            "a .parquet file needs pyarrow: pip install 'neargraph[parquet]', or use a .npy file"
        ) from missing
    flat = rows.reshape(len(rows), -1)
    columns = {"node": ids, **{f"out_{at}": flat[:, at] for at in range(flat.shape[1])}}
    parquet.write_table(pyarrow.table(columns), out)
