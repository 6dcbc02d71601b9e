"""GraphBolt's OnDiskDataset folders: raw and preprocessed, homogeneous and typed, and bad ones."""

import copy
import pickle
import sys
import types
import zipfile

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store

import neargraph as ng
from neargraph.datasets import link_splits
from neargraph.importers import detect_format, import_graph, plan_source

yaml = pytest.importorskip("yaml")
torch = pytest.importorskip("torch")

NODES, EDGES = 60, 400


def save(root, path, array):
    """Writes an array as its ending says; returns the entry."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".pt":
        torch.save(torch.as_tensor(array), file)
        return {"format": "torch", "path": path}
    if file.suffix == ".csv":
        np.savetxt(file, np.asarray(array).T, fmt="%d", delimiter=",")
        return {"format": "csv", "path": path}
    np.save(file, array)
    return {"format": "numpy", "path": path}


def flat(root, edges="edges/e.npy", features="f/x.npy"):
    """A homogeneous data set; returns what it holds."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, NODES, (2, EDGES))
    x = rng.standard_normal((NODES, 5)).astype(np.float32)
    attr = rng.standard_normal((EDGES, 2)).astype(np.float32)
    weights = rng.random(EDGES).astype(np.float32)
    seeds = rng.permutation(NODES)[:30].reshape(3, 10)
    labels = rng.integers(0, 4, (3, 10))
    sets = {}
    for part, name in enumerate(("train", "validation", "test")):
        data = [
            {"name": "seeds", **save(root, f"set/{name}.npy", seeds[part].astype(np.int32))},
            {"name": "labels", **save(root, f"set/{name}_y.pt", labels[part])},
        ]
        sets[f"{name}_set"] = [{"data": data}]
    meta = {
        "dataset_name": "flat",
        "graph": {
            "nodes": [{"num": NODES}],
            "edges": [save(root, edges, ends)],
            "feature_data": [
                {"domain": "edge", "name": "weight", **save(root, "f/w.npy", weights)},
            ],
        },
        "feature_data": [
            {"domain": "node", "name": "feat", "in_memory": False, **save(root, features, x)},
            {"domain": "edge", "name": "attr", **save(root, "f/attr.npy", attr)},
        ],
        "tasks": [{"name": "node_classification", "num_classes": 4, **sets}],
    }
    (root / "metadata.yaml").write_text(yaml.safe_dump(meta))
    split, y = np.zeros(NODES, np.uint8), np.full(NODES, -1)
    for part in range(3):
        split[seeds[part]], y[seeds[part]] = part + 1, labels[part]
    raw = Raw(
        {"node": NODES},
        {"node": {"x": x, "y": y, "split_0": split}},
        {PLAIN: RawEdges(*ends, np.arange(EDGES), None, weights, {"attr": attr})},
    )
    return meta, raw


@pytest.mark.parametrize("edges", ["edges/e.npy", "edges/e.csv"])
@pytest.mark.parametrize("features", ["f/x.npy", "f/x.pt"])
def test_a_homogeneous_set_is_stored_as_it_is(edges, features, tmp_path):
    _, raw = flat(tmp_path / "in", edges, features)
    assert detect_format(tmp_path / "in") == "graphbolt"
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)
    assert {note["code"] for note in report["notes"]} == {"labels-missing", "parallel-edges"}


def typed(root):
    """Papers and authors, two edge types; a link task and a node task."""
    rng = np.random.default_rng(4)
    writes, cites = rng.integers(0, (30, 50), (200, 2)).T, rng.integers(0, 50, (2, 150))
    x = rng.standard_normal((50, 3)).astype(np.float32)
    rel = rng.integers(0, 9, (200, 1))
    ids = np.arange(20)
    meta = {
        "graph": {
            "nodes": [{"type": "paper", "num": 50}, {"type": "author", "num": 30}],
            "edges": [
                {"type": "author:writes:paper", **save(root, "e/w.csv", writes)},
                {"type": "paper:cites:paper", **save(root, "e/c.npy", cites)},
            ],
        },
        "feature_data": [
            {"domain": "node", "type": "paper", "name": "feat", **save(root, "f/x.npy", x)},
            {
                "domain": "edge",
                "type": "author:writes:paper",
                "name": "rel",
                **save(root, "f/rel.npy", rel),
            },
        ],
        "tasks": [
            {
                "name": "years",
                "train_set": [
                    {"type": "paper", "data": [{"name": "seeds", **save(root, "s/p.npy", ids)}]},
                    {"type": "author", "data": [{"name": "seeds", **save(root, "s/a.npy", ids)}]},
                ],
            },
            {
                "name": "links",
                "test_set": [
                    {
                        "type": "paper:cites:paper",
                        "data": [{"name": "seeds", **save(root, "s/l.npy", cites[:, :9].T)}],
                    }
                ],
            },
        ],
    }
    (root / "metadata.yaml").write_text(yaml.safe_dump(meta))
    split = {"paper": np.zeros(50, np.uint8), "author": np.zeros(30, np.uint8)}
    for codes in split.values():
        codes[:20] = 1
    raw = Raw(
        {"paper": 50, "author": 30},
        {"paper": {"x": x, "split_0": split["paper"]}, "author": {"split_0": split["author"]}},
        {
            ("author", "writes", "paper"): RawEdges(*writes, np.arange(200), tensors={"rel": rel}),
            ("paper", "cites", "paper"): RawEdges(*cites),
        },
    )
    return meta, raw, cites


def test_a_typed_set_is_stored_by_type_and_its_pairs_are_read_apart(tmp_path):
    _, raw, cites = typed(tmp_path / "in")
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)
    (note,) = [n for n in report["notes"] if n["code"] == "link-splits-left-out"]
    assert "links" in note["message"]
    assert "link_splits" in note["message"]
    pairs = link_splits(tmp_path / "in")
    assert np.array_equal(pairs["test"]["paper:cites:paper"]["edge"], cites[:, :9].T)


def fused(root, meta, raw, with_ids=True):
    """The same set as GraphBolt preprocesses it, its graph written by hand."""
    edges = raw.edges[PLAIN]
    order = np.lexsort([edges.sources, edges.destinations])
    counts = np.bincount(edges.destinations, minlength=NODES)
    attributes = {"weight": torch.as_tensor(edges.weights[order])}
    if with_ids:
        attributes["_ORIGINAL_EDGE_ID"] = torch.as_tensor(order)
    state = {
        "independent_tensors": {
            "version_number": torch.tensor([6199]),
            "indptr": torch.as_tensor(np.concatenate([[0], np.cumsum(counts)])),
            "indices": torch.as_tensor(np.asarray(edges.sources)[order].astype(np.int32)),
        },
        "edge_attributes": attributes,
    }
    write_fused(root / "preprocessed/fused.pt", state)
    meta = copy.deepcopy(meta)
    del meta["graph"]
    meta["graph_topology"] = {"type": "FusedCSCSamplingGraph", "path": "preprocessed/fused.pt"}
    (root / "preprocessed/metadata.yaml").write_text(yaml.safe_dump(meta))
    (root / "metadata.yaml").unlink()


def write_fused(path, state):
    """A file of torch.save whose pickle names GraphBolt's classes, which are not installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "dgl.graphbolt.impl.fused_csc_sampling_graph"
    outer = type("FusedCSCSamplingGraph", (), {"__module__": name})
    script = type("ScriptObject", (), {"__module__": "torch_script_stand_in"})
    added = {"torch_script_stand_in": types.ModuleType("torch_script_stand_in")}
    for part in ("dgl", "dgl.graphbolt", "dgl.graphbolt.impl", name):
        added[part] = types.ModuleType(part)
    added[name].FusedCSCSamplingGraph = outer
    added["torch_script_stand_in"].ScriptObject = script
    sys.modules.update(added)
    try:
        graph, inner = outer(), script()
        inner.__dict__["state"] = state
        script.__getstate__ = lambda self: (state, "__torch__.torch.classes.graphbolt")
        graph.__dict__["_c_csc_graph"] = inner
        torch.save(graph, path)
    finally:
        for part in added:
            del sys.modules[part]
    # torch has a ScriptObject of its own, which cannot be made here with this state.
    rewrite(path, b"torch_script_stand_in\nScriptObject", b"torch._C\nScriptObject")


def rewrite(path, old, new):
    """Replaces something in the data.pkl of an archive, which has it once."""
    with zipfile.ZipFile(path) as source:
        members = {info.filename: source.read(info) for info in source.infolist()}
    with zipfile.ZipFile(path, "w") as target:
        for name, data in members.items():
            if name.endswith("/data.pkl"):
                assert data.count(old) == 1
                data = data.replace(old, new)
            target.writestr(name, data)


def test_a_preprocessed_set_gives_the_same_store(tmp_path):
    meta, raw = flat(tmp_path / "in")
    fused(tmp_path / "in", meta, raw)
    assert detect_format(tmp_path / "in") == "graphbolt"
    import_graph(tmp_path / "in", tmp_path / "g.ng")
    check_store(tmp_path / "g.ng", raw)


def test_edge_features_without_edge_ids_are_left_out_and_said(tmp_path):
    meta, raw = flat(tmp_path / "in")
    fused(tmp_path / "in", meta, raw, with_ids=False)
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    edges = raw.edges[PLAIN]
    edges.edge_ids, edges.tensors = None, {}
    (note,) = [n for n in report["notes"] if n["code"] == "attributes-dropped"]
    assert "attr" in note["message"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.num_edges == EDGES


def typed_fused(root, changed=None):
    """A graph of two node and two edge types: (entries, sizes, starts, numbers of edge types)."""
    rng = np.random.default_rng(8)
    sizes, starts = {"a": 7, "b": 5}, {"a": 0, "b": 7}
    kinds = {"a:x:b": 0, "b:y:b": 1}
    edges = []
    for name, number in kinds.items():
        source, _, destination = name.split(":")
        for k in range(20):
            ends = rng.integers(0, sizes[source]), rng.integers(0, sizes[destination])
            edges.append((ends[1] + starts[destination], number, ends[0] + starts[source], k))
    rows = np.array(sorted(edges))
    state = {
        "independent_tensors": {
            "version_number": torch.tensor([6199]),
            "indptr": torch.as_tensor(np.searchsorted(rows[:, 0], np.arange(13))),
            "indices": torch.as_tensor(rows[:, 2]),
            "node_type_offset": torch.tensor([0, 7, 12]),
            "type_per_edge": torch.as_tensor(rows[:, 1].astype(np.uint8)),
        },
        "edge_attributes": {"_ORIGINAL_EDGE_ID": torch.as_tensor(rows[:, 3])},
        "node_type_to_id": {"a": torch.tensor([0]), "b": torch.tensor([1])},
        "edge_type_to_id": {name: torch.tensor([n]) for name, n in kinds.items()},
    }
    if changed is not None:
        changed(state)
    write_fused(root / "preprocessed/g.pt", state)
    top = {"type": "FusedCSCSamplingGraph", "path": "preprocessed/g.pt"}
    (root / "preprocessed/metadata.yaml").write_text(yaml.safe_dump({"graph_topology": top}))
    return rows, sizes, starts, kinds


def test_a_typed_preprocessed_graph_is_cut_into_its_types(tmp_path):
    rows, sizes, starts, kinds = typed_fused(tmp_path)
    import_graph(tmp_path, tmp_path / "g.ng")
    wanted = {}
    for name, number in kinds.items():
        source, relation, destination = name.split(":")
        mine = rows[rows[:, 1] == number]
        wanted[source, relation, destination] = RawEdges(
            mine[:, 2] - starts[source], mine[:, 0] - starts[destination], mine[:, 3]
        )
    check_store(tmp_path / "g.ng", Raw(sizes, {}, wanted))


def of_edges(numbers):
    return lambda state: state.update(edge_type_to_id=numbers)


def kind_of_an_edge(value):
    def change_it(state):
        kinds = state["independent_tensors"]["type_per_edge"].to(torch.int64)
        kinds[3] = value
        state["independent_tensors"]["type_per_edge"] = kinds

    return change_it


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (kind_of_an_edge(-1), "an edge has the edge type -1, expected 0 to 1"),
        (kind_of_an_edge(2), "an edge has the edge type 2, expected 0 to 1"),
        (kind_of_an_edge(1 << 60), "expected 0 to 1"),
        (of_edges({"a:x:b": 0, "b:y:b": 2}), "does not number its edge types from 0 to 1"),
        (of_edges({"a:x:b": 0, "b:y:b": 1 << 60}), "does not number its edge types from 0 to 1"),
        (of_edges({"a:x:b": -1, "b:y:b": 0}), "does not number its edge types from 0 to 1"),
        (of_edges({"a:x:b": 0, "b:y:b": 0}), "does not number its edge types from 0 to 1"),
    ],
)
def test_types_of_edges_out_of_their_range_are_refused(changed, words, tmp_path):
    typed_fused(tmp_path / "in", changed)
    with pytest.raises(ng.ImportFailed, match=words):
        import_graph(tmp_path / "in", tmp_path / "g.ng")
    assert not (tmp_path / "g.ng").exists()


def change(meta, *keys, to):
    """A copy of the metadata with one place changed."""
    changed = copy.deepcopy(meta)
    place = changed
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return changed


X = ("feature_data", 0)
EDGE = ("graph", "edges", 0)
TRAIN = ("tasks", 0, "train_set", 0, "data", 0)
CASES = {
    "a path out of the folder": ((*X, "path"), "../x.npy", "inside the folder"),
    "an absolute path": ((*X, "path"), "/etc/passwd", "inside the folder"),
    "a file that is missing": ((*X, "path"), "f/none.npy", "no such file"),
    "an unknown format": ((*X, "format"), "parquet", "format 'parquet'"),
    "an unknown format of edges": ((*EDGE, "format"), "torch", "expected 'numpy' or 'csv'"),
    "a domain that is not one": ((*X, "domain"), "face", "domain 'face'"),
    "a node type that is not there": ((*X, "type"), "user", "node type 'user'"),
    "too few nodes for the rows": (("graph", "nodes", 0, "num"), 59, "60 rows, expected 59"),
    "a negative number of nodes": (("graph", "nodes", 0, "num"), -1, "has the entry num: -1"),
    "a number that is text": (("graph", "nodes", 0, "num"), "60", "has the entry num: '60'"),
    "no edges": (("graph", "edges"), [], "has no list 'edges'"),
    "a graph that is a list": (("graph",), [], "the entry 'graph' is not a mapping"),
    "features that are text": (("feature_data",), "x", "not a list of mappings"),
    "edges with the rows of nodes": ((*EDGE, "path"), "f/x.npy", "expected"),
    "labels of another length": ((*TRAIN, "path"), "set/long.npy", "rows, expected"),
    "a set in two parts": ((*TRAIN, "path"), "set/test.npy", "in two sets of the same task"),
    "seeds that are fractions": ((*TRAIN, "path"), "set/half.npy", "dtype float64"),
    "a seed that is far away": ((*TRAIN, "path"), "set/far.npy", "node id 60"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_metadata_is_named_and_leaves_nothing(case, tmp_path):
    root = tmp_path / "in"
    meta, _ = flat(root)
    np.save(root / "set/long.npy", np.arange(11))
    np.save(root / "set/half.npy", np.arange(10) / 2)
    np.save(root / "set/far.npy", np.arange(51, 61))
    keys, to, words = CASES[case]
    (root / "metadata.yaml").write_text(yaml.safe_dump(change(meta, *keys, to=to)))
    with pytest.raises(ng.ImportFailed, match=words):
        import_graph(root, tmp_path / "g.ng")
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "has aliases"),
        ("a: [1, 2\n", "not a valid YAML file"),
        ("- 1\n", "is not a mapping"),
        ("a: !!python/object/apply:os.system ['true']\n", "not a valid YAML file"),
        ("", "is not a mapping"),
        ("x: 1\n", "neither the entry 'graph' nor 'graph_topology'"),
        ("a: " + "[" * 100_000, "not a valid YAML file"),
    ],
)
def test_yaml_that_is_hostile_or_damaged_is_refused(text, words, tmp_path):
    (tmp_path / "metadata.yaml").write_text(text)
    with pytest.raises(ng.ImportFailed, match=words):
        plan_source(tmp_path)


def test_a_tensor_file_with_code_in_it_runs_nothing(tmp_path):
    meta, _ = flat(tmp_path / "in", features="f/x.pt")

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save(Evil(), tmp_path / "in/f/x.pt")
    with pytest.raises(ng.ImportFailed, match="an import never loads"):
        import_graph(tmp_path / "in", tmp_path / "g.ng")
    (tmp_path / "in/f/x.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ng.ImportFailed, match="its first bytes are those of another format"):
        import_graph(tmp_path / "in", tmp_path / "g.ng")
    assert not (tmp_path / "ran").exists()
    assert meta
