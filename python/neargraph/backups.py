"""Backups: `restore` and `verify_backup`. `Store.backup` creates them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from neargraph import _core
from neargraph.reports import RestoreReport

Path = str | os.PathLike[str]


def restore(
    backup: Path, target: Path, *, progress: Callable[[int, int], None] | None = None
) -> RestoreReport:
    """Creates a store from a backup, with the same bytes in the same places.

    Each block is compared with its checksum before it is written. After a crash or on a full disk,
    the store is complete or absent.

    Args:
        backup: The backup. The backups that it is based on must be in the same directory.
        target: The store directory to create. It must not exist.
        progress: Called with (blocks done, blocks in total).

    Returns:
        ``checkpoint_id``, ``lsn`` and ``fingerprint`` of the store, the number of its ``pages``,
        the number of ``backups`` that hold them, and the ``bytes_read`` from these.

    Raises:
        StoreDamaged: A block of a backup is damaged. The message names file and block.
        StoreNotFound: The backup, or one that it is based on, does not exist.
        UnsupportedArgument: `target` exists, or a base was replaced by another backup.
        IoFailed: The disk is full or failed.

    Example:
        >>> ng.restore("backups/tuesday", "restored.ng")                      # doctest: +SKIP
    """
    return cast(RestoreReport, _core.restore_backup(os.fspath(backup), os.fspath(target), progress))


def verify_backup(
    backup: Path, *, progress: Callable[[int, int], None] | None = None
) -> RestoreReport:
    """Checks a backup and the backups that it is based on, as `restore` does, without writing.

    Args:
        backup: The backup.
        progress: Called with (blocks done, blocks in total).

    Returns:
        The report that `restore` returns.

    Raises:
        StoreDamaged: A block of a backup is damaged. The message names file and block.
        StoreNotFound: The backup, or one that it is based on, does not exist.
        UnsupportedArgument: A base was replaced by another backup.

    Example:
        >>> ng.verify_backup("backups/tuesday")["lsn"]                        # doctest: +SKIP
    """
    return cast(RestoreReport, _core.verify_backup(os.fspath(backup), progress))
