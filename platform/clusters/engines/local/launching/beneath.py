"""Reach files below a root without ever following a link: each component is opened by name in the directory before it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from clusters.engines.local.launching.verbs import Entry, LauncherRefused, Listing

_CAREFUL = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # A pipe without a reader must not hold us up.
_DEPTH_MAX = 64  # Open directories at once while removing; deeper trees are lifted up first.


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


def list_directory(root: str, path: str, *, recursive: bool, limit: int) -> Listing:
    """List names, sorted within each directory, with paths relative to `path`; stops after `limit`."""
    found: list[Entry] = []
    pending: list[tuple[str, ...]] = [()]
    start = split(path)
    while pending:
        below = pending.pop()
        try:
            with directory(root, (*start, *below), read=True) as opened, os.scandir(opened) as names:
                entries = sorted((_entry(below, item) for item in names), key=lambda entry: entry.path)
        except OSError:
            if below:
                continue  # Removed or closed to us meanwhile; the rest is still worth giving.
            raise
        for entry in entries:
            if len(found) >= limit:
                return Listing(tuple(found), truncated=True)
            found.append(entry)
        if recursive:
            pending += [tuple(entry.path.split("/")) for entry in reversed(entries) if entry.kind == "directory"]
    return Listing(tuple(found))


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


def remove(root: str, path: str) -> None:
    """Remove a file or a whole tree; absent is done."""
    *parents, name = _named(path)
    with contextlib.suppress(FileNotFoundError), directory(root, tuple(parents)) as parent:
        remove_at(parent, name)


def remove_at(parent: int, name: str) -> None:
    """Remove `name` in an open directory, however deep: what lies too deep is moved up and removed from there."""
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
                deep = _empty(top, top, 1, lifted)
                if deep == lifted:
                    break
                lifted = deep
        os.rmdir(name, dir_fd=parent)


def _empty(directory_descriptor: int, top: int, depth: int, lifted: int) -> int:
    with os.scandir(directory_descriptor) as names:
        entries = [(item.name, item.is_dir(follow_symlinks=False)) for item in names]
    for name, is_directory in entries:
        if not is_directory:
            os.unlink(name, dir_fd=directory_descriptor)
        elif depth >= _DEPTH_MAX:
            lifted += 1
            _make_removable(directory_descriptor, name)
            os.rename(name, f".lifted-{os.getpid()}-{lifted}", src_dir_fd=directory_descriptor, dst_dir_fd=top)
        else:
            _make_removable(directory_descriptor, name)
            with directory(directory_descriptor, (name,), read=True) as inner:
                lifted = _empty(inner, top, depth + 1, lifted)
            os.rmdir(name, dir_fd=directory_descriptor)
    return lifted


def _make_removable(parent: int, name: str) -> None:
    """Open a directory that its owner closed to itself (mode 0): only needed where no root helps, harmless elsewhere."""
    if os.geteuid() == 0:
        return
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700 and found.st_uid == os.geteuid():
        os.chmod(name, 0o700, dir_fd=parent)


def seal(root: str, path: str, *, uid: int, gid: int, everyone: bool) -> None:
    """Give a tree to `uid`, readable by `gid` (or everyone) and writable by nobody; links change owner, not their target."""
    mask = 0o555 if everyone else 0o550
    parts = split(path)
    pending = [parts]
    while pending:
        current = pending.pop()
        with directory(root, current, read=True) as opened:
            os.fchown(opened, uid, gid)
            os.fchmod(opened, mask)
            with os.scandir(opened) as names:
                entries = list(names)
            for item in entries:
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


def _entry(below: tuple[str, ...], item: os.DirEntry[str]) -> Entry:
    found = item.stat(follow_symlinks=False)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return Entry(
        path="/".join((*below, item.name)),
        kind=kinds.get(stat.S_IFMT(found.st_mode), "other"),
        size_bytes=found.st_size,
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
