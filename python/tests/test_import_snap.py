"""SNAP's files: comments, tabs, gzip, ids with gaps, and lists of communities beside them."""

import gzip

import numpy as np
import pytest

import neargraph as ng
from neargraph.importers import detect_format, import_graph, plan_source

HEAD = "# Undirected graph: com-tiny.ungraph.txt\n# Nodes: 4 Edges: 3\n# FromNodeId\tToNodeId\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("pack", [lambda raw: raw, gzip.compress])
def test_comments_tabs_and_gzip_are_an_edge_list(pack, end, tmp_path):
    text = (HEAD + "1\t2\n1\t9\n2\t9\n").replace("\n", end)
    file = tmp_path / "com-tiny.ungraph.txt.gz"
    file.write_bytes(pack(text.encode()))
    assert detect_format(file) == "text"
    import_graph(file, tmp_path / "g.ng", undirected=True, relabel=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.names(np.arange(3)) == ["1", "2", "9"]
        found = store.snapshot().neighbors(None, [0, 1, 2])
        assert found.indptr.tolist() == [0, 2, 4, 6]
        assert found.indices.tolist() == [1, 2, 0, 2, 0, 1]


def test_a_list_of_communities_is_not_taken_for_edges(tmp_path):
    for name in ("com-tiny.all.cmty.txt", "com-tiny.top5000.cmty.txt.gz"):
        (tmp_path / name).write_text("1\t2\t9\n2\t9\n1\t2\t9\t4\t5\t6\n")
        with pytest.raises(ng.ImportFailed, match=r"communities.*give the \.ungraph\.txt file"):
            plan_source(tmp_path / name)


def test_the_embedded_sets_of_musae_are_one_npz(tmp_path):
    raw = tmp_path / "facebook/raw"
    raw.mkdir(parents=True)
    x, y = np.eye(5, 3, dtype=np.float32), np.arange(5) % 2
    ends = np.array([[0, 1], [1, 2], [4, 3]])
    np.savez(raw / "facebook.npz", edges=ends, features=x, target=y)
    import_graph(tmp_path / "facebook", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert np.array_equal(store.column("x"), x)
        assert np.array_equal(store.labels, y)
        assert store.snapshot().neighbors(None, [1, 2, 3]).indices.tolist() == [0, 1, 4]
