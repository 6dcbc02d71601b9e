"""Operators of graph layers, as operators of torch in the namespace ``neargraph``.

While a model is traced, PyG's helpers call these operators, so each stays one node of the graph.
They do not depend on PyG or ONNX. The invariant: each computes the same as PyG's helper of that
name, and `functions.py` has an ONNX function for each.
"""

import torch
from torch import Tensor

_REDUCES = {"max": "amax", "min": "amin", "mul": "prod"}


def _rows(index: Tensor, like: Tensor) -> Tensor:
    """Returns `index` [e] expanded to the shape of `like` [e, ...]."""
    return index.view([-1] + [1] * (like.dim() - 1)).expand_as(like)


@torch.library.custom_op("neargraph::scatter", mutates_args=())
def scatter(src: Tensor, index: Tensor, size: int, reduce: str) -> Tensor:
    """Reduces rows of `src` [e, ...] with equal `index` [e] to one: returns [size, ...].

    `reduce` is sum, mean, max, min or mul. A row without entries is 0, or 1 for mul.
    """
    shape = [size, *src.shape[1:]]
    if reduce in ("sum", "mean"):
        total = src.new_zeros(shape).index_add_(0, index, src)
        if reduce == "sum":
            return total
        count = src.new_zeros(size).index_add_(0, index, src.new_ones(src.size(0)))
        return total / count.clamp(min=1).view([-1] + [1] * (src.dim() - 1))
    start = src.new_ones(shape) if reduce == "mul" else src.new_zeros(shape)
    kind = _REDUCES[reduce]
    return start.scatter_reduce_(0, _rows(index, src), src, kind, include_self=reduce == "mul")


@scatter.register_fake
def _(src: Tensor, index: Tensor, size: int, reduce: str) -> Tensor:
    return src.new_empty([size, *src.shape[1:]])


@torch.library.custom_op("neargraph::edge_softmax", mutates_args=())
def edge_softmax(src: Tensor, index: Tensor, size: int) -> Tensor:
    """Returns the softmax of `src` [e, ...] over rows with equal `index` [e]: [e, ...]."""
    top = scatter(src, index, size, "max")
    raised = (src - top.index_select(0, index)).exp()
    total = scatter(raised, index, size, "sum") + 1e-16
    out: Tensor = raised / total.index_select(0, index)
    return out


@edge_softmax.register_fake
def _(src: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.empty_like(src)


@torch.library.custom_op("neargraph::degree", mutates_args=())
def degree(index: Tensor, size: int) -> Tensor:
    """Counts how often each of 0 to size - 1 occurs in `index` [e]: returns float32 [size]."""
    return torch.zeros(size).index_add_(0, index, torch.ones(index.size(0)))


@degree.register_fake
def _(index: Tensor, size: int) -> Tensor:
    return index.new_empty(size, dtype=torch.float32)


@torch.library.custom_op("neargraph::gcn_norm", mutates_args=())
def gcn_norm(edge_index: Tensor, weight: Tensor, size: int) -> Tensor:
    """Returns weights [e] divided by the square roots of both ends' weighted in-degrees: [e].

    Kipf and Welling, ICLR 2017, equation 2, without the self-loops.
    """
    source, destination = edge_index[0], edge_index[1]
    root = weight.new_zeros(size).index_add_(0, destination, weight).pow(-0.5)
    root.masked_fill_(root == float("inf"), 0.0)
    return root[source] * weight * root[destination]


@gcn_norm.register_fake
def _(edge_index: Tensor, weight: Tensor, size: int) -> Tensor:
    return torch.empty_like(weight)


@torch.library.custom_op("neargraph::remove_self_loops", mutates_args=())
def remove_self_loops(edge_index: Tensor) -> Tensor:
    """Returns `edge_index` [2, e] without self-loops: [2, kept]."""
    return edge_index[:, edge_index[0] != edge_index[1]]


@remove_self_loops.register_fake
def _(edge_index: Tensor) -> Tensor:
    return edge_index.new_empty(2, torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("neargraph::remove_self_loops_attr", mutates_args=())
def remove_self_loops_attr(edge_index: Tensor, attr: Tensor) -> tuple[Tensor, Tensor]:
    """Like `remove_self_loops`; also returns the rows of `attr` [e, ...] of kept edges."""
    kept = edge_index[0] != edge_index[1]
    return edge_index[:, kept], attr[kept]


@remove_self_loops_attr.register_fake
def _(edge_index: Tensor, attr: Tensor) -> tuple[Tensor, Tensor]:
    kept = torch.library.get_ctx().new_dynamic_size()
    return edge_index.new_empty(2, kept), attr.new_empty([kept, *attr.shape[1:]])


@torch.library.custom_op("neargraph::add_self_loops", mutates_args=())
def add_self_loops(edge_index: Tensor, size: int) -> Tensor:
    """Returns `edge_index` [2, e] with one self-loop added per node: [2, e + size]."""
    own = torch.arange(size, dtype=edge_index.dtype).expand(2, size)
    return torch.cat([edge_index, own], 1)


@add_self_loops.register_fake
def _(edge_index: Tensor, size: int) -> Tensor:
    return edge_index.new_empty(2, edge_index.size(1) + size)


@torch.library.custom_op("neargraph::self_loop_attr", mutates_args=())
def self_loop_attr(edge_index: Tensor, attr: Tensor, fill: Tensor) -> Tensor:
    """Returns for each node the row of `attr` [e, ...] of its self-loop, or else its row of `fill`.

    The result has shape [n, ...]. If a node has several self-loops, the last one is used.
    """
    source, loop = edge_index[0], edge_index[0] == edge_index[1]
    out = fill.clone()
    out[source[loop]] = attr[loop]
    return out


@self_loop_attr.register_fake
def _(edge_index: Tensor, attr: Tensor, fill: Tensor) -> Tensor:
    return torch.empty_like(fill)


@torch.library.custom_op("neargraph::segment_matmul", mutates_args=())
def segment_matmul(x: Tensor, kind: Tensor, weight: Tensor) -> Tensor:
    """Multiplies each row of `x` [n, i] by the matrix of its `kind` [n] in `weight` [k, i, o]."""
    out = x.new_empty(x.size(0), weight.size(2))
    for number, matrix in enumerate(weight):
        rows = (kind == number).nonzero().view(-1)
        out[rows] = x[rows] @ matrix
    return out


@segment_matmul.register_fake
def _(x: Tensor, kind: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(2))
