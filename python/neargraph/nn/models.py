"""The table of models by name, with the tasks, stores and loaders that each supports.

The trainer and the command line use the names of this table. The invariant: a model is built only
for a store that it supports; otherwise the error lists the models that do.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.schema import NodeType, Schema

from .gat import GAT
from .gcn import GCN
from .gin import GIN
from .hetero import HeteroGNN
from .pinsage import PinSAGE
from .recommend import NGCF, LightGCN
from .rgcn import RGCN
from .sage import GraphSAGE
from .temporal import TemporalGAT

Task = Literal["node", "link", "graph"]
Kind = Literal["homogeneous", "bipartite", "heterogeneous"]
Loader = Literal["neighbor", "cluster", "saint", "pinsage", "temporal"]
Degrees = Literal["none", "without_loops", "with_loops"]

_ALL: tuple[Task, ...] = ("node", "link", "graph")
_TYPED: tuple[Kind, ...] = ("bipartite", "heterogeneous")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One row of the table.

    Attributes:
        model: The class.
        tasks: The supported tasks: ``"node"``, ``"link"`` or ``"graph"``.
        stores: The supported kinds of stores: ``"homogeneous"``, ``"bipartite"`` (two node types
            with edges from each to the other only) or ``"heterogeneous"``.
        loader: The kind of batches that it needs: ``"neighbor"`` (`NeighborLoader` or
            `LinkNeighborLoader`), ``"cluster"`` (`ClusterGCNLoader`), ``"saint"`` (a GraphSAINT
            loader), ``"pinsage"`` (neighbours with visit counts) or ``"temporal"`` (past edges,
            with a time for each seed).
        degrees: The kind of `InDegrees` that it needs, if any.
        source: The paper.
        settings: Defaults that differ from those of the class.
    """

    model: type[torch.nn.Module]
    tasks: tuple[Task, ...] = _ALL
    stores: tuple[Kind, ...] = ("homogeneous",)
    loader: Loader = "neighbor"
    degrees: Degrees = "none"
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def defaults(self) -> dict[str, Any]:
        """Returns all settings that `build` accepts for the model, with their defaults."""
        facts = ("in_channels", "out_channels", "edge_types", "relations")
        parameters = inspect.signature(self.model).parameters.values()
        found = {
            p.name: _HIDDEN if p.default is p.empty else p.default
            for p in parameters
            if p.name not in facts and p.kind is not p.VAR_KEYWORD
        }
        return {**found, **self.settings}


# Default width of hidden layers. All other settings have defaults in their classes.
_HIDDEN = 64
_SAGE = "Hamilton et al., NeurIPS 2017"

MODELS: dict[str, ModelSpec] = {
    "sage": ModelSpec(model=GraphSAGE, source=_SAGE),
    "sage-max": ModelSpec(model=GraphSAGE, source=_SAGE, settings={"aggr": "max"}),
    "sage-pool": ModelSpec(model=GraphSAGE, source=_SAGE, settings={"aggr": "pool"}),
    "gcn": ModelSpec(model=GCN, degrees="without_loops", source="Kipf and Welling, ICLR 2017"),
    "gin": ModelSpec(model=GIN, degrees="with_loops", source="Xu et al., ICLR 2019"),
    "gat": ModelSpec(model=GAT, source="Velickovic et al., ICLR 2018"),
    "cluster": ModelSpec(
        model=GraphSAGE, tasks=("node",), loader="cluster", source="Chiang et al., KDD 2019"
    ),
    "saint": ModelSpec(
        model=GraphSAGE,
        tasks=("node",),
        loader="saint",
        degrees="with_loops",
        source="Zeng et al., ICLR 2020",
    ),
    "pinsage": ModelSpec(
        model=PinSAGE, tasks=("node", "link"), loader="pinsage", source="Ying et al., KDD 2018"
    ),
    "lightgcn": ModelSpec(
        model=LightGCN,
        tasks=("link",),
        stores=("homogeneous", "bipartite"),
        degrees="with_loops",
        source="He et al., SIGIR 2020",
    ),
    "ngcf": ModelSpec(
        model=NGCF,
        tasks=("link",),
        stores=("homogeneous", "bipartite"),
        degrees="with_loops",
        source="Wang et al., SIGIR 2019",
    ),
    "rgcn": ModelSpec(
        model=RGCN, tasks=("node", "link"), stores=_TYPED, source="Schlichtkrull et al., ESWC 2018"
    ),
    "hetero-sage": ModelSpec(model=HeteroGNN, tasks=("node", "link"), stores=_TYPED, source=_SAGE),
    "hetero-gat": ModelSpec(
        model=HeteroGNN,
        tasks=("node", "link"),
        stores=_TYPED,
        source="Velickovic et al., ICLR 2018",
        settings={"conv": "gat"},
    ),
    "temporal": ModelSpec(
        model=TemporalGAT,
        tasks=("node", "link"),
        loader="temporal",
        source="Xu et al., ICLR 2020",
    ),
}


def spec_of(name: str) -> ModelSpec:
    """Returns the row of a model in the table.

    Raises:
        NameNotFound: The model does not exist. The message lists those that do.
    """
    if name not in MODELS:
        raise NameNotFound(f"no model {name!r}: expected one of {', '.join(MODELS)}")
    return MODELS[name]


def kind_of(schema: Schema) -> Kind:
    """Returns the kind of a store, as in `ModelSpec.stores`.

    Example:
        >>> kind_of(store.schema)                                             # doctest: +SKIP
        'bipartite'
    """
    if schema.is_homogeneous:
        return "homogeneous"
    ends = [(t.source, t.destination) for t in schema.edge_types]
    names = tuple(t.name for t in schema.node_types)
    crosses = len(names) == 2 and all(source != target for source, target in ends)
    return "bipartite" if crosses and set(ends) == {names, names[::-1]} else "heterogeneous"


def build(
    name: str,
    schema: Schema,
    out_channels: int | None = None,
    *,
    in_channels: int | Mapping[str, int] | None = None,
    **settings: Any,
) -> torch.nn.Module:
    """Builds a model of the table for a store.

    Args:
        name: A name in `MODELS`.
        schema: The schema of the loader, ``loader.schema``, which has the stored reverses that it
            samples. ``store.schema`` is the same if it samples none.
        out_channels: Number of classes, or width of the embeddings. None: the width of hidden
            layers. For LightGCN and NGCF, the width follows from other settings (see
            `embedding_width`), and another value is an error.
        in_channels: Width of the input rows, by node type if there are several. None: that of the
            tensors ``x``, and 0 for a node type without ``x``.
        **settings: Settings of the class, such as ``hidden_channels`` (64), ``num_layers`` and
            ``dropout``.

    Raises:
        NameNotFound: The model does not exist.
        UnsupportedArgument: The model does not support this kind of store, or lacks a setting.
        ValueError: A setting is not valid.

    Example:
        >>> model = build("gat", store.schema, 7, heads=8)                    # doctest: +SKIP
    """
    spec, kind = spec_of(name), kind_of(schema)
    if kind not in spec.stores:
        fitting = ", ".join(other for other, row in MODELS.items() if kind in row.stores)
        raise UnsupportedArgument(
            f"model {name!r} supports {' and '.join(spec.stores)} stores, but this store is "
            f"{kind}; use one of {fitting}"
        )
    known = spec.defaults()
    for setting in settings:
        if setting not in known:
            raise UnsupportedArgument(
                f"model {name!r} has no setting {setting!r}; its settings are {', '.join(known)}"
            )
    chosen = {**known, **settings}
    triples = [t.triple for t in schema.edge_types]
    widths = _widths(schema, in_channels)
    facts = {
        "in_channels": _one_width(name, widths) if spec.model is NGCF else widths,
        "out_channels": chosen.get("hidden_channels") if out_channels is None else out_channels,
        "edge_types": triples,
        "relations": triples,
    }
    taken = inspect.signature(spec.model).parameters
    model = spec.model(**{k: v for k, v in facts.items() if k in taken}, **chosen)
    made = embedding_width(model, widths)
    if out_channels is not None and made != out_channels:
        raise UnsupportedArgument(
            f"model {name!r} returns rows of width {made} with these settings, but "
            f"out_channels={out_channels} was given; give out_channels={made}"
        )
    return model


def embedding_width(model: torch.nn.Module, in_channels: int | Mapping[str, int]) -> int:
    """Returns the width of a model's output for input rows of these widths.

    Raises:
        UnsupportedArgument: The model needs rows of one width, but the widths differ.

    Example:
        >>> embedding_width(LightGCN(3), 64)
        64
    """
    if not isinstance(model, LightGCN):
        width: Any = model.out_channels
        return int(width)
    return _one_width("LightGCN", in_channels)


def _one_width(name: str, in_channels: int | Mapping[str, int]) -> int:
    widths = {in_channels} if isinstance(in_channels, int) else set(in_channels.values())
    if len(widths) != 1 or 0 in widths:
        raise UnsupportedArgument(
            f"{name} needs rows of one width for all nodes, but the widths are {sorted(widths)}; "
            "give in_channels=, such as the width of a StoreEmbedding"
        )
    return widths.pop()


def _widths(schema: Schema, given: int | Mapping[str, int] | None) -> int | dict[str, int]:
    names = [t.name for t in schema.node_types]
    if schema.is_homogeneous:
        if isinstance(given, Mapping):
            raise UnsupportedArgument(
                f"in_channels= is a mapping, but the store has only one node type, {names[0]!r}; "
                "give an integer"
            )
        return _width(schema.node_types[0]) if given is None else given
    if isinstance(given, int):
        return dict.fromkeys(names, given)
    unknown = sorted(set(given or ()) - set(names))
    if unknown:
        raise NameNotFound(
            f"no node type {unknown[0]!r}; the node types of this store are {', '.join(names)}"
        )
    return {t.name: (given or {}).get(t.name, _width(t)) for t in schema.node_types}


def _width(owner: NodeType) -> int:
    return next((meta.num_columns for meta in owner.tensors if meta.name == "x"), 0)
