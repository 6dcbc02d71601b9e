"""Reads what torch.save has written, without torch and without running anything of the file.

A file of torch is a pickle beside the bytes of its tensors: a zip archive, or in releases before
1.6 one pickle after the other with the bytes behind them. The pickle goes through the machine of
`pickle_machine.py`; storages are mapped, so tensors of any size cost no memory until their rows are
read. Invariant: a tensor is a view of a listed dtype that lies inside of its storage, with no more
elements than the storage has; names beyond those listed here are refused.
"""

import mmap
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import NeargraphError

from .check import fail, need_file
from .memory import hold
from .pickle_machine import BadPickle, Dialect, Machine, Name, as_stream, run_pickle
from .plan import Array
from .safe_pickle import ArrayRecord, build_numpy, call_numpy, plain_key

_AGAIN = "save it again with torch.save"
_PICKLE_BYTES_MAX = 1 << 30
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_HEAD = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_ZIP_ENTRIES_MAX = 1 << 20
_DTYPES = {
    "Bool": "?",
    "Byte": "<u1",
    "Char": "<i1",
    "Short": "<i2",
    "Int": "<i4",
    "Long": "<i8",
    "Half": "<f2",
    "Float": "<f4",
    "Double": "<f8",
    "BFloat16": "bf16",
}
_NAMES = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "_reconstruct",
    "numpy._core.multiarray _reconstruct": "_reconstruct",
    "numpy.core.multiarray scalar": "scalar",
    "numpy._core.multiarray scalar": "scalar",
    "_codecs encode": "encode",
    "collections OrderedDict": "dict",
    "torch._utils _rebuild_tensor_v2": "tensor",
    "torch Size": "size",
}
# Their classes are recorded with the state that the file gives them, and never built.
_CLASSES = (
    "torch_geometric.data.",
    "torch_geometric.loader.",
    "dgl.graphbolt.",
    "torch ScriptObject",
    "torch._C ScriptObject",
)


@dataclass(frozen=True, slots=True)
class BrainFloats:
    """A tensor of bfloat16: ``array`` has its raw 16 bits as uint16."""

    array: Array


@dataclass(eq=False, slots=True)
class TorchClass:
    """A class that a file names, such as "torch_geometric.data.data Data"."""

    name: str


@dataclass(eq=False, slots=True)
class TorchObject:
    """An object that a file has: the name of its class, and its state."""

    name: str
    state: Any = None


@dataclass(eq=False, slots=True)
class _Storage:
    code: str
    flat: Array | None


Locate = Callable[[str, str, int], Array | None]
"""Gives (key, dtype code, elements) of a storage as a flat array; None while places are unknown."""


def load_torch(path: Path | str) -> Any:
    """What a file of torch.save holds: numbers, text, lists, dictionaries, tensors, objects.

    Tensors and arrays are NumPy arrays (tensors mapped from the file, `BrainFloats` for bfloat16),
    objects are `TorchObject`, classes `TorchClass`.

    Raises:
        ImportFailed: The file is missing, damaged, of another kind, or asks for something else.

    >>> load_torch("split/time/train.pt")["edge"].shape      # doctest: +SKIP
    (1179052, 2)
    """
    file = need_file(path)
    with _damage(file), file.open("rb") as raw:
        head = raw.read(len(_LEGACY_HEAD))
        if not head:
            raise BadPickle("the file is empty")
        pages = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_COPY)
        if head == _LEGACY_HEAD:
            return _Legacy(pages, str(file)).load()
        if head[:4] == b"PK\x03\x04":
            return _Archive(pages, file).load()
        raise BadPickle("its first bytes are those of another format")


def contents(value: Any) -> Any:
    """An array of a record, and anything else as it is."""
    return value.array if isinstance(value, ArrayRecord) else value


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    try:
        yield
    except NeargraphError:
        raise
    # zipfile raises a dozen types for hostile archives, and documents few.
    except Exception as error:
        what = str(error) or type(error).__name__
        fail(file, f"is not a readable file of torch.save ({what})", _AGAIN)


class _Archive:
    """The zip form: NAME/data.pkl, and NAME/data/KEY for each storage, none of them packed."""

    def __init__(self, pages: mmap.mmap, file: Path) -> None:
        self._pages, self._where = pages, str(file)
        with zipfile.ZipFile(file) as archive:
            known = {info.filename: info for info in archive.infolist()}
        if len(known) > _ZIP_ENTRIES_MAX:
            raise BadPickle(
                f"the archive has {len(known)} members, expected at most {_ZIP_ENTRIES_MAX}"
            )
        pickles = [name for name in known if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise BadPickle("the archive does not have exactly one data.pkl")
        self._known, self._root = known, pickles[0].removesuffix("data.pkl")

    def load(self) -> Any:
        order = self._known.get(f"{self._root}byteorder")
        if order is not None and bytes(self._bytes(order)) != b"little":
            raise BadPickle("its numbers are big-endian, which is not supported")
        program = self._known[f"{self._root}data.pkl"]
        size = program.file_size
        if size > _PICKLE_BYTES_MAX:
            raise BadPickle("its data.pkl is larger than 1 GiB")
        # The program, its strings, and the arrays that are copied out of them.
        hold(self._where, 4 * size)
        stream = as_stream(bytes(self._bytes(program)))
        return contents(run_pickle(stream, size, self._where, _dialect(self._storage)))

    def _bytes(self, info: zipfile.ZipInfo) -> memoryview:
        """The bytes of a member, by the sizes of its own header."""
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise BadPickle(f"its member {info.filename[:60]!r} is compressed")
        head = self._pages[info.header_offset : info.header_offset + 30]
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise BadPickle(f"its member {info.filename[:60]!r} has no header")
        names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        start = info.header_offset + 30 + names
        if start + info.file_size > len(self._pages):
            raise BadPickle(f"its member {info.filename[:60]!r} is truncated")
        return memoryview(self._pages)[start : start + info.file_size]

    def _storage(self, key: str, code: str, count: int) -> Array:
        info = self._known.get(f"{self._root}data/{key}")
        if info is None:
            raise BadPickle(f"the storage {key[:20]!r} is missing")
        return _flat(self._bytes(info), code, count, key)


class _Legacy:
    """The form before torch 1.6: five pickles, then each storage as its length and its bytes."""

    def __init__(self, pages: mmap.mmap, where: str) -> None:
        self._pages, self._where = pages, where
        self._places: dict[str, tuple[int, int]] = {}
        self._codes: dict[str, str] = {}

    def load(self) -> Any:
        size = len(self._pages)
        facts = [self._next() for _ in range(3)]
        about = facts[2] if type(facts[2]) is dict else {}
        if facts[:2] != [_LEGACY_MAGIC, 1001] or about.get("little_endian") is not True:
            raise BadPickle("its header is not that of a little-endian file of torch.save")
        start = self._pages.tell()
        self._next()
        keys = self._next()
        # What the program takes, once to find the dtypes of storages, once for good.
        hold(self._where, 8 * (self._pages.tell() - start))
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise BadPickle("the file has no list of storages")
        place = self._pages.tell()
        for key in keys:
            count = int.from_bytes(self._pages[place : place + 8], "little", signed=True)
            width = _width(self._codes.get(key, "<u1"))
            if not 0 <= count * width <= size - place - 8 or key in self._places:
                raise BadPickle(f"the storage {key[:20]!r} is truncated or listed twice")
            self._places[key] = (place + 8, count)
            place += 8 + count * width
        self._pages.seek(start)
        return contents(self._next())

    def _next(self) -> Any:
        stream: Any = self._pages
        return run_pickle(stream, len(self._pages), self._where, _dialect(self._storage))

    def _storage(self, key: str, code: str, count: int) -> Array | None:
        if not self._places:
            if self._codes.setdefault(key, code) != code:
                raise BadPickle(f"the storage {key[:20]!r} has two dtypes")
            return None
        if key not in self._places:
            raise BadPickle(f"the storage {key[:20]!r} is missing")
        start, known = self._places[key]
        data = memoryview(self._pages)[start : start + known * _width(code)]
        return _flat(data, code, count, key)


def _width(code: str) -> int:
    return 2 if code == "bf16" else np.dtype(code).itemsize


def _flat(data: memoryview, code: str, count: int, key: str) -> Array:
    if len(data) < count * _width(code):
        raise BadPickle(f"the storage {key[:20]!r} has fewer bytes than its {count} elements")
    kind = {"bf16": "<u2", "?": "<u1"}.get(code, code)
    flat = np.frombuffer(data, dtype=kind, count=count)
    if not flat.flags.aligned:
        # torch.save aligns storages since its archives are zip; others have to be copied.
        hold(f"the storage {key[:20]!r}", flat.nbytes)
        flat = flat.copy()
    return flat


def _dialect(locate: Locate) -> Dialect:
    def call(called: Any, given: Any) -> Any:
        return _call(called, given)

    def persistent(given: Any) -> Any:
        if type(given) is not tuple or len(given) not in (5, 6) or given[0] != "storage":
            raise BadPickle("a persistent id does not refer to a storage")
        _, kind, key, _, count = given[:5]
        if not isinstance(kind, Name) or kind.name not in _DTYPES:
            raise BadPickle("a storage has an unknown dtype")
        if (
            type(key) is not str
            or type(count) is not int
            or count < 0
            or given[5:] not in ((), (None,))
        ):
            raise BadPickle("a storage has an invalid key, size or view")
        code = _DTYPES[kind.name]
        return _Storage(code, locate(key, code, count))

    more = {
        "BINPERSID": lambda machine, _: machine.persist(),
        "BINFLOAT": Machine.push,
    }
    return Dialect(_name, call, _build, _key, persistent, more)


def _name(name: str) -> Any:
    if name in _NAMES:
        return Name(_NAMES[name])
    if name.startswith("torch ") and name.endswith("Storage"):
        kind = name.removeprefix("torch ").removesuffix("Storage")
        return Name(kind) if kind in _DTYPES else None
    return TorchClass(name) if name.startswith(_CLASSES) else None


def _call(called: Any, given: Any) -> Any:
    if isinstance(called, TorchClass) and given == ():
        return TorchObject(called.name)
    found = call_numpy(called, given)
    if found is not None:
        return found
    if called.name == "tensor" and len(given) in (6, 7):
        return _tensor(*given[:4])
    if called.name == "dict" and given == ():
        return {}
    if called.name == "size" and len(given) == 1 and type(given[0]) in (tuple, list):
        return tuple(given[0])
    if called.name == "encode" and len(given) == 2 and given[1] == "latin1":
        if type(given[0]) is str:
            return given[0].encode("latin1")
    elif called.name == "scalar" and len(given) == 2:
        record = ArrayRecord()
        build_numpy(record, (1, (), given[0], False, given[1]))
        return contents(record).item()
    raise BadPickle(f"the pickle calls {called.name} with other arguments than torch does")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    if not isinstance(storage, _Storage):
        raise BadPickle("a tensor has no storage")
    plain = type(offset) is int and type(size) is tuple and type(stride) is tuple
    numbers = (offset, *size, *stride) if plain else ("",)
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers) or len(size) != len(stride):
        raise BadPickle("a tensor has an invalid size or stride")
    if storage.flat is None:
        return None
    flat = storage.flat
    count = 1
    for n in size:
        count *= n
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    # Strides of 0 could make endless rows of a short file.
    if count > len(flat) or (count and last >= len(flat)):
        raise BadPickle(f"a tensor of size {list(size)[:8]} does not lie within its storage")
    if count == 0:
        view = np.zeros(size, dtype=flat.dtype)
    else:
        steps = tuple(step * flat.itemsize for step in stride)
        view = np.ndarray(size, flat.dtype, flat, offset * flat.itemsize, steps)
    if storage.code == "bf16":
        return BrainFloats(view)
    if storage.code == "?":
        # Bytes other than 0 and 1 are not booleans; masks are short enough to be copied.
        hold("torch tensor of booleans", view.size)
        return view != 0
    return view


def _build(record: Any, state: Any) -> int:
    found = build_numpy(record, state)
    if found is not None:
        return found
    if isinstance(record, TorchObject) and record.state is None and state is not None:
        record.state = state
        return 0
    if type(record) is dict and type(state) is dict and not state:
        return 0
    raise BadPickle("the pickle sets the state of an object in a way that torch.save does not")


def _key(value: Any) -> Any:
    # The edge types of heterogeneous graphs are the only tuples among keys.
    if type(value) is tuple and len(value) == 3 and all(type(part) is str for part in value):
        return value
    return plain_key(value)
