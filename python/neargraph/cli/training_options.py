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
    "Sample only edges earlier than the link: at random (uniform) or the newest (last). auto: last "
    "for the model temporal, else off."
)

OPTIONS: dict[str, Option] = {
    "model": Option("str", "sage", "Model architecture.", _MODELS),
    "task": Option("str", "node", "Prediction target.", ("node", "link", "graph")),
    "sampler": Option(
        "str", "auto", "Sampler of training batches; auto = the usual one of the model.", _SAMPLERS
    ),
    "target": Option(
        "str",
        None,
        "Type to predict: a node type, or an edge type such as user,buys,item. Default: the only "
        "one.",
    ),
    "objective": Option("str", "auto", "Kind of label; auto = by dtype and shape.", _OBJECTIVES),
    "loss": Option("str", "auto", "Loss function; auto = by objective.", _LOSSES),
    "metrics": Option(
        "names",
        [],
        "Metrics, comma-separated; the first decides which epoch is best. Default: by task.",
    ),
    "fanouts": Option(
        "counts",
        [15, 10],
        "Neighbours per layer, comma-separated; -1 = all. Default of task graph: all -1.",
    ),
    "epochs": Option("int", 3, "Number of epochs."),
    "batch_size": Option(
        "int",
        256,
        "Seeds per batch. The samplers cluster and random-node use it only in validation and test.",
    ),
    "hidden": Option("int", 64, "Width of hidden layers."),
    "lr": Option("float", 0.003, "Learning rate of Adam."),
    "weight_decay": Option("float", 0.0, "Weight decay of Adam."),
    "dropout": Option("float", 0.5, "Dropout of hidden units, 0 to below 1."),
    "heads": Option("int", None, "Attention heads. Default: by model."),
    "attention_dropout": Option("float", 0.0, "Dropout of attention, 0 to below 1."),
    "norm": Option("str", "none", "Normalisation of hidden layers.", ("none", "batch")),
    "pool": Option("str", "mean", "Pooling of the nodes of a graph.", ("mean", "sum", "max")),
    "schedule": Option("str", "constant", "Schedule of the learning rate.", _SCHEDULES),
    "schedule_epochs": Option(
        "int",
        10,
        "Epochs (step) or validations without improvement (plateau) before lr is lowered.",
    ),
    "schedule_factor": Option("float", 0.1, "Factor by which lr is lowered (step, plateau)."),
    "warmup_steps": Option("int", 0, "Steps of linear warm-up."),
    "clip": Option("float", 0.0, "Largest norm of the gradient; 0 = no clipping."),
    "patience": Option(
        "int", 0, "Validations without improvement before stopping; 0 = never stop early."
    ),
    "test_on": Option(
        "str",
        "auto",
        "Parameters to test; auto = best with --patience, else last.",
        ("auto", "last", "best"),
    ),
    "val_every": Option("int", 1, "Epochs between validations."),
    "save_steps": Option(
        "int", 0, "Steps between two saves of the training state; 0 = save only after each epoch."
    ),
    "seed": Option("int", 0, "Random seed."),
    "split_index": Option("int", 0, "Number of the split, if the store has several."),
    "row_normalize": Option("bool", False, "Divide each feature row by its sum."),
    "parts": Option("int", 100, "Number of clusters, or of parts of random-node."),
    "batch_parts": Option("int", 16, "Clusters per batch."),
    "walk_length": Option("int", 2, "Steps per walk of saint-walk."),
    "steps": Option("int", 30, "Batches per epoch of GraphSAINT."),
    "coverage": Option(
        "int", 50, "Samples per node that estimate GraphSAINT's weights; 0 = no weights."
    ),
    "reading": Option(
        "str",
        "auto",
        "How batches are read: auto, on_demand, window, scan, distribute, compiled, direct_layout, "
        "or the path of compiled epochs or of a direct layout.",
    ),
    "x_dtype": Option(
        "str",
        None,
        "Dtype of x in batches: f32, f16 or bf16. Default: f32 for f16, bf16 and i8, else as "
        "stored.",
    ),
    "method": Option(
        "str",
        "uniform",
        "How the sampler neighbor draws neighbours.",
        ("uniform", "labor", "weighted"),
    ),
    "temporary_writes": Option(
        "str",
        "auto",
        "Limit on rows that an epoch writes to temporary files: auto, never, or a multiple of the "
        "size of the features, e.g. 2x.",
    ),
    "decoder": Option("str", "dot", "Score of a link.", ("dot", "mlp")),
    "negatives": Option("str", "binary", "Negative sampling of links.", ("binary", "triplet")),
    "num_negatives": Option("int", 1, "Negatives per training link."),
    "eval_negatives": Option("int", 50, "Negatives per link of validation and test."),
    "holdout": Option(
        "shares", [10.0, 10.0], "Share of links or graphs for validation and test, in percent."
    ),
    "val_after": Option("int", None, "Validate on links after this time."),
    "test_after": Option("int", None, "Test on links after this time."),
    "train_edges": Option("int", None, "Maximum number of links per epoch. Default: all."),
    "eval_edges": Option("int", 100000, "Maximum number of links per validation or test."),
    "rank_all": Option(
        "names", [], "Test metrics that rank a link among all nodes, e.g. recall@20,ndcg@20."
    ),
    "temporal": Option("str", "auto", _TEMPORAL_HELP, _TEMPORAL),
    "embedding": Option(
        "int",
        0,
        "Width of learned rows (embeddings) of nodes without x, kept in the store; 0 = none.",
    ),
    "embedding_name": Option("str", "emb", "Tensor of the store for the learned rows."),
    "embedding_optimizer": Option(
        "str", "adagrad", "Optimizer of learned rows.", ("adagrad", "adam", "sgd")
    ),
    "embedding_lr": Option("float", None, "Learning rate of learned rows. Default: torch's."),
    "embedding_memory": Option(
        "str", "64MB", "Memory for changed learned rows, in addition to --memory."
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
    flag = name.replace("_", "-")
    if value is None or kind in _LISTS:
        return None if value is None else _listed(flag, kind, value)
    wanted = _PYTHON.get(kind, str)
    if wanted is float and isinstance(value, int | str) and not isinstance(value, bool):
        # YAML takes 1e-3, without a point, for a text.
        with suppress(ValueError):
            return float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UnsupportedArgument(f"{flag} is {value!r}; expected {_words(kind)}")
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
        raise UnsupportedArgument(f"{flag} is {value!r}; expected {_words(kind)}") from None


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
                raise UnsupportedArgument(f"{path}: {key} is {value!r}; expected a string")
            opening[name] = value
        elif name in OPTIONS:
            found[name] = value
        else:
            known = ", ".join(option.replace("_", "-") for option in (*_OPENING, *OPTIONS))
            raise UnsupportedArgument(
                f"{path}: {key!r} is not an option of train; expected one of {known}"
            )
    return found, opening


def settings_of(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of several layers, of which later ones win; those without a value are left."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= {name: setting(name, value) for name, value in layer.items()}
    return merged
