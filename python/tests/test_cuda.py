"""The same stages on a GPU. Where there is none, all of this is skipped and says so."""

import warnings

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
if not torch.cuda.is_available():
    pytest.skip("torch finds no CUDA on this machine", allow_module_level=True)

from torch_geometric.data import Data  # noqa: E402

from neargraph.loader.copying import BUFFERS, CopyStage, Cuda, tensors_of  # noqa: E402
from neargraph.nn import GraphSAGE  # noqa: E402

GPU = torch.device("cuda", 0)


def busy(rounds=40, size=2048):
    """Keeps the current stream busy for some milliseconds, without the host waiting."""
    a = torch.rand(size, size, device=GPU)
    for _ in range(rounds):
        a = a @ a / size
    return a


@pytest.mark.parametrize("reading", ["on_demand", "window", "scan"])
def test_a_loader_brings_the_batches_that_it_makes_without_a_device(homo, reading):
    def loader(**how):
        return ng.NeighborLoader(
            homo, [4, 3], batch_size=16, shuffle=True, seed=3, reading=reading, **how
        )

    plain = [batch.clone() for batch in loader()]
    count = 0
    for batch, expected in zip(loader(device="cuda"), plain, strict=True):
        for name in ("x", "y", "edge_index", "n_id"):
            assert batch[name].device == GPU
            assert torch.equal(batch[name].cpu(), expected[name]), name
        count += 1
    assert count == len(plain) > 2 * BUFFERS


def test_a_buffer_is_not_filled_while_it_is_copied_from_nor_memory_while_it_is_computed_with():
    def batches():
        for k in range(60):
            # Long enough that the copy is under way when the next batch is wanted.
            yield Data(x=torch.full((20_000 + 97 * (k % 7), 64), float(k)))

    sums = []
    for batch in CopyStage(Cuda(GPU)).run(batches()):
        # The consumer is behind: its kernels are queued, and it has let go of the batch before
        # they run. Memory that came back too early would be overwritten by a later copy.
        busy(4)
        sums.append((batch.x.sum(dtype=torch.float64), batch.x.numel()))
        del batch
    assert [float(total) for total, _ in sums] == [k * n for k, (_, n) in enumerate(sums)]


def test_copies_go_on_while_the_consumer_computes():
    rows = torch.rand(1 << 20, 16)
    batches = (Data(x=rows) for _ in range(6))
    running = CopyStage(Cuda(GPU)).run(batches)
    next(running)
    torch.cuda.synchronize()
    computing = torch.cuda.Event()
    busy(2000)
    computing.record()
    # Asking for a batch and letting its stream wait for it does not wait for what was queued.
    next(running)
    assert not computing.query(), "the loop waited for the kernels before it"
    torch.cuda.synchronize()
    running.close()


def test_two_batches_wait_on_the_device_at_most():
    one = 64 << 20
    batches = (Data(x=torch.zeros(one // 4)) for _ in range(12))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for batch in CopyStage(Cuda(GPU)).run(batches):
        del batch
        torch.cuda.synchronize()
    # One with the consumer, two that wait, one that is made.
    assert torch.cuda.max_memory_allocated() - before <= 4 * one


def test_pinned_batches_go_to_the_device_without_waiting(homo):
    plain = [b.x.clone() for b in ng.NeighborLoader(homo, [3], batch_size=32, seed=1)]
    pinned = ng.NeighborLoader(homo, [3], batch_size=32, seed=1, pin_memory=True)
    for batch, expected in zip(pinned, plain, strict=True):
        # Torch has nothing to pin of a tensor without elements.
        assert all(tensor.is_pinned() for tensor in tensors_of(batch) if tensor.numel() > 0)
        assert torch.equal(batch.x.to(GPU, non_blocking=True).cpu(), expected)


def test_types_and_sparse_rows_arrive(hetero):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        how = {"input_nodes": ("paper", None), "batch_size": 8, "seed": 2}
        plain = [batch.clone() for batch in ng.NeighborLoader(hetero, [2, 2], **how)]
        there = ng.NeighborLoader(hetero, [2, 2], device="cuda", **how)
        for batch, expected in zip(there, plain, strict=True):
            found, wanted = tensors_of(batch), tensors_of(expected)
            assert len(found) == len(wanted) > 3
            assert all(tensor.device == GPU for tensor in found)
            pairs = zip(found, wanted, strict=True)
            assert all(torch.equal(tensor.cpu(), other) for tensor, other in pairs)


def test_training_there_gives_the_losses_of_training_here(homo):
    def losses(device):
        torch.manual_seed(0)
        width = next(iter(ng.NeighborLoader(homo, [1], batch_size=1))).x.shape[1]
        model = GraphSAGE(width, 16, 8, 2, dropout=0.0).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        where = {} if device == "cpu" else {"device": device}
        found = []
        for batch in ng.NeighborLoader(homo, [3, 2], batch_size=16, seed=4, **where):
            optimizer.zero_grad()
            out = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
            target = batch.y[: batch.batch_size] % 8
            loss = torch.nn.functional.cross_entropy(out, target)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return np.array(found)

    assert np.allclose(losses("cpu"), losses("cuda"), rtol=1e-3, atol=1e-4)


def test_the_profile_knows_the_gpu(homo_path):
    from neargraph.profile.run import ProfileConfig, profile_training

    (entry,) = profile_training(homo_path, ["sage"], ["uring"], 1, ProfileConfig(device="cuda"))
    (run,) = entry["runs"]
    assert run["system"]["gpu_memory_bytes"] > 0
    assert run["stages"]["copy"] > 0
    assert all(np.isfinite(run["losses"]))
