"""The dictionaries that a store returns have the keys of their types."""

from pathlib import Path

import pytest

import neargraph as ng
from neargraph import reports


def check(found, kind):
    """A report has all keys that its type requires, and no others than the type has."""
    assert kind.__required_keys__ <= set(found), kind
    assert set(found) <= kind.__required_keys__ | kind.__optional_keys__, kind


@pytest.fixture
def path(hetero_graph, tmp_path):
    return Path(hetero_graph.write(tmp_path / "graph.ng"))


def test_reports_of_a_store_have_the_keys_of_their_types(path, tmp_path):
    with ng.open(path, memory="64MB") as store:
        info, stats = store.info(), store.stats()
        check(info, reports.StoreInfo)
        for node_type in info["node_types"]:
            check(node_type, reports.NodeTypeInfo)
        for edge_type in [*info["edge_types"], *info["reverse_types"]]:
            check(edge_type, reports.EdgeTypeInfo)
        for owner in [*info["node_types"], *info["edge_types"]]:
            for tensor in owner["tensors"]:
                check(tensor, reports.TensorInfo)
        check(stats, reports.StoreStats)
        for share in stats["memory"].values():
            check(share, reports.MemoryShare)
        check(store.update_stats(), reports.UpdateStats)
        check(store.checkpoint(), reports.CheckpointReport)
        check(store.backup(tmp_path / "backup"), reports.BackupReport)
        check(ng.verify_backup(tmp_path / "backup"), reports.RestoreReport)
        check(ng.restore(tmp_path / "backup", tmp_path / "restored.ng"), reports.RestoreReport)
        check(store.compact(), reports.CompactReport)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_new_order_of_rows_has_the_keys_of_its_report(homo_graph, tmp_path, dry_run):
    with ng.open(homo_graph.write(tmp_path / "graph.ng"), memory="64MB") as store:
        found = store.reorganize("locality", num_neighbors=[2], batch_size=8, dry_run=dry_run)
    check(found, reports.ReorganizeReport)
    assert found["pages"]
    for counts in found["pages"]:
        check(counts, reports.PageCounts)
    if not dry_run:
        check(found["written"], reports.CompactReport)


def test_problems_have_their_place_as_far_as_it_is_known(path):
    with ng.open(path, memory="64MB") as store:
        check(store.scrub(), reports.ScrubReport)
        (path / "compiled").mkdir()
        (path / "compiled" / "left.partial").touch()
        for pages in path.glob("*.dat"):
            pages.write_bytes(bytes(byte ^ 255 for byte in pages.read_bytes()))
        found = store.scrub()
    check(found, reports.ScrubReport)
    assert found["problems"]
    assert found["not_checked"]
    for problem in [*found["problems"], *found["not_checked"]]:
        check(problem, reports.Problem)
