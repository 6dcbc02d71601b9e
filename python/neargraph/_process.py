"""Handles that belong to one process.

Threads, io_uring rings and file descriptors of the compiled core do not survive a fork and cannot
be pickled. A `ProcessLocal` builds its handle on first use in each process. Invariant: a handle
that was built before a fork is neither used nor dropped in the child, because dropping it would
wait for threads that exist only in the parent.
"""

import ctypes
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_live: "weakref.WeakSet[ProcessLocal[Any]]" = weakref.WeakSet()


class ProcessLocal(Generic[T]):
    """A handle that `build` creates on first use in each process.

    A bound method is held by a weak reference. Otherwise its owner would live, with the memory and
    files of the handle, until garbage collection finds the cycle. A pickled object builds its
    handle in the process that loads it.
    """

    def __init__(self, build: Callable[[], T], handle: T | None = None) -> None:
        self._build = weakref.WeakMethod(build) if inspect.ismethod(build) else lambda: build
        self._handle = handle
        self._lock = threading.Lock()
        _live.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessLocal, (self._builder(),)

    def _builder(self) -> Callable[[], T]:
        build = self._build()
        if build is None:
            raise ReferenceError(
                "the store or engine of this object was deleted; keep a reference to the store or "
                "engine"
            )
        return build

    def get(self) -> T:
        """Returns the handle of this process, and builds it on first use."""
        handle = self._handle
        if handle is not None:
            return handle
        with self._lock:
            if self._handle is None:
                self._handle = self._builder()()
            return self._handle

    def peek(self) -> T | None:
        """Returns the handle of this process, or None if it was not built."""
        return self._handle

    def take(self) -> T | None:
        """Removes and returns the handle of this process; None if it was not built."""
        with self._lock:
            handle, self._handle = self._handle, None
            return handle

    def _forget_in_child(self) -> None:
        # The lock may have been held by a thread that the child does not have.
        self._lock = threading.Lock()
        handle, self._handle = self._handle, None
        if handle is not None:
            abandon(handle)


def abandon(handle: object) -> None:
    """Keeps `handle` alive until the process ends, so that it is never dropped."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


@contextmanager
def closed_in_this_process(handle: Any) -> Iterator[None]:
    """Closes `handle` at the end, except in a child that was forked in between."""
    local = ProcessLocal(lambda: handle, handle)
    try:
        yield
    finally:
        owned = local.take()
        if owned is not None:
            owned.close()


def _after_fork_in_child() -> None:
    for local in list(_live):
        local._forget_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def workers_of_this_process() -> int:
    """Returns the number of workers that share the memory budget; 0 outside of DataLoaders."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return int(info.num_workers) if info is not None else 0
