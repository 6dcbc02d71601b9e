"""The options of training: names, types and help, one row for each setting of `TrainConfig`.

From these rows come the command line and the keys of ``--config``. It needs no torch. The
invariant: every setting has a row, and every row is a setting (a test compares them).
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neargraph.exceptions import UnsupportedArgument


@dataclass(frozen=True)
class Option:
    """A setting: its type ("counts", "shares" and "names" are lists with commas), the default as
    plain data, its help, and the values that there are, unless any is one."""

    type: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


_MODELS = (
    "sage",
    "sage-max",
    "sage-pool",
    "gcn",
    "gin",
    "gat",
    "cluster",
    "saint",
    "pinsage",
    "lightgcn",
    "ngcf",
    "rgcn",
    "hetero-sage",
    "hetero-gat",
    "temporal",
)
_SAMPLERS = (
    "auto",
    "neighbor",
    "labor",
    "cluster",
    "saint-node",
    "saint-edge",
    "saint-walk",
    "random-node",
    "shadow",
    "hgt",
    "pinsage",
    "graph",
)
_OBJECTIVES = ("auto", "single-label", "multi-label", "regression")
_LOSSES = ("auto", "cross-entropy", "bce", "mse", "l1", "bpr")
_SCHEDULES = ("constant", "cosine", "step", "plateau")
_TEMPORAL = ("auto", "off", "uniform", "last")
_TEMPORAL_HELP = (
    "Sample only edges that are earlier than the link: at random (uniform), or the "
    "newest ones (last). off: ignore times. auto = last for --model temporal, else "
    "off."
)

OPTIONS: dict[str, Option] = {
    "model": Option("str", "sage", "Model architecture.", _MODELS),
    "task": Option("str", "node", "Kind of prediction target.", ("node", "link", "graph")),
    "sampler": Option(
        "str",
        "auto",
        "Sampler of training batches; auto = the usual sampler of the model.",
        _SAMPLERS,
    ),
    "target": Option(
        "str",
        None,
        "Node type or edge type to predict, e.g. paper or user,buys,item. Default: the only type.",
    ),
    "objective": Option(
        "str",
        "auto",
        "Kind of the labels; auto = detected from the dtype and shape of the labels.",
        _OBJECTIVES,
    ),
    "loss": Option(
        "str", "auto", "Loss function; auto = the usual loss of the objective.", _LOSSES
    ),
    "metrics": Option(
        "names",
        [],
        "Metrics, comma-separated. The first metric decides which epoch is best. Default: "
        "depends on --task.",
    ),
    "fanouts": Option(
        "counts",
        [15, 10],
        "Neighbours per node in each layer, comma-separated; -1 = all. Default for --task "
        "graph: -1 in each layer.",
    ),
    "epochs": Option("int", 3, "Number of epochs."),
    "batch_size": Option(
        "int",
        256,
        "Seed nodes, links or graphs per batch; with a GraphSAINT sampler, draws per batch. "
        "With --sampler cluster and random-node, training batches depend on --parts instead.",
    ),
    "hidden": Option("int", 64, "Width of hidden layers."),
    "lr": Option("float", 0.003, "Learning rate of Adam."),
    "weight_decay": Option("float", 0.0, "Weight decay of Adam."),
    "dropout": Option("float", 0.5, "Dropout probability of hidden units, at least 0 and below 1."),
    "heads": Option("int", None, "Number of attention heads. Default: depends on --model."),
    "attention_dropout": Option(
        "float", 0.0, "Dropout probability of attention weights, at least 0 and below 1."
    ),
    "norm": Option("str", "none", "Normalisation of hidden layers.", ("none", "batch")),
    "pool": Option(
        "str",
        "mean",
        "With --task graph: pooling over the nodes of a graph.",
        ("mean", "sum", "max"),
    ),
    "schedule": Option("str", "constant", "Schedule of the learning rate.", _SCHEDULES),
    "schedule_epochs": Option(
        "int",
        10,
        "Number of epochs (--schedule step), or of validations without improvement "
        "(--schedule plateau), after which the learning rate is lowered.",
    ),
    "schedule_factor": Option(
        "float",
        0.1,
        "With --schedule step or plateau: factor that multiplies the learning rate when "
        "it is lowered.",
    ),
    "warmup_steps": Option(
        "int",
        0,
        "Number of steps over which the learning rate rises linearly to its value; 0 = no warm-up.",
    ),
    "clip": Option("float", 0.0, "Maximum norm of the gradient; 0 = no clipping."),
    "patience": Option(
        "int",
        0,
        "Number of validations without improvement after which training stops; 0 = never "
        "stop early.",
    ),
    "test_on": Option(
        "str",
        "auto",
        "Model parameters to test; auto = best if --patience is given, else last.",
        ("auto", "last", "best"),
    ),
    "val_every": Option("int", 1, "Number of epochs from one validation to the next."),
    "save_steps": Option(
        "int",
        0,
        "Optimiser steps between two saves of the training state; 0 = save only after each epoch.",
    ),
    "seed": Option("int", 0, "Random seed."),
    "split_index": Option("int", 0, "Number of the split, if the store has several."),
    "row_normalize": Option("bool", False, "Divide each feature row by its sum."),
    "parts": Option(
        "int",
        100,
        "With --sampler cluster: number of clusters. With --sampler random-node: number "
        "of parts of the graph.",
    ),
    "batch_parts": Option("int", 16, "With --sampler cluster: clusters per batch."),
    "walk_length": Option("int", 2, "With --sampler saint-walk: steps per walk."),
    "steps": Option("int", 30, "With a GraphSAINT sampler: batches per epoch."),
    "coverage": Option(
        "int",
        50,
        "With a GraphSAINT sampler: draws per node, on average, from which the weights of "
        "nodes and edges in the loss are estimated; 0 = no weights.",
    ),
    "reading": Option(
        "str",
        "auto",
        "How training batches get their rows: auto, on_demand, window, scan, distribute, "
        "compiled, direct_layout, or the path of compiled epochs or of a direct layout.",
    ),
    "x_dtype": Option(
        "str",
        None,
        "Dtype of the tensor x in batches: f32, f16 or bf16. Default: f32 if x is stored "
        "as f16, bf16 or i8, else the stored dtype.",
    ),
    "method": Option(
        "str",
        "uniform",
        "With --sampler neighbor: method of choosing neighbours.",
        ("uniform", "labor", "weighted"),
    ),
    "temporary_writes": Option(
        "str",
        "auto",
        "Limit on the bytes that an epoch writes to temporary files: never, or a multiple "
        "of the size of the features, e.g. 2x; auto = 1x.",
    ),
    "decoder": Option(
        "str",
        "dot",
        "Decoder that computes the score of a link: dot product or MLP.",
        ("dot", "mlp"),
    ),
    "negatives": Option(
        "str",
        "binary",
        "Negative sampling of links. binary: draw both ends. triplet: draw only the destination.",
        ("binary", "triplet"),
    ),
    "num_negatives": Option("int", 1, "Number of negative links per training link."),
    "eval_negatives": Option(
        "int", 50, "Number of negative links per link in validation and test."
    ),
    "holdout": Option(
        "shares",
        [10.0, 10.0],
        "Percentages of links or graphs to hold out for validation and for test.",
    ),
    "val_after": Option(
        "int", None, "Validate on links that are later than this time. Needs --test-after."
    ),
    "test_after": Option(
        "int", None, "Test on links that are later than this time. Replaces --holdout."
    ),
    "train_edges": Option("int", None, "Maximum number of training links per epoch. Default: all."),
    "eval_edges": Option(
        "int", 100000, "Maximum number of links in each validation, and in the test."
    ),
    "rank_all": Option(
        "names",
        [],
        "Metrics of the test that rank each link among all nodes, comma-separated, e.g. "
        "recall@20,ndcg@20.",
    ),
    "temporal": Option("str", "auto", _TEMPORAL_HELP, _TEMPORAL),
    "embedding": Option(
        "int",
        0,
        "Width of the embeddings to learn for nodes without the tensor x; 0 = none. "
        "Training writes the embeddings to the store.",
    ),
    "embedding_name": Option(
        "str", "emb", "Name of the tensor of the store that holds the embeddings."
    ),
    "embedding_optimizer": Option(
        "str", "adagrad", "Optimiser of the embeddings.", ("adagrad", "adam", "sgd")
    ),
    "embedding_lr": Option(
        "float",
        None,
        "Learning rate of the embeddings. Default: torch's default for this optimiser.",
    ),
    "embedding_memory": Option(
        "str",
        "64MB",
        "Memory for changed embeddings that are not yet in the store, in addition to --memory.",
    ),
}

# Longer lists of choices stand in the help, which is broken into lines.
_SHOWN_CHARACTERS = 60
_PYTHON: dict[str, Any] = {"int": int, "float": float, "bool": bool}
_LISTS: dict[str, Callable[[Any], Any]] = {"counts": int, "shares": float, "names": str}


def setting(name: str, value: Any) -> Any:
    """The value of a setting, from the command line or a file.

    Raises:
        UnsupportedArgument: It is not of the type of the option; names the option.
    """
    kind = OPTIONS[name].type
    if value is None or kind in _LISTS:
        return None if value is None else _listed(name, kind, value)
    wanted = _PYTHON.get(kind, str)
    if wanted is float and isinstance(value, int | str) and not isinstance(value, bool):
        # YAML takes 1e-3, without a point, for a text.
        with suppress(ValueError):
            return float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UnsupportedArgument(f"{name}={value!r} is not valid: expected {_words(kind)}")
    return value


def _listed(name: str, kind: str, value: Any) -> tuple[Any, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, int | float) and not isinstance(parts, bool):
        parts = [parts]
    try:
        if not isinstance(parts, list | tuple):
            raise TypeError
        return tuple(_LISTS[kind](part) for part in parts if part != "")
    except (TypeError, ValueError):
        raise UnsupportedArgument(
            f"{name}={value!r} is not valid: expected {_words(kind)}"
        ) from None


def _words(kind: str) -> str:
    return {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "counts": "comma-separated whole numbers, e.g. 15,10",
        "shares": "comma-separated percentages, e.g. 10,10",
        "names": "comma-separated names",
    }.get(kind, "a string")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each row, which it gets as one mapping ``given``.

    Options that are not on the command line are not in the mapping.
    """
    own = inspect.signature(command, eval_str=True).parameters
    parameters = [p for p in own.values() if p.name != "given"]
    for name, option in OPTIONS.items():
        wanted = _PYTHON.get(option.type, str)
        # The type is only known here, so it is not one that mypy can read.
        literal: Any = Literal
        optional: Any = (literal[option.choices] if option.choices else wanted) | None
        text, metavar = option.help, None
        if len("|".join(option.choices)) > _SHOWN_CHARACTERS:
            text, metavar = f"{text} One of {', '.join(option.choices)}.", name.upper()
        text += _default_words(option.default)
        how: Any = typer.Option(help=text, show_default=False, metavar=metavar)
        annotation: Any = Annotated[optional, how]
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
                raise UnsupportedArgument(
                    f"{path}: the key {key!r} has the value {value!r}; expected a string"
                )
            opening[name] = value
        elif name in OPTIONS:
            found[name] = value
        else:
            known = ", ".join(option.replace("_", "-") for option in (*_OPENING, *OPTIONS))
            raise UnsupportedArgument(
                f"{path}: the key {key!r} is not an option of train; expected one of {known}"
            )
    return found, opening


def settings_of(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of several layers, of which later ones win; those without a value are left."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= {name: setting(name, value) for name, value in layer.items()}
    return merged
