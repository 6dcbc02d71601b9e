"""The catalog of a store by docs/reference/format.md, section 4: members, their types, and rules.

Nothing of neargraph is imported here.
"""

import json
import math
import re
from typing import Any

Catalog = dict[str, Any]

DTYPE_BYTES = {
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "bool": 1,
}
VALUE_BYTES = {"one": 0, "u8": 1, "f32": 4}
PAGE_BYTES = [4096 << shift for shift in range(5)]


class Damaged(Exception):
    """What a reader refuses."""


def ensure(condition: bool, what: str) -> None:
    """Refuses unless the condition holds."""
    if not condition:
        raise Damaged(what)


# By object: members that are always there, and those that may be absent. A name after a colon is
# the object that a member holds; `?` allows null, `[]` makes it a list.
OBJECTS = {
    "catalog": (
        "page_bytes node_types[]:node_type edge_types[]:edge_type segments[]:segment",
        "fill reuse_ids log:log keys[]:keyed",
    ),
    "log": ("file offset chain", ""),
    "keyed": ("lsn key note", ""),
    "node_type": (
        "name num_nodes num_nodes_live tensors[]:tensor dictionary?:dictionary",
        "dead:dead order:order",
    ),
    "edge_type": (
        "source destination relation num_edges num_edge_ids undirected unique reverse? "
        "has_edge_ids has_time has_weight tensors[]:tensor topology:topology",
        "",
    ),
    "tensor": (
        "name dtype shape[] num_rows mask_width? segment",
        "scales sparse:sparse class_names[]",
    ),
    "sparse": ("entries num_entries column_bytes value", ""),
    "topology": (
        "id_width pages index l_root?:root h_root?:root gmap_root?:root num_l_pages num_h_lists",
        "",
    ),
    "dictionary": ("names names_index keys names_root?:root keys_root?:root", ""),
    "dead": ("segment root?:root", ""),
    "order": ("segment num_nodes", ""),
    "root": ("page level", ""),
    "segment": ("name page_bytes num_pages map_blocks table[]:pointer", "physical_pages"),
    "pointer": ("block crc", ""),
}
_TEXTS = {"name", "relation", "dtype", "value", "class_names", "key", "note"}
_BOOLS = {"undirected", "unique", "has_edge_ids", "has_time", "has_weight", "reuse_ids"}


def parse_catalog(body: bytes) -> Catalog:
    """Section 4: the members of the catalog, with the defaults of those that are absent."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        ensure(len(dict(pairs)) == len(pairs), "a member is there twice")
        return dict(pairs)

    try:
        catalog = json.loads(body, object_pairs_hook=once)
    except ValueError as error:
        raise Damaged(f"the catalog is not JSON: {error}") from error
    _check_object("catalog", catalog)
    return {"fill": 0.9, "reuse_ids": False, **catalog}


def _check_object(kind: str, found: Any) -> None:
    ensure(isinstance(found, dict), f"{kind}: not an object")
    always, absent = (names.split() for names in OBJECTS[kind])
    members = {re.match(r"\w+", name)[0]: name for name in always + absent}
    missing = {re.match(r"\w+", name)[0] for name in always} - set(found)
    ensure(not missing, f"{kind}: no member {missing}")
    ensure(set(found) <= set(members), f"{kind}: unknown member {set(found) - set(members)}")
    for name, value in found.items():
        _check_value(members[name], name, value)


def _check_value(spelling: str, name: str, value: Any) -> None:
    if value is None and "?" in spelling:
        return
    if "[]" in spelling:
        ensure(isinstance(value, list), f"{name}: not a list")
        for item in value:
            _check_value(spelling.replace("[]", ""), name, item)
    elif ":" in spelling:
        _check_object(spelling.split(":")[1], value)
    elif name in _TEXTS:
        ensure(isinstance(value, str), f"{name}: not a text")
    elif name in _BOOLS:
        ensure(isinstance(value, bool), f"{name}: not true or false")
    elif name == "fill":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        ensure(number, f"{name}: not a number")
    else:
        whole = isinstance(value, int) and not isinstance(value, bool)
        ensure(whole and 0 <= value < 2**64, f"{name}: not a number below 2^64")


def columns_of(tensor: dict[str, Any]) -> int:
    """Elements of a row."""
    return math.prod(tensor["shape"])


def rows_layout(row_bytes: int) -> tuple[int, int, int]:
    """Section 7: page bytes, rows of a page (0: rows are wider), pages of a wider row."""
    for page_bytes in PAGE_BYTES:
        if row_bytes <= page_bytes and page_bytes % row_bytes <= page_bytes // 8:
            return page_bytes, page_bytes // row_bytes, 0
    return 4096, 0, -(-row_bytes // 4096)


def order_bytes(num_nodes: int) -> int:
    """Bytes of a row number in an order of rows."""
    return 3 if num_nodes <= 1 << 24 else 4 if num_nodes <= 1 << 32 else 5


def sparse_entry_bytes(sparse: dict[str, Any]) -> int:
    """Bytes of an entry of a sparse row."""
    return sparse["column_bytes"] + VALUE_BYTES[sparse["value"]]


def needed_version(catalog: Catalog) -> int:
    """Section 12: the oldest version that has all that the catalog holds."""
    nodes, edges = catalog["node_types"], catalog["edge_types"]
    tensors = [tensor for owner in nodes + edges for tensor in owner["tensors"]]
    if "keys" in catalog:
        return 5
    if any(tensor.get("class_names") for tensor in tensors):
        return 4
    if any("order" in node for node in nodes):
        return 3
    if any("scales" in tensor or "sparse" in tensor for tensor in tensors):
        return 2
    changed = "log" in catalog or catalog["fill"] != 0.9 or catalog["reuse_ids"]
    changed = changed or any("dead" in node for node in nodes)
    return int(changed or any("physical_pages" in s for s in catalog["segments"]))


def keep_key(keys: list[dict[str, Any]], known: dict[str, Any]) -> list[dict[str, Any]]:
    """Section 9: the keys with one more; the oldest 64 go when there are too many."""
    keys = [*keys, known]
    while len(keys) > 4096 or (_keyed_bytes(keys) > 4 << 20 and len(keys) > 64):
        keys = keys[64:]
    return keys


def _keyed_bytes(keys: list[dict[str, Any]]) -> int:
    return sum(len(known["key"]) + len(known["note"]) for known in keys) // 2


def check_keys(keys: list[dict[str, Any]]) -> None:
    """Rule 4.17."""
    for known in keys:
        for text, least, most in ((known["key"], 1, 64), (known["note"], 0, 4096)):
            ensure(re.fullmatch("([0-9a-f]{2})*", text) is not None, f"{text!r} is no bytes")
            ensure(least <= len(text) // 2 <= most, "the length of a key or of a note")
    ensure(len({known["key"] for known in keys}) == len(keys), "a key is there twice")
    ensure(len(keys) <= 4096, f"{len(keys)} keys")
    ensure(_keyed_bytes(keys) <= 4 << 20 or len(keys) <= 64, "keys are too long together")


def check_catalog(catalog: Catalog, version: int) -> None:
    """Section 4: the rules that a catalog keeps."""
    ensure(needed_version(catalog) <= version, f"a catalog newer than version {version}")
    ensure(version == 0 or "log" in catalog, "there is no log")
    ensure(catalog["page_bytes"] in PAGE_BYTES, "page size")
    ensure(0.1 <= catalog["fill"] <= 1, "fill")
    check_keys(catalog.get("keys", []))
    if "log" in catalog:
        log = catalog["log"]
        place = log["file"] < 2 and log["offset"] % 4096 == 0 and log["offset"] < 1 << 60
        ensure(place, "the place of the log")
    most = max(len(catalog["node_types"]), len(catalog["edge_types"]))
    ensure(most <= 32768 and len(catalog["segments"]) <= 65536, "too many types or segments")
    for segment in catalog["segments"]:
        _check_segment(segment)
    names = [segment["name"] for segment in catalog["segments"]]
    ensure(len(set(names)) == len(names), "two segments have one name")
    claims = _Claims(catalog)
    for node_type in catalog["node_types"]:
        _check_node_type(claims, node_type)
    ensure(_distinct(catalog["node_types"]), "two node types have one name")
    for number in range(len(catalog["edge_types"])):
        _check_edge_type(claims, catalog, number)
    ensure(len(claims.taken) == len(names), "a segment belongs to nothing")


def _distinct(owners: list[dict[str, Any]]) -> bool:
    return len({owner["name"] for owner in owners}) == len(owners)


def _check_segment(segment: dict[str, Any]) -> None:
    ensure(re.fullmatch(r"[A-Za-z0-9._]{1,64}", segment["name"]) is not None, "segment name")
    ensure(segment["page_bytes"] in PAGE_BYTES, "page size of a segment")
    moved = "physical_pages" in segment
    ensure(max(segment["num_pages"], segment.get("physical_pages", 0)) < 1 << 42, "pages")
    leaves = -(-segment["num_pages"] // (1016 // (segment["page_bytes"] // 4096)))
    inner = -(-leaves // 340)
    ensure(len(segment["table"]) == inner, "inner blocks of a page table")
    blocks = segment["map_blocks"]
    fits = blocks >= inner if moved else blocks == leaves + inner
    ensure(fits and blocks < 1 << 46, "blocks of a page table")
    inside = all(pointer["block"] < blocks for pointer in segment["table"])
    ensure(inside and all(pointer["crc"] < 1 << 32 for pointer in segment["table"]), "pointer")


class _Claims:
    """Which segments belong to something already."""

    def __init__(self, catalog: Catalog) -> None:
        self.segments, self.taken = catalog["segments"], set[int]()

    def take(self, number: int, page_bytes: int) -> int:
        """Pages of a segment that nothing else has."""
        ensure(number < len(self.segments), f"there is no segment {number}")
        ensure(number not in self.taken, f"segment {number} belongs to two things")
        self.taken.add(number)
        segment = self.segments[number]
        ensure(segment["page_bytes"] == page_bytes, f"page size of {segment['name']}")
        return int(segment["num_pages"])

    def take_rows(self, number: int, row_bytes: int, rows: int) -> None:
        """A segment that holds rows."""
        page_bytes, per_page, pages_per_row = rows_layout(row_bytes)
        pages = -(-rows // per_page) if per_page else rows * pages_per_row
        found = self.take(number, page_bytes)
        ensure(found == pages, f"segment {number} has {found} pages, not {pages}")


def _check_root(root: dict[str, int] | None, pages: int, wanted: bool) -> None:
    ensure((root is not None) == wanted, "a tree has a root but no records, or none")
    if root is not None:
        ensure(root["page"] < pages and root["level"] <= 5, "the root of a tree")


def _check_node_type(claims: _Claims, owner: dict[str, Any]) -> None:
    count = owner["num_nodes"]
    ensure(owner["num_nodes_live"] <= count <= 1 << 40, "number of nodes")
    dead = count - owner["num_nodes_live"]
    ensure("dead" in owner or dead == 0, "deleted nodes without a list")
    _check_tensors(claims, owner["tensors"], count)
    if "dead" in owner:
        pages = claims.take(owner["dead"]["segment"], 4096)
        _check_root(owner["dead"]["root"], pages, dead > 0)
    if "order" in owner:
        order = owner["order"]
        ensure(1 <= order["num_nodes"] <= count, "nodes of an order of rows")
        claims.take_rows(order["segment"], order_bytes(order["num_nodes"]), order["num_nodes"])
    if owner["dictionary"] is not None:
        meta = owner["dictionary"]
        _check_root(meta["names_root"], claims.take(meta["names_index"], 4096), count > 0)
        claims.take(meta["names"], 4096)
        _check_root(meta["keys_root"], claims.take(meta["keys"], 4096), count > 0)


def _check_edge_type(claims: _Claims, catalog: Catalog, number: int) -> None:
    nodes, edges = catalog["node_types"], catalog["edge_types"]
    meta = edges[number]
    ensure(max(meta["source"], meta["destination"]) < len(nodes), "ends of an edge type")
    if meta["reverse"] is not None:
        ensure(meta["reverse"] < len(edges), "there is no such reverse")
        back = edges[meta["reverse"]]
        ends = (back["source"], back["destination"]) == (meta["destination"], meta["source"])
        columns = ("has_edge_ids", "has_time", "has_weight", "unique")
        same = all(back[name] == meta[name] for name in columns)
        ensure(back["reverse"] == number and ends and same, "a reverse that is not one")
    ensure(meta["num_edge_ids"] <= 1 << 40, "edge ids")
    ensure(meta["has_edge_ids"] or meta["num_edge_ids"] == 0, "edge ids of entries without ids")
    place = meta["topology"]
    ensure(place["id_width"] in (4, 5), "bytes of a source")
    wide = nodes[meta["source"]]["num_nodes"] > 1 << 32
    ensure(place["id_width"] == 5 or not wide, "sources do not fit into 4 bytes")
    ensure(place["num_l_pages"] <= claims.take(place["pages"], catalog["page_bytes"]), "L pages")
    pages = claims.take(place["index"], 4096)
    _check_root(place["l_root"], pages, place["num_l_pages"] > 0)
    _check_root(place["h_root"], pages, place["num_h_lists"] > 0)
    _check_root(place["gmap_root"], pages, place["num_h_lists"] > 0)
    _check_tensors(claims, meta["tensors"], meta["num_edge_ids"])


def _check_tensors(claims: _Claims, tensors: list[dict[str, Any]], rows: int) -> None:
    ensure(len(tensors) <= 32768 and _distinct(tensors), "two tensors have one name")
    for tensor in tensors:
        ensure(tensor["num_rows"] == rows, f"rows of {tensor['name']}")
        ensure(tensor["dtype"] in DTYPE_BYTES, f"dtype {tensor['dtype']}")
        columns, scales, sparse = columns_of(tensor), tensor.get("scales"), tensor.get("sparse")
        row_bytes = columns * DTYPE_BYTES[tensor["dtype"]]
        ensure(1 <= row_bytes <= 1 << 30, f"a row of {row_bytes} bytes")
        claims.take_rows(tensor["segment"], 8 if sparse else row_bytes, rows)
        classes = len(tensor.get("class_names", []))
        ensure(classes <= 1 << 16, f"{classes} names of classes")
        ensure(classes == 0 or tensor["dtype"] == "i64", "names of classes of what is not i64")
        if scales is not None:
            ensure(tensor["dtype"] == "i8", "scales of what is not i8")
            claims.take_rows(scales, 4 * columns, 1)
        if sparse is not None:
            ensure(tensor["dtype"] == "f32" and scales is None, "sparse rows of what is not f32")
            ensure(sparse["value"] in VALUE_BYTES, f"value {sparse['value']}")
            narrow = sparse["column_bytes"] == 2 and columns <= 1 << 16
            ensure(narrow or sparse["column_bytes"] == 4, "bytes of a column")
            ensure(sparse["num_entries"] <= 1 << 40, "entries")
            claims.take_rows(sparse["entries"], sparse_entry_bytes(sparse), sparse["num_entries"])
