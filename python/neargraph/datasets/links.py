"""The link splits of data sets on disk: pairs to train, validate and test a loader's links with.

They are supervision, not content of the graph: stored as edges they would be sampled as neighbours,
and give away what is to be predicted. So an import leaves them out with a note, and here they are
read from the same folder.
"""

from pathlib import Path
from typing import Any

from neargraph.importers.check import fail
from neargraph.importers.graphbolt import graphbolt_file
from neargraph.importers.graphbolt_tasks import graphbolt_links
from neargraph.importers.ogb import ogb_root
from neargraph.importers.ogb_splits import ogb_links


def link_splits(path: Path | str, split: str | None = None) -> dict[str, dict[str, Any]]:
    """The link splits of an OGB or GraphBolt folder, by part and by name.

    Args:
        path: The folder that was imported.
        split: Which of several splits of an OGB folder, such as ``"time"``.

    Returns:
        ``"train"``, ``"valid"`` and ``"test"`` to what the files hold: ``edge`` int64 [n, 2]
        (source, destination), ``edge_neg`` [m, 2], ``weight``, ``year``, ``head``, ``relation``,
        ``tail``, ``labels``, ... Arrays of GraphBolt and tensors of OGB are mapped from the files.
        Where a GraphBolt folder has edge types, each part maps "source:relation:destination" to
        such a dictionary.

    Raises:
        ImportFailed: The folder is of another layout, has no link splits, or is damaged.

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
            given, "has no link splits", "give the folder of an OGB or GraphBolt data set with some"
        )
    return found
