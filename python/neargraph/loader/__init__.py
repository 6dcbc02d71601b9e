"""Loaders: seeds in, mini-batches out.

`sampler` yields NumPy and needs no torch; `neighbor` is a thin layer over it and yields objects of
PyG. This module imports neither, so that `neargraph.loader.sampler` works without torch. It lists
the types of what loaders return, for annotations.
"""

from neargraph.loader.results import ReadingPlan, ReplayPlan, RowWay, StageName, Stages, Waits
from neargraph.loader.state import LoaderState

__all__ = ["LoaderState", "ReadingPlan", "ReplayPlan", "RowWay", "StageName", "Stages", "Waits"]
