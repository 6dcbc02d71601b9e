"""The graphs of the demo: what Debian's packages become, and what is planted."""

import os

import numpy as np
import pytest

from neargraph.datasets import (
    AptListsMissing,
    plan_debian,
    plan_generated,
    plan_planted,
    read_apt,
)
from neargraph.datasets.debian import Packages, parse_stanzas
from neargraph.demo.graph import recipe_of

LISTS = """\
Package: editor
Section: editors
Depends: libc (>= 2.3), gui-a | gui-b:any,
 late-one [amd64]
Recommends: mail-agent, nowhere
Conflicts: mail-agent
Provides: mail-agent
Description: Small fast editor
 the long text with many other words

Package: libc
Section: libs
Description-en: C library, small

Package: gui-a
Section: contrib/libs
Description-md5: 12345

Package: gui-b
Provides: mail-agent (= 3)
Description: small small GUI

Package: late-one
Section: non-free/editors

Package: editor
Version: 2
Section: games
"""


def packages():
    found = Packages()
    for stanza in parse_stanzas(LISTS.splitlines(keepends=True)):
        found.add(stanza)
    return found


def edges(plan, relation="relates"):
    names = list(packages().names)
    edge = next(edge for edge in plan.edges if edge.relation == relation)
    return sorted(
        (names[s], names[d])
        for chunk in edge.chunks()
        for s, d in zip(chunk.sources, chunk.destinations, strict=True)
    )


def test_edges_point_from_the_dependency_to_the_package_that_names_it():
    plan = plan_debian(packages(), min_count=1, typed=True)
    wanted = [(name, "editor") for name in ("gui-a", "gui-b", "late-one", "libc")]
    assert edges(plan, "depends") == wanted


def test_virtual_names_resolve_to_their_providers_and_unknown_ones_are_left_out():
    plan = plan_debian(packages(), min_count=1, typed=True)
    assert edges(plan, "recommends") == [("gui-b", "editor")]
    assert edges(plan, "conflicts") == [("gui-b", "editor")]
    assert any("1 dependencies that no package provides" in note for note in map(str, plan.notes))


def test_the_demo_graph_has_all_kinds_in_one_edge_type():
    plan = plan_debian(packages(), min_count=1)
    assert len(edges(plan)) == 6
    assert len(plan.edges) == 1


def test_features_are_the_words_of_the_one_line_descriptions():
    plan = plan_debian(packages(), min_count=2)
    x, y = (np.concatenate(list(t.chunks())) for t in plan.nodes[0].tensors)
    assert x.tolist() == [[1], [1], [0], [1], [0]]  # Only "small" is met twice.
    assert y.tolist() == [0, 1, 1, -1, 0]  # Editors, libs; the prefix of the component is dropped.


def test_a_machine_without_lists_is_told_the_command(tmp_path, monkeypatch):
    lists = tmp_path / "lists"
    lists.write_text(LISTS)
    with pytest.raises(AptListsMissing, match="apt-get update"):
        read_apt(("cat", str(lists)))
    with pytest.raises(AptListsMissing, match="is not installed"):
        read_apt(("no-such-apt-cache",))


def test_a_graph_that_is_not_here_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "apt-cache").write_text("#!/bin/sh\nexit 0\n")
    (fake / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.delenv("DEMO_APT_UPDATE", raising=False)
    monkeypatch.delenv("NEARGRAPH_DATA", raising=False)
    with pytest.raises(AptListsMissing, match=r"apt-get update.*DEMO_APT_UPDATE=1"):
        recipe_of("debian", 0, print)
    with pytest.raises(ValueError, match=r"NEARGRAPH_DATA is not set.*cora\.npz"):
        recipe_of("data", 0, print)


def test_data_is_a_set_of_the_folder_that_the_environment_names(tmp_path, monkeypatch):
    zeros = np.zeros(3, int)
    np.savez(
        tmp_path / "cora.npz", adj_indptr=np.zeros(3, int), adj_indices=zeros[:0], labels=zeros[:2]
    )
    monkeypatch.setenv("NEARGRAPH_DATA", str(tmp_path))
    recipe = recipe_of("data", 0, print)
    assert recipe.name == "cora"
    assert recipe.plan.origin.endswith("cora.npz")


def test_the_generated_graph_is_a_function_of_its_seed():
    def everything(seed):
        plan = plan_generated(700, 3000, 20, 5, seed)
        chunk = next(plan.edges[0].chunks())
        x = np.concatenate(list(plan.nodes[0].tensors[0].chunks()))
        return np.concatenate([chunk.sources, chunk.destinations, x.ravel()])

    assert np.array_equal(everything(1), everything(1))
    assert not np.array_equal(everything(1), everything(2))
    chunk = next(plan_generated(700, 3000, 20, 5).edges[0].chunks())
    assert (chunk.sources % 5 == chunk.destinations % 5).mean() > 0.85


def planted(seed=0, nodes=20_000, edges=100_000, width=8, classes=5):
    plan = plan_planted(nodes, edges, width, classes, seed)
    chunks = list(plan.edges[0].chunks())
    ends = np.concatenate([[chunk.sources, chunk.destinations] for chunk in chunks], axis=1)
    rows, labels = (np.concatenate(list(tensor.chunks())) for tensor in plan.nodes[0].tensors)
    return ends, rows, labels


def test_the_planted_graph_is_a_function_of_its_seed_and_not_of_the_threads(monkeypatch):
    first, other = planted(), planted(seed=1)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert all(map(np.array_equal, first, planted()))
    assert not any(map(np.array_equal, first, other))


def test_every_edge_and_row_of_a_planted_graph_comes_once(monkeypatch):
    # Pieces of 4 MiB and of 262,144 edges: several of each.
    ends, rows, labels = planted(nodes=20_000, edges=600_000, width=256)
    assert ends.shape == (2, 600_000)
    assert ends.min() >= 0
    assert ends.max() < 20_000
    assert rows.shape == (20_000, 256)
    assert len(np.unique(rows[:, 0])) > 19_000
    assert np.bincount(labels).tolist() == [4000] * 5


def test_planted_nodes_have_hubs_and_neighbours_of_their_class_and_say_it_in_their_rows():
    ends, rows, labels = planted(width=256)
    # 70 % of the edges are inside a class, and a fifth of the others by chance.
    assert abs((labels[ends[0]] == labels[ends[1]]).mean() - 0.76) < 0.01
    degrees = np.bincount(ends.ravel(), minlength=len(labels))
    assert degrees.max() > 100 * degrees.mean()
    means = np.stack([rows[labels == label].mean(axis=0) for label in range(5)])
    guess = (rows @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    assert 0.4 < (guess == labels).mean() < 0.95


def test_sizes_of_a_planted_graph_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        plan_planted(0)
    with pytest.raises(ValueError, match="num_classes at most num_nodes"):
        plan_planted(10, num_classes=11)
