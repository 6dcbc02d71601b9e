"""PyG's layer-wise inference, which neargraph has a way of its own for.

`BasicGNN.inference` takes rows of all nodes from memory, and asserts without a message that its
loader is PyG's, over a graph in memory. What lives here asks it before that which graph it is about
to go over. The invariant: graphs in memory go on to PyG's own function as they are.
"""

from functools import wraps
from typing import Any

from torch_geometric.nn.models.basic_gnn import BasicGNN

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.reader import Reader

_inference_of_pyg = BasicGNN.inference


def refuse_inference_in_memory() -> None:
    """Has `BasicGNN.inference` say where inference over a store is, instead of nothing."""
    BasicGNN.inference = _inference


@wraps(_inference_of_pyg)
def _inference(model: Any, loader: Any, *args: Any, **options: Any) -> Any:
    if isinstance(loader, EpochLoader) or isinstance(getattr(loader, "data", None), Reader):
        raise UnsupportedArgument(
            f"{type(model).__name__}.inference holds rows of all nodes in memory and does not read "
            "a store; write the model by neargraph.export, then run `neargraph infer` or "
            "neargraph.infer"
        )
    return _inference_of_pyg(model, loader, *args, **options)
