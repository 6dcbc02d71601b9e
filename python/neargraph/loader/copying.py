"""The stage that brings batches to the device: a thread, pinned buffers used again and again, a
stream of its own.

What is asked of CUDA is in `Cuda` alone, so that order and bounds of the stage are tested where
there is none. The invariant: a pinned buffer is filled anew only after the copy from it has ended,
and whoever computes waits for its own batch alone.
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

# Pinned buffers: one is filled while another is on its way.
BUFFERS = 2

# Batches on the device that nobody has taken yet.
_AHEAD = 2

# Tensors of a batch start at multiples of this many bytes.
_ALIGNMENT = 64


class Cuda:
    """All that the stage asks of CUDA."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda: Any = torch.cuda
        self._stream = cuda.Stream(device)
        self._event = cuda.Event

    def pinned(self, num_bytes: int) -> Tensor:
        """Page-locked memory, uint8 [num_bytes]."""
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)

    def send(self, pinned: Tensor) -> tuple[Tensor, Any]:
        """Starts a copy to the device; the copy, and an event that is reached when it is there."""
        with torch.cuda.stream(self._stream):
            sent = pinned.to(self._device, non_blocking=True)
            event = self._event()
            event.record(self._stream)
        return sent, event

    def finish(self, event: Any) -> None:
        """Waits here until `event` is reached."""
        event.synchronize()

    def await_in_compute(self, event: Any, sent: Tensor) -> None:
        """Makes the consumer's stream wait for `event`; `sent` stays as long as that uses it."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        sent.record_stream(current)


def copy_stage(pin_memory: bool, device: Any) -> "CopyStage | None":
    """The stage that the arguments of a loader ask for.

    Raises:
        UnsupportedArgument: `device` is none of this machine.
    """
    wanted = None if device is None else torch.device(device)
    if wanted is not None and wanted.type == "cuda":
        if not torch.cuda.is_available():
            raise UnsupportedArgument(f"device={device!r}: torch finds no CUDA here; leave it out")
        return CopyStage(Cuda(wanted))
    if wanted is not None and wanted.type != "cpu":
        raise UnsupportedArgument(f"device={device!r}: batches go to a CUDA device or stay")
    if not pin_memory:
        return None
    if not torch.cuda.is_available():
        warnings.warn(
            "pin_memory=True, but torch finds no CUDA here: batches come in plain memory",
            UserWarning,
            stacklevel=3,
        )
        return None
    return CopyStage(None)


class CopyStage:
    """Copies batches in a thread, ahead of who takes them.

    Args:
        cuda: Brings batches to a device, through pinned buffers that are used again. None only
            pins them: such memory is the consumer's, and torch's allocator uses it again when it
            is dropped.

    Attributes:
        seconds: Time spent on copying, without waiting for batches or for the consumer.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._buffers: deque[tuple[Tensor, Any]] = deque()
        self.seconds = 0.0

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches, copied."""
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
        """[the batch on the device, the event of its copy, the memory that its tensors share]."""
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
        """The pinned buffer that was used longest ago, or a new one."""
        if len(self._buffers) < BUFFERS:
            return self._cuda.pinned(num_bytes)  # type: ignore[no-any-return]
        buffer, event = self._buffers.popleft()
        self._cuda.finish(event)
        if buffer.numel() < num_bytes:
            # Goes before the larger one comes.
            del buffer
            return self._cuda.pinned(num_bytes + num_bytes // 8)  # type: ignore[no-any-return]
        return buffer


def _layout(tensors: list[Tensor]) -> tuple[list[int], int]:
    """Where each tensor starts, and how many bytes they take together."""
    places, end = [], 0
    for tensor in tensors:
        places.append(end)
        end += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
    return places, end


def _fill(memory: Tensor, place: int, tensor: Tensor) -> None:
    """Copies the bytes of `tensor` to `memory` from `place` on, in this thread alone.

    Torch would wake a thread on every core for that, and wait for all of them where sampling and
    gathering keep the cores busy.
    """
    source = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
    np.copyto(memory.numpy()[place : place + source.size], source)


def _part(memory: Tensor, place: int, like: Tensor) -> Tensor:
    """The bytes of `memory` from `place` on, as a tensor like `like`."""
    size = like.numel() * like.element_size()
    return memory[place : place + size].view(like.dtype).view(like.shape)


def tensors_of(batch: Any) -> list[Tensor]:
    """The dense tensors of a PyG batch, those inside sparse ones among them, in a fixed order."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    with_tensors(batch, note)
    return found


def with_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The batch with every dense tensor changed, in the order of `tensors_of`."""

    def each(tensor: Tensor) -> Tensor:
        if tensor.layout != torch.sparse_csr:
            return change(tensor)
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        crow, columns, values = map(change, parts)
        return csr_tensor(crow, columns, values, tensor.shape)

    if not hasattr(batch, "apply"):
        raise UnsupportedArgument(
            f"transform= made a {type(batch).__name__}; only PyG's objects go to a device"
        )
    return batch.apply(each)
