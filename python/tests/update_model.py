"""A graph in plain dictionaries and lists that is changed as a store is, and stores to compare."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import neargraph as ng
from neargraph import _core

Triple = tuple[str, str, str]
CITES: Triple = ("paper", "cites", "paper")
KNOWS: Triple = ("author", "knows", "author")
WRITES: Triple = ("author", "writes", "paper")
TRIPLES = (CITES, KNOWS, WRITES)


@dataclass(frozen=True)
class Kind:
    """What an edge type keeps."""

    edge_ids: bool = False
    time: bool = False
    weight: bool = False
    unique: bool = False
    undirected: bool = False
    reverse: bool = False


KINDS = {
    CITES: Kind(edge_ids=True, reverse=True),
    KNOWS: Kind(weight=True, unique=True, undirected=True),
    WRITES: Kind(edge_ids=True, time=True, reverse=True),
}


@dataclass(frozen=True)
class Entry:
    """One place of a neighbour list."""

    source: int
    edge_id: int | None = None
    time: int | None = None
    weight: float | None = None


def reverse_of(triple: Triple) -> Triple | None:
    """The type that keeps the reverse: itself where edges have no direction."""
    kind = KINDS[triple]
    if kind.undirected:
        return triple
    return (triple[2], f"rev_{triple[1]}", triple[0]) if kind.reverse else None


@dataclass
class Model:
    """Lists by (edge type, destination), rows by node id; None stands for a deleted node."""

    nodes: dict[str, list[dict[str, Any] | None]] = field(default_factory=dict)
    lists: dict[Triple, dict[int, list[Entry]]] = field(default_factory=dict)
    attrs: dict[Triple, list[Any]] = field(default_factory=dict)

    def live(self, node_type: str) -> list[int]:
        return [i for i, row in enumerate(self.nodes[node_type]) if row is not None]

    def list_of(self, triple: Triple, node: int) -> list[Entry]:
        return self.lists.setdefault(triple, {}).setdefault(node, [])

    def add_node(self, node_type: str, x: Any, y: int = 0) -> int:
        self.nodes[node_type].append({"x": x, "y": y})
        return len(self.nodes[node_type]) - 1

    def add_edge(
        self, triple: Triple, source: int, destination: int, attr: Any = None, **data: Any
    ) -> int | None:
        kind, reverse = KINDS[triple], reverse_of(triple)
        mirrored = reverse is not None and not (reverse == triple and source == destination)
        ends = [(triple, destination, source)]
        ends += [(reverse, source, destination)] if mirrored else []
        old = [e for e in self.list_of(triple, destination) if e.source == source]
        if kind.unique and old:
            for owner, node, other in ends:
                found = self.list_of(owner, node)
                place = next(i for i, e in enumerate(found) if e.source == other)
                found[place] = Entry(other, old[0].edge_id, **data)
            return old[0].edge_id
        edge_id = None
        if kind.edge_ids:
            edge_id = len(self.attrs.setdefault(triple, []))
            self.attrs[triple].append(attr)
        for owner, node, other in ends:
            entry, found = Entry(other, edge_id, **data), self.list_of(owner, node)
            place = len(found)
            while kind.time and place and found[place - 1].time > entry.time:
                place -= 1
            found.insert(place, entry)
        return edge_id

    def delete_edge(
        self, triple: Triple, source: int, destination: int, edge_id: int | None = None
    ) -> int:
        removed = self._remove(triple, destination, source, edge_id)
        reverse = reverse_of(triple)
        if reverse is not None and not (reverse == triple and source == destination):
            self._remove(reverse, source, destination, edge_id)
        return removed

    def _remove(self, triple: Triple, node: int, source: int, edge_id: int | None = None) -> int:
        before = self.list_of(triple, node)
        gone = [e for e in before if e.source == source and edge_id in (None, e.edge_id)]
        self.lists[triple][node] = [e for e in before if e not in gone]
        return len(before) - len(self.lists[triple][node])

    def delete_node(self, node_type: str, node: int) -> int:
        removed = 0
        pairs = [(t, reverse_of(t)) for t in TRIPLES]
        for owner, reverse in pairs + [(r, t) for t, r in pairs if r not in (None, t)]:
            if owner[2] != node_type:
                continue
            entries = self.lists.get(owner, {}).pop(node, [])
            removed += len(entries)
            for other in {e.source for e in entries} - ({node} if owner == reverse else set()):
                self._remove(reverse, other, node)
        self.nodes[node_type][node] = None
        return removed


def make_store(path: Any, papers: int = 12, authors: int = 6, reuse_ids: bool = False) -> str:
    """A store without edges, of the types above; papers have x [3] and y, authors have x [3]."""
    out = _core.Importer(str(path), reuse_ids=reuse_ids)
    kinds = {"paper": out.node_type("paper", papers), "author": out.node_type("author", authors)}
    for triple, kind in KINDS.items():
        kinds[triple] = out.edge_type(*triple, **vars(kind))
    out.build_topology()
    for name, count in (("paper", papers), ("author", authors)):
        tensor = out.begin_tensor("node", kinds[name], "x", "f32", [3])
        out.push_rows(tensor, np.zeros((count, 3), np.float32))
    for name, dtype, zeros in (("y", "i64", np.int64), ("split_0", "u8", np.uint8)):
        tensor = out.begin_tensor("node", kinds["paper"], name, dtype, [])
        out.push_rows(tensor, np.zeros(papers, zeros))
    tensor = out.begin_tensor("edge", kinds[CITES], "edge_attr", "f32", [2])
    out.push_rows(tensor, np.zeros((0, 2), np.float32))
    out.finish()
    return str(path)


def make_model(papers: int = 12, authors: int = 6) -> Model:
    """What `make_store` gives."""
    zeros = {"paper": papers, "author": authors}
    row = {"x": np.zeros(3, np.float32), "y": 0}
    return Model({name: [dict(row) for _ in range(n)] for name, n in zeros.items()})


def check(model: Model, snap: "ng.Snapshot") -> None:
    """Compares everything that a snapshot can be asked for with the model."""
    for name, rows in model.nodes.items():
        owner = snap.schema.node_type(name)
        live = model.live(name)
        assert (owner.num_nodes, owner.num_nodes_live) == (len(rows), len(live))
        assert snap.dead_nodes(name).tolist() == sorted(set(range(len(rows))) - set(live))
        wanted = np.array([rows[i]["x"] for i in live], np.float32).reshape(-1, 3)
        assert np.array_equal(snap.features(name, live), wanted)
    papers = model.live("paper")
    assert snap.features("paper", papers, "y").tolist() == [
        model.nodes["paper"][i]["y"] for i in papers
    ]
    for triple in [*TRIPLES, reverse_of(CITES), reverse_of(WRITES)]:
        _check_lists(model, snap, triple)
    rows = model.attrs.get(CITES, [])
    assert snap.schema.edge_type(CITES).num_edge_ids == len(rows)
    got = snap.edge_features(CITES, np.arange(len(rows)))
    assert np.array_equal(got, np.array(rows, np.float32).reshape(-1, 2))


def _check_lists(model: Model, snap: "ng.Snapshot", triple: Triple) -> None:
    ids = np.arange(len(model.nodes[triple[2]]))
    wanted = [model.lists.get(triple, {}).get(int(i), []) for i in ids]
    got = snap.neighbors(triple, ids)
    assert snap.degrees(triple, ids).tolist() == [len(entries) for entries in wanted]
    assert snap.schema.edge_type(triple).num_edges == sum(map(len, wanted))
    flat = [entry for entries in wanted for entry in entries]
    assert got.indices.tolist() == [e.source for e in flat], triple
    for name, column in (
        ("edge_id", got.edge_ids),
        ("time", got.times),
        ("weight", got.weights),
    ):
        if column is not None:
            assert column.tolist() == [getattr(e, name) for e in flat], (triple, name)
