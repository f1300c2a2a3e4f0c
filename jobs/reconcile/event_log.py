"""The scheduler's event log: what its core was told and what it decided, in files by which any past hour can be decided again.

A file goes from the moment at which a core was built to that at which it was thrown away; a core that has worked for a day is
built anew, so that no file grows for ever. A leader writes files of its own, so a leader that was thought dead spoils no
other's. Each pass is on disk once it is over; what a killed process leaves is whole as far as it goes.

The log is for people: where it cannot be written, scheduling goes on without it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Decision
from jobs.scheduling.replay.files import BadFile
from jobs.scheduling.replay.log import Decided, Event, Log, apply, read_log
from jobs.scheduling.replay.recorder import Recorder
from kernel.config import current

log = structlog.get_logger("scheduler")

FOLDER = "scheduler"  # In the data directory.
SUFFIX = ".jsonl.gz"
NAMED_BY = "%Y%m%dT%H%M%SZ"
FILE_SECONDS = 86_400
FILE_SECONDS_MIN = 600  # Building a core takes time: where a state alone is larger than a file may be, files are.
FILES_IN_ALL = 8  # A file may take one part in so many of the room for all.
GZIP = 31  # For zlib: with gzip's head and end, so that any tool reads it.
READ_BYTES = 1 << 20
LINES_MAX = 10_000  # That are held until a pass is over: a state has one for each job.


class Kept(NamedTuple):
    """A file of the log: what it is called, and from when to when it was written."""

    path: Path
    begins_at: datetime
    ends_at: datetime


class EventLog:
    """The log of one core at work. `core` has to be told of everything by `tell`."""

    def __init__(self, state: State, now: datetime) -> None:
        self._file: _Writer | None = None
        self._begins_at = now
        config = current()
        self._bytes_max = config.scheduler_log_bytes // FILES_IN_ALL
        if config.scheduler_log_bytes:
            try:
                drop_old(folder(), now)
                self._file = _Writer(folder(), now)
            except OSError as error:
                self._give_up(error)
        self._recorder = Recorder(state, self._keep, with_decisions=True) if self._file is not None else None
        self.core: Core = self._recorder.core if self._recorder is not None else build(state)
        self._flush()

    def tell(self, event: Event) -> tuple[Decision, ...]:
        """Tell the core; what it decided where that was a pass."""
        if self._recorder is None:
            return apply(self.core, event)
        try:
            return self._recorder.tell(event)
        finally:
            if isinstance(event, Decided):
                self._flush()

    def is_full(self, now: datetime) -> bool:
        """Whether it is time for another file."""
        if self._file is None:
            return False
        least = FILE_SECONDS_MIN if self._file.size > self._bytes_max else FILE_SECONDS
        return now >= self._begins_at + timedelta(seconds=least)

    def close(self) -> None:
        """The core is thrown away."""
        if self._recorder is not None and self._file is not None:
            self._recorder.close()
            self._flush(is_last=True)

    def _keep(self, line: str) -> None:
        if self._file is not None:
            try:
                self._file.add(line)
            except OSError as error:
                self._give_up(error)

    def _flush(self, *, is_last: bool = False) -> None:
        if self._file is not None:
            try:
                self._file.flush(is_last=is_last)
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("event_log_not_written", path=str(error.filename or folder()), reason=error.strerror)
        if self._file is not None:
            self._file.close()
            self._file = None


class _Writer:
    """One file, which grows by whole passes."""

    def __init__(self, where: Path, now: datetime) -> None:
        where.mkdir(mode=0o700, exist_ok=True)
        stamp = now.astimezone(UTC).strftime(NAMED_BY)
        for number in range(1_000):
            path = where / f"{stamp}-{os.getpid()}-{number:03}{SUFFIX}"
            try:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                break
            except FileExistsError:
                continue
        else:
            raise FileExistsError(17, "too many files of one second", str(where))
        self._packer = zlib.compressobj(wbits=GZIP)
        self._lines: list[str] = []
        self.size = 0

    def add(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) >= LINES_MAX:
            self._write(self._packed())

    def flush(self, *, is_last: bool) -> None:
        """What was added is on disk, and can be read."""
        self._write(self._packed() + self._packer.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH))
        if is_last:
            self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _packed(self) -> bytes:
        text = "".join(f"{line}\n" for line in self._lines).encode("ascii")
        self._lines.clear()
        return self._packer.compress(text)

    def _write(self, data: bytes) -> None:
        while data:
            written = os.write(self._descriptor, data)
            self.size += written
            data = data[written:]


def folder() -> Path:
    return current().data_dir / FOLDER


def files(where: Path) -> list[Kept]:
    """All files of the log, the oldest first. Files of other names are ignored."""
    found = []
    for path in sorted(where.glob(f"*{SUFFIX}")):
        try:
            begins_at = datetime.strptime(path.name.partition("-")[0], NAMED_BY).replace(tzinfo=UTC)
            found.append(Kept(path, begins_at, datetime.fromtimestamp(path.stat().st_mtime, UTC)))
        except (ValueError, FileNotFoundError):
            continue
    return found


def covering(moment: datetime) -> Log | None:
    """The log of the core that decided at a moment; None where there is none, or it cannot be read."""
    found = [kept for kept in files(folder()) if kept.begins_at <= moment <= kept.ends_at]
    try:
        return read_log(lines(found[-1].path), is_open=True) if found else None
    except (BadFile, OSError, zlib.error) as error:
        log.warning("event_log_not_read", path=str(found[-1].path), reason=str(error))
        return None


def drop_old(where: Path, now: datetime) -> None:
    """Remove what is older than it has to be kept, and the oldest of more than there is room for."""
    config = current()
    oldest, room = now - timedelta(days=config.scheduler_log_days), config.scheduler_log_bytes
    for kept in reversed(files(where)):
        try:
            room -= kept.path.stat().st_size
            if room < 0 or kept.ends_at < oldest:
                kept.path.unlink()
        except FileNotFoundError:
            continue


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, as far as they were written. Raises `zlib.error` where it is no such file, or not as written."""
    unpacker, rest = zlib.decompressobj(wbits=GZIP), b""
    with path.open("rb") as source:
        while data := source.read(READ_BYTES):
            *whole, rest = (rest + unpacker.decompress(data)).split(b"\n")
            for line in whole:
                yield line.decode("ascii", errors="replace") + "\n"
    if rest:
        yield rest.decode("ascii", errors="replace")
