"""Names of data sets and links where a path is needed: one line says what to download."""

import pytest
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.importers import plan_source

NAMES = {
    "ogbn-arxiv": ("NodePropPredDataset('ogbn-arxiv'", "dataset/ogbn_arxiv"),
    "ogbl_collab": ("LinkPropPredDataset('ogbl-collab'", "dataset/ogbl_collab"),
    "ogbg-molhiv": ("GraphPropPredDataset('ogbg-molhiv'", "dataset/ogbg_molhiv"),
    "ogbn-mag-seeds": ("BuiltinDataset('ogbn-mag-seeds'", "datasets/ogbn-mag-seeds"),
    "Cora": ("torch_geometric.datasets.Planetoid('data', 'Cora')", "raw/"),
    "Reddit": ("torch_geometric.datasets.Reddit('data')", "raw/"),
    "MUTAG": ("torch_geometric.datasets.TUDataset('data', 'MUTAG')", "raw/"),
    "igb-tiny": ("IGB-Datasets", "processed/"),
    "com-LiveJournal": ("snap.stanford.edu/data", "com-LiveJournal.txt.gz"),
    "https://snap.stanford.edu/data/wiki-Vote.txt.gz": ("is a link", "curl -LO"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_to_download_and_what_to_give(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ng.ImportFailed, match="neargraph does not download data") as caught:
        plan_source(name)
    message = str(caught.value)
    assert "\n" not in message
    assert all(words in message for words in NAMES[name])
    done = CliRunner().invoke(app, ["import", name, "--out", "g.ng"])
    assert isinstance(done.exception, ng.ImportFailed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["none.txt", "data/ogbn-arxiv/edges.csv", "ogbx-arxiv"])
def test_any_other_path_is_only_missing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ng.ImportFailed, match="no such file or folder; check the path"):
        plan_source(name)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/data.zip\n",
        "[InternetShortcut]\nURL=https://example.org/data.zip\n",
        "# get it from\nhttps://example.org/data.zip\nhttps://example.org/more.zip",
    ],
)
def test_a_file_or_folder_of_links_says_what_to_download(text, tmp_path):
    (tmp_path / "set").mkdir()
    file = tmp_path / "set/data.url"
    file.write_text(text)
    for given in (file, tmp_path / "set"):
        with pytest.raises(ng.ImportFailed, match=r"holds only a link.*example\.org/data\.zip"):
            plan_source(given)


def test_data_beside_a_link_is_no_folder_of_links(tmp_path):
    (tmp_path / "readme.txt").write_text("https://example.org/data.zip")
    (tmp_path / "edges.dat").write_text("0 1\n")
    with pytest.raises(ng.ImportFailed, match="not a folder of a known layout"):
        plan_source(tmp_path)


def test_an_edge_list_with_a_link_in_a_comment_is_an_edge_list(tmp_path):
    (tmp_path / "e.txt").write_text("# https://snap.stanford.edu/data\n0\t1\n1\t2\n")
    assert plan_source(tmp_path / "e.txt").format.startswith("text")
