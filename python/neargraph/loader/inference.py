"""A clear error where PyG's layer-wise inference is given a store.

`BasicGNN.inference` holds the rows of all nodes in memory. It asserts without a message that its
loader is PyG's, over a graph in memory. This module checks that first. The invariant: calls with
graphs in memory reach PyG's own function unchanged.
"""

from functools import wraps
from typing import Any

from torch_geometric.nn.models.basic_gnn import BasicGNN

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.reader import Reader

_inference_of_pyg = BasicGNN.inference


def refuse_inference_in_memory() -> None:
    """Makes `BasicGNN.inference` raise an error for stores that names `neargraph.infer`."""
    BasicGNN.inference = _inference


@wraps(_inference_of_pyg)
def _inference(model: Any, loader: Any, *args: Any, **options: Any) -> Any:
    if isinstance(loader, EpochLoader) or isinstance(getattr(loader, "data", None), Reader):
        raise UnsupportedArgument(
            f"{type(model).__name__}.inference holds the rows of all nodes in memory and cannot "
            "read a store; export the model with neargraph.export, then run `neargraph infer` or "
            "neargraph.infer"
        )
    return _inference_of_pyg(model, loader, *args, **options)
