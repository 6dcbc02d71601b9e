"""Several ranks share every global batch; the batches are those of one rank."""

import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


def ranks_of(store, world_size, pad=None):
    return [
        ng.NeighborLoader(
            store,
            [-1],
            input_nodes="train",
            batch_size=16,
            shuffle=True,
            seed=7,
            ranks=ng.Ranks(rank, world_size, pad),
        )
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_take_contiguous_parts_of_the_same_batches(homo, world_size):
    (alone,) = ranks_of(homo, 1)
    loaders = ranks_of(homo, world_size)
    assert {len(loader) for loader in loaders} == {len(alone)}
    for _ in range(2):
        for whole, *parts in zip(alone, *loaders, strict=True):
            assert len({part.batch_size for part in parts}) == 1
            seeds = [
                part.n_id[: part.batch_size - getattr(part, "num_padding", 0)] for part in parts
            ]
            assert torch.equal(torch.cat(seeds), whole.n_id[: whole.batch_size])
            edges = torch.cat([part.e_id for part in parts])
            assert set(whole.e_id.tolist()) <= set(edges.tolist())


def test_a_seed_draws_the_same_neighbours_on_every_rank(homo):
    def drawn(loader):
        found = {}
        for step, batch in enumerate(loader):
            for local in range(batch.batch_size):
                edges = batch.e_id[batch.edge_index[1] == local].tolist()
                found[step, int(batch.n_id[local])] = edges
        return found

    common = {"input_nodes": "train", "batch_size": 16, "seed": 7}
    alone = drawn(ng.NeighborLoader(homo, [2], **common))
    for rank in range(2):
        loader = ng.NeighborLoader(homo, [2], ranks=ng.Ranks(rank, 2, pad=False), **common)
        part = drawn(loader)
        assert part
        assert all(alone[key] == edges for key, edges in part.items())


def test_without_padding_the_tail_is_left_out_on_every_rank(homo):
    loaders = ranks_of(homo, 4, pad=False)
    assert {len(loader) for loader in loaders} == {len(homo.split("train")) // 16}
    assert all("num_padding" not in batch for loader in loaders for batch in loader)


def test_a_batch_that_ranks_cannot_share_equally_is_refused(homo):
    with pytest.raises(ValueError, match="divided evenly among"):
        ng.NeighborLoader(homo, [2], batch_size=15, ranks=(0, 2))


def test_a_last_batch_cannot_be_both_padded_and_dropped(homo):
    ranks = ng.Ranks(0, 2, pad=True)
    with pytest.raises(ng.UnsupportedArgument, match="drop_last=True drops the batch that pad"):
        ng.NeighborLoader(homo, [3], batch_size=8, drop_last=True, ranks=ranks)
