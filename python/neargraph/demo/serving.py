"""Serves the trained model and changes the graph while it is served.

The demo queries a test node that the model classifies wrongly. Then one commit adds a neighbour of
the node's class, and the demo queries the node again. The invariant: if the answers do not show the
update, the demo fails.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import neargraph as ng
from neargraph.exceptions import NeargraphError

_CANDIDATES = 256
_FEW_NEIGHBORS = 4
_OF_CLASS = 64
_MODEL = "sage"


@dataclass(frozen=True, slots=True)
class Choice:
    """The queried node, and the neighbour to add."""

    node: int
    label: int
    row: NDArray[np.float32]
    friends: list[int]


def serve_model(
    store: Path, model: Path, memory: int
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Serves, queries, updates and queries again. Returns the figures and a summary in lines."""
    with (
        ng.serve(store.parent, memory=memory) as server,
        ng.Client(server.address) as client,
    ):
        client.register_model(_MODEL, model, graph=store.stem, prepare="hot")
        with ng.open(store, memory=memory) as opened:
            choice = _choose(opened.snapshot(), client, store.stem)
        before = _asked(client, store.stem, choice.node)
        start = time.perf_counter()
        updates = ng.Updates()
        new = updates.add_node({"x": choice.row, "y": np.int64(choice.label)})
        for node in (choice.node, *choice.friends):
            updates.add_edge(new, node)
        applied = client.apply(updates, graph=store.stem)
        seconds = time.perf_counter() - start
        added = applied["results"][0]["node"]
        assert added is not None
        after, of_new = (_asked(client, store.stem, node) for node in (choice.node, added))
    figures = {
        "address": server.address,
        "node": choice.node,
        "label": choice.label,
        "new_node": added,
        "new_edges": 1 + len(choice.friends),
        "commit_seconds": seconds,
        "before": before,
        "after": after,
        "new": of_new,
    }
    if added not in after["neighbors"] or after["commit"] <= before["commit"]:
        raise NeargraphError(f"the served answers do not show the update: {figures}")
    return figures, _lines(figures, store, model)


def _asked(client: ng.Client, graph: str, node: int) -> dict[str, Any]:
    """The answer of the model for a node, and the node's neighbours."""
    start = time.perf_counter()
    answer = client.answer(_MODEL, [node], graph=graph)
    seconds = time.perf_counter() - start
    shares = _softmax(answer.rows)[0]
    return {
        "class": int(shares.argmax()),
        "probability": float(shares.max()),
        "probabilities": [round(float(share), 6) for share in shares],
        "neighbors": client.neighbors([node], graph=graph).lists()[0].tolist(),
        "commit": answer.snapshot.commit,
        "seconds": seconds,
    }


def _choose(snapshot: ng.Snapshot, client: ng.Client, graph: str) -> Choice:
    """Chooses a misclassified test node with few neighbours, and a typical row of its class."""
    test = snapshot.split("test")
    degrees = snapshot.degrees(None, test)
    few = test[(degrees > 0) & (degrees <= _FEW_NEIGHBORS)]
    candidates = (few if len(few) else test)[:_CANDIDATES]
    shares = _softmax(client.run(_MODEL, candidates, graph=graph))
    labels = _labels(snapshot, candidates)
    own = shares[np.arange(len(shares)), np.maximum(labels, 0)]
    # The wrong answer with the smallest margin, or else the least certain right answer.
    is_wrong = shares.argmax(axis=1) != labels
    order = np.where(is_wrong, -1.0 - own, own)
    place = int(np.where(labels >= 0, order, 2.0).argmin())
    node, label = int(candidates[place]), int(labels[place])
    train = snapshot.split("train")[: 64 * _OF_CLASS]
    alike = train[_labels(snapshot, train) == label][:_OF_CLASS]
    # A class of a real graph may have no training node in the sample.
    alike = alike if len(alike) else np.array([node])
    row = np.asarray(snapshot.features(None, alike, "x"), dtype=np.float32).mean(axis=0)
    return Choice(node, label, row, [int(friend) for friend in alike[:2] if friend != node])


def _labels(snapshot: ng.Snapshot, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(snapshot.features(None, nodes, "y"), dtype=np.int64).reshape(-1)


def _softmax(rows: NDArray[Any]) -> NDArray[np.float64]:
    shares = np.exp(rows - rows.max(axis=1, keepdims=True).astype(np.float64))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _lines(figures: dict[str, Any], store: Path, model: Path) -> list[tuple[str, str]]:
    before, after, new = figures["before"], figures["after"], figures["new"]
    node, added, label = figures["node"], figures["new_node"], figures["label"]

    def says(answer: dict[str, Any]) -> str:
        verdict = "right" if answer["class"] == label else "wrong"
        return f"class {answer['class']} ({100 * answer['probability']:.0f} %), {verdict}"

    others = figures["new_edges"] - 1
    return [
        (
            "serve",
            f"The server runs {model.name} on {store.name} at {figures['address']}, without torch.",
        ),
        ("ask", f"Node {node:,} is of class {label}. The answer: {says(before)}."),
        (
            "update",
            f"One commit adds node {added:,}, typical of class {label}, with edges to node {node:,}"
            f" and {others} others. It is durable after {1e3 * figures['commit_seconds']:.0f} ms.",
        ),
        (
            "ask",
            f"Node {node:,} again: {says(after)}. It has {len(after['neighbors'])} neighbours, "
            f"node {added:,} among them; it had {len(before['neighbors'])}.",
        ),
        ("ask", f"Node {added:,}, the new one: {says(new)}."),
    ]
