"""Methods that are written once, for blocking and for asynchronous clients.

A method of a table is a generator of requests. It yields each request, receives its answer, and
returns the result for the caller. `Blocking` and `Asynchronous` classes have each method of their
tables as a function of their own kind, with the same signature and docstring.

The requests themselves must not live here. The invariant: both kinds have the same methods, and
send the same requests for the same arguments.
"""

import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

from neargraph import _core

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
J = TypeVar("J")


class Request(NamedTuple):
    """One call: a method of the core, and its arguments without the ticket."""

    method: str
    arguments: tuple[Any, ...]


Steps = Generator[Request, Any, T]


def _fill(cls: type, bound: Callable[[Any], Callable[..., Any]]) -> None:
    """Replaces each entry of the tables of `cls` by a function."""
    for name in {name for base in cls.__mro__ for name in vars(base)}:
        entry = inspect.getattr_static(cls, name)
        if isinstance(entry, method | job_method | stream):
            function = bound(entry)
            function.__name__, function.__module__ = name, cls.__module__
            function.__qualname__ = f"{cls.__name__}.{name}"
            setattr(cls, name, function)


class Blocking(Generic[J]):
    """A class whose methods block. `J` is its kind of job."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        _fill(cls, lambda entry: entry.blocking())

    def job(self, job: str) -> J:
        """Returns a job by its id. Another client may have started it."""
        raise TypeError(f"{type(self).__name__} does not support job(); call job() of a client")

    def _do(self, steps: Steps[T]) -> T:
        raise TypeError(f"{type(self).__name__} cannot send requests")


class Asynchronous(Generic[J]):
    """A class whose methods are awaited. `J` is its kind of job."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        _fill(cls, lambda entry: entry.asynchronous())

    def job(self, job: str) -> J:
        """Returns a job by its id. Another client may have started it."""
        raise TypeError(f"{type(self).__name__} does not support job(); call job() of a client")

    async def _do(self, steps: Steps[T]) -> T:
        raise TypeError(f"{type(self).__name__} cannot send requests")


def _described(
    function: Callable[..., Any], make: Callable[..., Any], doc: str, answer: Any
) -> Callable[..., Any]:
    """Returns the function with the signature of `make`, a docstring and a return annotation."""
    signature = inspect.signature(make).replace(return_annotation=answer)
    function.__doc__ = doc
    function.__annotations__ = {**make.__annotations__, "return": answer}
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _last_of(annotation: Any) -> Any:
    """Returns the type that a generator of steps returns."""
    return (typing.get_args(annotation) or (Any,))[-1]


class method(Generic[P, T]):
    """An entry of a table: a method that returns a value."""

    def __init__(
        self,
        make: Callable[Concatenate[Any, P], Steps[T]],
        doc: str | None = None,
        answer: Any = None,
    ) -> None:
        self._make = make
        self._doc = inspect.cleandoc(doc or make.__doc__ or "")
        self._answer = answer or _last_of(make.__annotations__.get("return"))

    def then(self, change: Callable[[T], U], doc: str, answer: Any) -> "method[P, U]":
        """Returns a method with the same arguments that applies `change` to the result."""
        make = self._make

        def changed(asker: Any, /, *given: P.args, **named: P.kwargs) -> Steps[U]:
            return change((yield from make(asker, *given, **named)))

        functools.update_wrapper(changed, make)
        return method(changed, doc, answer)

    @overload
    def __get__(self, asker: Blocking[Any], owner: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, asker: Asynchronous[Any], owner: Any = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(
        self, asker: None, owner: type[Blocking[Any]]
    ) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(
        self, asker: None, owner: type[Asynchronous[Any]]
    ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, asker: Any, owner: Any = None) -> Any:
        """The entry itself: classes have functions in place of it."""
        return self

    def blocking(self) -> Callable[..., Any]:
        """The function of classes whose methods wait."""
        make = self._make

        def call(asker: Any, *given: Any, **named: Any) -> Any:
            return asker._do(make(asker, *given, **named))

        return _described(call, make, self._doc, self._answer)

    def asynchronous(self) -> Callable[..., Any]:
        """The function of classes whose methods are awaited."""
        make = self._make

        async def call(asker: Any, *given: Any, **named: Any) -> Any:
            return await asker._do(make(asker, *given, **named))

        return _described(call, make, self._doc, self._answer)


class job_method(Generic[P]):
    """An entry of a table: a method whose steps return the id of a job. Callers get the job."""

    def __init__(self, make: Callable[Concatenate[Any, P], Steps[str]]) -> None:
        self._make = make
        self._doc = inspect.cleandoc(make.__doc__ or "")

    @overload
    def __get__(self, asker: Blocking[J], owner: Any = None) -> Callable[P, J]: ...
    @overload
    def __get__(
        self, asker: Asynchronous[J], owner: Any = None
    ) -> Callable[P, Coroutine[Any, Any, J]]: ...
    def __get__(self, asker: Any, owner: Any = None) -> Any:
        """The entry itself: classes have functions in place of it."""
        return self

    def blocking(self) -> Callable[..., Any]:
        """The function of classes whose methods wait."""
        make = self._make

        def call(asker: Any, *given: Any, **named: Any) -> Any:
            return asker.job(asker._do(make(asker, *given, **named)))

        return _described(call, make, self._doc, "Job")

    def asynchronous(self) -> Callable[..., Any]:
        """The function of classes whose methods are awaited."""
        make = self._make

        async def call(asker: Any, *given: Any, **named: Any) -> Any:
            return asker.job(await asker._do(make(asker, *given, **named)))

        return _described(call, make, self._doc, "AsyncJob")


@dataclass(frozen=True)
class Opening(Generic[T]):
    """The request that opens a stream, and the function that converts its messages."""

    request: Request
    then: Callable[[Any], T]


class _Messages(Generic[T]):
    """Messages of a stream, which is opened for the first message."""

    def __init__(self, asker: Any, opening: Opening[T]) -> None:
        self._asker = asker
        self._opening: Opening[T] | None = opening
        self._open: _core.Stream | None = None

    def _steps(self) -> Steps[tuple[T] | None]:
        opening = self._opening
        if opening is None:
            return None
        try:
            if self._open is None:
                self._open = yield opening.request
            message = yield Request("next", (self._open,))
        except BaseException:
            # A stream that was interrupted cannot continue.
            self._end()
            raise
        if message is None:
            self._end()
            return None
        return (opening.then(message),)

    def _end(self) -> None:
        opened, self._open, self._opening = self._open, None, None
        if opened is not None:
            opened.close()


class Stream(_Messages[T], Iterator[T]):
    """An iterator over the messages that a server sends.

    The server works a few messages ahead of the caller. Closing the stream, leaving its ``with``
    block or dropping it cancels the rest on the server. Ctrl-C and any other error also end the
    stream. A stream belongs to the process that opened it.

    Example:
        >>> with client.sample("train", [10, 5], 1024) as batches:  # doctest: +SKIP
        ...     first = next(batches)
    """

    def __next__(self) -> T:
        found = self._asker._do(self._steps())
        if found is None:
            raise StopIteration
        message: T = found[0]
        return message

    def close(self) -> None:
        """Ends the stream and cancels the rest of it on the server."""
        self._end()

    def __enter__(self) -> "Stream[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(_Messages[T], AsyncIterator[T]):
    """An asynchronous iterator over the messages that a server sends.

    The server works a few messages ahead of the caller. Closing the stream, leaving its ``async
    with`` block or dropping it cancels the rest on the server. Cancelling the task that waits and
    any other error also end the stream.

    Example:
        >>> async with client.sample("train", [10, 5], 1024) as batches:  # doctest: +SKIP
        ...     async for batch in batches:
        ...         train(batch)
    """

    async def __anext__(self) -> T:
        found = await self._asker._do(self._steps())
        if found is None:
            raise StopAsyncIteration
        message: T = found[0]
        return message

    async def aclose(self) -> None:
        """Ends the stream and cancels the rest of it on the server."""
        self._end()

    async def __aenter__(self) -> "AsyncStream[T]":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class stream(Generic[P, T]):
    """An entry of a table: a method that returns a stream. The method itself is not awaited."""

    def __init__(self, make: Callable[Concatenate[Any, P], Opening[T]]) -> None:
        self._make = make
        self._doc = inspect.cleandoc(make.__doc__ or "")

    @overload
    def __get__(self, asker: Blocking[Any], owner: Any = None) -> Callable[P, Stream[T]]: ...
    @overload
    def __get__(
        self, asker: Asynchronous[Any], owner: Any = None
    ) -> Callable[P, AsyncStream[T]]: ...
    def __get__(self, asker: Any, owner: Any = None) -> Any:
        """The entry itself: classes have functions in place of it."""
        return self

    def blocking(self) -> Callable[..., Any]:
        """The function of classes whose methods wait."""
        return self._of(Stream)

    def asynchronous(self) -> Callable[..., Any]:
        """The function of classes whose methods are awaited."""
        return self._of(AsyncStream)

    def _of(self, kind: Any) -> Callable[..., Any]:
        make = self._make

        def call(asker: Any, *given: Any, **named: Any) -> Any:
            return kind(asker, make(asker, *given, **named))

        message = _last_of(make.__annotations__.get("return"))
        return _described(call, make, self._doc, kind[message])
