"""Bring commits to the disk together: one `fsync` for all that were written while the last one was under way.

With `synchronous=FULL` SQLite syncs its log at every commit, while it keeps every other writer out: four milliseconds each on an
ordinary disk, so that all threads together commit 250 times a second. Here connections commit with `synchronous=NORMAL`, which
writes the same log and leaves the syncing to the checkpoint, let the next writer in, and then wait until a sync that began after
their commit has ended. What a commit promises is the same: it is on the disk when it returns. The log is read from its beginning
after a power cut, so a commit that is there stands on all before it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path


class SyncFailed(OSError):
    """The disk did not take what was written. Nobody can know what of it is there."""


class Disk:
    """The log of one database file."""

    def __init__(self, database: str) -> None:
        self.log = Path(database + "-wal")
        self._changed = threading.Condition()
        self._asked = 0  # How many have come to wait,
        self._synced = 0  # and for how many of them, from the first, everything is on the disk.
        self._is_syncing = False
        self._failure: OSError | None = None
        self._known_file: tuple[int, int] | None = None

    def wait(self) -> None:
        """Return when everything that is in the log now is on the disk. Raises SyncFailed, from the first failure on for ever."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            while self._synced < mine and self._failure is None:
                if self._is_syncing:
                    self._changed.wait()
                else:
                    self._sync()
            if self._failure is not None:
                # The system gives up the pages of a sync that failed, and the next one would say that all is well.
                raise SyncFailed(f"writing the database to the disk failed: {self._failure}; restart the platform")

    def _sync(self) -> None:
        """Sync for all that have come until now; the others meanwhile gather."""
        until = self._asked
        self._is_syncing = True
        self._changed.release()
        failure = None
        try:
            self._bring_to_disk()
        except OSError as error:
            failure = error
        finally:
            self._changed.acquire()
            self._is_syncing = False
            if failure is None:
                self._synced = until
            else:
                self._failure = failure
            self._changed.notify_all()

    def _bring_to_disk(self) -> None:
        try:
            log = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # The last connection was closed: all is in the database itself, and synced.
        try:
            os.fdatasync(log)
            file = os.fstat(log)
        finally:
            os.close(log)
        if self._known_file != (file.st_dev, file.st_ino):  # A new file is there only when its folder says so.
            folder = os.open(self.log.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._known_file = (file.st_dev, file.st_ino)
