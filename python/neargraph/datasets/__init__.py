"""Generated graphs, and exports of stores to the data sets of other packages."""

from typing import TYPE_CHECKING, Any

from .debian import AptListsMissing, plan_debian, read_apt
from .generated import plan_generated
from .links import link_splits
from .planted import plan_planted

if TYPE_CHECKING:
    from .graphbolt import to_graphbolt
    from .kronecker import Seed, expand
    from .npz import to_npz
    from .parquet import to_parquet
    from .pyg_file import to_pyg

__all__ = [
    "AptListsMissing",
    "Seed",
    "expand",
    "link_splits",
    "plan_debian",
    "plan_generated",
    "plan_planted",
    "read_apt",
    "to_graphbolt",
    "to_npz",
    "to_parquet",
    "to_pyg",
]

# Loaded lazily: these modules read stores, which an import of a graph does not need.
_LAZY = {
    "Seed": "kronecker",
    "expand": "kronecker",
    "to_graphbolt": "graphbolt",
    "to_npz": "npz",
    "to_parquet": "parquet",
    "to_pyg": "pyg_file",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
