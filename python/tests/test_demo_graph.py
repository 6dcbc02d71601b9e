"""The Debian graph: what becomes a node, an edge, a word, a class."""

import os

import numpy as np
import pytest

from neargraph.datasets import AptListsMissing, plan_debian, plan_generated, read_apt
from neargraph.datasets.debian import Packages, parse_stanzas
from neargraph.demo.source import choose_graph

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
    assert any("1 names that no package" in note for note in map(str, plan.notes))


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
    with pytest.raises(AptListsMissing, match="not found"):
        read_apt(("no-such-apt-cache",))


def test_without_lists_the_demo_takes_the_data_at_hand_or_a_generated_graph(tmp_path, monkeypatch):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "apt-cache").write_text("#!/bin/sh\nexit 0\n")
    (fake / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.delenv("DEMO_APT_UPDATE", raising=False)
    monkeypatch.delenv("NEARGRAPH_DATA", raising=False)
    said = []
    assert choose_graph("auto", said.append).format == "generated"
    assert "apt-get update" in said[0]
    assert "generated" in said[1]
    zeros = np.zeros(3, int)
    np.savez(
        tmp_path / "cora.npz", adj_indptr=np.zeros(3, int), adj_indices=zeros[:0], labels=zeros[:2]
    )
    monkeypatch.setenv("NEARGRAPH_DATA", str(tmp_path))
    assert choose_graph("auto", said.append).origin.endswith("cora.npz")


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
