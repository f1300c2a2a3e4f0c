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
    """The disk did not take what was written. It is unknown what of it is there."""


class Disk:
    """The log of one database file."""

    def __init__(self, database: str) -> None:
        self.log = Path(database + "-wal")
        self._changed = threading.Condition()
        self._asked = 0  # How many have come to wait,
        self._synced = 0  # and for how many of them, from the first, everything is on the disk.
        self._is_syncing = False
        self._failure: OSError | None = None
        self._descriptor: int | None = None  # Kept, so that a process without a free one can still keep its promises,
        self._file: tuple[int, int] | None = None  # for the file that was the log then.
        self._folder: int | None = None  # Until the folder of a new log is synced.

    def wait(self) -> None:
        """Return when everything that is in the log now is on the disk.

        Raises SyncFailed: for ever, once the disk has refused; this once, where the log could not be opened.
        """
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
        is_done = False
        failure = None
        try:
            self._open()
            try:
                self._bring_to_disk()
            except OSError as error:
                failure = error
            is_done = failure is None
        except OSError as error:
            # Nothing was tried, so nothing is lost: the next who waits tries again, and syncs this one's part with its own.
            raise SyncFailed(f"the database's log could not be opened: {error}; what was written may be there or not") from error
        finally:
            self._changed.acquire()
            self._is_syncing = False
            self._failure = failure
            if is_done:
                self._synced = until
            self._changed.notify_all()

    def _open(self) -> None:
        """Have the log open that is the log now."""
        try:
            now = os.stat(self.log)
        except FileNotFoundError:  # The last connection was closed: all is in the database itself, and synced.
            self._let_go()
            return
        if self._file == (now.st_dev, now.st_ino):
            return
        self._let_go()
        log = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._folder = os.open(self.log.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except BaseException:
            os.close(log)
            raise
        file = os.fstat(log)
        self._descriptor, self._file = log, (file.st_dev, file.st_ino)

    def _bring_to_disk(self) -> None:
        if self._descriptor is not None:
            os.fdatasync(self._descriptor)
        if self._folder is not None:  # A new file is there only when its folder says so.
            os.fsync(self._folder)
            os.close(self._folder)
            self._folder = None

    def _let_go(self) -> None:
        for descriptor in (self._descriptor, self._folder):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._folder = self._file = None
