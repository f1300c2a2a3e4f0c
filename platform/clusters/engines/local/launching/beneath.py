"""Reach files below a root without ever following a link: each component is opened by name in the directory before it."""

from __future__ import annotations

import bisect
import contextlib
import errno
import hashlib
import itertools
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clusters.engines.local.launching.measuring import COPY_PART, measured
from clusters.engines.local.launching.verbs import Entry, LauncherRefused, Listing, MeasuredTree

_CAREFUL = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # A pipe without a reader must not hold us up.
_COPY_BYTES = 1024**2
_DEPTH_MAX = 64  # Open directories at once while removing; deeper trees are lifted up first.
_ENTRIES_AT_ONCE = (
    10_000  # Held in memory: a job may have made ten million names, and the process that removes them serves all tenants.
)
_LISTED_DEPTH_MAX = 64  # Every directory is opened again from the root: deeper trees would cost the square of their depth.
_LISTED_SECONDS_MAX = 20.0  # A million files on a local disk take ten.
_ENTRY_BYTES = 120  # Of an answer, beside the path.
_SETTLED_NS = 2_000_000_000  # A folder that changed just now may change again within one tick of its time.
_REMEMBERED_NAMES = 500_000
_NAMES_MAX = 1_000_000  # Of one folder, read and sorted at once.
_LISTED_BYTES_MAX = 192 * 1024 * 1024  # Three quarters of the longest message.


def split(path: str) -> tuple[str, ...]:
    """Give the components of a relative path; refuses anything that could point elsewhere."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or "\0" in path or ".." in parts:
        raise LauncherRefused(f"{path!r} is not a path beneath its root")
    return parts


@contextlib.contextmanager
def directory(root: str | int, parts: tuple[str, ...], *, read: bool = False) -> Iterator[int]:
    """Open a directory for the block: as a place to name things in, or (`read`) to list and change itself.

    Passing through takes the right to enter only. Raises OSError (ENOTDIR) where a component is a link or no directory.
    """
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if isinstance(root, str) else os.dup(root)
    try:
        for part in (*parts, ".") if read else parts:
            flags = os.O_RDONLY if part == "." else os.O_PATH
            inner = os.open(part, flags | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(root: str, path: str, *, write: bool, mode: int, truncate: bool) -> int:
    """Open a regular file; anything else (a pipe, a device, a directory) is refused. Directories are not made."""
    *parents, name = _named(path)
    with directory(root, tuple(parents)) as parent:
        descriptor = _open_to_write(parent, name, mode) if write else os.open(name, os.O_RDONLY | _CAREFUL, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise LauncherRefused(f"{path!r} is not a regular file")
        os.set_blocking(descriptor, True)
        if write and truncate:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def list_directory(
    root: str, path: str, *, recursive: bool = False, limit: int, start: str = "", memory: Names | None = None
) -> Listing:
    """List names, sorted within each directory, with paths relative to `path`: of a tree from its beginning, of one folder from
    the name `start` on.

    Stops after `limit` entries, after what one answer holds, and after some seconds, and does not look below _LISTED_DEPTH_MAX
    directories. `truncated` says that there is more.
    """
    if not recursive:
        return _page(root, path, limit, start, memory or Names())
    walk = _Walk(root, path)
    found: list[Entry] = []
    for entry in walk:
        if len(found) == limit:
            return Listing(tuple(found), truncated=True)
        found.append(entry)
    return Listing(tuple(found), truncated=not walk.is_whole)


def measure_tree(root: str, path: str, *, depth: int, half_written: Sequence[str], limit: int) -> MeasuredTree:
    """What a tree holds, within the bounds of a listing: a folder of ten million names is held in memory while it is read."""
    walk = _Walk(root, path)
    found = measured(itertools.islice(walk, limit), depth=depth, half_written=half_written)
    is_whole = next(walk, None) is None and walk.is_whole
    return found if is_whole else replace(found, truncated=True)


class Names:
    """The names in folders that were listed last, in order: the next page of a large one does not read it all again.

    A folder is known by its device and inode, and read anew when it has changed since.
    """

    def __init__(self) -> None:
        self._folders: dict[tuple[int, int], tuple[int, list[str], bool]] = {}

    def of(self, descriptor: int, deadline: float) -> tuple[list[str], bool]:
        """The names in an open directory, and whether these are all."""
        facts = os.fstat(descriptor)
        key = (facts.st_dev, facts.st_ino)
        known = self._folders.pop(key, None)
        if known is None or known[0] != facts.st_mtime_ns:
            is_settled = time.time_ns() - facts.st_mtime_ns > _SETTLED_NS
            names, is_whole = _names(descriptor, deadline)
            known = (facts.st_mtime_ns if is_settled else -1, names, is_whole)
        self._folders[key] = known
        while sum(len(names) for _, names, _ in self._folders.values()) > _REMEMBERED_NAMES and len(self._folders) > 1:
            del self._folders[next(iter(self._folders))]
        return known[1], known[2]


def _names(descriptor: int, deadline: float) -> tuple[list[str], bool]:
    names: list[str] = []
    with os.scandir(descriptor) as items:
        for item in items:
            names.append(item.name)
            if len(names) % _ENTRIES_AT_ONCE == 0 and (len(names) >= _NAMES_MAX or time.monotonic() > deadline):
                return sorted(names), False
    return sorted(names), True


def _page(root: str, path: str, limit: int, start: str, memory: Names) -> Listing:
    deadline = time.monotonic() + _LISTED_SECONDS_MAX
    with directory(root, split(path), read=True) as opened:
        names, is_whole = memory.of(opened, deadline)
        first = bisect.bisect_left(names, start)
        entries: list[Entry] = []
        for position in range(first, len(names)):
            if len(entries) == limit or time.monotonic() > deadline:
                return Listing(tuple(entries), truncated=True, next=names[position])
            with contextlib.suppress(FileNotFoundError):  # Removed meanwhile.
                entries.append(_entry(names[position], os.lstat(names[position], dir_fd=opened)))
    return Listing(tuple(entries), truncated=not is_whole)


class _Walk:
    """The entries of a tree, each folder before what is in it. `is_whole` says at the end whether these were all."""

    def __init__(self, root: str, path: str) -> None:
        self.is_whole = True
        self._root, self._start, self._room = root, split(path), _LISTED_BYTES_MAX
        self._deadline = time.monotonic() + _LISTED_SECONDS_MAX
        self._entries = self._walk()

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def _walk(self) -> Iterator[Entry]:
        pending: list[tuple[str, ...]] = [()]
        while pending:
            below = pending.pop()
            if len(below) > _LISTED_DEPTH_MAX:
                self.is_whole = False
                continue
            try:
                entries = self._folder(below)
            except OSError:
                if below:
                    continue  # Removed or closed to us meanwhile; the rest is still worth giving.
                raise
            yield from entries
            if self._is_over():
                self.is_whole = False
                return
            pending += [tuple(entry.path.split("/")) for entry in reversed(entries) if entry.kind == "directory"]

    def _folder(self, below: tuple[str, ...]) -> list[Entry]:
        entries = []
        with directory(self._root, (*self._start, *below), read=True) as opened, os.scandir(opened) as names:
            for item in names:
                try:
                    entries.append(_entry("/".join((*below, item.name)), item.stat(follow_symlinks=False)))
                except FileNotFoundError:  # Removed meanwhile.
                    continue
                self._room -= _answer_bytes(entries[-1])
                if self._is_over():
                    break
        return sorted(entries, key=lambda entry: entry.path)

    def _is_over(self) -> bool:
        return self._room < 0 or time.monotonic() > self._deadline


def _answer_bytes(entry: Entry) -> int:
    """At most how much of an answer an entry takes: what is no plain ASCII is written as `\\uXXXX`."""
    return _ENTRY_BYTES + len(entry.path) * (1 if entry.path.isascii() and entry.path.isprintable() else 6)


def make_directories(root: str, path: str, mode: int) -> None:
    """Make a directory and those above it as far as they are missing; new ones get exactly this mode."""
    parts = split(path)
    for depth in range(len(parts)):
        with directory(root, parts[:depth]) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(parts[depth], 0o700, dir_fd=parent)
            with directory(parent, (parts[depth],), read=True) as made:
                os.fchmod(made, mode)
    with directory(root, parts):
        return


def rename(root: str, source: str, target: str) -> None:
    """Move a file or directory within a root, replacing a file of that name in one step."""
    *source_parents, source_name = _named(source)
    *target_parents, target_name = _named(target)
    with directory(root, tuple(source_parents)) as holder, directory(root, tuple(target_parents)) as receiver:
        os.rename(source_name, target_name, src_dir_fd=holder, dst_dir_fd=receiver)


def link(root: str | int, path: str, target: str) -> None:
    """Put a link there that leads to `target`. Missing folders are made, and an empty folder in its place gives way.

    Raises FileExistsError where something else is, NotADirectoryError where a link or file is among the folders.
    """
    *parents, name = _named(path)
    for depth in range(len(parts := tuple(parents))):
        with directory(root, parts[:depth]) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(parts[depth], 0o700, dir_fd=parent)
    with directory(root, parts) as parent:
        with contextlib.suppress(OSError):  # What cannot give way is said below.
            os.rmdir(name, dir_fd=parent)
        os.symlink(target, name, dir_fd=parent)


def copy_tree(root: str, source: str, target: str, *, seconds: float) -> bool:
    """Copy what is in one directory into another for about so long; whether all of it is there. See `Launcher.copy_tree`."""
    deadline = time.monotonic() + seconds
    with directory(root, split(source), read=True) as given, directory(root, split(target), read=True) as taken:
        return _copy_entries(given, taken, deadline, depth=1)


def remove(root: str, path: str, *, seconds: float = math.inf) -> bool:
    """Remove a file or a whole tree, for about so long; True once nothing of it is there. Called again it goes on."""
    *parents, name = _named(path)
    try:
        with contextlib.suppress(FileNotFoundError), directory(root, tuple(parents)) as parent:
            remove_at(parent, name, deadline=time.monotonic() + seconds)
    except TimeoutError:
        return False
    return True


def remove_at(parent: int, name: str, *, deadline: float = math.inf) -> None:
    """Remove `name` in an open directory, however deep: what lies too deep is moved up and removed from there. TimeoutError where
    it is not all gone by then (by `time.monotonic`)."""
    try:
        os.unlink(name, dir_fd=parent)
        return
    except FileNotFoundError:
        return
    except IsADirectoryError:
        pass
    with contextlib.suppress(FileNotFoundError):
        _make_removable(parent, name)
        with directory(parent, (name,), read=True) as top:
            lifted = 0
            while True:
                deep = _empty(top, top, 1, lifted, deadline)
                if deep == lifted:
                    break
                lifted = deep
        os.rmdir(name, dir_fd=parent)


def _empty(directory_descriptor: int, top: int, depth: int, lifted: int, deadline: float) -> int:
    with os.scandir(directory_descriptor) as names:
        while entries := [(item.name, item.is_dir(follow_symlinks=False)) for item in itertools.islice(names, _ENTRIES_AT_ONCE)]:
            for name, is_directory in entries:
                if time.monotonic() > deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "there is more to remove")
                if not is_directory:
                    os.unlink(name, dir_fd=directory_descriptor)
                elif depth >= _DEPTH_MAX:
                    lifted += 1
                    _make_removable(directory_descriptor, name)
                    place = f".lifted-{secrets.token_hex(8)}"  # Nobody who made the tree has put anything at that name.
                    os.rename(name, place, src_dir_fd=directory_descriptor, dst_dir_fd=top)
                else:
                    _make_removable(directory_descriptor, name)
                    with directory(directory_descriptor, (name,), read=True) as inner:
                        lifted = _empty(inner, top, depth + 1, lifted, deadline)
                    os.rmdir(name, dir_fd=directory_descriptor)
    return lifted


def _copy_entries(given: int, taken: int, deadline: float, *, depth: int) -> bool:
    """Oldest first: what is newest in the one is newest in the other. A file has its own name only once it is whole."""
    with os.scandir(given) as names:
        entries = sorted(
            ((item.stat(follow_symlinks=False), item.name) for item in names), key=lambda entry: entry[0].st_mtime_ns
        )
    there = set(os.listdir(taken))
    for facts, name in entries:
        if depth > _DEPTH_MAX:
            raise OSError(errno.ENAMETOOLONG, f"it holds directories more than {_DEPTH_MAX} deep")
        if time.monotonic() > deadline:
            return False
        if name.startswith(COPY_PART):
            continue  # Of a copy that was not ended; by that name something else could be taken for a beginning of ours.
        if stat.S_ISLNK(facts.st_mode) and name not in there:
            os.symlink(os.readlink(name, dir_fd=given), name, dir_fd=taken)
        elif stat.S_ISREG(facts.st_mode) and name not in there:
            if not _copy_file(given, taken, name, facts, deadline):
                return False
        elif stat.S_ISDIR(facts.st_mode):
            if name not in there:
                os.mkdir(name, 0o700, dir_fd=taken)
            with directory(given, (name,), read=True) as below, directory(taken, (name,), read=True) as copy:
                if not _copy_entries(below, copy, deadline, depth=depth + 1):
                    return False
                os.fchmod(copy, stat.S_IMODE(facts.st_mode) | 0o700)
                os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return True


def _copy_file(given: int, taken: int, name: str, facts: os.stat_result, deadline: float) -> bool:
    part = f"{COPY_PART}{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"
    source = os.open(name, os.O_RDONLY | _CAREFUL, dir_fd=given)
    try:
        copy = os.open(part, os.O_WRONLY | os.O_CREAT | _CAREFUL, 0o600, dir_fd=taken)
        try:
            position = _skip_hole(source, copy, os.fstat(copy).st_size)
            while piece := os.pread(source, _COPY_BYTES, position):
                if piece.count(0) == len(piece):  # A hole stays one.
                    os.ftruncate(copy, position + len(piece))
                    position = _skip_hole(source, copy, position + len(piece))
                else:
                    position += os.pwrite(copy, piece, position)
                if time.monotonic() > deadline:
                    return False
            os.fchmod(copy, stat.S_IMODE(facts.st_mode))
            os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(source)
    os.rename(part, name, src_dir_fd=taken, dst_dir_fd=taken)
    return True


def _skip_hole(source: int, copy: int, position: int) -> int:
    """Where data comes next in a file that may be one hole of a tebibyte: the copy is made as long. The end, where none comes."""
    try:
        found = os.lseek(source, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            return position  # The file system does not tell: it is read.
        found = os.fstat(source).st_size
    if found > position:
        os.ftruncate(copy, found)
    return max(found, position)


def _make_removable(parent: int, name: str) -> None:
    """Open a directory that its owner closed to itself (mode 0, or read-only): root alone needs that not, and we often act as
    the owner. By its descriptor: a link that takes its place meanwhile is not followed."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)
        finally:
            os.close(descriptor)


def seal(root: str, path: str, *, uid: int, gid: int, everyone: bool) -> None:
    """Give a tree to `uid`, readable by `gid` (or everyone) and writable by no user; links change owner, not their target."""
    mask = 0o555 if everyone else 0o550
    parts = split(path)
    pending = [parts]
    while pending:
        current = pending.pop()
        with directory(root, current, read=True) as opened:
            os.fchown(opened, uid, gid)
            os.fchmod(opened, mask)
            with os.scandir(opened) as names:
                for item in names:
                    if item.is_dir(follow_symlinks=False):
                        pending.append((*current, item.name))
                    else:
                        _seal_file(opened, item, uid, gid, mask)


def _seal_file(parent: int, item: os.DirEntry[str], uid: int, gid: int, mask: int) -> None:
    found = item.stat(follow_symlinks=False)
    os.chown(item.name, uid, gid, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode):
        descriptor = os.open(item.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.fchmod(descriptor, mask if found.st_mode & 0o100 else mask & 0o444)
        finally:
            os.close(descriptor)


def _entry(path: str, found: os.stat_result) -> Entry:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return Entry(
        path=path,
        kind=kinds.get(stat.S_IFMT(found.st_mode), "other"),
        size_bytes=found.st_size,
        disk_bytes=min(found.st_size, found.st_blocks * 512),
        mode=stat.S_IMODE(found.st_mode),
        modified_at=found.st_mtime,
    )


def _open_to_write(parent: int, name: str, mode: int) -> int:
    """Create the file with exactly this mode, or open the one that is there and leave its mode to its owner."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL, 0o600, dir_fd=parent)
    except FileExistsError:
        return os.open(name, os.O_WRONLY | _CAREFUL, dir_fd=parent)
    os.fchmod(descriptor, mode)
    return descriptor


def _named(path: str) -> list[str]:
    parts = list(split(path))
    if not parts:
        raise LauncherRefused("the root itself is not a file")
    return parts
