"""The raw Planetoid release: same graph as PyG reads, and never a call that a pickle asks for."""

import pickle
import shutil

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store, data

import neargraph as ng
from neargraph.importers import import_graph, plan_source


def pyg_planetoid(name, root):
    planetoid = pytest.importorskip("torch_geometric.datasets").Planetoid
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    for file in data("planetoid_raw").glob(f"ind.{name.lower()}.*"):
        shutil.copy(file, raw)
    return planetoid(str(root), name)[0]


@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_the_store_holds_what_pyg_reads_from_the_same_files(name, tmp_path):
    wanted = pyg_planetoid(name, tmp_path)
    source = data("planetoid_raw", f"ind.{name.lower()}.graph")
    import_graph(source, tmp_path / "g.ng", unique=True, self_loops="remove")
    sources, destinations = wanted.edge_index.numpy()
    split = np.zeros(wanted.num_nodes, dtype=np.uint8)
    for code, part in enumerate(("train", "val", "test"), start=1):
        split[wanted[f"{part}_mask"].numpy()] = code
    tensors = {"x": wanted.x.numpy(), "y": wanted.y.numpy(), "split_0": split}
    edges = RawEdges(sources, destinations)
    check_store(
        tmp_path / "g.ng", Raw({"node": wanted.num_nodes}, {"node": tensors}, {PLAIN: edges})
    )


def test_without_options_the_lists_are_those_of_the_file(tmp_path):
    source = data("planetoid_raw", "ind.cora.graph")
    import_graph(source, tmp_path / "g.ng")
    with source.open("rb") as stream:
        graph = pickle.load(stream, encoding="latin1")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.num_edges == sum(len(targets) for targets in graph.values())


class Payload:
    def __reduce__(self):
        return (print, ("a pickle called a function",))


@pytest.mark.parametrize("part", ["graph", "tx", "allx", "y"])
def test_a_hostile_pickle_is_refused_by_name_and_not_run(part, tmp_path, capsys):
    for file in data("planetoid_raw").glob("ind.cora.*"):
        shutil.copy(file, tmp_path)
    target = tmp_path / f"ind.cora.{part}"
    target.chmod(0o644)
    target.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(ng.ImportFailed, match=f"ind.cora.{part}"):
        import_graph(tmp_path / "ind.cora.x", tmp_path / "g.ng")
    assert "a pickle called a function" not in capsys.readouterr().out
    assert not (tmp_path / "g.ng").exists()


def test_a_missing_file_of_the_set_is_named(tmp_path):
    for file in data("planetoid_raw").glob("ind.pubmed.*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(ng.ImportFailed, match=r"ind\.pubmed\.allx: no such file"):
        plan_source(tmp_path)
