"""The models by name: what each is for, which stores and loaders it takes, and how it is made.

The trainer and the command line read this table, so a model that is not in it has no name there.
The invariant: a model is built for a store that it can run on, or refused with what can.
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
        tasks: What it is for: ``"node"``, ``"link"`` or ``"graph"``.
        stores: Which stores it runs on: ``"homogeneous"``, ``"bipartite"`` (two node types, and
            edges from each to the other alone) or ``"heterogeneous"``.
        loader: Which batches it needs: those of the `NeighborLoader` or `LinkNeighborLoader`, of
            the `ClusterGCNLoader`, of a GraphSAINT loader, neighbours by importance with their
            visit counts, or only the past with a time for each seed.
        degrees: Which `InDegrees` it takes, if any.
        source: The paper.
        settings: Defaults of this row beside those of the class.
    """

    model: type[torch.nn.Module]
    tasks: tuple[Task, ...] = _ALL
    stores: tuple[Kind, ...] = ("homogeneous",)
    loader: Loader = "neighbor"
    degrees: Degrees = "none"
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def defaults(self) -> dict[str, Any]:
        """All settings that `build` takes for it, with their defaults."""
        facts = ("in_channels", "out_channels", "edge_types", "relations")
        parameters = inspect.signature(self.model).parameters.values()
        found = {
            p.name: _HIDDEN if p.default is p.empty else p.default
            for p in parameters
            if p.name not in facts and p.kind is not p.VAR_KEYWORD
        }
        return {**found, **self.settings}


# Width of hidden layers; everything else has a default of its own.
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
    """The row of a model.

    Raises:
        NameNotFound: There is no model of that name; says which there are.
    """
    if name not in MODELS:
        raise NameNotFound(f"no model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]


def kind_of(schema: Schema) -> Kind:
    """Which kind of store this is, for the table.

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
    """A model of the table for a store.

    Args:
        name: A name of `MODELS`.
        schema: That of the store or snapshot; with reverses where the loader samples them.
        out_channels: Classes, or the width of embeddings; None is that of hidden layers. LightGCN
            and NGCF have a width of their own, which it must be if it is given; `embedding_width`
            tells it.
        in_channels: Width of the rows that the model is given, by node type where there are
            several. None is that of the tensors ``x``, 0 where a node type has none.
        **settings: What the class takes beside, such as ``hidden_channels`` (64), ``num_layers``
            and ``dropout``.

    Raises:
        NameNotFound: No such model.
        UnsupportedArgument: The model does not run on such a store, or takes no such setting.
        ValueError: A setting is not valid.

    Example:
        >>> model = build("gat", store.schema, 7, heads=8)                    # doctest: +SKIP
    """
    spec, kind = spec_of(name), kind_of(schema)
    if kind not in spec.stores:
        fitting = ", ".join(other for other, row in MODELS.items() if kind in row.stores)
        raise UnsupportedArgument(
            f"model {name!r} runs on {' and '.join(spec.stores)} stores, and this one is {kind}; "
            f"use one of {fitting}"
        )
    known = spec.defaults()
    for setting in settings:
        if setting not in known:
            raise UnsupportedArgument(
                f"model {name!r} has no setting {setting!r}; it has {', '.join(known)}"
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
            f"model {name!r} gives rows of width {made} with these settings, and out_channels is "
            f"{out_channels}; give out_channels={made}"
        )
    return model


def embedding_width(model: torch.nn.Module, in_channels: int | Mapping[str, int]) -> int:
    """The width of what a model gives for rows of these widths.

    Raises:
        UnsupportedArgument: The model needs rows of one width, and these have several.

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
            f"{name} needs rows of one width for all nodes, and these have "
            f"{sorted(widths)}; give in_channels, such as the width of a StoreEmbedding"
        )
    return widths.pop()


def _widths(schema: Schema, given: int | Mapping[str, int] | None) -> int | dict[str, int]:
    names = [t.name for t in schema.node_types]
    if schema.is_homogeneous:
        if isinstance(given, Mapping):
            raise UnsupportedArgument(f"in_channels by type, and there is one type: {names[0]!r}")
        return _width(schema.node_types[0]) if given is None else given
    if isinstance(given, int):
        return dict.fromkeys(names, given)
    unknown = sorted(set(given or ()) - set(names))
    if unknown:
        raise NameNotFound(f"no node type {unknown[0]!r}; this store has {', '.join(names)}")
    return {t.name: (given or {}).get(t.name, _width(t)) for t in schema.node_types}


def _width(owner: NodeType) -> int:
    return next((meta.num_columns for meta in owner.tensors if meta.name == "x"), 0)
