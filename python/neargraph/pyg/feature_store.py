"""Node and edge tensors of a store as a read-only `torch_geometric.data.FeatureStore`.

In a store with one node type and one edge type, the group name of node tensors is None, as in PyG
for homogeneous graphs. Edge tensors are read by their edge type and an index of edge ids.
"""

from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import TensorAttr

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.collate import as_tensor
from neargraph.reader import Reader, as_ids
from neargraph.schema import EdgeType, NodeType, Schema, TensorMeta
from neargraph.splits import SPLITS, split_columns, split_mask

_READ_ONLY = "PyG's interface to a store is read-only; change the store with store.write()"


class FeatureStore(PygFeatureStore):  # type: ignore[misc]
    """Rows of tensors by (group name, attribute name, index).

    ``x`` is float32 if it is stored as f16, bf16 or scaled int8. Masks (``train_mask``, ...) are
    also attributes. Several requests together read each distinct (tensor, index) once.

    Args:
        store: The open store or a snapshot.

    Example:
        >>> store.feature_store.get_tensor(group_name=None, attr_name="x", index=torch.arange(5))
    """

    def __init__(self, store: Reader) -> None:
        super().__init__()
        self.__dict__["_snapshot"] = store.snapshot()

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Returns all node tensors, and all edge tensors of a heterogeneous store.

        PyG reads every attribute of a homogeneous store by node ids, so edge tensors are left out
        there. `get_tensor` reads them by the edge type.
        """
        schema = self._snapshot.schema
        if schema.is_homogeneous:
            only = schema.node_types[0]
            return [TensorAttr(None, name) for name in _attribute_names(only)]
        of_nodes = [
            TensorAttr(owner.name, name)
            for owner in schema.node_types
            for name in _attribute_names(owner)
        ]
        owners = schema.edge_types
        return of_nodes + [TensorAttr(t.triple, meta.name) for t in owners for meta in t.tensors]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        return self._multi_get_tensor([attr])[0]

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Tensor | None]:
        # PyG passes one index object for all attributes of a type. It is converted once, and rows
        # that several attributes share (the three masks) are read once.
        indices: dict[int, Any] = {}
        rows: dict[tuple[str, int, str, int], Any] = {}
        out: list[Tensor | None] = []
        for attr in attrs:
            owner, index = self._owner(attr), attr.index
            if id(index) not in indices:
                indices[id(index)] = index_ids(index, _num_rows(owner))
            ids = indices[id(index)]
            values = []
            for meta in _stored(owner, attr.attr_name):
                key = (owner.kind, owner.index, meta.name, id(index))
                if key not in rows:
                    rows[key] = self._read(owner, meta, ids)
                values.append((rows[key], meta))
            out.append(_combine(owner, attr.attr_name, values))
        return out

    def _read(self, owner: NodeType | EdgeType, meta: TensorMeta, ids: Any) -> Any:
        core = self._snapshot.version
        if ids is None:
            return core.column(owner.kind, owner.index, meta.name)
        return core.rows(owner.kind, owner.index, meta.name, ids)

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        owner = self._owner(attr)
        metas = _stored(owner, attr.attr_name)
        if attr.attr_name == metas[0].name:
            return (metas[0].num_rows, *metas[0].shape)
        wide = metas[0].mask_width is not None or len(metas) > 1
        return (metas[0].num_rows, len(metas)) if wide else (metas[0].num_rows,)

    def _owner(self, attr: TensorAttr) -> NodeType | EdgeType:
        schema: Schema = self._snapshot.schema
        group = attr.group_name
        if group is None or (isinstance(group, str) and group in self._snapshot.node_types):
            return schema.node_type(group)
        return schema.edge_type(group)

    @property
    def y(self) -> NoReturn:
        """Not available. PyG's ImbalancedSampler reads this attribute.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            "a store does not hold y of all nodes in memory; give the labels themselves, as in "
            "ImbalancedSampler(torch.from_numpy(store.labels))"
        )

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise UnsupportedArgument(_READ_ONLY)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise UnsupportedArgument(_READ_ONLY)

    def __repr__(self) -> str:
        return f"FeatureStore({self._snapshot!r})"


def index_ids(index: Any, num_rows: int) -> Any:
    """Returns the row ids of a PyG index (tensor, array, slice, int, mask); None is all rows."""
    if index is None or (isinstance(index, slice) and index == slice(None)):
        return None
    if isinstance(index, slice):
        return np.arange(*index.indices(num_rows), dtype=np.int64)
    if isinstance(index, Tensor):
        index = index.detach().cpu().numpy()
    array = np.asarray(index)
    if array.dtype == np.bool_:
        return np.flatnonzero(array).astype(np.int64, copy=False)
    return as_ids(array)


def _num_rows(owner: NodeType | EdgeType) -> int:
    return owner.num_nodes if isinstance(owner, NodeType) else owner.num_edge_ids


def _attribute_names(owner: NodeType) -> list[str]:
    names = [t.name for t in owner.tensors if not t.is_split]
    return names + ([f"{split}_mask" for split in SPLITS] if split_columns(owner) else [])


def _stored(owner: NodeType | EdgeType, name: str) -> list[TensorMeta]:
    found = [t for t in owner.tensors if t.name == name]
    if not found and isinstance(owner, NodeType) and name.removesuffix("_mask") in SPLITS:
        columns = split_columns(owner)
        found = [t for column in columns for t in owner.tensors if t.name == column]
    if not found:
        of = owner.name if isinstance(owner, NodeType) else owner.triple
        known = sorted(t.name for t in owner.tensors)
        raise NameNotFound(f"type {of!r} has no tensor {name!r} (tensors: {known})")
    return found


def _combine(owner: NodeType | EdgeType, name: str, values: list[tuple[Any, TensorMeta]]) -> Tensor:
    array, meta = values[0]
    if meta.name == name or isinstance(owner, EdgeType):
        return as_tensor(array)
    columns = {meta.name: column for column, meta in values}
    mask = split_mask(owner, name.removesuffix("_mask"), columns.__getitem__)
    return torch.from_numpy(mask)
