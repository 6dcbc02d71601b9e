"""Which model, task, sampler and store go together.

The models stand in the table of `neargraph.nn.models`, the samplers in `sources.py`. The invariant:
a combination that makes no sense is refused by name before anything is read.
"""

from typing import Any

import torch

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.metrics.all_items import ranked_at
from neargraph.metrics.names import metric_names
from neargraph.nn import NGCF, InDegrees
from neargraph.nn.models import MODELS, build, kind_of
from neargraph.schema import Schema
from neargraph.store import Store

from .config import TrainConfig
from .embeddings import widths_of, without_features
from .sources import SAMPLERS, check_method

# They add and multiply rows of users and items.
_ONE_WIDTH = ("lightgcn", "ngcf")
_SAINT = ("saint-node", "saint-edge", "saint-walk")
# The samplers of each loader that a model may need, of nodes; the first is the one it is made for.
_SAMPLERS = {
    "neighbor": ("neighbor", "labor", "cluster", *_SAINT, "random-node", "shadow", "hgt"),
    "cluster": ("cluster",),
    "saint": _SAINT,
    "pinsage": ("pinsage",),
    "temporal": ("neighbor",),
}


def samplers_of(config: TrainConfig) -> tuple[str, ...]:
    """The samplers that the model of a run trains on for its task, the usual one first."""
    fitting = _SAMPLERS[MODELS[config.model].loader]
    if config.task == "graph":
        return ("graph",) if MODELS[config.model].loader == "neighbor" else ()
    if MODELS[config.model].loader == "temporal" and config.task != "link":
        # A store has times of links, and none of what it asks about a node.
        return ()
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
    _check_walks(config, sampler)
    _check_ranks(config)
    _check_layers(config)
    _check_effects(config, sampler)
    _check_rows(config, schema, path)
    _check_times(config)


_OF_LINKS = ("decoder", "negatives", "num_negatives", "eval_negatives", "val_after", "test_after")
_OF_LINKS_TOO = ("train_edges", "eval_edges", "rank_all")
_OF_MODELS = ("heads", "attention_dropout", "norm")
_OF_ROWS = ("embedding_name", "embedding_optimizer", "embedding_lr", "embedding_memory")


def _check_effects(config: TrainConfig, sampler: str) -> None:
    """Refuses settings that the task, sampler or schedule of a run would ignore."""
    default = TrainConfig()
    for names, has_effect, what in (
        ((*_OF_LINKS, *_OF_LINKS_TOO), config.task == "link", "the task link"),
        (("pool",), config.task == "graph", "the task graph"),
        *(((name,), *_taken(config, name)) for name in _OF_MODELS),
        (("split",), config.task != "link", "the tasks node and graph"),
        (("holdout",), config.task != "node", "the tasks link and graph"),
        (("embedding",), config.task != "graph", "the tasks node and link"),
        (("temporal",), config.task == "link", "the task link"),
        (_OF_ROWS, bool(config.embedding), "learned rows, whose width embedding gives"),
        (("hidden",), config.model != "lightgcn", "models with hidden layers"),
        (
            ("lr", "weight_decay", "clip"),
            config.model != "lightgcn" or config.decoder == "mlp",
            "models and decoders with parameters (learned rows have embedding_lr)",
        ),
        (
            ("dropout",),
            config.model != "lightgcn" or config.decoder == "mlp",
            "models and decoders with hidden layers",
        ),
        (("parts",), sampler in ("cluster", "random-node"), "the samplers cluster and random-node"),
        (("batch_parts",), sampler == "cluster", "the sampler cluster"),
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


def _taken(config: TrainConfig, setting: str) -> tuple[bool, str]:
    """Whether the model of a run takes a setting, and what does."""
    # The class of hetero-sage has the settings of layers that attend, which are not its own.
    taking = [m for m, row in MODELS.items() if setting in row.defaults() and m != "hetero-sage"]
    what = f"the models {', '.join(taking)}"
    if setting == "norm" and len(config.fanouts) == 1:
        # GIN alone has hidden layers inside a layer.
        return config.model == "gin", f"{what}, with a hidden layer: give several fanouts"
    return config.model in taking, what


def _check_rows(config: TrainConfig, schema: Schema, path: str) -> None:
    """Refuses learned rows where no node would have one, and what goes not together with them."""
    names = without_features(schema)
    _check_widths(config, schema, path)
    if not config.embedding:
        if schema.is_homogeneous and names:
            raise NameNotFound(
                f"{path}: no node tensor 'x'; import features, or learn rows with embedding=64"
            )
        return
    if not names:
        raise UnsupportedArgument(
            f"{path}: embedding={config.embedding} learns rows of nodes without x, and all node "
            "types have x; leave it out"
        )
    if config.tested == "best":
        raise UnsupportedArgument(
            "learned rows stand in the store as the last step left them, so the best epoch cannot "
            "be tested with embedding; give test_on='last'"
        )
    if config.row_normalize and schema.is_homogeneous:
        raise UnsupportedArgument(
            "row_normalize=True is for features of the store, and rows are learned; leave it out"
        )


def _check_widths(config: TrainConfig, schema: Schema, path: str) -> None:
    """Refuses rows of several widths where a model adds them."""
    widths = widths_of(schema, config)
    if config.model in _ONE_WIDTH and len(set(widths.values())) > 1:
        each = ", ".join(f"{name} has {width}" for name, width in widths.items())
        raise UnsupportedArgument(
            f"{path}: the model {config.model} needs rows of one width for all nodes, and {each}; "
            "learn rows of nodes without x with embedding, as wide as x of the others, or import x "
            "of one width"
        )
    if config.model in _ONE_WIDTH and not config.embedding and without_features(schema):
        raise UnsupportedArgument(
            f"{path}: the model {config.model} needs rows of nodes, which have no x; learn them "
            "with embedding=64"
        )


def _check_walks(config: TrainConfig, sampler: str) -> None:
    """Refuses what walks and rankings cannot respect."""
    if sampler == "pinsage" and (config.test_after is not None or config.strategy is not None):
        raise UnsupportedArgument(
            "walks of the sampler pinsage know no times, so test_after and temporal do not hold "
            "for them; use holdout"
        )
    if config.rank_all and config.strategy is not None:
        raise UnsupportedArgument(
            f"rank_all has one row for each node, and with temporal={config.strategy!r} rows "
            "differ from link to link; leave one of them out"
        )
    for name in config.rank_all:
        ranked_at(name)
    if config.rank_all and config.decoder != "dot":
        raise UnsupportedArgument(
            f"rank_all ranks by products of rows, and decoder is {config.decoder!r}; use decoder "
            "dot"
        )


def _check_ranks(config: TrainConfig) -> None:
    """Refuses metrics of ranks that no link can miss."""
    if config.task != "link":
        return
    for name in metric_names("links", config.metrics):
        if name.base in ("hits@K", "recall@K") and (name.k or 0) > config.eval_negatives:
            raise UnsupportedArgument(
                f"{name.text} is always 1 where a link is ranked among itself and "
                f"{config.eval_negatives} negatives; give metrics with a smaller K, or more "
                "eval_negatives"
            )


def _check_layers(config: TrainConfig) -> None:
    """Refuses counts of neighbours where nothing is sampled."""
    given = config.fanouts != TrainConfig().fanouts
    if config.task == "graph" and given and set(config.fanouts) != {-1}:
        raise UnsupportedArgument(
            f"fanouts are {list(config.fanouts)}, and the task graph reads whole graphs; give -1 "
            f"for each layer: {','.join(['-1'] * len(config.fanouts))}"
        )


def _check_times(config: TrainConfig) -> None:
    """Refuses sampling by time where the future would be seen, and the model that needs it off."""
    if config.strategy is None:
        if MODELS[config.model].loader == "temporal":
            raise UnsupportedArgument(
                f"temporal='off' does not go with the model {config.model}, which sees only the "
                "past; use temporal 'last' or 'uniform'"
            )
        return
    if config.test_after is None:
        raise UnsupportedArgument(
            f"temporal={config.strategy!r} trains on the past and tests on what came later; give "
            "test_after, the time after which links are for test"
        )
    if MODELS[config.model].degrees != "none":
        raise UnsupportedArgument(
            f"the model {config.model} takes degrees of the whole graph, which tell of the future; "
            "use sage, gat or temporal, or temporal='off'"
        )


def make_model(
    config: TrainConfig, schema: Schema, outputs: int, widths: dict[str, int]
) -> torch.nn.Module:
    """The model of a run on rows of these widths by node type, with fresh parameters."""
    known = MODELS[config.model].defaults()
    wanted = {
        "hidden_channels": config.hidden,
        "num_layers": len(config.fanouts),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "norm": config.norm,
    }
    if config.heads is not None:
        wanted["heads"] = config.heads
    settings: dict[str, Any] = {name: value for name, value in wanted.items() if name in known}
    inputs: Any = next(iter(widths.values())) if schema.is_homogeneous else widths
    return build(config.model, schema, outputs, in_channels=inputs, **settings)


def embedding_channels(config: TrainConfig, widths: dict[str, int]) -> int:
    """The width of the embeddings of a run; recommenders have one of their own."""
    width = next(iter(widths.values()))
    if config.model == "lightgcn":
        return width
    if config.model == "ngcf":
        return NGCF.width(width, config.hidden, len(config.fanouts))
    return config.hidden


def degrees_of(config: TrainConfig, store: Store) -> InDegrees | None:
    """What gives the in-degrees that a model or GraphSAINT takes; None where nothing does."""
    if MODELS[config.model].degrees == "none" and sampler_of(config) not in _SAINT:
        return None
    return InDegrees(store, loops=MODELS[config.model].degrees != "without_loops")


def takes_degrees(config: TrainConfig) -> bool:
    """Whether the model takes ``in_degree``."""
    return MODELS[config.model].degrees != "none" and MODELS[config.model].loader != "saint"
