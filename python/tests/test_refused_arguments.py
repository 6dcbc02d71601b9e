"""Arguments of PyG's loader: taken, taken as no change, or refused with what to do."""

import inspect

import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


def test_arguments_that_ask_for_what_happens_anyway_are_taken(homo):
    from torch_geometric.sampler.base import SubgraphType

    ng.NeighborLoader(
        homo,
        num_neighbors=[2],
        input_nodes="train",
        input_time=None,
        replace=False,
        subgraph_type=SubgraphType.directional,
        disjoint=False,
        temporal_strategy="uniform",
        time_attr=None,
        weight_attr=None,
        is_sorted=True,
        filter_per_worker=None,
        neighbor_sampler=None,
        directed=True,
        persistent_workers=False,
        prefetch_factor=None,
        pin_memory=False,
        generator=None,
        input_id=None,
    )


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("time_attr", "x", "int64"),
        ("input_time", [1], "time_attr"),
        ("weight_attr", "w", "edge_weight"),
        ("neighbor_sampler", object(), "torch_geometric"),
        ("transform_sampler_output", print, "transform="),
        ("custom_cls", dict, "transform="),
        ("generator", object(), "seed="),
        ("sampler", [1], "input_nodes"),
        ("batch_sampler", [[1]], "input_nodes"),
        ("collate_fn", print, "transform="),
    ],
)
def test_what_is_not_built_is_refused_with_what_to_do(homo, name, value, hint):
    with pytest.raises(ng.UnsupportedArgument, match=hint) as caught:
        ng.NeighborLoader(homo, [2], **{name: value})
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_misspelt_arguments_are_type_errors(homo):
    with pytest.raises(TypeError, match="num_neighbours"):
        ng.NeighborLoader(homo, [2], num_neighbours=[2])


# Loader of neargraph -> the one of PyG whose calls it takes.
OF_PYG = {
    "NeighborLoader": "NeighborLoader",
    "LinkNeighborLoader": "LinkNeighborLoader",
    "HGTLoader": "HGTLoader",
    "ShaDowKHopSampler": "ShaDowKHopSampler",
    "GraphSAINTNodeSampler": "GraphSAINTNodeSampler",
    "GraphSAINTEdgeSampler": "GraphSAINTEdgeSampler",
    "GraphSAINTRandomWalkSampler": "GraphSAINTRandomWalkSampler",
    "RandomNodeLoader": "RandomNodeLoader",
    "GraphLoader": "DataLoader",
}


@pytest.mark.parametrize("name", OF_PYG)
def test_a_loader_has_the_arguments_of_pyg_in_its_order_and_its_own_by_name(name):
    from torch_geometric import loader

    def positional(kind):
        found = inspect.signature(kind).parameters.values()
        return [(p.name, p.default) for p in found if p.kind is p.POSITIONAL_OR_KEYWORD][1:]

    ours, theirs = positional(getattr(ng, name)), positional(getattr(loader, OF_PYG[name]))
    assert ours == theirs


def test_a_call_by_place_as_of_pyg_means_the_same(homo):
    by_place = ng.NeighborLoader(homo, [3, 3], [1, 2], None, True, "induced", True, "uniform")
    by_name = ng.NeighborLoader(
        homo, [3, 3], [1, 2], replace=True, subgraph_type="induced", disjoint=True
    )
    for one, other in zip(by_place, by_name, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert torch.equal(one.edge_index, other.edge_index)
        assert "batch" in one
        assert "num_sampled_edges" not in one
    before = [*[None] * 3, False, "directional", False, "uniform", *[None] * 6, False, None]
    with pytest.raises(ng.UnsupportedArgument, match="neighbor_sampler"):
        ng.LinkNeighborLoader(homo, [2], *before, "a sampler")


def test_graphs_by_place_are_told_from_shuffle(homo):
    for given in ("train", [1, 2]):
        with pytest.raises(ValueError, match="graphs="):
            ng.GraphLoader(homo, 2, given)


@pytest.mark.parametrize(
    "name", ["ClusterGCNLoader", "RandomNodeLoader", "GraphSAINTNodeSampler", "LinkNeighborLoader"]
)
def test_compiled_epochs_are_refused_by_name_where_there_are_none(homo, name):
    with pytest.raises(ng.UnsupportedArgument, match=r"reading='compiled' is not .*NeighborLoader"):
        getattr(ng, name)(homo, [2] if "Link" in name else 4, reading="compiled")


def test_a_cluster_loader_looks_ahead_where_it_is_told_to(homo):
    plain = [batch.n_id.tolist() for batch in ng.ClusterGCNLoader(homo, 5)]
    for more in (
        {"reading": ng.Reading(window=2)},
        {"reading": ng.Reading(two_phase=False)},
        {"reading": ng.Reading("compiled", otherwise="auto")},
    ):
        loader = ng.ClusterGCNLoader(homo, 5, **more)
        assert [batch.n_id.tolist() for batch in loader] == plain
        if "window" in more:
            assert loader.chosen()["window"] == 2
        loader.close()
