"""The stage that copies batches to the device: a thread, reused pinned buffers, a CUDA stream.

Every call of CUDA is in `Cuda`, so that order and bounds of the stage can be tested without CUDA.
The invariant: a pinned buffer is filled again only after the copy from it has ended, and the
consumer's stream waits only for the batch that it uses.
"""

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.background import in_background
from neargraph.loader.collate import csr_tensor

# Pinned buffers: one is filled while another is copied.
BUFFERS = 2

# Batches on the device that wait for the consumer.
_AHEAD = 2

# Tensors of a batch start at multiples of this many bytes.
_ALIGNMENT = 64


class Cuda:
    """The calls of CUDA that the stage needs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda: Any = torch.cuda
        self._stream = cuda.Stream(device)
        self._event = cuda.Event

    def pinned(self, num_bytes: int) -> Tensor:
        """Returns page-locked memory, uint8 [num_bytes]."""
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)

    def send(self, pinned: Tensor) -> tuple[Tensor, Any]:
        """Starts a copy to the device; returns the copy and the event that marks its end."""
        with torch.cuda.stream(self._stream):
            sent = pinned.to(self._device, non_blocking=True)
            event = self._event()
            event.record(self._stream)
        return sent, event

    def finish(self, event: Any) -> None:
        """Blocks until `event` is reached."""
        event.synchronize()

    def await_in_compute(self, event: Any, sent: Tensor) -> None:
        """Makes the consumer's stream wait for `event`, and keeps `sent` while it is used there."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        sent.record_stream(current)


def copy_stage(pin_memory: bool, device: Any) -> "CopyStage | None":
    """Returns the stage for the arguments of a loader; None if batches are not copied.

    Raises:
        UnsupportedArgument: `device` is neither a CUDA device nor the CPU, or CUDA is missing.
    """
    wanted = None if device is None else torch.device(device)
    if wanted is not None and wanted.type == "cuda":
        if not torch.cuda.is_available():
            raise UnsupportedArgument(
                f"device={device!r} is not available: torch finds no CUDA device; leave out device="
            )
        return CopyStage(Cuda(wanted))
    if wanted is not None and wanted.type != "cpu":
        raise UnsupportedArgument(
            f"device={device!r} is not supported: expected a CUDA device or 'cpu'"
        )
    if not pin_memory:
        return None
    if not torch.cuda.is_available():
        warnings.warn(
            "pin_memory=True has no effect: torch finds no CUDA device, so batches are in plain "
            "memory",
            UserWarning,
            stacklevel=3,
        )
        return None
    return CopyStage(None)


class CopyStage:
    """Copies batches in a thread, ahead of the consumer.

    Args:
        cuda: Copies batches to a device through reused pinned buffers. None copies batches to
            pinned memory instead. The consumer owns this memory, and torch's allocator reuses it
            once it is dropped.

    Attributes:
        seconds: Time spent on copying, without waits for batches or for the consumer.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._buffers: deque[tuple[Tensor, Any]] = deque()
        self.seconds = 0.0

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields the batches, copied."""
        with closing(in_background(self._copied(batches), _AHEAD, "ng-copy")) as copied:
            if self._cuda is None:
                yield from copied
                return
            for entry in copied:
                batch, event, sent = entry
                entry.clear()
                self._cuda.await_in_compute(event, sent)
                del event, sent
                holder = [batch]
                del batch
                yield holder.pop()

    def _copied(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            holder: list[Any] = []
            try:
                holder.append(next(batches))
            except StopIteration:
                return
            start = time.perf_counter()
            batch = holder.pop()
            holder.append(batch.pin_memory() if self._cuda is None else self._send(batch))
            del batch
            self.seconds += time.perf_counter() - start
            yield holder.pop()

    def _send(self, batch: Any) -> list[Any]:
        """Returns [batch on the device, event of its copy, memory that its tensors share]."""
        tensors = tensors_of(batch)
        places, num_bytes = _layout(tensors)
        buffer = self._buffer(num_bytes)
        for tensor, place in zip(tensors, places, strict=True):
            _fill(buffer, place, tensor)
        sent, event = self._cuda.send(buffer[:num_bytes])
        self._buffers.append((buffer, event))
        there = iter([_part(sent, place, t) for t, place in zip(tensors, places, strict=True)])
        return [with_tensors(batch, lambda _: next(there)), event, sent]

    def _buffer(self, num_bytes: int) -> Tensor:
        """Returns the least recently used pinned buffer, or a new one."""
        if len(self._buffers) < BUFFERS:
            return self._cuda.pinned(num_bytes)  # type: ignore[no-any-return]
        buffer, event = self._buffers.popleft()
        self._cuda.finish(event)
        if buffer.numel() < num_bytes:
            # Freed before the larger one is allocated.
            del buffer
            return self._cuda.pinned(num_bytes + num_bytes // 8)  # type: ignore[no-any-return]
        return buffer


def _layout(tensors: list[Tensor]) -> tuple[list[int], int]:
    """Returns the start of each tensor, and the bytes of all."""
    places, end = [], 0
    for tensor in tensors:
        places.append(end)
        end += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
    return places, end


def _fill(memory: Tensor, place: int, tensor: Tensor) -> None:
    """Copies the bytes of `tensor` to `memory` at `place`, in this thread alone.

    Torch would use a thread per core, and wait for all of them while sampling and gathering keep
    the cores busy.
    """
    source = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
    np.copyto(memory.numpy()[place : place + source.size], source)


def _part(memory: Tensor, place: int, like: Tensor) -> Tensor:
    """Returns a view of `memory` at `place`, with dtype and shape of `like`."""
    size = like.numel() * like.element_size()
    return memory[place : place + size].view(like.dtype).view(like.shape)


def tensors_of(batch: Any) -> list[Tensor]:
    """Returns the dense tensors of a PyG batch and of its sparse tensors, in a fixed order."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    with_tensors(batch, note)
    return found


def with_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns the batch with `change` applied to each dense tensor, in the order of `tensors_of`.

    Raises:
        UnsupportedArgument: The batch is not an object of PyG.
    """

    def each(tensor: Tensor) -> Tensor:
        if tensor.layout != torch.sparse_csr:
            return change(tensor)
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        crow, columns, values = map(change, parts)
        return csr_tensor(crow, columns, values, tensor.shape)

    if not hasattr(batch, "apply"):
        raise UnsupportedArgument(
            f"transform= returned a {type(batch).__name__}, and only objects of PyG can be copied "
            "to a device or to pinned memory; return a PyG object, or leave device= and "
            "pin_memory= out"
        )
    return batch.apply(each)
