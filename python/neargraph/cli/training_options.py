"""The options of training: names, types and help, one row per setting of `TrainConfig`.

From these rows come the command line and the keys of ``--config``. It needs no torch. The
invariant: every setting has a row, and every row is a setting (a test compares them).
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from neargraph.exceptions import UnsupportedArgument


@dataclass(frozen=True)
class Option:
    """A setting: its type ("counts", "shares" and "names" are lists with commas), the default as
    plain data, and its help."""

    type: str
    default: Any
    help: str


OPTIONS: dict[str, Option] = {
    "model": Option("str", "sage", "Model, such as sage or gcn; see docs/how-to/training.md."),
    "task": Option("str", "node", "What is predicted: node, link or graph."),
    "sampler": Option(
        "str", "auto", "Where batches come from; auto is what the model is made for."
    ),
    "target": Option(
        "str", None, "Node type, or edge type such as user,buys,item, if there are several."
    ),
    "objective": Option("str", "auto", "auto, single-label, multi-label or regression."),
    "loss": Option("str", "auto", "auto, cross-entropy, bce, mse, l1 or bpr."),
    "metrics": Option("names", [], "Metrics with commas; the first one decides. Default: by task."),
    "fanouts": Option(
        "counts", [15, 10], "Neighbours per layer, -1 for all; of graphs -1 for each layer."
    ),
    "epochs": Option("int", 3, "Passes over the training seeds."),
    "batch_size": Option(
        "int", 256, "Seeds of a batch; of cluster and random-node in validation and test alone."
    ),
    "hidden": Option("int", 64, "Width of hidden layers."),
    "lr": Option("float", 0.003, "Learning rate of Adam."),
    "weight_decay": Option("float", 0.0, "Weight decay of Adam."),
    "dropout": Option("float", 0.5, "Share of hidden units dropped in training."),
    "heads": Option("int", None, "Attention heads. Default: the model's own number."),
    "attention_dropout": Option("float", 0.0, "Share of attention dropped in training."),
    "norm": Option("str", "none", "Normalisation of hidden layers: none or batch."),
    "pool": Option("str", "mean", "Rows of a graph to one: mean, sum or max."),
    "schedule": Option("str", "constant", "Learning rate: constant, cosine, step or plateau."),
    "schedule_epochs": Option("int", 10, "Epochs of a step; validations of a plateau."),
    "schedule_factor": Option("float", 0.1, "What step and plateau multiply the rate by."),
    "warmup_steps": Option("int", 0, "Steps until the full rate."),
    "clip": Option("float", 0.0, "Largest norm of the gradient; 0 for none."),
    "patience": Option("int", 0, "Validations without a better value before the end; 0 for all."),
    "test_on": Option("str", "auto", "Parameters to test: auto, last or best."),
    "val_every": Option("int", 1, "Epochs between validations."),
    "save_steps": Option("int", 0, "Steps between training states inside an epoch; 0 for none."),
    "seed": Option("int", 0, "Seed of parameters, order and draws."),
    "split_index": Option("int", 0, "Number of the split, if the store has several."),
    "row_normalize": Option("bool", False, "Divide feature rows by their sum."),
    "parts": Option("int", 100, "Clusters, or parts of random-node."),
    "batch_parts": Option("int", 16, "Clusters of a batch."),
    "walk_length": Option("int", 2, "Steps of a walk of saint-walk."),
    "steps": Option("int", 30, "Batches of an epoch of GraphSAINT."),
    "coverage": Option("int", 50, "Draws of each node to weigh GraphSAINT's; 0 for no weights."),
    "reading": Option(
        "str",
        "auto",
        "How batches are read: auto, on_demand, window, scan, distribute, compiled, direct_layout, "
        "or the path of compiled epochs or of a direct layout.",
    ),
    "x_dtype": Option("str", None, "Read x as f32, f16 or bf16. Default: as the store gives it."),
    "method": Option(
        "str", "uniform", "Draws of the sampler neighbor: uniform, labor or weighted."
    ),
    "temporary_writes": Option("str", "auto", "auto, never, or a multiple such as 2x."),
    "decoder": Option("str", "dot", "Score of a link: dot or mlp."),
    "negatives": Option("str", "binary", "Negative links: binary or triplet."),
    "num_negatives": Option("int", 1, "Negatives per training link."),
    "eval_negatives": Option("int", 50, "Negatives per link of validation and test."),
    "holdout": Option(
        "shares", [10.0, 10.0], "Links or graphs for validation and test, in percent."
    ),
    "val_after": Option("int", None, "Links later than this time are for validation."),
    "test_after": Option("int", None, "Links later than this time are for test."),
    "train_edges": Option("int", None, "Links of an epoch at most. Default: all."),
    "eval_edges": Option("int", 100000, "Links of a validation or test at most."),
    "rank_all": Option(
        "names", [], "Metrics of the test, each link ranked among all nodes: recall@20,ndcg@20."
    ),
    "temporal": Option(
        "str", "auto", "Sample only edges earlier than a link: auto, off, uniform or last."
    ),
    "embedding": Option(
        "int", 0, "Width of rows learned for nodes without x, written to the store; 0 for none."
    ),
    "embedding_name": Option("str", "emb", "Tensor of the store that has the learned rows."),
    "embedding_optimizer": Option("str", "adagrad", "Of learned rows: adagrad, adam or sgd."),
    "embedding_lr": Option("float", None, "Learning rate of rows. Default: that of torch."),
    "embedding_memory": Option("str", "64MB", "Memory of changed rows, beside that of the store."),
}

_PYTHON: dict[str, Any] = {"int": int, "float": float, "bool": bool}
_LISTS: dict[str, Callable[[Any], Any]] = {"counts": int, "shares": float, "names": str}


def setting(name: str, value: Any) -> Any:
    """The value of a setting, from the command line or a file.

    Raises:
        UnsupportedArgument: It is not of the type of the option; names the option.
    """
    kind = OPTIONS[name].type
    flag = name.replace("_", "-")
    if value is None or kind in _LISTS:
        return None if value is None else _listed(flag, kind, value)
    wanted = _PYTHON.get(kind, str)
    if wanted is float and isinstance(value, int | str) and not isinstance(value, bool):
        # YAML takes 1e-3, without a point, for a text.
        with suppress(ValueError):
            return float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UnsupportedArgument(f"{flag} is {value!r}; it takes {_words(kind)}")
    return value


def _listed(flag: str, kind: str, value: Any) -> tuple[Any, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, int | float) and not isinstance(parts, bool):
        parts = [parts]
    try:
        if not isinstance(parts, list | tuple):
            raise TypeError
        return tuple(_LISTS[kind](part) for part in parts if part != "")
    except (TypeError, ValueError):
        raise UnsupportedArgument(f"{flag} is {value!r}; it takes {_words(kind)}") from None


def _words(kind: str) -> str:
    return {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "counts": "whole numbers with commas, like 15,10",
        "shares": "percents with commas, like 10,10",
        "names": "names with commas",
    }.get(kind, "a text")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each row, which it gets as one mapping ``given``.

    Options that are not on the command line are not in the mapping.
    """
    own = inspect.signature(command, eval_str=True).parameters
    parameters = [p for p in own.values() if p.name != "given"]
    for name, option in OPTIONS.items():
        wanted = _PYTHON.get(option.type, str)
        # The type is only known here, so it is not one that mypy can read.
        optional: Any = wanted | None
        text = f"{option.help}{_default_words(option.default)}"
        annotation: Any = Annotated[optional, typer.Option(help=text, show_default=False)]
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=None, annotation=annotation))

    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in OPTIONS}
        command(**values, given={k: v for k, v in given.items() if v is not None})

    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _default_words(default: Any) -> str:
    if default is None or isinstance(default, bool) or default == []:
        return ""
    words = ",".join(f"{part:g}" for part in default) if isinstance(default, list) else default
    return f"  [default: {words}]"


# What of a run is not a setting of training.
_OPENING = ("store", "memory", "backend", "out")


def from_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(settings, what else a run is told) of a file for ``--config``.

    Raises:
        UnsupportedArgument: A key is not the name of an option; names it.
    """
    from neargraph.train.files import read_yaml

    found, opening = {}, {}
    for key, value in read_yaml(path).items():
        name = key.replace("-", "_")
        if name in _OPENING:
            if not isinstance(value, str | int | None) or isinstance(value, bool):
                raise UnsupportedArgument(f"{path}: {key} is {value!r}; it takes a text")
            opening[name] = value
        elif name in OPTIONS:
            found[name] = value
        else:
            known = ", ".join(option.replace("_", "-") for option in (*_OPENING, *OPTIONS))
            raise UnsupportedArgument(f"{path}: {key!r} is not an option of train; use {known}")
    return found, opening


def settings_of(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of several layers, of which later ones win; those without a value are left."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= {name: setting(name, value) for name, value in layer.items()}
    return merged
