"""The direct layout: made by command, the same batches from it, refused where it does not fit."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import realdata
import torch
from torch_geometric.data import Data, HeteroData
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.exceptions import (
    CompiledMismatch,
    CompiledOutdated,
    StoreDamaged,
    UnsupportedArgument,
)
from neargraph.importers import import_graph

NODES = 3000
RUN = CliRunner().invoke


def graph(nodes: int = NODES) -> Data:
    """Hubs with thousands of neighbours, and nodes with none."""
    rng = np.random.default_rng(4)
    destination = rng.integers(0, nodes, 30_000)
    destination = destination[destination % 7 != 0]
    destination[:9_000] = rng.integers(0, 3, 9_000) * 7 + 1
    index = torch.from_numpy(np.stack([rng.integers(0, nodes, len(destination)), destination]))
    x = torch.from_numpy(rng.standard_normal((nodes, 48)).astype(np.float32))
    mask = torch.from_numpy(rng.random(nodes) < 0.3)
    weights = torch.from_numpy(rng.standard_normal((len(destination), 3)).astype(np.float32))
    return Data(
        x=x, edge_index=index, y=torch.arange(nodes) % 5, train_mask=mask, edge_attr=weights
    )


def compiled(path: Path, *options: str) -> dict:
    ran = RUN(app, ["compile", str(path), "--layout", "direct", "--json", *options])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def batches(path, reading: str, num_neighbors=(15, 10), **options) -> list[dict[str, np.ndarray]]:
    with ng.open(path, memory="64MB") as store:
        loader = ng.NeighborLoader(
            store,
            list(num_neighbors),
            "train",
            batch_size=64,
            shuffle=True,
            seed=3,
            reading=reading,
            **options,
        )
        return [
            {name: np.asarray(torch.as_tensor(value)) for name, value in batch.to_dict().items()}
            for batch in loader
        ]


def same(found, wanted) -> None:
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("direct") / "g.ng"
    ng.from_pyg(graph(), out)
    compiled(out)
    return out


@pytest.mark.parametrize("num_neighbors", [(15, 10), (-1,), (4, -1), (3, 2, 2)])
def test_loaders_give_the_same_batches(path, num_neighbors):
    wanted = batches(path, "on_demand", num_neighbors)
    same(batches(path, "direct_layout", num_neighbors), wanted)


def test_replacement_dtypes_and_workers_give_the_same_batches(path):
    for options in ({"replace": True}, {"x_dtype": torch.float16}, {"attrs": ["y"]}):
        same(batches(path, "direct_layout", **options), batches(path, "auto", **options))
    workers = {"num_workers": 1, "multiprocessing_context": "forkserver"}
    same(batches(path, "direct_layout", **workers), batches(path, "auto"))


def test_narrow_rows_and_reorganised_stores_give_the_same_batches(tmp_path):
    data = graph()
    data.x = data.x.half()
    out = tmp_path / "g.ng"
    ng.from_pyg(data, out)
    facts = compiled(out)
    assert facts["row_bytes"] == 48 * 2 + 8 + 1
    wanted = batches(out, "auto")
    same(batches(out, "direct_layout"), wanted)
    ran = RUN(app, ["reorganize", str(out), "--by", "heat", "--fanouts", "4,4", "--json"])
    assert ran.exit_code == 0, ran.output
    # The store was written anew, without the file.
    with pytest.raises(CompiledMismatch, match=r"no direct layout.*compile STORE --layout direct"):
        batches(out, "direct_layout")
    compiled(out, "--page-size", "8192")
    same(batches(out, "direct_layout"), wanted)


def test_the_estimate_is_what_is_written_and_writes_nothing(tmp_path):
    out = tmp_path / "g.ng"
    ng.from_pyg(graph(), out)
    dry = compiled(out, "--dry-run", "--attrs", "x")
    assert not dry["written"]
    assert not Path(dry["file"]).exists()
    made = compiled(out, "--attrs", "x")
    assert made["written"]
    assert Path(made["file"]).stat().st_size == made["file_bytes"] == dry["file_bytes"]
    bare = NODES * (4 + 48 * 4) + 4 * made["num_edges"]
    assert made["inflation"] == pytest.approx(made["file_bytes"] / bare)
    assert (made["address_bytes"], made["tensors"]) == (4, ["x"])
    assert "y" in made["left_out"]
    assert "x" not in made["left_out"]
    assert not compiled(out, "--attrs", "x")["written"]
    shown = RUN(app, ["compile", str(out), "--layout", "direct", "--dry-run"])
    assert shown.exit_code == 0
    assert "inflation" in shown.output
    # Tensors that the file lacks come from the store; a file may lie elsewhere.
    wanted = batches(out, "auto")
    same(batches(out, "direct_layout"), wanted)
    (tmp_path / "far").mkdir()
    file = compiled(out, "--out", str(tmp_path / "far"), "--name", "other")["file"]
    same(batches(out, file), wanted)


@pytest.mark.parametrize(
    ("parts", "attrs"),
    [
        (("npz_graphs", "cora.npz"), ["x", "y"]),
        (("npz_graphs", "citeseer.npz"), ["y"]),
        (("npz_graphs", "polblogs.npz"), None),
        (("cnr-2000", "cnr-2000_csr.npz"), None),
    ],
)
def test_batches_of_real_graphs_are_the_same(parts, attrs, tmp_path):
    out = tmp_path / "g.ng"
    import_graph(realdata.data(*parts), out)
    # Bags of words are stored sparse: dense in the file where they are named, else from the store.
    facts = compiled(out, *(["--attrs", ",".join(attrs)] if attrs else []))
    seeds = np.random.default_rng(2).permutation(facts["num_nodes"])[:600]
    with ng.open(out, memory="64MB") as store:
        options = {"seed": 9, "batch_size": 100, "shuffle": True}
        paged, direct = (
            ng.NeighborLoader(store, [10, 5], seeds, reading=ng.Reading(way, prefetch=2), **options)
            for way in ("auto", "direct_layout")
        )
        for found, wanted in zip(direct, paged, strict=True):
            assert found.keys() == wanted.keys()
            for name, value in found.to_dict().items():
                one, other = torch.as_tensor(value), torch.as_tensor(wanted[name])
                assert torch.equal(one, other), name


def test_what_does_not_fit_is_refused_with_a_reason(path, tmp_path):
    with ng.open(path, memory="64MB") as store:
        with pytest.raises(UnsupportedArgument, match="labor"):
            ng.NeighborLoader(store, [3], "train", method="labor", reading="direct_layout")
        with pytest.raises(UnsupportedArgument, match="diagonal"):
            ng.NumpySampler(store, [3], layout="diagonal")
        sampler = ng.NumpySampler(store, [3], layout="direct")
        for reading in ("scan", "compiled", ng.Reading(window=4)):
            with pytest.raises(UnsupportedArgument, match=r"layout='direct'.*has no effect"):
                sampler.batches("train", 8, reading=reading)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.ones(4, 2), torch.ones(5, 2)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [2, 3]])
    ng.from_pyg(data, tmp_path / "h.ng")
    ran = RUN(app, ["compile", str(tmp_path / "h.ng"), "--layout", "direct"])
    assert ran.exit_code != 0
    assert isinstance(ran.exception, UnsupportedArgument) or "one node type" in ran.output
    with ng.open(tmp_path / "h.ng") as store, pytest.raises(CompiledMismatch, match="no direct"):
        ng.NumpySampler(store, [2], layout="direct")


def test_a_store_that_moved_on_refuses_the_file_by_name(tmp_path):
    out = tmp_path / "g.ng"
    ng.from_pyg(graph(), out)
    file = Path(compiled(out)["file"]).name
    with ng.open(out) as store:
        with store.write() as tx:
            tx.update_features("node", 5, "x", np.zeros(48, dtype=np.float32))
        advice = (
            r"\(commit 0\).*\(commit 1\); compile the direct layout again .*--overwrite"
            r".*layout=\"paged\""
        )
        with pytest.raises(CompiledMismatch, match=f"{file} .*{advice}"):
            ng.NumpySampler(store, [2], layout="direct")
    compiled(out, "--overwrite")
    same(batches(out, "direct_layout"), batches(out, "auto"))


@pytest.mark.parametrize("rewrite", ["compact", "reorganize"])
def test_a_rewrite_warns_before_it_removes_what_was_compiled(rewrite, tmp_path):
    out = tmp_path / "g.ng"
    ng.from_pyg(graph(), out)
    file = Path(out, "compiled", compiled(out)["file"])
    there = []
    with ng.open(out, memory="64MB") as store:
        run = getattr(store, rewrite)
        if rewrite == "reorganize":
            run(num_neighbors=[3], batch_size=50, dry_run=True)  # Which warns of nothing.
        with pytest.warns(RuntimeWarning, match="kB in .*compile these files again") as told:
            run(progress=lambda *_: there.append(file.exists()))
    assert there[0]
    assert not file.exists()
    assert told[0].filename == __file__
    with warnings.catch_warnings(), ng.open(out, memory="64MB") as store:
        warnings.simplefilter("error")
        store.compact()  # There is nothing left to remove.


def test_info_and_verify_know_the_file_and_damage_is_named(tmp_path):
    out = tmp_path / "g.ng"
    ng.from_pyg(graph(), out)
    facts = compiled(out)
    known = json.loads(RUN(app, ["info", str(out), "--json"]).stdout)["direct_layouts"]
    assert [entry["is_current"] for entry in known] == [True]
    assert "graph.direct" in RUN(app, ["info", str(out)]).output
    sound = RUN(app, ["verify", str(out), "--json"])
    assert sound.exit_code == 0
    assert json.loads(sound.stdout)["direct_layouts"] == 1
    path = Path(facts["file"])
    content = bytearray(path.read_bytes())
    content[-3 * facts["page_bytes"] + 99] ^= 1
    path.write_bytes(content)
    checked = RUN(app, ["verify", str(out), "--json"])
    assert checked.exit_code == 1
    assert "graph.direct" in json.loads(checked.stdout)["problems"][0]["file"]
    path.write_bytes(content[:-4096])
    with pytest.raises(StoreDamaged, match=r"graph\.direct"):
        batches(out, "direct_layout")
    content[8] = 2
    path.write_bytes(content)
    with pytest.raises(CompiledOutdated, match=r"is a direct layout of format version 2"):
        batches(out, "direct_layout")
