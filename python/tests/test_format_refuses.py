"""Each rule of docs/reference/format.md and compiled.md beside it that a reader checks is checked.

Every case breaks one rule in one way, with all checksums right (but for the rules that are about
checksums). neargraph refuses the store, and so does the reader that was written from the documents.
The cases of docs/reference/format.md are in `format_cases.py`.
"""

import copy
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from format_cases import CASES, SOUND, Change, drop, put
from format_catalog import OBJECTS, Damaged
from format_damage import EpochBytes, Files
from format_document import rules
from format_epochs import Epoch
from format_log import Store
from format_reader import BLOCK, NewerVersion, crc32c
from graphs import Edges, Graph, Nodes
from test_format_document import all_types, compile_epochs
from update_model import make_store

import neargraph as ng

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def wide_pages(path: Path) -> Path:
    """Topology pages of 16 KiB of which some have moved: a block of entries has room for more."""
    random = np.random.default_rng(1)
    print("seed 1")
    ends = random.integers(0, 3000, (2, 20_000))
    edges = {("node", "to", "node"): Edges(*ends.copy(), edge_ids=False)}
    Graph({"node": Nodes(3000)}, edges).write(path, page_bytes=16384)
    with ng.open(path, memory="32MB") as store, store.write() as tx:
        tx.add_edge(None, 1, 2)
    return path


def tall_tree(path: Path) -> Path:
    """More L-type pages than a page of the L index has room for."""
    random = np.random.default_rng(2)
    print("seed 2")
    ends = random.integers(0, 12_000, (2, 60_000))
    more = {"times": np.zeros(60_000, np.int64), "weights": np.zeros(60_000, np.float32)}
    edges = {("node", "to", "node"): Edges(*ends.copy(), **more)}
    Graph({"node": Nodes(12_000)}, edges).write(path)
    return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> dict[str, Path]:
    """Sound stores by name."""
    made = tmp_path_factory.mktemp("sound")
    found = {}
    for number in range(6):
        with tarfile.open(FIXTURES / f"v{number}" / "store.tar.gz") as packed:
            packed.extractall(made / f"v{number}", filter="data")
        found[f"v{number}"] = made / f"v{number}" / "store.ng"
    found["typed"] = Path(make_store(made / "typed.ng"))
    found["wide"] = wide_pages(made / "wide.ng")
    found["tall"] = tall_tree(made / "tall.ng")
    return found


def read_all(path: Path, names: list[str], recover: bool) -> None:
    """Asks neargraph for everything."""
    with ng.open(path, memory="32MB", recover=recover) as store:
        snap = store.snapshot()
        for owner in all_types(snap).edge_types:
            nodes = np.arange(snap.schema.node_type(owner.triple[2]).num_nodes)
            snap.neighbors(owner.triple, nodes)
            for tensor in owner.tensors:
                snap.edge_features(owner.triple, np.arange(owner.num_edge_ids), tensor.name)
        for owner in snap.schema.node_types:
            snap.dead_nodes(owner.name)
            nodes = np.arange(owner.num_nodes)
            for tensor in owner.tensors:
                snap.features(owner.name, nodes, tensor.name)
            if owner.has_dictionary:
                snap.names(nodes, owner.name)
                snap.lookup(names, owner.name)


def read_all_by_the_document(path: Path, names: list[str], recover: bool) -> None:
    """Asks the other reader for everything."""
    reader = Store(path, replay=recover)
    for number, meta in enumerate(reader.edge_types):
        # In v0 most of many nodes have no list.
        count = reader.nodes[meta["destination"]].ids
        for node in [*range(min(count, 3000)), *range(3000, count, 500), count - 1]:
            reader.neighbors(number, node)
    owners = {"node": (reader.node_types, reader.nodes), "edge": (reader.edge_types, reader.edges)}
    for kind, (metas, counts) in owners.items():
        for owner, meta in enumerate(metas):
            for place in range(len(meta["tensors"])):
                for row in range(counts[owner].ids):
                    reader.values(kind, owner, place, row)
    for number, meta in enumerate(reader.node_types):
        if meta["dictionary"] is not None:
            for node in range(reader.nodes[number].ids):
                reader.name(number, node)
            for name in names:
                reader.lookup(number, name)


def broken(stores: dict[str, Path], name: str, change: Change, to: Path) -> Path:
    """A copy of a store with a change."""
    files = Files(stores[name])
    change.before(files)
    files.seal()
    change.after(files)
    return files.save(to)


def known_names(stores: dict[str, Path], name: str) -> list[str]:
    """Keys of a sound store."""
    reader = Store(stores[name])
    return [reader.name(0, node) for node in range(reader.nodes[0].ids)] if name == "v0" else []


@pytest.mark.parametrize("name", ["v0", "v1", "v2", "v3", "v4", "v5", "typed", "wide", "tall"])
@pytest.mark.parametrize("recover", [True, False])
def test_a_store_without_a_change_is_read(stores, tmp_path, name, recover):
    names = known_names(stores, name)
    for number, change in enumerate([Change(), SOUND] if name == "v3" else [Change()]):
        path = broken(stores, name, change, tmp_path / f"{number}.ng")
        read_all_by_the_document(path, names, recover)
        read_all(path, names, recover)


def _ids(index: int) -> str:
    before = [case.rule for case in CASES[:index]]
    return f"{CASES[index].rule}-{before.count(CASES[index].rule)}"


@pytest.mark.parametrize("index", range(len(CASES)), ids=_ids)
def test_a_store_that_breaks_a_rule_is_refused(stores, tmp_path, index):
    rule, name, change = CASES[index]
    names, recover = known_names(stores, name), rule.startswith("9.")
    path = broken(stores, name, change, tmp_path / "broken.ng")
    with pytest.raises((Damaged, NewerVersion, FileNotFoundError)):
        read_all_by_the_document(path, names, recover)
    wanted: tuple[type[Exception], ...] = (ng.StoreDamaged,)
    if rule in ("4.1", "4.2"):
        wanted = (ng.NotAStore if rule == "4.1" else ng.NewerVersion,)
    elif rule == "4.5":
        wanted = (ng.StoreDamaged, ng.IoFailed)
    elif rule == "9.4":
        wanted = (ng.exceptions.NeargraphError,)
    with pytest.raises(wanted):
        read_all(path, names, recover)


def test_every_rule_of_the_documents_has_a_case():
    assert rules("format.md") == sorted({case.rule for case in CASES}, key=_number)
    assert rules("compiled.md") == sorted(EPOCH_CASES, key=_number)


def _number(rule: str) -> tuple[str, int]:
    part, number = rule.split(".")
    return part, int(number)


# Members of the catalog


def _objects(value: Any, kind: str = "catalog", path: str = "") -> list[tuple[str, str]]:
    """Kind and path of an object of each kind in a catalog, those with most members."""
    found = [(kind, path)]
    for spelling in " ".join(OBJECTS[kind]).split():
        name = spelling.split(":")[0].rstrip("[]?")
        inner = value.get(name)
        if ":" in spelling and inner:
            where = f"{path}{name}."
            if isinstance(inner, list):
                place = max(range(len(inner)), key=lambda at: (_filled(inner[at]), at))
                inner, where = inner[place], f"{where}{place}."
            found += _objects(inner, spelling.split(":")[1], where)
    return found


def _filled(value: dict[str, Any]) -> int:
    return sum(map(bool, value.values()))


def _changes_of_members(catalog: dict[str, Any]) -> list[Change]:
    """Each member of each object: unknown, absent, null, and of another type."""
    changes = []
    for kind, path in _objects(catalog):
        always, absent = (names.split() for names in OBJECTS[kind])
        changes.append(put(f"{path}extra", 1))
        for spelling in always + absent:
            name = path + spelling.split(":")[0].rstrip("[]?")
            if spelling in always:
                changes.append(drop(name))
            if "?" not in spelling:
                changes.append(put(name, None))
            changes.append(put(name, {"a": 1}))
    return changes


def test_members_that_are_unknown_absent_null_or_of_another_type_are_refused(stores, tmp_path):
    seen = set()
    for name in ("v0", "v3", "v5"):
        files = Files(stores[name])
        catalog = files.catalog
        seen.update(kind for kind, _ in _objects(catalog))
        target = files.save(tmp_path / name)
        changes = _changes_of_members(catalog)
        for change in changes:
            files.catalog = copy.deepcopy(catalog)
            change.before(files)
            files.seal_roots(json.dumps(files.catalog).encode())
            for root in ("root.a", "root.b"):
                (target / root).write_bytes(files.bytes[root])
            with pytest.raises(ng.StoreDamaged):
                ng.open(target, memory="32MB", recover=False)
            with pytest.raises(Damaged):
                Store(target, replay=False)
        assert len(changes) > 100
    assert seen == set(OBJECTS)


# Compiled epochs


def _poke(at: int, value: bytes) -> Any:
    def change(epoch: EpochBytes) -> None:
        epoch.data[at : at + len(value)] = value

    return change


def _shifted(name: str, at: int, value: bytes) -> Any:
    def change(epoch: EpochBytes) -> None:
        start = getattr(epoch, name) + at
        epoch.data[start : start + len(value)] = value

    return change


def _text(edit: Any) -> Any:
    def change(epoch: EpochBytes) -> None:
        text = json.loads(epoch.data[32 : epoch.text_end])
        epoch.set_text(json.dumps(edit(text)).encode())

    return change


def _without_blocks(epoch: EpochBytes) -> None:
    del epoch.data[BLOCK:]


def _other_table(kind: str) -> Any:
    return _text(lambda text: {**text, "tables": [{**text["tables"][0], "kind": kind}]})


def _after(change: Any) -> Any:
    change.is_last = True
    return change


def _wrong_hot_checksum(epoch: EpochBytes) -> None:
    epoch.data[epoch.tail + 60] ^= 1
    epoch.seal_tail()


@_after
def _without_hot_rows(epoch: EpochBytes) -> None:
    """Says that it is the second epoch of its set, whose file has no hot rows."""
    text = json.loads(epoch.data[32 : epoch.text_end])
    epoch.set_text(json.dumps({**text, "epoch": 1, "epochs": 2}).encode())
    shift = epoch.record - epoch.hot
    for entry in range(epoch.index, epoch.index + 24 * epoch.batches, 24):
        (offset,) = struct.unpack_from("<Q", epoch.data, entry)
        struct.pack_into("<Q", epoch.data, entry, offset - shift)
    entries = epoch.data[epoch.index : epoch.index + 24 * epoch.batches]
    struct.pack_into("<I", epoch.data, epoch.tail + 12, crc32c(entries))
    struct.pack_into("<Q", epoch.data, epoch.tail + 16, epoch.index - shift)
    struct.pack_into("<I", epoch.data, epoch.tail + 56, crc32c(epoch.data[:32]))
    del epoch.data[epoch.hot : epoch.record]
    epoch.tail -= shift
    epoch.seal_tail()


# By rule: changes, those marked so after all checksums.
EPOCH_CASES: dict[str, list[Any]] = {
    "c.1": [_without_blocks, _after(lambda epoch: epoch.data.append(0))],
    "c.2": [
        _poke(0, b"X"),
        _poke(8, b"\7"),
        _poke(12, struct.pack("<I", (1 << 24) + 1)),
        _poke(16, b"\1\2"),
        _poke(20, b"\1\2"),
        _text(lambda text: {**text, "more": 1}),
        _text(lambda text: {name: text[name] for name in ("key", "tables")}),
        _text(lambda text: {**text, "first_epoch": 1}),
        _text(lambda text: {**text, "epochs": 0}),
        _after(_poke(21, b"\1\2")),
        _other_table("hyper"),
    ],
    "c.3": [
        _shifted("tail", 0, b"X"),
        _shifted("tail", 8, b"\7"),
        _shifted("tail", 48, b"\7"),
        _after(_shifted("tail", 56, b"\7\7")),
        _after(lambda epoch: epoch.data.__delitem__(slice(-BLOCK, None))),
    ],
    "c.4": [
        _after(_shifted("index", 1, b"\7")),
        _shifted("tail", 24, struct.pack("<Q", 9999)),
        _shifted("tail", 16, struct.pack("<Q", 1 << 40)),
    ],
    "c.5": [
        _shifted("index", 0, struct.pack("<Q", 1 << 30)),
        _shifted("index", 8, struct.pack("<Q", 100)),
        _shifted("index", 8, struct.pack("<Q", 0)),
        _shifted("tail", 32, struct.pack("<Q", 0)),
    ],
    "c.6": [
        _poke(24, b"\1"),
        _shifted("text_end", 0, b"\1"),
        _shifted("record", -1, b"\1"),
        _shifted("tail", -1, b"\1"),
        _shifted("index", 20, b"\1"),
        _without_hot_rows,
    ],
    "c.7": [
        _after(_shifted("record", 30, b"\7")),
        _shifted("record", 0, b"\1"),
        _shifted("record", 4, b"\2"),
        _shifted("record", 8, b"\2"),
        _shifted("record", 12, struct.pack("<I", 1 << 30)),
        _shifted("record", 32, struct.pack("<I", 1 << 20)),
    ],
    "c.8": [
        _after(_shifted("hot", 0, b"\1\2\3")),
        _after(_shifted("record", -BLOCK, b"\1\2\3")),
        _after(_wrong_hot_checksum),
    ],
}


@pytest.fixture(scope="module")
def epoch(tmp_path_factory) -> tuple[Path, Path]:
    """A store, and its first compiled epoch."""
    path = tmp_path_factory.mktemp("epochs") / "g.ng"
    random = np.random.default_rng(3)
    print("seed 3")
    split = np.where(np.arange(9001) % 90 == 0, 1, 0).astype(np.uint8)
    rows = random.standard_normal((9001, 400)).astype(np.float32)
    ends = random.integers(0, 9001, (2, 20_000))
    nodes = Nodes(9001, {"x": rows, "split_0": split})
    Graph({"node": nodes}, {("node", "to", "node"): Edges(*ends.copy())}).write(path)
    [file] = compile_epochs(path, 1, "--fanouts", "3,2", "--batch-size", "20", "--seed", "1")
    return path, file


def replay(path: Path) -> int:
    """Replays the epoch with neargraph."""
    with ng.open(path, memory="64MB") as store:
        sampler = ng.NumpySampler(store, [3, 2], seed=1)
        batches = sampler.batches("train", 20, shuffle=True, reading="compiled")
        return sum(batch.num_seeds for batch in batches)


def replay_by_the_document(path: Path, file: Path) -> int:
    """Reads the epoch with the other reader."""
    reader, found = Store(path), Epoch(file)
    batches = range(found.num_batches)
    records = [found.batch(number, reader.node_types, reader.edge_types) for number in batches]
    return sum(record.nodes[0]["per_hop"][0] for record in records)


def test_an_epoch_without_a_change_is_replayed(epoch):
    path, file = epoch
    whole = file.read_bytes()
    assert EpochBytes(whole).seal() == whole
    assert replay(path) == replay_by_the_document(path, file) > 20


@pytest.mark.parametrize(
    ("rule", "index"), [(rule, i) for rule, found in EPOCH_CASES.items() for i in range(len(found))]
)
def test_an_epoch_that_breaks_a_rule_is_refused(epoch, rule, index):
    path, file = epoch
    whole, change = file.read_bytes(), EPOCH_CASES[rule][index]
    changed = EpochBytes(whole)
    if getattr(change, "is_last", False):
        changed.seal()
        change(changed)
    else:
        change(changed)
        if len(changed.data) == len(whole):
            changed.seal()
    try:
        file.write_bytes(changed.data)
        with pytest.raises(Damaged):
            replay_by_the_document(path, file)
        with pytest.raises((ng.StoreDamaged, ng.CompiledMismatch)):
            replay(path)
    finally:
        file.write_bytes(whole)


def test_bits_of_a_map_past_the_last_row_are_refused(epoch):
    path, file = epoch
    whole = file.read_bytes()
    changed = EpochBytes(whole)
    text = json.loads(changed.data[32 : changed.text_end])
    rows = text["tables"][0]["rows"]
    assert rows % 8 != 0
    changed.data[changed.maps + rows // 8] |= 1 << rows % 8
    sizes = sum(-(-table["rows"] // 64) * 8 for table in text["tables"])
    maps = changed.data[changed.maps : changed.maps + sizes]
    struct.pack_into("<I", changed.data, 20, crc32c(maps))
    try:
        file.write_bytes(changed.data)
        with pytest.raises(Damaged):
            replay_by_the_document(path, file)
        with pytest.raises((ng.StoreDamaged, ng.CompiledMismatch)):
            replay(path)
    finally:
        file.write_bytes(whole)
