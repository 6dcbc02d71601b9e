"""Which tensors may be stored without their zeros; the extension decides by what is in them."""

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
    rows = tensor.num_rows or 0
    dense = tensor.stored_bytes * rows
    if tensor.num_values is None or not may_be_sparse(tensor, options):
        return dense
    column_bytes = 2 if tensor.columns <= 1 << 16 else 4
    sparse = rows * _SPAN_BYTES + tensor.num_values * (column_bytes + 4)
    return sparse if 3 * sparse <= dense else dense
