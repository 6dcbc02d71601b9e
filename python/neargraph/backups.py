"""Backups: `restore` and `verify_backup`; `Store.backup` makes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from neargraph import _core

Path = str | os.PathLike[str]


def restore(
    backup: Path, target: Path, *, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Makes the store that was backed up, with the same bytes in the same places.

    Everything is checked before it is written. A crash or a full disk leaves the whole store or
    none.

    Args:
        backup: The backup. Those that it was made on lie in the same directory.
        target: The store to make; it must not exist.
        progress: Called with how many of how many blocks are done.

    Returns:
        ``checkpoint_id``, ``lsn`` and ``fingerprint`` of the store, its ``pages``, the number of
        ``backups`` that hold them, and ``bytes_read`` from those.

    Raises:
        StoreDamaged: The message names the file and the block of the backup.
        StoreNotFound: There is no such backup, or one that it was made on is missing.
        UnsupportedArgument: `target` exists, or a backup that it was made on is another one.
        IoFailed: The disk is full, or failed.

    Example:
        >>> ng.restore("backups/tuesday", "restored.ng")                      # doctest: +SKIP
    """
    return _core.restore_backup(os.fspath(backup), os.fspath(target), progress)


def verify_backup(
    backup: Path, *, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Reads a backup, and those that it was made on, as `restore` does, and writes nothing.

    Args:
        backup: The backup.
        progress: Called with how many of how many blocks are done.

    Returns:
        As `restore`.

    Raises:
        StoreDamaged: The message names the file and the block of the backup.
        StoreNotFound: There is no such backup, or one that it was made on is missing.
        UnsupportedArgument: A backup that it was made on is another one.

    Example:
        >>> ng.verify_backup("backups/tuesday")["lsn"]                        # doctest: +SKIP
    """
    return _core.verify_backup(os.fspath(backup), progress)
