"""The valid combinations of model, task, sampler and store.

`neargraph.nn.models` has the table of models, and `sources.py` that of samplers. The invariant: a
combination that is not valid raises an error that names it, before anything is read.
"""

from collections.abc import Iterable
from typing import Any

import torch

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.metrics.all_items import ranked_at
from neargraph.metrics.names import metric_names
from neargraph.nn import InDegrees
from neargraph.nn.models import MODELS, build, kind_of
from neargraph.schema import Schema
from neargraph.store import Store

from .config import TrainConfig
from .directions import DegreesBothWays, both_ways, kept_reverses, lead_one_way
from .embeddings import widths_of, without_features
from .sources import SAMPLERS, check_method

# These models add and multiply rows of users and items.
_ONE_WIDTH = ("lightgcn", "ngcf")
_SAINT = ("saint-node", "saint-edge", "saint-walk")
# By the loader that a model needs, the samplers that fit; the first one is the default.
_SAMPLERS = {
    "neighbor": ("neighbor", "labor", "cluster", *_SAINT, "random-node", "shadow", "hgt"),
    "cluster": ("cluster",),
    "saint": _SAINT,
    "pinsage": ("pinsage",),
    "temporal": ("neighbor",),
}


def samplers_of(config: TrainConfig) -> tuple[str, ...]:
    """Returns the samplers on which the model of a run trains, the default first."""
    fitting = _SAMPLERS[MODELS[config.model].loader]
    if config.task == "graph":
        return ("graph",) if MODELS[config.model].loader == "neighbor" else ()
    if MODELS[config.model].loader == "temporal" and config.task != "link":
        # A store has times of links, but no times at which a node is predicted.
        return ()
    return tuple(name for name in fitting if config.task in SAMPLERS[name].tasks)


def sampler_of(config: TrainConfig) -> str:
    """Returns the sampler of a run: that of the settings, or the default one of the model."""
    return samplers_of(config)[0] if config.sampler == "auto" else config.sampler


def trained_schema(config: TrainConfig, schema: Schema) -> Schema:
    """Returns the schema of a run's batches, with stored reverses if they are sampled."""
    # HGT's budgets per node type are defined for the edge types of the graph only.
    return schema if config.sampler == "hgt" else both_ways(schema)


def notes_of(config: TrainConfig, schema: Schema) -> list[str]:
    """Returns notes for the user on the settings of a run."""
    notes = []
    kept = [
        ",".join(t.triple) for t in trained_schema(config, schema).edge_types if t.is_reverse_index
    ]
    if kept:
        notes.append(f"messages also use the reverse edges {', '.join(kept)} of the store")
    parts = {
        "cluster": f"batch_parts={config.batch_parts} of parts={config.parts} clusters",
        "random-node": f"one of parts={config.parts} parts",
    }.get(sampler_of(config))
    if parts is not None and config.batch_size != TrainConfig().batch_size:
        notes.append(
            f"batch_size={config.batch_size} applies to validation and test only: a training "
            f"batch of the sampler {sampler_of(config)!r} is {parts}"
        )
    return notes


def check_names(config: TrainConfig) -> None:
    """Rejects a model or a sampler that does not exist.

    Raises:
        UnsupportedArgument: The name is not valid. The message lists those that are.
    """
    for name, value, table in (
        ("model", config.model, MODELS),
        ("sampler", config.sampler, {"auto": None, **SAMPLERS}),
    ):
        if value not in table:
            raise UnsupportedArgument(
                f"{name}={value!r} is not valid: expected one of {', '.join(map(repr, table))}"
            )


def check_combination(config: TrainConfig, schema: Schema, path: str) -> None:
    """Rejects a combination of model, task, sampler and store that is not valid.

    Raises:
        UnsupportedArgument: The message names the conflict and the alternatives.
    """
    check_names(config)
    if not schema.edge_types:
        raise UnsupportedArgument(f"{path}: the store has no edges, which training needs")
    model, kind = MODELS[config.model], kind_of(trained_schema(config, schema))
    if kind not in model.stores:
        _check_directions(config, schema, path)
        fit = (row for row in MODELS.items() if config.task in row[1].tasks)
        having = [name for name, row in fit if kind in row.stores]
        only = " (one node type and one edge type)" if model.stores == ("homogeneous",) else ""
        by_time = ""
        if model.loader == "temporal":
            having = [name for name in having if MODELS[name].degrees == "none"]
            by_time = " with temporal='last'"
        raise UnsupportedArgument(
            f"{path}: the model {config.model!r} needs a store that is "
            f"{' or '.join(model.stores)}{only}, but this store is {kind}; use one of the models "
            f"{_listed(having)}{by_time}"
        )
    fitting = samplers_of(config)
    if config.task not in model.tasks or not fitting:
        having = [name for name, row in MODELS.items() if config.task in row.tasks]
        raise UnsupportedArgument(
            f"the model {config.model!r} does not support the task {config.task!r}; use one of "
            f"the models {_listed(name for name in having if name != config.model)}"
        )
    sampler = sampler_of(config)
    if sampler not in fitting:
        raise UnsupportedArgument(
            f"the model {config.model!r} does not support the sampler {sampler!r} for the task "
            f"{config.task!r}; use one of the samplers {_listed(fitting)}"
        )
    if kind not in SAMPLERS[sampler].kinds:
        having = [name for name in fitting if kind in SAMPLERS[name].kinds]
        raise UnsupportedArgument(
            f"{path}: the sampler {sampler!r} needs a store that is "
            f"{' or '.join(SAMPLERS[sampler].kinds)}, but this store is {kind}; use one of the "
            f"samplers {_listed(having)}"
        )
    check_method(config, sampler)
    _check_walks(config, sampler)
    _check_ranks(config)
    _check_layers(config)
    _check_effects(config, sampler)
    _check_lists(config, sampler, schema, path)
    _check_rows(config, schema, path)
    _check_times(config)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _check_directions(config: TrainConfig, schema: Schema, path: str) -> None:
    """Rejects a store of two node types, with a way to make it fit the model."""
    stores = MODELS[config.model].stores
    if len(schema.node_types) != 2:
        return
    first, second = (owner.name for owner in schema.node_types)
    if "bipartite" in stores and lead_one_way(schema):
        lists = ", ".join(",".join(t.triple) for t in schema.edge_types)
        raise UnsupportedArgument(
            f"{path}: the model {config.model!r} passes messages in both directions between "
            f"{first!r} and {second!r}, but the edges {lists} lead in one direction only; import "
            "the graph again with `neargraph import --reverse`"
        )
    if MODELS[config.model].loader == "temporal":
        return
    if config.task == "link" and "bipartite" not in stores:
        raise UnsupportedArgument(
            f"{path}: the model {config.model!r} needs a store that is {' or '.join(stores)} "
            f"(one node type and one edge type), but this store has the node types {first!r} and "
            f"{second!r}; import both as one node type with `neargraph import --undirected` (see "
            "docs/how-to/training.md), or use one of the models "
            + _listed(name for name, row in MODELS.items() if "bipartite" in row.stores)
        )


_OF_LINKS = ("decoder", "negatives", "num_negatives", "eval_negatives", "val_after", "test_after")
_OF_LINKS_TOO = ("train_edges", "eval_edges", "rank_all")
_OF_MODELS = ("heads", "attention_dropout", "norm")
_OF_ROWS = ("embedding_name", "embedding_optimizer", "embedding_lr", "embedding_memory")


def _check_effects(config: TrainConfig, sampler: str) -> None:
    """Rejects settings that the task, sampler or schedule of a run would ignore."""
    default = TrainConfig()
    for names, has_effect, what in (
        ((*_OF_LINKS, *_OF_LINKS_TOO), config.task == "link", "the task 'link'"),
        (("pool",), config.task == "graph", "the task 'graph'"),
        *(((name,), *_taken(config, name)) for name in _OF_MODELS),
        (("split_index",), config.task != "link", "the tasks 'node' and 'graph'"),
        (("holdout",), config.task != "node", "the tasks 'link' and 'graph'"),
        (("target",), config.task != "graph", "the tasks 'node' and 'link'"),
        (("embedding",), config.task != "graph", "the tasks 'node' and 'link'"),
        (("temporal",), config.task == "link", "the task 'link'"),
        (_OF_ROWS, bool(config.embedding), "learned rows, which need embedding="),
        (("hidden",), config.model != "lightgcn", "models with hidden layers"),
        (
            ("lr", "weight_decay", "clip"),
            config.model != "lightgcn" or config.decoder == "mlp",
            "models and decoders with parameters (for learned rows, give embedding_lr=)",
        ),
        (
            ("dropout",),
            config.model != "lightgcn" or config.decoder == "mlp",
            "models and decoders with hidden layers",
        ),
        (
            ("parts",),
            sampler in ("cluster", "random-node"),
            "the samplers 'cluster' and 'random-node'",
        ),
        (("batch_parts",), sampler == "cluster", "the sampler 'cluster'"),
        (("walk_length",), sampler == "saint-walk", "the sampler 'saint-walk'"),
        (("steps", "coverage"), sampler in _SAINT, f"the samplers {_listed(_SAINT)}"),
        (
            ("schedule_epochs", "schedule_factor"),
            config.schedule in ("step", "plateau"),
            "the schedules 'step' and 'plateau'",
        ),
    ):
        for name in names:
            value = getattr(config, name)
            if not has_effect and value != getattr(default, name):
                raise UnsupportedArgument(
                    f"{name}={value!r} applies only to {what}; leave out {name}="
                )


def _check_lists(config: TrainConfig, sampler: str, schema: Schema, path: str) -> None:
    """Rejects a store without the data that GraphSAINT needs. The message lists all of it."""
    if sampler not in _SAINT:
        return
    edges, missing = schema.edge_types[0], {}
    if config.coverage and not edges.has_edge_ids:
        missing["edge-ids"] = f"edge ids (for coverage={config.coverage})"
    if sampler == "saint-edge" and not (edges.undirected or schema.reverse_types):
        missing["reverse"] = "the reverse edges (for the degrees by which it draws edges)"
    if missing:
        flags = " ".join(f"--{option}" for option in missing)
        again = f"import again with `neargraph import {flags}`"
        again += "; coverage=0 needs no edge ids" if "edge-ids" in missing else ""
        raise UnsupportedArgument(
            f"{path}: the sampler {sampler!r} needs {' and '.join(missing.values())}, which this "
            f"store does not have; {again}"
        )


def _taken(config: TrainConfig, setting: str) -> tuple[bool, str]:
    """Returns whether the model of a run has a setting, and the models that have it."""
    # The class of hetero-sage has the settings of attention layers, but does not use them.
    taking = [m for m, row in MODELS.items() if setting in row.defaults() and m != "hetero-sage"]
    what = f"the models {_listed(taking)}"
    if setting == "norm" and len(config.fanouts) == 1:
        # Only GIN has hidden layers inside a layer.
        return config.model == "gin", f"{what} with a hidden layer, which needs several fanouts"
    return config.model in taking, what


def _check_rows(config: TrainConfig, schema: Schema, path: str) -> None:
    """Rejects learned rows if all nodes have features, and settings that conflict with them."""
    names = without_features(schema)
    _check_widths(config, schema, path)
    if not config.embedding:
        if schema.is_homogeneous and names:
            learned = "" if config.task == "graph" else ", or learn rows with embedding=64"
            raise NameNotFound(f"{path} has no node tensor 'x'; import features{learned}")
        return
    if not names:
        raise UnsupportedArgument(
            f"{path}: embedding={config.embedding} learns rows of nodes without the tensor 'x', "
            "but all node types have a tensor 'x'; leave out embedding="
        )
    if config.tested == "best":
        raise UnsupportedArgument(
            "with embedding=, each step overwrites the learned rows in the store, so the rows of "
            "the best epoch cannot be tested; give test_on='last'"
        )
    if config.row_normalize and schema.is_homogeneous:
        raise UnsupportedArgument(
            "row_normalize=True applies only to stored features, not to learned rows; leave "
            "out row_normalize="
        )


def _check_widths(config: TrainConfig, schema: Schema, path: str) -> None:
    """Rejects rows of several widths for a model that adds them."""
    widths = widths_of(schema, config)
    if config.model in _ONE_WIDTH and len(set(widths.values())) > 1:
        each = " and ".join(
            f"the rows of {name!r} have width {width}" for name, width in widths.items()
        )
        raise UnsupportedArgument(
            f"{path}: the model {config.model!r} needs rows of one width for all nodes, but "
            f"{each}; set embedding= to the width of the tensor 'x', or import tensors 'x' of "
            "one width"
        )
    if config.model in _ONE_WIDTH and not config.embedding and without_features(schema):
        raise UnsupportedArgument(
            f"{path}: the model {config.model!r} needs a row for each node, but the nodes have "
            "no tensor 'x'; learn rows with embedding=, such as embedding=64"
        )


def _check_walks(config: TrainConfig, sampler: str) -> None:
    """Rejects settings that random walks and rankings cannot follow."""
    if sampler == "pinsage" and (config.test_after is not None or config.strategy is not None):
        raise UnsupportedArgument(
            "the sampler 'pinsage' ignores times, so it does not support test_after= and "
            "temporal=; use holdout="
        )
    if config.rank_all and config.strategy is not None:
        is_set = MODELS[config.model].loader != "temporal"
        raise UnsupportedArgument(
            f"rank_all= needs one row per node, but with temporal={config.strategy!r} the row of "
            f"a node differs between links; leave rank_all={' or temporal=' if is_set else ''} "
            "out"
        )
    for name in config.rank_all:
        ranked_at(name)
    if config.rank_all and config.decoder != "dot":
        raise UnsupportedArgument(
            "rank_all= ranks by dot products of rows and does not support "
            f"decoder={config.decoder!r}; use decoder='dot'"
        )


def _check_ranks(config: TrainConfig) -> None:
    """Rejects ranking metrics that are always 1."""
    if config.task != "link":
        return
    for name in metric_names("links", config.metrics):
        if name.base in ("hits@K", "recall@K") and (name.k or 0) > config.eval_negatives:
            raise UnsupportedArgument(
                f"{name.text} is always 1 if a link is ranked among {config.eval_negatives} "
                "negatives; give metrics with a smaller K, or a larger eval_negatives="
            )


def _check_layers(config: TrainConfig) -> None:
    """Rejects fanouts for a task that does not sample."""
    given = config.fanouts != TrainConfig().fanouts
    if config.task == "graph" and given and set(config.fanouts) != {-1}:
        raise UnsupportedArgument(
            f"fanouts={list(config.fanouts)} is not valid for the task 'graph', which reads "
            f"whole graphs: expected -1 for each layer, {','.join(['-1'] * len(config.fanouts))}"
        )


def _check_times(config: TrainConfig) -> None:
    """Rejects temporal sampling that would include the future, and temporal models without it."""
    if config.strategy is None:
        if MODELS[config.model].loader == "temporal":
            raise UnsupportedArgument(
                f"the model {config.model!r} does not support temporal='off', because this model "
                "uses only the past; use temporal='last' or temporal='uniform'"
            )
        return
    if config.test_after is None:
        raise UnsupportedArgument(
            f"temporal={config.strategy!r} trains on the past and tests on later links; give "
            "test_after=, the time after which links are for test"
        )
    if MODELS[config.model].degrees != "none":
        raise UnsupportedArgument(
            f"the model {config.model!r} uses degrees of the whole graph, which include the "
            "future; use the model 'sage', 'gat' or 'temporal', or use temporal='off'"
        )


def make_model(
    config: TrainConfig, schema: Schema, outputs: int | None, widths: dict[str, int]
) -> torch.nn.Module:
    """Returns the model of a run for rows of these widths by node type, with new parameters.

    If `outputs` is None, its output is embeddings with the width of the hidden layers, or with that
    of the model.
    """
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


def degrees_of(config: TrainConfig, store: Store) -> InDegrees | DegreesBothWays | None:
    """Returns the in-degrees for a model or for GraphSAINT; None if they are not needed."""
    if MODELS[config.model].degrees == "none" and sampler_of(config) not in _SAINT:
        return None
    loops = MODELS[config.model].degrees != "without_loops"
    if kept_reverses(store.schema):
        return DegreesBothWays(store, loops=loops)
    return InDegrees(store, loops=loops)


def takes_degrees(config: TrainConfig) -> bool:
    """Whether the model has an argument ``in_degree``."""
    return MODELS[config.model].degrees != "none" and MODELS[config.model].loader != "saint"
