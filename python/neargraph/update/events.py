"""One event: a row of a file, converted to a call of a transaction.

Invariant: types, names and shapes of an event are checked when it is created. The transaction
checks whether its nodes and edges exist.
"""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from neargraph.exceptions import UnsupportedArgument, UpdateFailed
from neargraph.schema import EdgeType, NodeType, Schema, TensorMeta
from neargraph.update.rows import as_array, shown, to_rows
from neargraph.update.transaction import Transaction

# The fields that each operation requires; `update` also requires `id` or `edge_id`.
OPS = {
    "add_node": (),
    "delete_node": ("id",),
    "add_edge": ("source", "destination"),
    "delete_edge": ("source", "destination"),
    "update": (),
}
TYPES = ("node_type", "edge_type")
INTEGERS = ("id", "source", "destination", "edge_id", "time")
FIELDS = ("op", *TYPES, *INTEGERS, "weight")
_WITH_ROWS = ("add_node", "add_edge", "update")
# Longer texts are not names, and messages repeat them.
_NAME_MAX = 1000
_WEIGHT_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Event:
    """One change to `owner`, a node type or an edge type. Rows are numbered from 1."""

    row: int
    op: str
    owner: NodeType | EdgeType
    values: Mapping[str, Any]
    features: dict[str, Any] = field(default_factory=dict)

    def apply(self, tx: Transaction) -> None:
        """Applies the event. If it raises an error, the event had no effect."""
        owner, values = self.owner, self.values
        if isinstance(owner, EdgeType):
            self._apply_to_edges(tx, owner)
        elif self.op == "add_node":
            new = tx.add_node(owner.name, self.features)
            if values.get("id", new) != new:
                raise UpdateFailed(
                    f"the new node of type {owner.name!r} gets id {new}, not {values['id']}; "
                    "correct the file, or leave out the ids of new nodes"
                )
        elif self.op == "delete_node":
            tx.delete_node(owner.name, values["id"])
        else:
            for name, row in self.features.items():
                tx.update_features(owner.name, values["id"], name, row)

    def _apply_to_edges(self, tx: Transaction, owner: EdgeType) -> None:
        values = self.values
        if self.op == "update":
            for name, row in self.features.items():
                tx.update_edge_features(owner.triple, values["edge_id"], name, row)
            return
        ends = values["source"], values["destination"]
        if self.op == "delete_edge":
            tx.delete_edge(owner.triple, *ends, values.get("edge_id"))
            return
        time, weight = values.get("time"), values.get("weight")
        tx.add_edge(owner.triple, *ends, time=time, weight=weight, features=self.features)


def apply_all(tx: Transaction, events: Iterable[Event]) -> None:
    """Applies events in order. Consecutive new edges of one type are added together."""
    for (is_run, _), group in groupby(events, _run):
        run = list(group)
        if not is_run or len(run) == 1:
            for event in run:
                event.apply(tx)
            continue
        owner = run[0].owner
        assert isinstance(owner, EdgeType)
        columns = {name: [e.values[name] for e in run] for name in run[0].values}
        tx.add_edges(
            owner.triple,
            columns["source"],
            columns["destination"],
            times=columns.get("time"),
            weights=columns.get("weight"),
            features={name: np.stack([e.features[name] for e in run]) for name in run[0].features},
        )


def _run(event: Event) -> tuple[bool, Any]:
    if event.op != "add_edge":
        return False, None
    return True, (event.owner.index, tuple(event.values), tuple(event.features))


def make_event(schema: Schema, row: int, given: Mapping[str, Any], dense: bool) -> Event:
    """Returns the event of a row.

    Args:
        schema: The schema of the store.
        row: The number of the row, from 1.
        given: Values by column, without the columns that have no value.
        dense: Whether every row has a value in every column. Columns that the operation does not
            use are then ignored, and a negative id means no id.

    Raises:
        UnsupportedArgument, NameNotFound, RowWidth: The row is not a valid event of this store.
    """
    op = str(given.get("op", ""))
    if op not in OPS:
        what = f"op {shown(op)} is not valid" if op else "op is missing"
        raise UnsupportedArgument(f"{what}: expected {', '.join(OPS)}")
    edge_id = given.get("edge_id")
    has_edge_id = edge_id is not None and not (dense and _integer("edge_id", edge_id) < 0)
    of_edges = op.endswith("edge") or (op == "update" and has_edge_id)
    owner: NodeType | EdgeType
    if of_edges:
        owner = schema.edge_type(_type_name("edge_type", given.get("edge_type")))
    else:
        owner = schema.node_type(_type_name("node_type", given.get("node_type")))
    needed = OPS[op] if op != "update" else (("edge_id",) if of_edges else ("id",))
    values: dict[str, Any] = {
        name: _integer(name, given[name]) for name in INTEGERS if name in given
    }
    if "weight" in given:
        values["weight"] = _weight(given["weight"])
    if dense:
        values = _useful(op, owner, values)
    for name in needed:
        if name not in values:
            raise UnsupportedArgument(f"{op} requires a value in column {name!r}")
    return Event(row, op, owner, values, _features(op, owner, given, dense))


def _useful(op: str, owner: NodeType | EdgeType, values: dict[str, Any]) -> dict[str, Any]:
    if isinstance(owner, NodeType):
        kept = {"id"}
    else:
        is_new = op == "add_edge"
        inline = {
            "time": is_new and owner.has_time,
            "weight": is_new and owner.has_weight,
            "edge_id": op == "update" or (op == "delete_edge" and owner.has_edge_ids),
        }
        kept = {"source", "destination", *(name for name, has in inline.items() if has)}
    ids = ("id", "edge_id")
    return {k: v for k, v in values.items() if k in kept and not (k in ids and v < 0)}


def _features(
    op: str, owner: NodeType | EdgeType, given: Mapping[str, Any], dense: bool
) -> dict[str, Any]:
    metas = {meta.name: meta for meta in owner.tensors} if op in _WITH_ROWS else {}
    features = {}
    for name, value in given.items():
        if name in FIELDS:
            continue
        if name in metas:
            features[name] = _row(metas[name], value)
        elif not dense:
            of = owner.name if isinstance(owner, NodeType) else owner.triple
            raise UnsupportedArgument(
                f"{op} of {of!r} does not use column {name!r}; leave the field empty in this row"
            )
    if op == "update" and not features:
        raise UnsupportedArgument("update requires a value for at least one tensor")
    return features


def _row(meta: TensorMeta, value: Any) -> Any:
    """Converts a value to a row of a tensor. Flat lists and texts get its shape and dtype."""
    array = as_array(meta.name, value)
    if array.dtype.kind in "US":
        texts, is_integer = array, meta.numpy_dtype.kind in "iub" and not meta.is_number
        kind = np.int64 if is_integer else np.float64
        try:
            array = texts.astype(kind)
        except (ValueError, OverflowError) as error:
            raise UnsupportedArgument(f"tensor {meta.name!r}: {shown(str(error))[1:-1]}") from None
        overflown = np.isinf(array) & (np.char.find(np.char.lower(texts.astype(str)), "inf") < 0)
        if overflown.any():
            what = shown(str(texts[overflown].flat[0]))
            raise UnsupportedArgument(f"tensor {meta.name!r}: {what} does not fit in 64 bits")
        if meta.dtype == "bool":
            if not np.isin(array, (0, 1)).all():
                raise UnsupportedArgument(
                    f"tensor {meta.name!r} has dtype bool: expected 0 or 1, got {array}"
                )
            array = array.astype(np.bool_)
    if array.ndim <= 1 and array.size == int(np.prod(meta.shape)):
        array = array.reshape(meta.shape)
    to_rows(meta, array, None)
    return array


def _type_name(column: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UnsupportedArgument(f"{column} {shown(value)} is not valid: expected a name")
    if value is not None and len(value) > _NAME_MAX:
        raise UnsupportedArgument(
            f"{column} {shown(value)} is longer than {_NAME_MAX:,} characters"
        )
    return value


def _integer(name: str, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        what = f"{name} {shown(value)} is not a valid integer"
        raise UnsupportedArgument(what) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise UnsupportedArgument(f"{name} {shown(number)} does not fit in 64 bits")
    return number


def _weight(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        what = f"weight {shown(value)} is not a valid number"
        raise UnsupportedArgument(what) from None
    if not abs(number) <= _WEIGHT_MAX:
        raise UnsupportedArgument(
            f"weight {number} is not valid: expected a finite number up to {_WEIGHT_MAX:.2g}"
        )
    return number
