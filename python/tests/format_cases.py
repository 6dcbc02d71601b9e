"""What breaks each rule of docs/reference/format.md: one change of a sound store for each way.

Nothing of neargraph is imported here. `test_format_refuses.py` makes the stores and the changes.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from format_damage import Files
from format_reader import BLOCK, NOWHERE, crc32c

Edit = Callable[[Files], Any]


class Change(NamedTuple):
    """What is changed before all checksums are made right, and what after."""

    before: Edit = lambda _: None
    after: Edit = lambda _: None


class Case(NamedTuple):
    """A change of a store that breaks a rule."""

    rule: str
    store: str
    change: Change


CASES: list[Case] = []
ROOTS = ("root.a", "root.b")
RUN, ENTRIES, INNER, FAN = range(4)


def case(rule: str, store: str, *changes: Change) -> None:
    """Adds cases of a rule."""
    CASES.extend(Case(rule, store, change) for change in changes)


def le(value: int, width: int = 8) -> bytes:
    """A little-endian number."""
    return value.to_bytes(width, "little")


def both(*changes: Change) -> Change:
    """One change after the other."""

    def before(files: Files) -> None:
        for change in changes:
            change.before(files)

    def after(files: Files) -> None:
        for change in changes:
            change.after(files)

    return Change(before, after)


def _owner(files: Files, path: str) -> tuple[Any, Any]:
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    owner: Any = files.catalog
    for part in way:
        owner = owner[part]
    return owner, last


def put(path: str, value: Any) -> Change:
    """Sets a member of the catalog; the path has names and places, apart by dots."""

    def before(files: Files) -> None:
        owner, last = _owner(files, path)
        owner[last] = value

    return Change(before)


def drop(path: str) -> Change:
    """Removes a member of the catalog."""

    def before(files: Files) -> None:
        owner, last = _owner(files, path)
        del owner[last]

    return Change(before)


def more(path: str, *values: Any) -> Change:
    """Appends to a list of the catalog."""

    def before(files: Files) -> None:
        owner, last = _owner(files, path)
        owner[last].extend(values)

    return Change(before)


def version(number: int) -> Change:
    """Another version in the header."""
    return Change(lambda files: setattr(files, "version", number))


def page(name: str, number: int, offset: int, value: bytes) -> Change:
    """Overwrites bytes of a page."""
    return Change(lambda files: files.poke_page(name, number, offset, value))


def table(name: str, kind: int, offset: int, value: bytes) -> Change:
    """Overwrites bytes of a block of a page table."""
    return Change(lambda files: files.poke(f"{name}.map", files.table(name, kind) + offset, value))


def body(edit: Callable[[bytes], bytes]) -> Change:
    """Another body, with its checksums."""
    write = lambda files: files.seal_roots(edit(json.dumps(files.catalog).encode()))  # noqa: E731
    return Change(after=write)


def without(*names: str) -> Change:
    """Removes files."""
    return Change(after=lambda files: [files.bytes.pop(name) for name in names])


def cut(name: str, length: int) -> Change:
    """Shortens a file."""
    return Change(after=lambda files: files.bytes.update({name: files.bytes[name][:length]}))


def flip(name: str, at: Callable[[Files], int]) -> Change:
    """Flips a bit of a file after all checksums."""

    def after(files: Files) -> None:
        files.bytes[name][at(files)] ^= 4

    return Change(after=after)


def header(offset: int, value: bytes, slots: tuple[str, ...] = ROOTS) -> Change:
    """Overwrites bytes of headers and makes their checksums right."""

    def after(files: Files) -> None:
        for name in slots:
            files.poke(name, offset, value)
            files.poke(name, 44, le(crc32c(files.bytes[name][:44]), 4))

    return Change(after=after)


def spoil(offset: int) -> Change:
    """Flips a bit of both slots."""
    return both(*(flip(name, lambda _: offset) for name in ROOTS))


# Section 4

OTHER = Change(
    after=lambda files: files.seal_root(
        "root.b", json.dumps({**files.catalog, "fill": 0.5}).encode()
    )
)
LONE = {"page_bytes": 4096, "num_pages": 0, "map_blocks": 0, "table": []}
EMPTY = {"num_nodes": 0, "num_nodes_live": 0, "tensors": [], "dictionary": None}
TWICE = (b'"fill"', b'"page_bytes": 4096, "fill"')

case("4.1", "v3", without(*ROOTS))
case("4.2", "v3", header(8, le(6, 4)), header(8, le(6, 4), ROOTS[:1]))
case("4.2", "v3", header(8, le(99, 4), ROOTS[1:]))
case("4.3", "v3", *map(spoil, (0, 7, 25, 44, BLOCK, BLOCK + 9)))
case("4.3", "v3", header(12, le(8192, 4)), header(16, le((64 << 20) + 1)))
case("4.3", "v3", both(*(cut(name, BLOCK + 99) for name in ROOTS)))
case("4.3", "v3", both(*(cut(name, 4000) for name in ROOTS)))
case("4.3", "v3", both(without("root.a"), flip("root.b", lambda _: BLOCK)))
case("4.4", "v3", OTHER)
case("4.5", "v3", cut("e0.topo.dat", 7 * BLOCK - 1), cut("t6.map", BLOCK), without("t3.dat"))
case("4.5", "v0", cut("n0.keys.dat", 0), without("e0.index.map"))
case("4.6", "v3", body(lambda text: text[:-1]), body(lambda text: text + b"}"))
case("4.6", "v3", body(lambda text: text.replace(*TWICE, 1)), body(lambda _: b"[]"))
case("4.6", "v3", put("page_bytes", 4096.5), put("page_bytes", -4096))
case("4.7", "v4", version(3), version(2), version(1), version(0))
case("4.7", "v3", version(2), version(1), version(0))
case("4.7", "v2", version(1), version(0))
case("4.7", "v1", version(0), drop("log"))
case("4.7", "v0", version(1), version(3), put("fill", 0.5), put("reuse_ids", True))
case("4.7", "v0", put("log", {"file": 0, "offset": 0, "chain": 0}))
case("4.7", "v0", put("segments.2.physical_pages", 1))
case("4.8", "v3", *(put("page_bytes", size) for size in (0, 5000, 2048, 131072)))
case("4.8", "v3", put("segments.0.page_bytes", 12288), put("fill", 0.05), put("fill", 1.5))
case("4.8", "v3", put("log.file", 2), put("log.offset", 100), put("log.offset", 1 << 60))
case("4.9", "v3", more("node_types", *({"name": f"n{i}", **EMPTY} for i in range(32768))))
case("4.9", "v3", more("segments", *({"name": f"s{i}", **LONE} for i in range(65530))))
case("4.10", "v0", put("node_types.1.name", "user"), put("segments.3.name", "t2"))
case("4.10", "v3", put("node_types.0.tensors.1.name", "x"))
case("4.10", "v3", *(put("segments.3.name", name) for name in ("a/b", "", "n" * 65, "a b", "é")))
case("4.11", "v3", put("segments.0.table.0.block", 5), put("segments.0.map_blocks", 0))
case("4.11", "v3", put("segments.3.map_blocks", 3), put("segments.3.map_blocks", 1))
case("4.11", "v3", more("segments.0.table", {"block": 0, "crc": 0}), put("segments.0.table", []))
case("4.12", "v3", more("segments", {"name": "lone", **LONE}))
case("4.12", "v3", put("node_types.0.tensors.0.scales", 2))
case("4.12", "v3", put("edge_types.0.topology.index", 0), put("node_types.0.dead.segment", 99))
case("4.12", "v3", put("segments.2.page_bytes", 8192), put("page_bytes", 8192))
case("4.12", "v3", both(put("segments.2.num_pages", 2), put("segments.2.physical_pages", 3)))
case("4.12", "v3", put("node_types.0.tensors.1.sparse.num_entries", 9999))
case("4.12", "v3", put("node_types.0.tensors.0.shape", [1000]))
case("4.13", "v0", put("node_types.1.num_nodes", (1 << 40) + 1))
case("4.13", "v0", put("node_types.1.num_nodes_live", 40001))
case("4.13", "v0", put("node_types.1.num_nodes_live", 39999))
case("4.13", "typed", put("edge_types.4.num_edge_ids", (1 << 40) + 1))
case("4.13", "typed", put("edge_types.2.num_edge_ids", 1))
case("4.13", "v3", put("node_types.0.tensors.0.num_rows", 29))
case("4.13", "v3", put("edge_types.0.topology.num_l_pages", 6))
case("4.13", "v3", *(put("node_types.0.order.num_nodes", count) for count in (0, 31)))
case("4.13", "v3", put("node_types.0.tensors.1.sparse.num_entries", (1 << 40) + 1))
case("4.13", "v3", put("segments.0.num_pages", 1 << 42), put("segments.0.map_blocks", 1 << 46))
case("4.13", "v3", put("segments.0.physical_pages", 1 << 42))
case("4.14", "v3", put("edge_types.0.source", 1), put("edge_types.0.destination", 9))
case("4.14", "v3", put("edge_types.0.reverse", 1))
case("4.14", "typed", put("edge_types.0.reverse", 0), put("edge_types.0.reverse", 3))
case("4.14", "typed", put("edge_types.1.reverse", None), put("edge_types.1.unique", True))
case("4.14", "typed", put("edge_types.1.has_weight", True))
WIDE = [put(f"node_types.1.{name}", (1 << 32) + 1) for name in ("num_nodes", "num_nodes_live")]
case("4.15", "v3", put("edge_types.0.topology.id_width", 3))
case("4.15", "v0", both(*WIDE, put("edge_types.0.source", 1)))
case("4.15", "v3", *(put("node_types.0.tensors.0.dtype", name) for name in ("f8", "u8", "f32")))
case("4.15", "v3", put("node_types.0.tensors.1.dtype", "i32"))
SHAPES = ([0], [1 << 31], [1 << 40, 1 << 40])
case("4.15", "v3", *(put("node_types.0.tensors.0.shape", shape) for shape in SHAPES))
case("4.15", "v3", put("node_types.0.tensors.1.sparse.value", "i8"))
case("4.15", "v4", put("node_types.0.tensors.2.class_names", ["a"] * 65537))
case("4.15", "v4", put("node_types.0.tensors.2.dtype", "f64"))
case("4.15", "v3", put("node_types.0.tensors.1.sparse.column_bytes", 3))
case("4.15", "v3", put("node_types.0.tensors.1.shape", [65537]))
case(
    "4.16", "v3", *(put(f"edge_types.0.topology.{name}", None) for name in ("l_root", "gmap_root"))
)
case("4.16", "v3", put("edge_types.0.topology.num_h_lists", 0))
case("4.16", "v3", put("node_types.0.dead.root", None))
case("4.16", "v0", put("node_types.0.dictionary.names_root", None))
case("4.16", "v0", put("node_types.0.dictionary.keys_root", {"page": 0, "level": 6}))
case("4.16", "v3", put("edge_types.0.topology.h_root", {"page": 4, "level": 0}))
case("4.16", "typed", put("edge_types.0.topology.l_root", {"page": 0, "level": 0}))


def keyed(*keys: tuple[str, str]) -> Change:
    """Other keys of batches: key and note."""
    return put("keys", [{"lsn": 1, "key": key, "note": note} for key, note in keys])


case("4.17", "v5", keyed(("", "")), keyed(("0", "")), keyed(("AB", "")), keyed(("ab" * 65, "")))
case("4.17", "v5", keyed(("ab", "cd" * 4097)), keyed(("ab", ""), ("ab", "01")))
case("4.17", "v5", keyed(*((f"{number:04x}", "") for number in range(4097))))
case("4.17", "v5", keyed(*((f"{number:04x}", "ab" * 4096) for number in range(1100))))

# Section 5

for segment in ("e0.topo", "e0.index", "t2", "t3", "n0.names", "n0.index", "n0.keys"):
    case("5.1", "v0", flip(f"{segment}.dat", lambda _: 40), flip(f"{segment}.map", lambda _: 70))
case("5.1", "v3", flip("t4.dat", lambda _: 0), flip("t5.dat", lambda _: 0))
case("5.1", "v3", flip("t6.dat", lambda _: 4095), flip("t6.map", lambda _: BLOCK))
for kind in (ENTRIES, INNER, FAN):
    case("5.1", "v3", flip("e0.topo.map", lambda files, k=kind: files.table("e0.topo", k) + 33))
for offset, value in ((0, b"XT"), (2, b"\4"), (3, b"\1"), (4, b"\7"), (8, b"\1")):
    case("5.2", "v0", *(table("e0.topo", kind, offset, value) for kind in (RUN, INNER)))
    case("5.2", "v3", *(table("t2", kind, offset, value) for kind in (FAN, ENTRIES)))
case("5.2", "v0", table("e0.topo", RUN, 2, b"\1"), table("e0.topo", INNER, 2, b"\0"))
case("5.2", "v0", table("e0.topo", INNER, 12, b"\2"))
case("5.2", "v3", table("t2", ENTRIES, 2, b"\0"), table("t2", FAN, 2, b"\2"))
case("5.3", "v0", table("e0.topo", INNER, 16, le(2)))
case("5.3", "v3", table("e0.topo", FAN, 32, le(5)), table("e0.topo", FAN, 44, le(5)))
case("5.3", "v3", table("e0.topo", FAN, 44, le(NOWHERE) + le(1, 4)))
case("5.4", "v0", table("e0.topo", RUN, 28, le(0, 4)), table("e0.topo", RUN, 28, le(6, 4)))
case("5.4", "v0", table("e0.topo", RUN, 16, le(1)), table("e0.topo", RUN, 16, le(1 << 50)))
PLACE = 32 + 5 * 16  # The entry of the page behind the last one of e0.topo.
case("5.5", "v3", *(table("e0.topo", ENTRIES, 32, le(place)) for place in (7, 1 << 60)))
case("5.5", "v3", *(table("e0.topo", ENTRIES, PLACE + at, b"\1") for at in (8, 12, 15)))
case("5.5", "v3", table("e0.topo", ENTRIES, PLACE, le(0)))
case("5.5", "wide", table("e0.topo", ENTRIES, 32 + 63 * 28, le(0)))
case("5.6", "v0", *(table("e0.topo", RUN, at, b"\1") for at in (32 + 5 * 4, 4095)))
case("5.6", "v0", *(table("e0.topo", INNER, at, b"\1") for at in (28, 4095)))
case("5.6", "v3", *(table("e0.topo", FAN, at, b"\1") for at in (16, 80, 4095)))
case("5.6", "v3", *(table("e0.topo", ENTRIES, at, b"\1") for at in (16, 31)))
case("5.6", "wide", table("e0.topo", ENTRIES, 4095, b"\1"))
SHORTER = both(table("e0.topo", RUN, 28, le(4, 4)), table("e0.topo", RUN, 32 + 4 * 4, bytes(4)))
case("5.7", "v0", SHORTER, page("e0.index", 1, 24, le(5)), page("e0.index", 1, 24, le(1 << 60)))

# Section 6. In v0, page 1 of e0.index is the L index, 2 the H index, 3 the gmap directory.

for offset, value in ((0, b"X"), (2, b"\1"), (3, b"\5"), (4, b"\1"), (5, b"\1"), (24, b"\1")):
    case("6.1", "v0", Change(lambda f, o=offset, v=value: f.poke_page("e0.topo", l_page(f), o, v)))
case("6.1", "v0", Change(lambda files: files.poke_page("e0.topo", l_page(files), 31, b"\1")))


def l_page(files: Files) -> int:
    """The one L-type page of v0."""
    ((_, number),) = files.checkpoint.topologies[0].l_index.leaves()
    return number


def slot(offset: int, value: bytes) -> Change:
    """Overwrites bytes of the last slot of the L-type page."""
    where = BLOCK - 8 + offset
    return Change(lambda files: files.poke_page("e0.topo", l_page(files), where, value))


case("6.2", "v0", *(Change(lambda f, n=n: f.poke_page("e0.topo", l_page(f), 6, le(n, 2)))
                    for n in (0, 509, 65535)))  # fmt: skip
case("6.2", "v0", slot(4, le(31, 2)), slot(4, le(4090, 2)), slot(6, le(0, 2)), slot(6, le(999, 2)))
for number in (1, 2, 3):
    for offset, value in ((0, b"X"), (2, b"\7"), (3, b"\1"), (4, le(0, 2)), (4, le(300, 2))):
        case("6.3", "v0", page("e0.index", number, offset, value))
case("6.3", "v0", page("n0.index", 0, 0, b"X"), page("n0.index", 0, 2, b"\0"))


def lower_key(files: Files) -> None:
    """A key of the root that is not the largest of the page below."""
    root = files.checkpoint.topologies[0].l_index.root
    at = files.at("e0.index", root["page"]) + 16
    key = int.from_bytes(files.bytes["e0.index.dat"][at : at + 8], "little")
    files.poke("e0.index.dat", at, le(key + 1))


case("6.3", "tall", Change(lower_key))


def one_more_hub(files: Files) -> None:
    """A bit of the gmap without a record of the H index."""
    bitmap = next(page for _, page in files.checkpoint.topologies[0].gmap.leaves())
    files.poke_page("e0.index", bitmap, 1, b"\2")


case("6.4", "v0", Change(one_more_hub))
case("6.5", "v0", page("e0.index", 2, 32, le(1 << 40)), page("e0.index", 2, 24, le(5)))

# Section 7. In v3, t3 are scales, t4 the spans of sparse rows, t5 their entries, t6 an order.

SCALES = (-1.0, float("nan"), float("inf"), 2.0**-127)
case("7.1", "v3", *(page("t3", 0, 8, struct.pack("<f", scale)) for scale in SCALES))
case("7.2", "v3", page("t4", 0, 8, le(301 << 40)), page("t4", 0, 8, le(1 << 40 | 85)))
case("7.2", "v3", page("t4", 0, 8, le(1 << 40 | (1 << 40) - 1)))
case("7.3", "v3", page("t5", 0, 0, le(300, 2)), page("t5", 0, 2, bytes(4)))
case("7.3", "v3", page("t5", 0, 2, struct.pack("<f", -0.0)))
case("7.4", "v3", page("t6", 0, 3, le(30, 3)), page("t6", 0, 87, le(1 << 23, 3)))

# Section 8

for segment in ("n0.names", "n0.keys"):
    for offset, value in ((0, b"X"), (2, b"\1"), (3, b"\1"), (4, bytes(2)), (8, b"\1")):
        case("8.1", "v0", page(segment, 0, offset, value))
    case("8.1", "v0", page(segment, 0, 4, le(3000, 2)), page(segment, 0, 6, le(4095, 2)))
    case("8.2", "v0", page(segment, 0, BLOCK - 12, le(15, 2)))
    case("8.2", "v0", page(segment, 0, BLOCK - 4, le(20, 2)))
case("8.3", "v0", page("n0.names", 0, 24, b"\xff"), page("n0.names", 0, 16, le(7)))
case("8.3", "v0", page("n0.keys", 0, 16, le(6)), page("n0.index", 0, 16, le(4)))

# Section 9

ADD = b"\1\0\x1e"  # Add node 30, which is the next one.


def record(ops: bytes, **fields: int) -> Change:
    """A log that holds this commit alone."""
    return Change(lambda files: files.append_record(ops, **fields))


def short_log(files: Files) -> None:
    """A log that begins where the file has less than 64 KiB left."""
    log = files.catalog["log"]
    log["offset"] = len(files.bytes["wal.a"]) - (64 << 10) + BLOCK


SOUND = record(ADD)
CUT = {"file_bytes": 1 << 20}
case("9.1", "v3", cut("wal.a", 65535), cut("wal.b", 4096), Change(short_log))
case("9.2", "v3", record(ADD, chain=7), record(ADD, length=4), record(ADD * 99, length=9999))
case("9.2", "v3", record(ADD, blocks=2), record(ADD, length=1 << 63))
case("9.3", "v3", record(ADD, **CUT))
NOT_DONE = [
    b"\x09\0\0",  # No such tag.
    b"\x08\1\1\0k",  # The root has no keys.
    b"\0\0\0",
    b"\1\0",  # Cut.
    b"\1\0" + b"\x80" * 10 + b"\1",  # More than 10 bytes.
    b"\1\0" + b"\xff" * 9 + b"\2",  # More than 64 bits.
    b"\1\x80\x80\x04\x1e",  # A type past 2^16.
    b"\1\x09\0",  # No such type.
    b"\1\0\x1f",  # Not the next node.
    b"\1\0\0",  # A node that is there.
    b"\2\0\x1f",  # Deletes none.
    b"\2\0\x14",  # Deletes a deleted one.
    b"\3\0\0\1\x09\0\0",  # Another edge id than the next.
    b"\3\0\x1f\1\xb0\2\0\0",  # An end that is not there.
    b"\4\0\1\2",  # No such edge.
    b"\6\0\0\0\4\1\2\3\4",  # Another width.
    b"\6\0\7\0\0",  # No such tensor.
    b"\6\0\1\0\xb0\x09" + bytes(1200),  # Sparse rows do not change.
    b"\6\0\0\x1f\x28" + bytes(40),  # No such node.
    b"\6\0\0\0\x28" + bytes(39),  # A row that is cut.
    b"\7\0\0\0\x28" + bytes(40),  # No such edge tensor.
]
case("9.4", "v3", *map(record, NOT_DONE))
case("9.4", "v5", record(b"\x08\0\1\0"))  # An empty key.
case("9.4", "v5", record(b"\x08\x41\1\0" + bytes(65)), record(b"\x08\1\1\x81\x20" + bytes(4098)))
case("9.4", "v5", record(b"\x08\2\1\0\0\xab"), record(b"\x08\2\1\0k"))  # Known; cut.
case("9.5", "v3", record(ADD, lsn_ahead=2))
