"""Pickles written by hand, instruction by instruction, each an attack on whoever reads it.

`CASES` maps a name to (file of the set, content, words of the message); "" as words stands for a
pickle that is harmless to a reader that bounds what it keeps.
"""

from __future__ import annotations

import struct

RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\n"
CSR = b"cscipy.sparse.csr\ncsr_matrix\n"
DEFAULTDICT = b"ccollections\ndefaultdict\n"
LIST = b"c__builtin__\nlist\n"
POINTERS = b"\x41" * 32
PLAIN = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00"


def program(*parts: bytes) -> bytes:
    """A whole pickle of protocol 2."""
    return b"\x80\x02" + b"".join(parts) + b"."


def text(value: str) -> bytes:
    """BINUNICODE."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw(value: bytes) -> bytes:
    """BINBYTES."""
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    """BININT, or LONG1 where it does not fit."""
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def group(*parts: bytes) -> bytes:
    """MARK ... TUPLE."""
    return b"(" + b"".join(parts) + b"t"


def dtype(code: str = "i4", order: str = "<", rest: bytes = PLAIN) -> bytes:
    """A dtype with its state; ``rest`` is what follows the byte order."""
    made = DTYPE + group(text(code), b"K\x00", b"K\x01") + b"R"
    return made + group(b"K\x03", text(order), rest) + b"b"


def empty(subtype: bytes = NDARRAY) -> bytes:
    """An array before its state."""
    return RECONSTRUCT + group(subtype, group(b"K\x00"), text("b")) + b"R"


def state(shape: bytes, kind: bytes, data: bytes, fortran: bytes = b"\x89") -> bytes:
    """The state of an array, with BUILD."""
    return group(b"K\x01", shape, kind, fortran, data) + b"b"


def array(*shape: int, kind: bytes | None = None, data: bytes | None = None) -> bytes:
    """An array of i4, or of another dtype and content."""
    size = 4
    for n in shape:
        size *= max(0, n)
    content = data if data is not None else raw(b"\0" * min(size, 1 << 16))
    return empty() + state(group(*map(number, shape)), kind or dtype(), content)


def matrix(data: bytes, indices: bytes, indptr: bytes, shape: bytes) -> bytes:
    """A CSR matrix of three values."""
    items = [("data", data), ("indices", indices), ("indptr", indptr), ("_shape", shape)]
    return CSR + b")\x81}(" + b"".join(text(key) + value for key, value in items) + b"ub"


def nested(count: int) -> bytes:
    """A tuple in a tuple in a tuple ..."""
    return b"N" + b"\x85" * count


BAD_DTYPE = PLAIN[:-1] + b"\x3f"
ONE = array(3)
SHAPE = group(number(7), number(5))
DIGITS = b"9" * 100_000
SHARED = raw(b"\0" * (1 << 20))

CASES: dict[str, tuple[str, bytes, str]] = {
    "an ndarray over a buffer of pointers": (
        "ty",
        program(NDARRAY, group(group(b"K\x02", b"K\x02"), dtype("O8", "|"), raw(POINTERS)), b"R"),
        "dtype 'O8', expected one of",
    ),
    "an ndarray called with plain arguments": (
        "ty",
        program(NDARRAY, group(group(b"K\x02", b"K\x02")), b"R"),
        "calls ndarray",
    ),
    "objects by a list of state": (
        "ally",
        program(array(2, 2, kind=dtype("O8", "|"), data=b"]")),
        "dtype 'O8', expected one of",
    ),
    "a dtype whose state sets flags": (
        "ally",
        program(array(505, 4, kind=dtype("i8", "<", BAD_DTYPE), data=raw(b"\x41" * 16160))),
        "fields, flags or an unknown byte order",
    ),
    "a dtype whose state has fields": (
        "y",
        program(array(1, kind=dtype("i8", "<", b"Nh\x00}K\x08K\x01K\x00"))),
        "not a Planetoid pickle",
    ),
    "a dtype with two states": (
        "y",
        program(array(1, kind=dtype() + group(b"K\x03", text(">"), BAD_DTYPE) + b"b")),
        "a state that Planetoid files do not have",
    ),
    "a dtype of fields": ("y", program(DTYPE, group(b"]", b"K\x00", b"K\x01"), b"R"), "a string"),
    "a dtype of text": ("y", program(array(1, kind=dtype("U1"))), "dtype 'U1', expected one of"),
    "an array with two states": (
        "ty",
        program(
            empty(),
            state(group(number(2)), dtype(), raw(b"\0" * 8)),
            state(group(number(9)), dtype(), raw(b"\0" * 36)),
        ),
        "a state that Planetoid files do not have",
    ),
    "an array without a state": ("ty", program(empty()), "one-hot labels"),
    "an array of another class": ("ty", program(empty(CSR)), "calls _reconstruct"),
    "fewer bytes than the shape has": (
        "ty",
        program(array(2, 4, data=raw(b"\0" * 4))),
        "do not match its shape",
    ),
    "more bytes than the shape has": (
        "ty",
        program(array(2, 4, data=raw(b"\0" * 64))),
        "do not match its shape",
    ),
    "a negative shape": ("ty", program(array(-2, -4, data=raw(b"\0" * 32))), "made of integers"),
    "a shape that overflows": (
        "ty",
        program(array(1 << 62, 1 << 62, data=raw(b""))),
        "not made of integers",
    ),
    "a shape without bytes": ("ty", program(array(0, 1 << 39, data=raw(b""))), ""),
    "three dimensions": ("ty", program(array(1, 1, 1)), "more than two dimensions"),
    "a state that is not a tuple": ("ty", program(empty(), b"}b"), "a state that Planetoid"),
    "a matrix of lists": (
        "allx",
        program(matrix(b"]", b"]", b"]", SHAPE)),
        "three one-dimensional arrays",
    ),
    "a matrix of objects": (
        "allx",
        program(matrix(array(3, kind=dtype("O8", "|"), data=b"]"), ONE, ONE, SHAPE)),
        "dtype 'O8', expected one of",
    ),
    "a matrix whose arrays have no state": (
        "tx",
        program(matrix(empty(), empty(), empty(), SHAPE)),
        "three one-dimensional arrays",
    ),
    "unsigned pointers that fall": (
        "tx",
        program(
            matrix(
                array(3),
                array(3),
                array(3, kind=dtype("u4"), data=raw(struct.pack("<3I", 0, 4, 3))),
                group(number(2), number(5)),
            )
        ),
        "inconsistent sparse matrix",
    ),
    "a row of a terabyte": (
        "allx",
        program(
            matrix(array(0), array(0), array(506), group(number(505), number(1 << 38))),
        ),
        "",
    ),
    "a matrix of a negative shape": (
        "allx",
        program(matrix(ONE, ONE, ONE, group(number(-7), number(5)))),
        "not made of integers",
    ),
    "a matrix whose shape is a list": (
        "allx",
        program(matrix(ONE, ONE, ONE, b"]")),
        "the shape of a sparse matrix does not have two dimensions",
    ),
    "a function by name": ("graph", program(b"cos\nsystem\n", text("true"), b"\x85R"), "os.system"),
    "a function from the stack": (
        "graph",
        b"\x80\x04" + text("os") + text("system") + b"\x93" + text("true") + b"\x85R.",
        "os.system",
    ),
    "a name that is not text": ("graph", b"\x80\x04" + b"K\x01K\x02\x93.", "not a string"),
    "an old-style instance": ("graph", program(b"(ios\nsystem\n"), "instruction INST"),
    "an object of a class": ("graph", program(b"(", DEFAULTDICT, b"o"), "instruction OBJ"),
    "keyword arguments": ("graph", program(DEFAULTDICT, b")}\x92"), "instruction NEWOBJ_EX"),
    "a persistent id": ("graph", program(b"Pid\n"), "instruction PERSID"),
    "a persistent id of the stack": ("graph", program(b"NQ"), "instruction BINPERSID"),
    "an extension": ("graph", program(b"\x82\x01"), "instruction EXT1"),
    "an extension of four bytes": ("graph", program(b"\x84\xff\xff\xff\x7f"), "instruction EXT4"),
    "a buffer out of band": ("graph", program(b"\x97"), "instruction NEXT_BUFFER"),
    "a set": ("graph", program(b"\x8f"), "instruction EMPTY_SET"),
    "a float": ("graph", program(b"F1.5\n"), "instruction FLOAT"),
    "doubling": ("graph", program(b"N2"), "instruction DUP"),
    "a factory with arguments": (
        "graph",
        program(DEFAULTDICT, group(LIST, b"]"), b"R"),
        "calls defaultdict",
    ),
    "a factory that makes arrays": (
        "graph",
        program(DEFAULTDICT, group(NDARRAY), b"R"),
        "calls defaultdict",
    ),
    "a list of an argument": ("graph", program(LIST, group(text("abc")), b"R"), "calls list"),
    "a call of a dictionary": ("graph", program(b"})R"), "not a class or function"),
    "a state for a dictionary": ("graph", program(b"}}b"), "a state that Planetoid"),
    "an item of a name": ("graph", program(LIST, b"K\x01a"), "adds to something"),
    "an endless place in the memo": ("ty", program(array(2, 4), b"r\xff\xff\xff\xff"), ""),
    "a place beyond 64 bits": ("ty", program(array(2, 4), b"p" + b"9" * 40 + b"\n"), ""),
    "a negative place": ("ty", program(b"Np-1\n"), "one-hot labels"),
    "a place that is empty": ("graph", program(b"h\x05"), "not a Planetoid pickle"),
    "bytes of 2^62": ("graph", program(b"\x8e" + struct.pack("<Q", 1 << 62)), "not a Planetoid"),
    "bytes of 2^64 - 1": ("graph", program(b"\x8e" + b"\xff" * 8), "not a Planetoid pickle"),
    "text of 2^62": ("graph", program(b"\x8d" + struct.pack("<Q", 1 << 62)), "not a Planetoid"),
    "a number of 2^31 bytes": ("graph", program(b"\x8b\xff\xff\xff\x7f"), "not a Planetoid pickle"),
    "a negative length": ("graph", program(b"T\xff\xff\xff\xff"), "not a Planetoid pickle"),
    "a frame of 2^62": (
        "ty",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + array(2, 4) + b".",
        "",
    ),
    "a number of many digits": ("graph", program(b"L" + DIGITS + b"L\n"), "not a Planetoid pickle"),
    "an integer of many digits": ("graph", program(b"I" + DIGITS + b"\n"), "not a Planetoid"),
    "a deep key": ("graph", program(b"}", nested(200_000), b"Ns"), "neither an integer nor"),
    "a deep list": (
        "graph",
        program(b"}K\x00", b"]" * 200_000, b"a" * 199_999, b"s"),
        "node id that is not an integer",
    ),
    "deep arguments": ("ty", program(DTYPE, nested(200_000), b"\x85R"), "not a string"),
    "a deep shape": (
        "ty",
        program(empty(), group(b"K\x01", nested(100_000), dtype(), b"\x89", raw(b"")), b"b"),
        "not made of integers",
    ),
    "a list that holds itself": (
        "graph",
        program(b"}K\x00]q\x01h\x01as"),
        "node id that is not an integer",
    ),
    "a dictionary that holds itself": ("graph", program(b"}q\x01K\x00h\x01s"), "does not hold"),
    "one list for many nodes": (
        "graph",
        program(
            b"](",
            b"K\x01" * 20_000,
            b"eq\x01}(",
            b"".join(number(k) + b"h\x01" for k in range(20_000)),
            b"u",
        ),
        "does not hold a dictionary with a list",
    ),
    "one string for many arrays": (
        "graph",
        program(
            SHARED,
            b"q\x01",
            dtype(),
            b"q\x02",
            (empty() + state(group(number(1 << 18)), b"h\x02", b"h\x01")) * 99,
        ),
        "more bytes than the file",
    ),
    "a key of text": ("graph", program(b"}", text("a"), b"]s"), "does not hold a dictionary"),
    "a key beyond 64 bits": ("graph", program(b"}", number(1 << 70), b"]s"), "not an integer"),
    "a negative key": ("graph", program(b"}", number(-3), b"]s"), "negative node id -3"),
    "neighbours that are not a list": ("graph", program(b"}K\x00K\x01s"), "does not hold"),
    "a neighbour that is a truth value": ("graph", program(b"}K\x00]\x88as"), "not an integer"),
    "a neighbour that is far away": (
        "graph",
        program(b"}K\x00]", number(1 << 35), b"as"),
        "node id 34359738368",
    ),
    "a node that is far away": ("graph", program(b"}", number(1 << 39), b"]s"), ""),
    "labels that are a number": ("y", program(b"K\x01"), "one-hot labels"),
    "labels without columns": ("ty", program(array(2, 0, data=raw(b""))), "one-hot labels"),
    "labels of one dimension": ("ally", program(array(7)), "one-hot labels"),
    "an empty file": ("y", b"", "not a Planetoid pickle"),
    "no end": ("y", program(array(3, 4))[:-1], "not a Planetoid pickle"),
    "nothing on the stack": ("y", b".", "not a Planetoid pickle"),
    "a mark that is missing": ("y", program(b"t"), "not a Planetoid pickle"),
    "values below a mark": ("y", program(b"K\x01(\x86"), "takes a value from an empty stack"),
    "endless marks": ("y", program(b"(" * 200_000), "not a Planetoid pickle"),
    "a test node that is far away": ("test.index", b"506\n1000000000000\n", ""),
    "a test node twice": ("test.index", b"506\n506\n", "lists a node twice"),
    "a negative test node": ("test.index", b"506\n-1\n", "negative node id -1"),
    "a test node beyond 64 bits": ("test.index", b"506\n" + b"9" * 30, "not a list of node ids"),
    "a test node of many digits": ("test.index", b"506\n" + DIGITS, "not a list of node ids"),
    "no test node": ("test.index", b"\n", "lists no node"),
}
