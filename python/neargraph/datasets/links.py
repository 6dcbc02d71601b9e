"""The link splits of data sets on disk: pairs to train, validate and test link prediction with.

They are supervision, not part of the graph. Stored as edges, they would be sampled as neighbours
and reveal the links to predict. So an import leaves them out with a note, and this module reads
them from the imported folder.
"""

from pathlib import Path
from typing import Any

from neargraph.importers.check import fail
from neargraph.importers.graphbolt import graphbolt_file
from neargraph.importers.graphbolt_tasks import graphbolt_links
from neargraph.importers.ogb import ogb_root
from neargraph.importers.ogb_splits import ogb_links


def link_splits(path: Path | str, split: str | None = None) -> dict[str, dict[str, Any]]:
    """Reads the link splits of an OGB or GraphBolt folder.

    Args:
        path: The folder that was imported.
        split: Name of the split, such as ``"time"``, if an OGB folder has several.

    Returns:
        A dictionary of arrays for each of ``"train"``, ``"valid"`` and ``"test"``, with the names
        in the files: ``edge`` int64 [n, 2] (source, destination), ``edge_neg`` [m, 2], ``weight``,
        ``year``, ``head``, ``relation``, ``tail``, ``labels``, ... Arrays are memory-mapped. If a
        GraphBolt folder has edge types, each part has such a dictionary for each
        "source:relation:destination".

    Raises:
        ImportFailed: The folder is damaged, has another layout, or has no link splits.

    Example:
        >>> pairs = link_splits("dataset/ogbl_collab")["train"]["edge"]    # doctest: +SKIP
        >>> ng.LinkNeighborLoader(store, [10, 10], pairs.T)                # doctest: +SKIP
    """
    given = Path(path)
    found: dict[str, dict[str, Any]] = {}
    root = ogb_root(given)
    if root is not None:
        found = ogb_links(root, split)
    elif given.name == "metadata.yaml" or graphbolt_file(given):
        found = graphbolt_links(given)
    if not found:
        fail(
            given,
            "has no link splits",
            "give the folder of an OGB or GraphBolt data set with link splits",
        )
    return found
