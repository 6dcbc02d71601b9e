"""Which model, task, sampler and store go together.

The models stand in the table of `neargraph.nn.models`, the samplers in `sources.py`. The invariant:
a combination that makes no sense is refused by name before anything is read.
"""

from typing import Any

import torch

from neargraph.exceptions import UnsupportedArgument
from neargraph.nn import InDegrees
from neargraph.nn.models import MODELS, build, kind_of
from neargraph.schema import Schema
from neargraph.store import Store

from .config import TrainConfig
from .sources import SAMPLERS, check_method

_SAINT = ("saint-node", "saint-edge", "saint-walk")
# The samplers of each loader that a model may need, of nodes; the first is the one it is made for.
_SAMPLERS = {
    "neighbor": ("neighbor", "labor", "cluster", *_SAINT, "random-node", "shadow", "hgt"),
    "cluster": ("cluster",),
    "saint": _SAINT,
    "pinsage": ("pinsage",),
    "temporal": (),
}


def samplers_of(config: TrainConfig) -> tuple[str, ...]:
    """The samplers that the model of a run trains on for its task, the usual one first."""
    fitting = _SAMPLERS[MODELS[config.model].loader]
    if config.task == "graph":
        return ("graph",) if MODELS[config.model].loader == "neighbor" else ()
    return tuple(name for name in fitting if config.task in SAMPLERS[name].tasks)


def sampler_of(config: TrainConfig) -> str:
    """The sampler of a run: the one that is named, or the one that the model is made for."""
    return samplers_of(config)[0] if config.sampler == "auto" else config.sampler


def check_names(config: TrainConfig) -> None:
    """Refuses a model or a sampler that does not exist.

    Raises:
        UnsupportedArgument: Names it, and what there is.
    """
    for name, value, table in (
        ("model", config.model, MODELS),
        ("sampler", config.sampler, {"auto": None, **SAMPLERS}),
    ):
        if value not in table:
            raise UnsupportedArgument(f"{name} is {value!r}; use {', '.join(table)}")


def check_combination(config: TrainConfig, schema: Schema, path: str) -> None:
    """Refuses a model, task, sampler and store that do not go together.

    Raises:
        UnsupportedArgument: Names the two that do not, and what there is.
    """
    check_names(config)
    model, kind = MODELS[config.model], kind_of(schema)
    if not schema.edge_types:
        raise UnsupportedArgument(f"{path}: the store has no edges; training needs some")
    if kind not in model.stores:
        having = [name for name, row in MODELS.items() if kind in row.stores]
        only = " (one node type and one edge type)" if model.stores == ("homogeneous",) else ""
        raise UnsupportedArgument(
            f"{path}: the model {config.model} is for {' and '.join(model.stores)} stores{only}, "
            f"and this one is {kind}; use {', '.join(having)}"
        )
    fitting = samplers_of(config)
    if config.task not in model.tasks or not fitting:
        having = [name for name, row in MODELS.items() if config.task in row.tasks]
        raise UnsupportedArgument(
            f"the model {config.model} is not trained for the task {config.task}; use "
            f"{', '.join(name for name in having if name != config.model)}"
        )
    sampler = sampler_of(config)
    if sampler not in fitting:
        raise UnsupportedArgument(
            f"the model {config.model} does not train on the sampler {sampler} for the task "
            f"{config.task}; use {', '.join(fitting)}"
        )
    if kind not in SAMPLERS[sampler].kinds:
        having = [name for name in fitting if kind in SAMPLERS[name].kinds]
        raise UnsupportedArgument(
            f"{path}: the sampler {sampler} is for {' and '.join(SAMPLERS[sampler].kinds)} stores, "
            f"and this one is {kind}; use {', '.join(having)}"
        )
    check_method(config, sampler)
    _check_effects(config, sampler)


_OF_LINKS = ("decoder", "negatives", "num_negatives", "eval_negatives", "val_after", "test_after")
_OF_LINKS_TOO = ("train_edges", "eval_edges")


def _check_effects(config: TrainConfig, sampler: str) -> None:
    """Refuses settings that the task, sampler or schedule of a run would ignore."""
    default = TrainConfig()
    for names, has_effect, what in (
        ((*_OF_LINKS, *_OF_LINKS_TOO), config.task == "link", "the task link"),
        (("holdout",), config.task != "node", "the tasks link and graph"),
        (("walk_length",), sampler == "saint-walk", "the sampler saint-walk"),
        (("steps", "coverage"), sampler in _SAINT, f"the samplers {', '.join(_SAINT)}"),
        (
            ("schedule_epochs", "schedule_factor"),
            config.schedule in ("step", "plateau"),
            "the schedules step and plateau",
        ),
    ):
        for name in names:
            value = getattr(config, name)
            if not has_effect and value != getattr(default, name):
                raise UnsupportedArgument(f"{name}={value!r} is for {what}; leave it out")


def make_model(config: TrainConfig, schema: Schema, outputs: int) -> torch.nn.Module:
    """The model of a run, with fresh parameters."""
    known = MODELS[config.model].defaults()
    wanted = {
        "hidden_channels": config.hidden,
        "num_layers": len(config.fanouts),
        "dropout": config.dropout,
    }
    settings: dict[str, Any] = {name: value for name, value in wanted.items() if name in known}
    return build(config.model, schema, outputs, **settings)


def embedding_channels(config: TrainConfig, widths: dict[str, int]) -> int:
    """The width of the embeddings of a run; recommenders have one of their own."""
    width = next(iter(widths.values()))
    if config.model == "lightgcn":
        return width
    return width + len(config.fanouts) * config.hidden if config.model == "ngcf" else config.hidden


def degrees_of(config: TrainConfig, store: Store) -> InDegrees | None:
    """What gives the in-degrees that a model or GraphSAINT takes; None where nothing does."""
    if MODELS[config.model].degrees == "none" and sampler_of(config) not in _SAINT:
        return None
    return InDegrees(store, loops=MODELS[config.model].degrees != "without_loops")


def takes_degrees(config: TrainConfig) -> bool:
    """Whether the model takes ``in_degree``."""
    return MODELS[config.model].degrees != "none" and MODELS[config.model].loader != "saint"
