"""The operators of `ops.py` as ONNX functions of the domain ``ai.neargraph``, version 1.

A model file has one node for each operator, and a body of standard operators for runtimes that do
not know the operator. Bodies are in the text form of ONNX. The invariant: a body computes the same
as the operator of torch, for each floating-point type and without edges, too.
"""

import re
from typing import Any

import onnx.parser
from onnx import FunctionProto

DOMAIN = "ai.neargraph"
VERSION = 1
# The opset of models and bodies: ONNX requires them to be equal.
OPSET = 20

# From src [e, ...], index [e] and size: `to`, the index in the shape of src, and `shape`,
# [size, ...]. ScatterElements needs an index for each element.
_TARGET = """
    one = Constant <value_ints = [1]> ()
    zero_f = Constant <value_float = 0.0> ()
    zero = CastLike (zero_f, src)
    one_f = Constant <value_float = 1.0> ()
    unit = CastLike (one_f, src)
    rows = Reshape (size, one)
    tail = Shape <start = 1> (src)
    shape = Concat <axis = 0> (rows, tail)
    tail_rank = Shape (tail)
    tail_ones = Expand (one, tail_rank)
    count_shape = Concat <axis = 0> (rows, tail_ones)
    entries = Shape (index)
    to_shape = Concat <axis = 0> (entries, tail_ones)
    target = Reshape (index, to_shape)
    all = Shape (src)
    to = Expand (target, all)
"""

# `count` [size, 1, ...]: how many rows of src go to each row of the result.
_COUNT = """
    none = Expand (zero, rows)
    units = Expand (unit, entries)
    counted = ScatterElements <axis = 0, reduction = "add"> (none, index, units)
    count = Reshape (counted, count_shape)
"""

_ADD = """
    start = Expand (zero, shape)
    total = ScatterElements <axis = 0, reduction = "add"> (start, to, src)
"""


def _extreme(reduction: str, start: str) -> str:
    """Returns the body for the maximum or minimum of each row; 0 for a row without entries."""
    return f"""{_TARGET}{_COUNT}
    bound_f = Constant <value_float = {start}> ()
    bound = CastLike (bound_f, src)
    start = Expand (bound, shape)
    best = ScatterElements <axis = 0, reduction = "{reduction}"> (start, to, src)
    empty = Equal (count, zero)
    out = Where (empty, zero, best)
"""


_SCATTERED = {
    "ScatterSum": f"{_TARGET}{_ADD} out = Identity (total)",
    "ScatterMean": f"{_TARGET}{_COUNT}{_ADD} least = Max (count, unit) out = Div (total, least)",
    "ScatterMax": _extreme("max", "-inf"),
    "ScatterMin": _extreme("min", "inf"),
    "ScatterMul": f"""{_TARGET}
    start = Expand (unit, shape)
    out = ScatterElements <axis = 0, reduction = "mul"> (start, to, src)
""",
    "EdgeSoftmax": f"""{_TARGET}
    bound_f = Constant <value_float = -inf> ()
    bound = CastLike (bound_f, src)
    low = Expand (bound, shape)
    top = ScatterElements <axis = 0, reduction = "max"> (low, to, src)
    top_e = Gather <axis = 0> (top, index)
    lowered = Sub (src, top_e)
    raised = Exp (lowered)
    start = Expand (zero, shape)
    total = ScatterElements <axis = 0, reduction = "add"> (start, to, raised)
    total_e = Gather <axis = 0> (total, index)
    little_f = Constant <value_float = 1e-16> ()
    little = CastLike (little_f, src)
    divisor = Add (total_e, little)
    out = Div (raised, divisor)
""",
}

_ENDS = """
    first = Constant <value_int = 0> ()
    second = Constant <value_int = 1> ()
    source = Gather <axis = 0> (edge_index, first)
    destination = Gather <axis = 0> (edge_index, second)
"""

_KEPT = f"""{_ENDS}
    loop = Equal (source, destination)
    other = Not (loop)
    kept = Compress <axis = 1> (edge_index, other)
"""

_OTHERS = {
    "Degree(index, size) => (out)": """
    one = Constant <value_ints = [1]> ()
    zero = Constant <value_float = 0.0> ()
    unit = Constant <value_float = 1.0> ()
    rows = Reshape (size, one)
    none = Expand (zero, rows)
    entries = Shape (index)
    units = Expand (unit, entries)
    out = ScatterElements <axis = 0, reduction = "add"> (none, index, units)
""",
    "GcnNorm(edge_index, weight, size) => (out)": f"""{_ENDS}
    one = Constant <value_ints = [1]> ()
    zero_f = Constant <value_float = 0.0> ()
    zero = CastLike (zero_f, weight)
    rows = Reshape (size, one)
    none = Expand (zero, rows)
    degree = ScatterElements <axis = 0, reduction = "add"> (none, destination, weight)
    power_f = Constant <value_float = -0.5> ()
    power = CastLike (power_f, weight)
    power_of = Pow (degree, power)
    endless = IsInf <detect_negative = 0> (power_of)
    root = Where (endless, zero, power_of)
    root_s = Gather <axis = 0> (root, source)
    root_d = Gather <axis = 0> (root, destination)
    half = Mul (root_s, weight)
    out = Mul (half, root_d)
""",
    "RemoveSelfLoops(edge_index) => (edge_index_out)": f"""{_KEPT}
    edge_index_out = Identity (kept)
""",
    "RemoveSelfLoopsAttr(edge_index, attr) => (edge_index_out, attr_out)": f"""{_KEPT}
    edge_index_out = Identity (kept)
    attr_out = Compress <axis = 0> (attr, other)
""",
    "AddSelfLoops(edge_index, size) => (edge_index_out)": """
    first = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    rows = Reshape (size, one)
    nodes = Squeeze (rows, first)
    zero = Constant <value_int = 0> ()
    step = Constant <value_int = 1> ()
    ids = Range (zero, nodes, step)
    row = Unsqueeze (ids, first)
    own = Concat <axis = 0> (row, row)
    edge_index_out = Concat <axis = 1> (edge_index, own)
""",
    "SelfLoopAttr(edge_index, attr, fill) => (out)": f"""{_ENDS}
    loop = Equal (source, destination)
    looped = Compress <axis = 0> (source, loop)
    last = Constant <value_ints = [1]> ()
    places = Unsqueeze (looped, last)
    rows = Compress <axis = 0> (attr, loop)
    out = ScatterND (fill, places, rows)
""",
    "SegmentMatmul(x, kind, weight) => (out)": """
    middle = Constant <value_ints = [1]> ()
    wide = Unsqueeze (x, middle)
    matrices = Gather <axis = 0> (weight, kind)
    product = MatMul (wide, matrices)
    out = Squeeze (product, middle)
""",
}


def _spmm(how: str, weight: str) -> str:
    """Returns the body that scatters rows of sources, times weights if there are any."""
    rows = "taken = Gather <axis = 0> (x, source)\n"
    if weight:
        rows += "column = Constant <value_ints = [1]> ()\n"
        rows += "weights = Unsqueeze (weight, column)\nsrc = Mul (taken, weights)\n"
    else:
        rows += "src = Identity (taken)\n"
    size = "index = Identity (destination)\nsize = Shape <start = 0, end = 1> (x)\n"
    return f"{_ENDS}{rows}{size}" + _SCATTERED[f"Scatter{how}"]


_SPMM = {
    f"SpMM_{how}{suffix}(edge_index, x{weight}) => (out)": _spmm(how, weight)
    for how in ("Sum", "Mean", "Max", "Min", "Mul")
    for suffix, weight in (("", ""), ("Weighted", ", weight"))
}


# Each row of x is quantised to 127 steps on either side of 0 with its own scale, and multiplied by
# the columns of steps. If the largest value of a row is too small for a scale, its steps are 0.
_QUANTISED_LINEAR = """
    last = Constant <value_ints = [-1]> ()
    zero = Constant <value_float = 0.0> ()
    unit = Constant <value_float = 1.0> ()
    most = Constant <value_float = 127.0> ()
    least = Constant <value = float {1.17549435e-38}> ()
    size = Abs (x)
    largest = ReduceMax <keepdims = 1> (size, last)
    scale_any = Div (largest, most)
    tiny = Less (scale_any, least)
    scale = Where (tiny, zero, scale_any)
    divisor = Where (tiny, unit, scale_any)
    inverse = Div (unit, divisor)
    quotient = Mul (x, inverse)
    rounded = Round (quotient)
    step = Where (tiny, zero, rounded)
    row = Cast <to = 3> (step)
    sum = MatMulInteger (row, steps)
    number = Cast <to = 1> (sum)
    of_row = Mul (number, scale)
    product = Mul (of_row, scales)
    out = Add (product, bias)
"""

# `out`: `scaled` (double), rounded to the nearest integer of `bits` bits.
_ROUNDED = """
    width = Constant <value_int: int = @bits> ()
    width_d = Cast <to = 11> (width)
    unit = Constant <value = double {1.0}> ()
    two = Constant <value = double {2.0}> ()
    upper = Sub (width_d, unit)
    half = Pow (two, upper)
    low = Neg (half)
    high = Sub (half, unit)
    near = Round (scaled)
    raised = Max (near, low)
    within = Min (raised, high)
    out = Cast <to = 7> (within)
"""


def _shifted(places: str, sign: str) -> str:
    """Returns the body of `scaled`: x times 2 to the power of plus or minus an attribute."""
    return f"""
    base = Constant <value = double {{2.0}}> ()
    places = Constant <value_int: int = @{places}> ()
    places_d = Cast <to = 11> (places)
    power = {sign} (places_d)
    factor = Pow (base, power)
    wide = Cast <to = 11> (x)
    scaled = Mul (wide, factor)
"""


def _fixed_scatter(how: str) -> str:
    """Returns the body of a scatter on doubles, which represent integers of 53 bits exactly."""
    body = _SCATTERED[f"Scatter{how}"].replace("out = ", "found = ")
    return f"""
    src = Cast <to = 11> (x)
{body}
    near = Round (found)
    out = Cast <to = 7> (near)
"""


_NARROW = {
    "QuantisedLinear(x, steps, scales, bias) => (out)": _QUANTISED_LINEAR,
    "ToFixed<bits, fraction>(x) => (out)": _shifted("fraction", "Identity") + _ROUNDED,
    "FixedRescale<bits, shift>(x) => (out)": _shifted("shift", "Neg") + _ROUNDED,
    "FromFixed<fraction>(x) => (out)": _shifted("fraction", "Neg")
    + "    out = Cast <to = 1> (scaled)\n",
    "FixedMatMul(x, weight) => (out)": """
    rows = Cast <to = 7> (x)
    matrix = Cast <to = 7> (weight)
    out = MatMul (rows, matrix)
""",
} | {
    f"FixedScatter{how}(x, index, size) => (out)": _fixed_scatter(how)
    for how in ("Sum", "Mean", "Max", "Min")
}

_TEXTS = {f"{name}(src, index, size) => (out)": body for name, body in _SCATTERED.items()}
_TEXTS |= _OTHERS | _SPMM | _NARROW


def function(name: str) -> FunctionProto:
    """Returns the function of that name, such as ``"ScatterMean"``; raises KeyError if unknown.

    Example:
        >>> function("Degree").domain
        'ai.neargraph'
    """
    head = next((text for text in _TEXTS if re.split("[(<]", text)[0] == name), None)
    if head is None:
        raise KeyError(name)
    opsets = f'<opset_import: ["" : {OPSET}], domain: "{DOMAIN}">'
    return onnx.parser.parse_function(f"{opsets}\n{head} {{\n{_TEXTS[head]}\n}}")


def names() -> list[str]:
    """Returns the names of all functions."""
    return [re.split("[(<]", head)[0] for head in _TEXTS]


def all_bodies() -> bytes:
    """Returns a model with all functions and nothing else. The engine uses it to write files.

    Example:
        >>> len(onnx.ModelProto.FromString(all_bodies()).functions) == len(names())
        True
    """
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(DOMAIN, VERSION)]
    made = onnx.ModelProto(ir_version=10, opset_import=opsets)
    made.functions.extend(map(function, sorted(names())))
    bodies: bytes = made.SerializeToString(deterministic=True)
    return bodies


def append(model: Any, domain: str = DOMAIN) -> list[str]:
    """Adds to a `ModelProto` the functions that its nodes call, and returns their names.

    Example:
        >>> append(onnx.load("sage.onnx"))                              # doctest: +SKIP
        ['ScatterMean']
    """
    used = sorted({node.op_type for node in model.graph.node if node.domain == domain})
    model.functions.extend(function(name) for name in used)
    known = {entry.domain for entry in model.opset_import}
    if used and domain not in known:
        model.opset_import.append(onnx.helper.make_opsetid(domain, VERSION))
    return used
