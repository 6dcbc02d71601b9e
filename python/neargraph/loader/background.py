"""Items that a thread makes ahead of the consumer.

The invariant: at most `depth` items wait for the consumer, and the thread ends before the
iteration does, also after an error.
"""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def in_background(items: Iterator[T], depth: int, name: str) -> Generator[T, None, None]:
    """Yields the items, made by a thread at most `depth` ahead.

    An error of `items` is raised in place of the item that failed.
    """
    room = threading.Semaphore(depth)
    made: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
    stop = threading.Event()
    thread = threading.Thread(target=_work, args=(items, room, made, stop), name=name, daemon=True)
    thread.start()
    try:
        while True:
            # A list that is emptied: a name that held the item would keep its memory.
            entry = made.get()
            if not entry:
                return
            if len(entry) == 2:
                raise entry[1]
            room.release()
            yield entry.pop()
    finally:
        stop.set()
        room.release()
        thread.join()


def _work(
    items: Iterator[Any],
    room: threading.Semaphore,
    made: "queue.SimpleQueue[list[Any]]",
    stop: threading.Event,
) -> None:
    try:
        while True:
            room.acquire()
            if stop.is_set():
                return
            entry: list[Any] = []
            try:
                entry.append(next(items))
            except StopIteration:
                return
            made.put(entry)
            del entry
    except BaseException as error:  # the consumer raises it
        made.put([None, error])
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
        made.put([])
