"""The heterogeneous npz layout, on the graph of Debian packages, sources, maintainers and tags."""

import numpy as np
from realdata import Raw, RawEdges, check_store, csr_dense, data

from neargraph.importers import import_graph


def test_all_node_and_edge_types_are_stored_as_the_arrays_say(tmp_path):
    source = data("debian_bookworm", "debian_packages.npz")
    import_graph(source, tmp_path / "g.ng", memory="256MB")
    npz = np.load(source)
    counts = {
        name.removeprefix("num_nodes_"): int(npz[name])
        for name in npz.files
        if name.startswith("num_nodes_")
    }
    tensors = {
        "package": {
            "x": csr_dense(npz["bow_indptr"], npz["bow_indices"], None, len(npz["bow_vocab"])),
            "y": npz["package_section"].astype(np.int64),
            "priority": npz["package_priority"],
            "numeric": npz["package_numeric"],
            "arch_all": npz["package_arch_all"],
        }
    }
    edges = {tuple(name.split("__")): RawEdges(*npz[name]) for name in npz.files if "__" in name}
    assert len(edges) == 11
    check_store(tmp_path / "g.ng", Raw(counts, tensors, edges))
