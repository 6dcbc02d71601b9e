"""Copying to a device: order and bounds, with a stand-in for CUDA. No test here has a GPU."""

import threading
import warnings

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

from neargraph.loader.background import in_background  # noqa: E402
from neargraph.loader.copying import BUFFERS, CopyStage, tensors_of  # noqa: E402


class StandIn:
    """Copies later than asked: an event is reached only when somebody waits for it."""

    def __init__(self):
        self.log = []
        self.buffers = []
        self.pending = {}
        # Whoever waits while another thread copies waits for the end of that.
        self.reaching = threading.Lock()

    def pinned(self, num_bytes):
        self.buffers.append(torch.zeros(num_bytes, dtype=torch.uint8))
        return self.buffers[-1]

    def send(self, pinned):
        event = len(self.log)
        self.log.append(("send", event))
        sent = torch.empty_like(pinned)
        self.pending[event] = (pinned, sent)
        return sent, event

    def _reach(self, event):
        with self.reaching:
            if event in self.pending:
                pinned, sent = self.pending.pop(event)
                sent.copy_(pinned)

    def finish(self, event):
        self.log.append(("finish", event))
        self._reach(event)

    def await_in_compute(self, event, sent):
        self.log.append(("await", event))
        self._reach(event)


def batches_of(count, size=100):
    for k in range(count):
        rows = torch.full((size + k % 3, 7), float(k))
        yield Data(x=rows, y=torch.arange(k), edge_index=torch.tensor([[k], [k]]), batch_size=k)


def test_batches_arrive_whole_through_two_buffers_each_after_its_own_copy():
    cuda = StandIn()
    stage = CopyStage(cuda)
    for k, batch in enumerate(stage.run(batches_of(20))):
        assert torch.equal(batch.x, torch.full((100 + k % 3, 7), float(k)))
        assert torch.equal(batch.y, torch.arange(k))
        assert batch.edge_index.tolist() == [[k], [k]]
        assert batch.batch_size == k
        awaited = [entry for entry in cuda.log if entry[0] == "await"]
        assert len(awaited) == k + 1
    assert k == 19
    assert stage.seconds > 0
    sends = [event for what, event in cuda.log if what == "send"]
    assert [event for what, event in cuda.log if what == "await"] == sends
    # A buffer is finished before it is used again; growing ones are made anew, two at a time.
    assert [event for what, event in cuda.log if what == "finish"] == sends[:-BUFFERS]
    assert len(stage._buffers) == BUFFERS
    assert len(cuda.buffers) < 6


def test_a_slow_consumer_is_not_run_away_from():
    made = []

    def counted():
        for batch in batches_of(50):
            made.append(1)
            yield batch

    running = CopyStage(StandIn()).run(counted())
    next(running)
    next(running)
    running.close()
    # Two were taken, two wait, one may be under way.
    assert len(made) <= 5
    assert "ng-copy" not in [thread.name for thread in threading.enumerate()]


def test_an_error_of_a_batch_comes_after_those_before_it():
    def failing():
        yield from batches_of(3)
        raise KeyError("fourth")

    seen = []
    with pytest.raises(KeyError, match="fourth"):
        seen.extend(CopyStage(StandIn()).run(failing()))
    assert len(seen) == 3


def test_sparse_rows_and_several_types_are_copied_too():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = HeteroData()
        data["a"].x = dense.to_sparse_csr()
        data["a", "to", "b"].edge_index = torch.tensor([[1], [2]])
        data["b"].empty = torch.empty(0, 4)
        data["b"].flags = torch.tensor([True, False])
        assert len(tensors_of(data)) == 6
        (copied,) = CopyStage(StandIn()).run(iter([data]))
    assert torch.equal(copied["a"].x.to_dense(), dense)
    assert copied["a", "to", "b"].edge_index.tolist() == [[1], [2]]
    assert copied["b"].empty.shape == (0, 4)
    assert copied["b"].flags.tolist() == [True, False]


def test_what_is_no_batch_of_pyg_is_refused_by_name():
    with pytest.raises(ng.UnsupportedArgument, match="tuple"):
        list(CopyStage(StandIn()).run(iter([(1, 2)])))


def test_a_loader_gives_its_memory_back_when_batches_were_copied(homo):
    loader = ng.NeighborLoader(homo, [3, 2], batch_size=16, seed=1, reading="on_demand")
    plain = [batch.x.clone() for batch in loader]
    loader._copy = CopyStage(StandIn())
    loader.set_epoch(0)
    # All of them at once: none is held by the store's budget any more.
    copied = list(loader)
    assert all(torch.equal(a.x, b) for a, b in zip(copied, plain, strict=True))
    stages = loader.stages()
    assert stages["copy"] > 0
    assert stages["sample"] > 0
    assert loader.state_dict()["batches"] == len(plain)


def test_without_cuda_pinning_warns_once_and_a_device_is_refused(homo):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="plain memory") as seen:
        loader = ng.NeighborLoader(homo, [2], batch_size=64, pin_memory=True)
    assert len(seen) == 1
    assert not next(iter(loader)).x.is_pinned()
    with pytest.raises(ng.UnsupportedArgument, match="no CUDA"):
        ng.NeighborLoader(homo, [2], device="cuda")
    with pytest.raises(ng.UnsupportedArgument, match="is not supported"):
        ng.ClusterGCNLoader(homo, 2, device="meta")
    assert len(list(ng.ClusterGCNLoader(homo, 2, device="cpu"))) == 2


@pytest.mark.parametrize("depth", [1, 3])
def test_a_background_thread_stays_within_its_depth(depth):
    made, taken = [], []

    def items():
        for k in range(30):
            made.append(k)
            # Whoever takes an item lets the next one be made.
            assert len(made) - len(taken) <= depth + 1
            yield np.zeros(3) + k

    for item in in_background(items(), depth, "ng-test"):
        taken.append(int(item[0]))
    assert taken == list(range(30))


@pytest.mark.parametrize("reading", ["window", "scan"])
def test_reading_ahead_is_a_stage_of_its_own(reading, homo):
    loader = ng.NeighborLoader(homo, [3, 2], batch_size=16, reading=reading)
    assert len(list(loader)) == len(loader)
    stages = loader.stages()
    loader.close()
    assert min(stages[name] for name in ("sample", "gather", "wait")) > 0
