"""Which tensors may be stored without their zeros, and what tensors take on disk.

The extension decides which are, by what is in them. Estimates come from counts alone: they are
upper bounds where nobody has counted the zeros yet.
"""

from neargraph._core import PAGE_SIZES

from .options import ImportOptions
from .plan import TensorPlan

# Below, nothing is won that is worth rows that cannot be changed; the extension has the same rule.
_DENSE_BYTES_MIN = 1 << 20
_SPAN_BYTES = 8


def may_be_sparse(tensor: TensorPlan, options: ImportOptions) -> bool:
    """Whether a first pass over the tensor shall find out if it is stored without its zeros."""
    if options.dense or tensor.name != "x" or tensor.dtype != "f32" or tensor.stored is not None:
        return False
    known = tensor.num_rows
    return known is None or known * tensor.row_bytes >= _DENSE_BYTES_MIN


def stored_estimate(tensor: TensorPlan, options: ImportOptions) -> int:
    """Bytes of the tensor in the store, at most; whether dense rows are rare is not known yet."""
    sparse = _sparse_estimate(tensor, options)
    return tensor.stored_bytes * (tensor.num_rows or 0) if sparse is None else sparse


def disk_estimate(tensor: TensorPlan, options: ImportOptions) -> int:
    """The same with what fills pages up: rows never straddle a page (format.md, section 7)."""
    sparse = _sparse_estimate(tensor, options)
    if sparse is not None:
        return sparse
    rows, row_bytes = tensor.num_rows or 0, max(1, tensor.stored_bytes)
    for page in PAGE_SIZES:
        if row_bytes <= page and page % row_bytes <= page // 8:
            return -(-rows // (page // row_bytes)) * page
    return rows * -(-row_bytes // PAGE_SIZES[0]) * PAGE_SIZES[0]


def is_upper_bound(tensor: TensorPlan, options: ImportOptions) -> bool:
    """Whether the estimate is only an upper bound, since the zeros are counted later."""
    return tensor.num_values is None and may_be_sparse(tensor, options)


def _sparse_estimate(tensor: TensorPlan, options: ImportOptions) -> int | None:
    """Bytes without zeros; None where the tensor is stored with them as far as is known."""
    if tensor.num_values is None or not may_be_sparse(tensor, options):
        return None
    rows = tensor.num_rows or 0
    column_bytes = 2 if tensor.columns <= 1 << 16 else 4
    sparse = rows * _SPAN_BYTES + tensor.num_values * (column_bytes + 4)
    return sparse if 3 * sparse <= tensor.stored_bytes * rows else None
