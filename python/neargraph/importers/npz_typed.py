"""The typed .npz layout: `num_nodes_T`, `A__relation__B` [2, E], and node columns `T_name`.

Columns of edges are `A__relation__B__NAME` [E, ...]: `time`, `weight` and `edge_id` are inline
columns, others edge tensors, whose rows stand beside their edge.
A bag of words is `bow_indptr` + `bow_indices` + `bow_vocab`; it belongs to the node type whose
count its pointers match and becomes the f32 tensor `x`. The first integer column with a
`NAME_names` table becomes `y` (classes); other numeric columns keep their name. Text columns
`T_names` are left out: string ids come with text imports.
"""

from collections.abc import Iterator
from dataclasses import replace

from .arrays import NpzFile
from .check import fail, fail_row, whole_times
from .csr import csr_tensor, member_tensor
from .notes import left_out
from .npz_pairs import pair_chunks
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan


def plan_typed(npz: NpzFile) -> GraphPlan:
    """The plan of a typed .npz file."""
    nodes = _node_types(npz)
    by_name = {node.name: node for node in nodes}
    edges = []
    for member in npz.names:
        if member.count("__") != 2:
            continue
        source, relation, destination = member.split("__")
        for name in (source, destination):
            if name not in by_name:
                fail(
                    npz.where(member),
                    f"the file has no member num_nodes_{name} for node type {name!r}",
                    "add this member",
                )
        edges.append(_edge_type(npz, member, by_name[source], by_name[destination], relation))
    used = {member for member in npz.names if member.count("__") == 2}
    used |= {f"{member}__{name}" for member in used for name in _edge_columns(npz, member)}
    for node in nodes:
        used |= _members(npz, node)
    rest = [name for name in npz.names if name not in used]
    notes = left_out(
        "members-unused", rest, str(npz.path), "members of text, or of no node type, are not read"
    )
    return GraphPlan(str(npz.path), "npz typed", nodes, edges, notes)


def _node_types(npz: NpzFile) -> list[NodePlan]:
    nodes = []
    for member in npz.names:
        if not member.startswith("num_nodes_"):
            continue
        count = npz.small(member)
        if count.shape != () or count.dtype.kind not in "iu" or int(count) < 0:
            fail(npz.where(member), "is not a node count", "store one non-negative integer")
        nodes.append(NodePlan(member.removeprefix("num_nodes_"), int(count)))
    if not nodes:
        fail(npz.path, "has no member num_nodes_TYPE", "add one for each node type")
    for node in nodes:
        _add_columns(npz, node)
    return nodes


def _members(npz: NpzFile, node: NodePlan) -> set[str]:
    """The members that a node type is made of."""
    names = {f"num_nodes_{node.name}"}
    if any(tensor.csr is not None for tensor in node.tensors):
        names |= {"bow_indptr", "bow_indices", "bow_vocab"}
    for member in _columns(npz, node):
        names |= {member, member.removeprefix(node.name + "_") + "_names"}
    return names


def _columns(npz: NpzFile, node: NodePlan) -> list[str]:
    prefix = node.name + "_"
    return [
        member
        for member in npz.names
        if member.startswith(prefix) and "__" not in member and npz.dtype(member).kind not in "US"
    ]


def _add_columns(npz: NpzFile, node: NodePlan) -> None:
    count = node.num_nodes or 0
    if "bow_indptr" in npz and npz.shape("bow_indptr") == (count + 1,):
        width = npz.length("bow_vocab")
        node.tensors.append(csr_tensor(npz, "bow_indptr", "bow_indices", None, width, count))
    has_label = False
    for member in _columns(npz, node):
        name = member.removeprefix(node.name + "_")
        classes = f"{name}_names" in npz
        if classes and not has_label:
            has_label = True
            labels = member_tensor(npz, member, "y", count, as_labels=True)
            if labels.dtype == "i64":
                labels.class_names = npz.texts(f"{name}_names") or None
            node.tensors.append(labels)
        else:
            node.tensors.append(member_tensor(npz, member, name, count))


def _edge_columns(npz: NpzFile, member: str) -> list[str]:
    """The names of the columns of an edge type."""
    prefix = f"{member}__"
    return [name.removeprefix(prefix) for name in npz.names if name.startswith(prefix)]


def _edge_type(
    npz: NpzFile, member: str, source: NodePlan, destination: NodePlan, relation: str
) -> EdgePlan:
    columns = _edge_columns(npz, member)
    inline = [name for name in ("time", "weight", "edge_id") if name in columns]
    count = npz.length(member, 1)
    for name in inline:
        where = f"{member}__{name}"
        if npz.shape(where) != (count,) or npz.dtype(where).kind not in "iuf":
            fail(npz.where(where), "does not have one number for each edge", "store numbers [E]")

    def chunks() -> Iterator[EdgeChunk]:
        streams = {name: npz.open(f"{member}__{name}") for name in inline}
        row = 0
        for chunk in pair_chunks(npz, member, source.num_nodes, destination.num_nodes):
            found = {name: stream.rows(len(chunk.sources)) for name, stream in streams.items()}
            if "time" in found:
                found["time"] = whole_times(found["time"], npz.where(f"{member}__time"), row)
            ids = found.get("edge_id")
            if ids is not None:
                _check_ids(ids, npz.where(f"{member}__edge_id"), row, count)
            yield replace(chunk, edge_ids=ids, times=found.get("time"), weights=found.get("weight"))
            row += len(chunk.sources)

    tensors = [
        member_tensor(npz, f"{member}__{name}", name, count)
        for name in columns
        if name not in inline
    ]
    return EdgePlan(
        source.name,
        relation,
        destination.name,
        chunks,
        num_edges=count,
        has_time="time" in inline,
        has_weight="weight" in inline,
        has_edge_ids=bool(tensors) or "edge_id" in inline,
        tensors=tensors,
    )


def _check_ids(ids: Array, where: str, first: int, count: int) -> None:
    """Refuses edge ids that are not the numbers of rows."""
    if ids.dtype.kind not in "iu":
        fail(where, f"edge ids have dtype {ids.dtype}", "store them as integers")
    outside = (ids < 0) | (ids >= count)
    if outside.any():
        has = f"edge id {{}}, but there are {count} edges (0 to {count - 1})"
        fail_row(outside, ids, where, first, has, "number the edges by row, from 0")
