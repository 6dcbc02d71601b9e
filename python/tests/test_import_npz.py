"""The npz layouts: adj/attr matrices, heterophilous sets and plain CSR, against the raw arrays."""

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store, csr_dense, csr_rows, data, symmetric

from neargraph.importers import import_graph


def raw_matrices(npz) -> Raw:
    edges = RawEdges(csr_rows(npz["adj_indptr"]), npz["adj_indices"])
    if not (npz["adj_data"] == 1).all():
        edges.weights = npz["adj_data"]
    tensors = {"y": npz["labels"].astype(np.int64)}
    if "attr_indptr" in npz:
        tensors["x"] = csr_dense(
            npz["attr_indptr"], npz["attr_indices"], npz["attr_data"], npz["attr_shape"][1]
        )
    return Raw({"node": len(npz["adj_indptr"]) - 1}, {"node": tensors}, {PLAIN: edges})


@pytest.mark.parametrize(
    "name",
    ["cora", "citeseer", "cora_ml", "polblogs", "amazon_electronics_photo", "ms_academic_cs"],
)
def test_an_adjacency_npz_is_stored_as_its_arrays_say(name, tmp_path):
    source = data("npz_graphs", f"{name}.npz")
    import_graph(source, tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw_matrices(np.load(source)))


def test_the_densest_of_the_sets_is_stored_as_its_arrays_say(tmp_path):
    source = data("npz_graphs", "ms_academic_phy.npz")
    import_graph(source, tmp_path / "g.ng", memory="256MB")
    npz = np.load(source)
    raw = raw_matrices({key: npz[key] for key in npz.files if not key.startswith("attr_")})
    # The features are 1.2 GB dense; rows are compared in the coauthor CS test.
    raw.tensors["node"]["x"] = LazyRows(npz)
    check_store(tmp_path / "g.ng", raw)


class LazyRows:
    """Rows of a sparse matrix that are made dense when they are asked for."""

    dtype = np.dtype(np.float32)

    def __init__(self, npz):
        self.parts = [npz[f"attr_{name}"] for name in ("indptr", "indices", "data", "shape")]

    def __getitem__(self, ids):
        indptr, indices, values, shape = self.parts
        out = np.zeros((len(ids), shape[1]), dtype=np.float32)
        for at, row in enumerate(ids):
            span = slice(indptr[row], indptr[row + 1])
            out[at, indices[span]] = values[span]
        return out


def test_an_undirected_import_has_both_directions_once(tmp_path):
    source = data("npz_graphs", "cora.npz")
    import_graph(source, tmp_path / "g.ng", undirected=True)
    raw = raw_matrices(np.load(source))
    raw.edges[PLAIN] = symmetric(raw.edges[PLAIN])
    check_store(tmp_path / "g.ng", raw)


@pytest.mark.parametrize("name", ["actor", "minesweeper"])
def test_a_heterophilous_set_keeps_its_ten_splits(name, tmp_path):
    source = data("heterophilous", f"{name}.npz")
    import_graph(source, tmp_path / "g.ng")
    npz = np.load(source)
    tensors = {"x": npz["node_features"], "y": npz["node_labels"]}
    for k in range(len(npz["train_masks"])):
        codes = np.zeros(len(npz["node_labels"]), dtype=np.uint8)
        for code, part in enumerate(("train", "val", "test"), start=1):
            codes[npz[f"{part}_masks"][k]] = code
        tensors[f"split_{k}"] = codes
    edges = RawEdges(npz["edges"][:, 0], npz["edges"][:, 1])
    raw = Raw({"node": len(npz["node_labels"])}, {"node": tensors}, {PLAIN: edges})
    check_store(tmp_path / "g.ng", raw)


def test_a_web_graph_in_csr_is_stored_as_its_arrays_say(tmp_path):
    source = data("cnr-2000", "cnr-2000_csr.npz")
    import_graph(source, tmp_path / "g.ng", memory="128MB")
    npz = np.load(source)
    edges = RawEdges(csr_rows(npz["indptr"]), npz["indices"])
    check_store(tmp_path / "g.ng", Raw({"node": 325_557}, {}, {PLAIN: edges}))
