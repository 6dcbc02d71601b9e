"""Properties that an export to tables or arrays loses: notes, and import options that restore some.

What must not live here: how anything is written. The invariant: each property of a store that an
import of the output does not restore has a note here.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from neargraph.importers.notes import Note
from neargraph.schema import EdgeType, NodeType
from neargraph.snapshot import Snapshot


@dataclass
class Leftovers:
    """The notes of one export, and the import options that restore the store."""

    snap: Snapshot
    notes: list[Note] = field(default_factory=list)
    options: dict[str, str | None] = field(default_factory=dict)

    def note(self, code: str, count: int, message: str) -> None:
        """Adds a note about the store."""
        self.notes.append(Note(code, count, self.snap.path, message))

    def needs(self, option: str, value: str | None = None) -> None:
        """Adds an option that an import needs."""
        self.options[option] = value

    @property
    def import_options(self) -> list[str]:
        """The options as typed on the command line."""
        return [word for pair in self.options.items() for word in pair if word is not None]

    def report(self) -> list[dict[str, Any]]:
        """The notes as plain data."""
        return [asdict(note) for note in self.notes]

    def of_nodes(self, node: NodeType) -> None:
        """Adds notes about a node type: deleted nodes, and dtypes that the output lacks."""
        if dead := node.num_nodes - node.num_nodes_live:
            message = (
                f"{dead} deleted nodes of type {node.name!r} are written as nodes without edges"
            )
            self.note("nodes-deleted", dead, message)
        for tensor in node.tensors:
            owner = f"tensor {tensor.name!r} of node type {node.name!r}"
            if tensor.sparse:
                message = f"{owner} is sparse, but is written with its zeros"
                self.note("zeros-written", node.num_nodes, message)
            if tensor.scaled or tensor.dtype == "bf16":
                message = f"{owner} is written as f32, not {tensor.dtype}"
                self.note("widened", node.num_nodes, message)

    def of_edges(self, edge: EdgeType) -> None:
        """Adds notes about the tensors of an edge type."""
        for tensor in edge.tensors:
            if tensor.dtype == "bf16":
                owner = f"tensor {tensor.name!r} of edge type {_named(edge)}"
                message = f"{owner} is written as f32, not bf16"
                self.note("widened", edge.num_edge_ids, message)

    def of_store(self, once: bool) -> None:
        """Adds notes and options for the store. With ``once``, an undirected edge is one row."""
        schema = self.snap.schema
        if schema.raw["reuse_ids"]:
            self.needs("--reuse-ids")
        self._narrow_x(schema.node_types)
        raw = {edge: schema.raw["edge_types"][edge.index] for edge in schema.edge_types}
        undirected = [edge for edge in raw if edge.undirected]
        if once and undirected:
            self.needs("--undirected")
        else:
            self._lost("undirected", undirected, "each edge is written in both directions")
        unique = [edge for edge, entry in raw.items() if entry.get("unique")]
        self._of_all("unique", unique, list(raw))
        # An undirected type is its own reverse.
        directed = [edge for edge in raw if not edge.undirected]
        kept = [edge for edge in directed if raw[edge].get("reverse") is not None]
        self._of_all("reverse", kept, directed)

    def keep_ids(self) -> None:
        """Adds the option for edge ids, if the output does not mark which types have them."""
        edges = list(self.snap.schema.edge_types)
        lacking = [edge for edge in edges if edge.has_edge_ids and not edge.tensors]
        if lacking and all(edge.has_edge_ids for edge in edges):
            self.needs("--edge-ids")
        elif lacking:
            self._lost(
                "edge-ids", lacking, "`neargraph import --edge-ids` would apply to all edge types"
            )

    def _narrow_x(self, nodes: tuple[NodeType, ...]) -> None:
        """Adds the option for the dtype of x, which an import applies to all node types."""
        kinds = {t.dtype for node in nodes for t in node.tensors if t.name == "x"}
        (kind,) = kinds if len(kinds) == 1 else [""]
        if kind in ("bf16", "i8"):
            self.needs("--x-dtype", kind)

    def _of_all(self, flag: str, having: list[EdgeType], among: list[EdgeType]) -> None:
        """Adds an import option, which applies to all edge types, if all of them have the flag."""
        if having and len(having) == len(among):
            self.needs(f"--{flag}")
        else:
            self._lost(flag, having, f"`neargraph import --{flag}` would apply to all edge types")

    def _lost(self, flag: str, edges: list[EdgeType], why: str) -> None:
        for edge in edges:
            message = f"edge type {_named(edge)} loses its property {flag!r}, because {why}"
            self.note(f"{flag}-dropped", edge.num_edges, message)


def _named(edge: EdgeType) -> str:
    return "-".join(edge.triple)


def all_undirected(snap: Snapshot) -> bool:
    """Whether every edge type is undirected, so that one import option covers all."""
    types = snap.schema.edge_types
    return bool(types) and all(edge.undirected for edge in types)
