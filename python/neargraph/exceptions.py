"""The one family of errors that neargraph raises.

Every class derives from `NeargraphError` and from the builtin that fits, so that both
``except ng.NeargraphError`` and ``except FileNotFoundError`` work. The compiled core looks these
classes up by name; each message says what is wrong, where, and what to do.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from neargraph.remedies import in_python

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
    """Base of all errors of this package.

    ``remedies`` say what to do about it, and each is enough: dictionaries with a ``name``, and with
    ``at_least_bytes`` if a larger memory budget helps. The message ends with them.
    """

    remedies: Sequence[dict[str, Any]] = ()

    def __str__(self) -> str:
        return self.with_advice(in_python)

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """The message, and what to do in the words of a face."""
        # The builtins would show the repr of an argument, or take it for a number of the system.
        what = str(self.args[0]) if self.args else ""
        advice = ", or ".join(filter(None, map(words, self.remedies)))
        return f"{what}; {advice}" if advice else what


Raised = TypeVar("Raised", bound=NeargraphError)


def advised(error: Raised, remedy: str) -> Raised:
    """The error with a remedy, by its name in `neargraph.remedies`."""
    error.remedies = [{"name": remedy}]
    return error


class StoreNotFound(NeargraphError, FileNotFoundError):
    """There is nothing at the path of the store."""


class NotAStore(NeargraphError, ValueError):
    """The path exists but holds no neargraph store."""


class NewerVersion(NeargraphError, ValueError):
    """The store was written by a newer version of neargraph than this one."""


class StoreDamaged(NeargraphError, RuntimeError):
    """A checksum or a structural check failed; the message names file, page and block."""


class WrongRow(NeargraphError, RuntimeError):
    """A batch has other rows than a plain read gives: a defect of neargraph; please report it."""


class LogDamaged(StoreDamaged):
    """A commit in the log cannot be read although later ones can."""


class IoFailed(NeargraphError, OSError):
    """The operating system failed a read or a write."""


class BudgetTooSmall(NeargraphError, MemoryError, ValueError):
    """``memory=`` is below what a store, a batch or an import needs; the message says the minimum.

    Args:
        what: What does not fit, in the words of every face.
        minimum_bytes: The smallest budget that holds it beside what is held already; None where
            a larger one does not help.
    """

    def __init__(self, what: str, minimum_bytes: int | None = None) -> None:
        super().__init__(what)
        if minimum_bytes is not None:
            self.remedies = [{"name": "RaiseMemory", "at_least_bytes": minimum_bytes}]

    @property
    def minimum_bytes(self) -> int | None:
        """The smallest budget that does; None where a larger one does not help."""
        return next((r["at_least_bytes"] for r in self.remedies if "at_least_bytes" in r), None)


class NodeOutOfRange(NeargraphError, IndexError):
    """A node or edge id is negative or not below the bound of its type."""


class NameNotFound(NeargraphError, KeyError):
    """The store has no node type, edge type, tensor or split of that name."""


class StoreClosed(NeargraphError, ValueError):
    """The store was closed before this call."""


class SnapshotGone(NeargraphError, RuntimeError):
    """The version that another process pinned is in no checkpoint, or no longer in the store."""


class StoreBusy(NeargraphError, BlockingIOError):
    """Somebody else writes to the store, or a transaction of this very thread is open."""


class StorePoisoned(NeargraphError, OSError):
    """A write failed, so the store takes no more of them until it is opened again; reads go on."""


class TransactionEnded(NeargraphError, ValueError):
    """The transaction was committed or given up, belongs to another process, or is spoiled."""


class NodeNotFound(NeargraphError, LookupError):
    """A node to change does not exist: its id was never given out, or it was deleted."""


class EdgeNotFound(NeargraphError, LookupError):
    """There is no edge to delete between the nodes."""


class ReverseMissing(NeargraphError, RuntimeError):
    """Deleting a node needs an edge type's reverse, which the store was imported without."""


class UpdateFailed(NeargraphError, ValueError):
    """A row of a file of events is bad; the message names it and says how to go on."""


class RowWidth(NeargraphError, ValueError):
    """Rows have another shape than their tensor; the message gives both."""


class ImportFailed(NeargraphError, ValueError):
    """The input of an import is bad; the message names file and line. Nothing is left behind.

    ``notes`` are those of an import that was refused because of ``strict``, as in its report.
    """

    notes: Sequence[dict[str, Any]] = ()

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """The message, and the notes that were refused."""
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
    """A model cannot be written as a model file; the message names the layer or the line.

    Nothing is left behind.
    """


class InvalidModel(NeargraphError, ValueError):
    """A model file or dataflow graph is not valid, or does not fit what it is run on.

    The message names the node, tensor or input.
    """


class UnsupportedModel(InvalidModel):
    """A model file or graph has something that the engine does not have; the message names it."""


class WrongInput(InvalidModel):
    """What a model is run on is missing, unknown, or of another type or shape; names the input."""


class UnsupportedArgument(NeargraphError, ValueError):
    """An argument that neargraph does not take; the message says what to do."""


class StateMismatch(NeargraphError, ValueError):
    """A loader state was saved under other settings; the message names the field."""


class LossNotFinite(NeargraphError, ArithmeticError):
    """A training loss, or an output of the model, is NaN or infinite; the message says where."""


class CompiledMismatch(NeargraphError, ValueError):
    """Compiled epochs were made from other data or settings; the message names what differs."""


class CompiledOutdated(CompiledMismatch):
    """A compiled file is of a version of the format that this release does not read."""


class PluginRefused(NeargraphError, RuntimeError):
    """A plug-in is not allowed, not safe where it lies, or did not pass its trial."""


class MissingDependency(NeargraphError, ImportError):
    """An optional package is needed; the message gives the pip command."""


class ServeFailed(NeargraphError, RuntimeError):
    """A server does not start; the message says why."""


class RequestFailed(NeargraphError):
    """A server refused a request, or could not be reached.

    Where the server's reason is that of another class of this module, such as `NodeOutOfRange`, the
    exception is of that class, too.

    Attributes:
        code: What class of problem it is, as gRPC has them, such as "NOT_FOUND".
        reason: One word for programs, such as "MODEL_NOT_FOUND".
        field: The field of the request, such as "targets"; empty if it is not one.
        remedy: What to do about it; empty if nothing helps. The message ends with it.
        retry_after: Seconds after which the server wants to be asked again, if it says so.
    """

    code = "UNKNOWN"
    reason = ""
    field = ""
    remedy = ""
    retry_after: float | None = None

    def with_advice(self, words: Callable[[dict[str, Any]], str]) -> str:
        """The message, and what the server advises."""
        what = super().with_advice(words)
        return f"{what}; {self.remedy}" if self.remedy else what

    def __reduce__(self) -> tuple[Any, ...]:
        message = str(self.args[0]) if self.args else ""
        code = "".join(part.title() for part in self.code.split("_"))
        facts = (code, self.reason, message, self.field, self.remedy, self.retry_after)
        return request_failed, facts


class InvalidRequest(RequestFailed, ValueError):
    """The server does not take an argument; `field` names it."""


class NotFound(RequestFailed, LookupError):
    """The server has no graph, model, version, job or snapshot of that name."""


class NotPermitted(RequestFailed, PermissionError):
    """The token is missing or wrong, or does not allow this."""


class ServerBusy(RequestFailed):
    """The server sheds load, or a quota or limit is reached."""


class ServerUnavailable(RequestFailed, ConnectionError):
    """The server cannot be reached, or is about to end."""


class TimedOut(RequestFailed, TimeoutError):
    """No answer came in time."""


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
    """The exception of what a server says; `code` is written as in "NotFound"."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()
    # A class of the system's errors would take several arguments for numbers and files.
    made = _class_of(name, reason)(message)
    made.code, made.reason, made.field = name, reason, field
    made.remedy, made.retry_after = remedy, retry_after
    return made
