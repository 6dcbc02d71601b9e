"""NumPy inputs: one .npy edge list, folders of arrays, both layouts and all integer widths."""

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store

from neargraph.importers import import_graph

RNG = np.random.default_rng(3)
INDEX = RNG.integers(0, 700, (2, 5000))
X = RNG.random((700, 33), dtype=np.float32)
Y = RNG.integers(0, 9, 700)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("layout", ["pairs", "2xE", "fortran"])
def test_an_edge_list_is_read_in_either_layout(dtype, layout, tmp_path):
    array = INDEX.astype(dtype)
    shaped = {
        "pairs": np.ascontiguousarray(array.T),
        "2xE": array,
        "fortran": np.asfortranarray(array),
    }[layout]
    np.save(tmp_path / "edges.npy", shaped)
    import_graph(tmp_path / "edges.npy", tmp_path / "g.ng")
    raw = Raw({"node": int(INDEX.max()) + 1}, {}, {PLAIN: RawEdges(*INDEX)})
    check_store(tmp_path / "g.ng", raw)


@pytest.mark.parametrize("csr", [False, True])
def test_a_folder_brings_features_labels_masks_and_edge_columns(csr, tmp_path):
    folder = tmp_path / "arrays"
    folder.mkdir()
    order = np.lexsort([INDEX[1], INDEX[0]])
    index = INDEX[:, order]
    attr = RNG.random((5000, 4), dtype=np.float32)
    split = RNG.integers(0, 4, 700).astype(np.uint8)
    arrays = {"x": X, "y": Y, "edge_attr": attr, "edge_time": order}
    arrays |= {
        f"{name}_mask": split == code for code, name in enumerate(("train", "val", "test"), start=1)
    }
    if csr:
        arrays["indptr"] = np.searchsorted(index[0], np.arange(701))
        arrays["indices"] = index[1].astype(np.int32)
    else:
        arrays["edge_index"] = index
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    import_graph(folder, tmp_path / "g.ng")
    edges = RawEdges(*index, edge_ids=np.arange(5000), times=order, tensors={"edge_attr": attr})
    tensors = {"x": X, "y": Y, "split_0": split}
    check_store(tmp_path / "g.ng", Raw({"node": 700}, {"node": tensors}, {PLAIN: edges}))
