"""Arguments of PyG's loader: taken, taken as no change, or refused with what to do."""

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
