"""The one family of errors that neargraph raises.

Every class derives from `NeargraphError` and from the builtin that fits, so that both
``except ng.NeargraphError`` and ``except FileNotFoundError`` work. The compiled core looks these
classes up by name; each message says what is wrong, where, and what to do.
"""

from typing import Any

from neargraph.units import format_bytes


class NeargraphError(Exception):
    """Base of all errors of this package."""


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
            a larger one does not help, and `what` says what does.
        otherwise: What else helps a caller in Python.
    """

    def __init__(
        self, what: str, minimum_bytes: int | None = None, otherwise: str | None = None
    ) -> None:
        super().__init__(what, minimum_bytes, otherwise)
        self.what, self.minimum_bytes, self.otherwise = what, minimum_bytes, otherwise

    def __str__(self) -> str:
        more = f", or {self.otherwise}" if self.otherwise else ""
        return self.with_option("memory=") + more

    def with_option(self, option: str | None) -> str:
        """The message with the name that the budget has in a face; None where it has none."""
        if self.minimum_bytes is None:
            return self.what
        size = format_bytes(self.minimum_bytes, up=True)
        if option is None:
            return f"{self.what}; it takes {size}, which a quarter of this machine's memory is not"
        return f"{self.what}; raise {option} to at least {size}"


class NodeOutOfRange(NeargraphError, IndexError):
    """A node or edge id is negative or not below the bound of its type."""


class NameNotFound(NeargraphError, KeyError):
    """The store has no node type, edge type, tensor or split of that name."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would quote and escape a whole sentence.
        return str(self.args[0]) if self.args else ""


class StoreClosed(NeargraphError, ValueError):
    """The store was closed before this call."""


class SnapshotGone(NeargraphError, RuntimeError):
    """The version that another process pinned is in no checkpoint, or no longer in the store."""


class StoreBusy(NeargraphError, BlockingIOError):
    """Somebody else writes to the store, or a batch of this very thread is open."""


class StorePoisoned(NeargraphError, OSError):
    """A write failed, so the store takes no more of them until it is opened again; reads go on."""


class BatchEnded(NeargraphError, ValueError):
    """The batch was committed or given up, belongs to another process, or is spoiled."""


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

    notes: tuple[dict[str, Any], ...] | list[dict[str, Any]] = ()


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


class MissingDependency(NeargraphError, ImportError):
    """An optional package is needed; the message gives the pip command."""
