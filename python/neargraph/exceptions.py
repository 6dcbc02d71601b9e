"""The exceptions of neargraph.

Every class derives from `NeargraphError` and from the matching builtin, so both
``except ng.NeargraphError`` and ``except FileNotFoundError`` work. The compiled core finds these
classes by name. Each message says what is wrong, where, and what to do.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from neargraph.remedies import in_python, of_reason

__all__ = [
    "BudgetTooSmall",
    "CompiledMismatch",
    "CompiledOutdated",
    "EdgeNotFound",
    "ExportFailed",
    "ImportFailed",
    "InvalidModel",
    "InvalidRequest",
    "IoFailed",
    "LogDamaged",
    "LossNotFinite",
    "MissingDependency",
    "NameNotFound",
    "NeargraphError",
    "NewerVersion",
    "NodeNotFound",
    "NodeOutOfRange",
    "NotAStore",
    "NotFound",
    "NotPermitted",
    "PluginRefused",
    "RequestFailed",
    "ReverseMissing",
    "RowWidth",
    "ServeFailed",
    "ServerBusy",
    "ServerUnavailable",
    "SnapshotGone",
    "StateMismatch",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreNotFound",
    "StorePoisoned",
    "TimedOut",
    "TransactionEnded",
    "UnsupportedArgument",
    "UnsupportedModel",
    "UpdateFailed",
    "WrongInput",
    "WrongRow",
]


class NeargraphError(Exception):
    """Base class of all errors of this package.

    Each of ``remedies`` is enough to resolve the error. A remedy is a dictionary with a ``name``,
    and with ``at_least_bytes`` if a larger memory budget helps. The message ends with the remedies.
    """

    remedies: Sequence[dict[str, Any]] = ()

    def __str__(self) -> str:
        return self.with_advice(in_python)

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """Returns the message with its remedies, in the words of one interface."""
        # The builtins would show the repr of an argument, or read it as an errno.
        what = str(self.args[0]) if self.args else ""
        advice = ", or ".join(filter(None, map(words, self.remedies)))
        return f"{what}; {advice}" if advice else what


Raised = TypeVar("Raised", bound=NeargraphError)


def advised(error: Raised, remedy: str) -> Raised:
    """Returns the error with a remedy, given by its name in `neargraph.remedies`."""
    error.remedies = [{"name": remedy}]
    return error


class StoreNotFound(NeargraphError, FileNotFoundError):
    """The path of the store does not exist."""


class NotAStore(NeargraphError, ValueError):
    """The path exists, but it is not a neargraph store."""


class NewerVersion(NeargraphError, ValueError):
    """A newer version of neargraph wrote the store."""


class StoreDamaged(NeargraphError, RuntimeError):
    """A checksum or a structural check failed. The message names file, page and block."""


class WrongRow(NeargraphError, RuntimeError):
    """A row of a batch differs from a plain read: a defect of neargraph. Please report it."""


class LogDamaged(StoreDamaged):
    """A commit in the log cannot be read, although later ones can."""


class IoFailed(NeargraphError, OSError):
    """A read or a write failed in the operating system."""


class BudgetTooSmall(NeargraphError, MemoryError, ValueError):
    """``memory=`` is too small for a store, a batch or an import. The message gives the minimum.

    Args:
        what: The message without its remedy, in words that every interface can show.
        minimum_bytes: The smallest budget that is sufficient, including memory that is already in
            use; None if a larger budget does not help.
    """

    def __init__(self, what: str, minimum_bytes: int | None = None) -> None:
        super().__init__(what)
        if minimum_bytes is not None:
            self.remedies = [{"name": "RaiseMemory", "at_least_bytes": minimum_bytes}]

    @property
    def minimum_bytes(self) -> int | None:
        """The smallest budget that is sufficient; None if a larger budget does not help."""
        return next((r["at_least_bytes"] for r in self.remedies if "at_least_bytes" in r), None)


class NodeOutOfRange(NeargraphError, IndexError):
    """A node or edge id is negative, or not below the number of ids of its type."""


class NameNotFound(NeargraphError, KeyError):
    """The store has no node type, edge type, tensor or split of this name."""


class StoreClosed(NeargraphError, ValueError):
    """The store was closed before this call."""


class SnapshotGone(NeargraphError, RuntimeError):
    """Another process needs a version that no checkpoint has, or that the store has no longer."""


class StoreBusy(NeargraphError, BlockingIOError):
    """Another process or handle writes to the store, or this thread has an open transaction."""


class StorePoisoned(NeargraphError, OSError):
    """A write failed. The store rejects writes until it is opened again; reads still work."""


class TransactionEnded(NeargraphError, ValueError):
    """The transaction has ended, belongs to another process, or had a call that failed halfway."""


class NodeNotFound(NeargraphError, LookupError):
    """A node to change does not exist: its id was never assigned, or it was deleted."""


class EdgeNotFound(NeargraphError, LookupError):
    """The edge to delete does not exist."""


class ReverseMissing(NeargraphError, RuntimeError):
    """Deleting a node needs the reverse of an edge type, which the import did not keep."""


class UpdateFailed(NeargraphError, ValueError):
    """A row of an event file is not valid. The message names the row and how to resume."""


class RowWidth(NeargraphError, ValueError):
    """Rows have another shape than their tensor. The message gives both shapes."""


class ImportFailed(NeargraphError, ValueError):
    """The input of an import is not valid. The message names file and line.

    No files are left behind. If ``strict`` was the reason, ``notes`` are the notes of the import,
    as in its report.
    """

    notes: Sequence[dict[str, Any]] = ()

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """Returns the message with the notes that ``strict`` rejects."""
        listed = "; ".join(_told(words, **note) for note in self.notes if not note["requested"])
        return super().with_advice(words) + (f": {listed}" if listed else "")


def _told(
    words: Callable[[dict[str, Any]], str],
    code: str,
    where: str,
    message: str,
    remedy: dict[str, Any] | None = None,
    **_: Any,
) -> str:
    advice = words(remedy) if remedy else ""
    return f"[{code}] {where}: {message}" + (f"; {advice}" if advice else "")


class ExportFailed(NeargraphError, ValueError):
    """A model cannot be written as a model file. The message names the layer or the line.

    No files are left behind.
    """


class InvalidModel(NeargraphError, ValueError):
    """A model file or dataflow graph is not valid, or does not fit its inputs or its store.

    The message names the node, tensor or input.
    """


class UnsupportedModel(InvalidModel):
    """A model file or graph uses something that the engine does not support; it is named."""


class WrongInput(InvalidModel):
    """An input of a model is missing, unknown, or of another type or shape. It is named."""


class UnsupportedArgument(NeargraphError, ValueError):
    """An argument is not supported. The message says what to do."""


class StateMismatch(NeargraphError, ValueError):
    """A loader state was saved with other settings. The message names the field."""


class LossNotFinite(NeargraphError, ArithmeticError):
    """A training loss, or an output of the model, is NaN or infinite. The message says where."""


class CompiledMismatch(NeargraphError, ValueError):
    """Compiled epochs were made from other data or settings. The message names the difference."""


class CompiledOutdated(CompiledMismatch):
    """A compiled file has a format version that this release does not read."""


class PluginRefused(NeargraphError, RuntimeError):
    """A plug-in is not allowed, is stored in an unsafe place, or failed its trial."""


class MissingDependency(NeargraphError, ImportError):
    """An optional package is not installed. The message gives the pip command."""


class ServeFailed(NeargraphError, RuntimeError):
    """A server cannot start. The message gives the reason."""


class RequestFailed(NeargraphError):
    """A server rejected a request, or could not be reached.

    If the server's reason matches another class of this module, such as `NodeOutOfRange`, the
    exception is of that class, too.

    Attributes:
        code: The status code of gRPC, such as "NOT_FOUND".
        reason: The reason as a constant for programs, such as "MODEL_NOT_FOUND".
        field: The field of the request that caused the error, such as "targets"; or empty.
        remedy: What to do about it; empty if there is no remedy. The message ends with it.
        retry_after: Seconds to wait before the next try; None if the server does not give them.
    """

    code = "UNKNOWN"
    reason = ""
    field = ""
    remedy = ""
    retry_after: float | None = None

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """Returns the message with its remedy: in the words of one interface, or the server's."""
        what = super().with_advice(words)
        return f"{what}; {self.remedy}" if self.remedy and not self.remedies else what

    def __reduce__(self) -> tuple[Any, ...]:
        message = str(self.args[0]) if self.args else ""
        code = "".join(part.title() for part in self.code.split("_"))
        facts = (code, self.reason, message, self.field, self.remedy, self.retry_after)
        return request_failed, facts


class InvalidRequest(RequestFailed, ValueError):
    """The server rejects an argument. `field` names it."""


class NotFound(RequestFailed, LookupError):
    """The server has no graph, model, version, job or snapshot of this name."""


class NotPermitted(RequestFailed, PermissionError):
    """The token is missing or wrong, or does not permit this request."""


class ServerBusy(RequestFailed):
    """The server rejects load, or a quota or limit is reached."""


class ServerUnavailable(RequestFailed, ConnectionError):
    """The server cannot be reached, or is shutting down."""


class TimedOut(RequestFailed, TimeoutError):
    """No answer arrived in time."""


_CLASSES: dict[str, type[RequestFailed]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "NOT_FOUND": NotFound,
    "UNAUTHENTICATED": NotPermitted,
    "PERMISSION_DENIED": NotPermitted,
    "RESOURCE_EXHAUSTED": ServerBusy,
    "UNAVAILABLE": ServerUnavailable,
    "DEADLINE_EXCEEDED": TimedOut,
}


@cache
def _class_of(code: str, reason: str) -> type[RequestFailed]:
    by_code = _CLASSES.get(code, RequestFailed)
    by_reason = globals().get("".join(part.title() for part in reason.split("_")))
    if not isinstance(by_reason, type) or not issubclass(by_reason, NeargraphError):
        return by_code
    if issubclass(by_code, by_reason) or issubclass(by_reason, RequestFailed):
        return by_code
    return type(by_reason.__name__, (by_code, by_reason), {"__doc__": by_reason.__doc__})


def request_failed(
    code: str,
    reason: str,
    message: str,
    field: str = "",
    remedy: str = "",
    retry_after: float | None = None,
) -> RequestFailed:
    """Returns the exception for an error of a server. `code` is in the form "NotFound"."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()
    # Subclasses of OSError would read several arguments as an errno and a file name.
    made = _class_of(name, reason)(message)
    made.code, made.reason, made.field = name, reason, field
    made.remedy, made.retry_after = remedy, retry_after
    if (known := of_reason(reason)) is not None:
        made.remedies, made.remedy = [known], in_python(known)
    return made
