"""Files of tenants on this host, for volumes, images and uploads: reached with the tenant's rights, never through a link.

The platform does not open a tenant's files itself. A path is always a root (a volume's or image's own directory) and a
relative path beneath it; every component is opened without following links, under the uid of the tenant and the group of
the volume, by the launcher where there is one. Without root all users are one, and only the paths are guarded.

Paths and names are text as `kernel.file_names` has it. Errors are the operating system's: FileNotFoundError,
NotADirectoryError (a link among the parents), PermissionError, and `LauncherRefused` for a path that is none or a file that is
not a regular one, `LauncherBusy` where as many look through the tenant's folders as may.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from clusters.engines.local.config import find_launcher
from clusters.engines.local.launching import Launcher, LauncherBusy, LauncherRefused, LauncherUnavailable
from clusters.engines.local.launching.verbs import Entry, Listing, MeasuredTree, Owner
from kernel.config import Config
from kernel.file_names import path_of, text_of

__all__ = [
    "Entry",
    "HostFiles",
    "LauncherBusy",
    "LauncherRefused",
    "LauncherUnavailable",
    "Listing",
    "MeasuredTree",
    "TenantFiles",
    "host_files",
]


class HostFiles(Protocol):
    """`tenant` is the tenant's number, None the platform itself; `group` is the volume's number, 0 for none."""

    def open_read(self, root: str, path: str, *, tenant: int | None, group: int = 0) -> int:
        """Open a regular file; the caller closes the descriptor."""
        ...

    def open_write(self, root: str, path: str, *, tenant: int | None, group: int = 0, truncate: bool = True) -> int:
        """Open a regular file for writing, made if missing (its directory is not); `truncate` False keeps what is there."""
        ...

    def list_directory(
        self,
        root: str,
        path: str,
        *,
        tenant: int | None,
        group: int = 0,
        recursive: bool = False,
        limit: int = 10_000,
        start: str = "",
        patient: bool = False,
    ) -> Listing:
        """List names with kind, size, mode and time, in order, links as links: of a folder from the name `start` on, or all below
        it."""
        ...

    def measure_tree(
        self,
        root: str,
        path: str,
        *,
        tenant: int | None,
        group: int = 0,
        depth: int = 0,
        half_written: Sequence[str] = (),
        limit: int,
        patient: bool = False,
    ) -> MeasuredTree:
        """What a tree of at most so many names holds; see `MeasuredTree`. `patient`: as in `Launcher.list_directory`."""
        ...

    def make_directory(self, root: str, path: str, *, tenant: int | None, group: int = 0) -> None:
        """Make a directory and those above it; one that is there is fine."""
        ...

    def rename(self, root: str, source: str, target: str, *, tenant: int | None, group: int = 0) -> None:
        """Move within the root; a file of the target's name is replaced in one step."""
        ...

    def remove_tree(self, root: str, path: str = "", *, tenant: int | None = None, group: int = 0) -> None:
        """Remove what is at the path, or (path "") the root itself; absent is done. Links are removed, not followed."""
        ...

    def copy_tree(self, source: str, target: str, *, tenant: int, seconds: float) -> bool:
        """Copy what one directory holds into another, for about so long; True once all is there. Called again it goes on."""
        ...

    def prepare_checkpoint(self, path: str, tenant: int) -> None:
        """Make a directory that is the tenant's alone; one that is there stays with what is in it."""
        ...

    def prepare_image_directory(self, path: str, isolation_number: int) -> None:
        """Make an empty directory that a tenant's build may fill; no other user reads it."""
        ...

    def seal_tree(self, path: str, isolation_number: int | None) -> None:
        """End a build: the platform owns the tree, that tenant's jobs (None: all jobs) read it, no user writes it."""
        ...

    def prepare_volume(self, path: str, group: int) -> None:
        """Make a volume's directory: its group's members read and write, whichever of them made a file."""
        ...


@dataclass(frozen=True, slots=True)
class TenantFiles:
    """HostFiles over a launcher. `data_dir` bounds every root."""

    launcher: Launcher
    data_dir: str
    uid_base: int
    gid_base: int
    drop_rights: bool
    shared_user: bool = False  # Isolation `none`: all tenants are one user.

    def open_read(self, root: str, path: str, *, tenant: int | None, group: int = 0) -> int:
        return self.launcher.open_file(root, _path(path), self._owner(tenant, group))

    def open_write(self, root: str, path: str, *, tenant: int | None, group: int = 0, truncate: bool = True) -> int:
        mode = 0o660 if group else 0o600
        owner = self._owner(tenant, group)
        return self.launcher.open_file(root, _path(path), owner, write=True, mode=mode, truncate=truncate)

    def list_directory(
        self,
        root: str,
        path: str,
        *,
        tenant: int | None,
        group: int = 0,
        recursive: bool = False,
        limit: int = 10_000,
        start: str = "",
        patient: bool = False,
    ) -> Listing:
        owner = self._owner(tenant, group)
        found = self.launcher.list_directory(
            root, _path(path), owner, recursive=recursive, limit=limit, start=_path(start), patient=patient
        )
        return Listing(_named(found.entries), found.truncated, None if found.next is None else text_of(found.next))

    def measure_tree(
        self,
        root: str,
        path: str,
        *,
        tenant: int | None,
        group: int = 0,
        depth: int = 0,
        half_written: Sequence[str] = (),
        limit: int,
        patient: bool = False,
    ) -> MeasuredTree:
        owner = self._owner(tenant, group)
        found = self.launcher.measure_tree(
            root, _path(path), owner, depth=depth, half_written=half_written, limit=limit, patient=patient
        )
        return replace(found, newest=_named(found.newest), half_written=tuple(text_of(name) for name in found.half_written))

    def make_directory(self, root: str, path: str, *, tenant: int | None, group: int = 0) -> None:
        self.launcher.make_directory(root, _path(path), self._owner(tenant, group), mode=0o2770 if group else 0o700)

    def rename(self, root: str, source: str, target: str, *, tenant: int | None, group: int = 0) -> None:
        self.launcher.rename(root, _path(source), _path(target), self._owner(tenant, group))

    def remove_tree(self, root: str, path: str = "", *, tenant: int | None = None, group: int = 0) -> None:
        if path:
            self.launcher.remove_tree(root, _path(path), self._owner(tenant, group))
        else:
            self.launcher.remove_tree(self.data_dir, self._relative(root), None)

    def copy_tree(self, source: str, target: str, *, tenant: int, seconds: float) -> bool:
        owner = self._owner(tenant, 0)
        return self.launcher.copy_tree(self.data_dir, self._relative(source), self._relative(target), owner, seconds=seconds)

    def prepare_checkpoint(self, path: str, tenant: int) -> None:
        self.launcher.give(self.data_dir, self._relative(path), self._owner(tenant, 0) or self._ourselves(), mode=0o700)

    def prepare_image_directory(self, path: str, isolation_number: int) -> None:
        owner = self._owner(isolation_number, 0) or self._ourselves()
        self.launcher.give(self.data_dir, self._relative(path), owner, mode=0o700)

    def seal_tree(self, path: str, isolation_number: int | None) -> None:
        owner = self._owner(isolation_number, 0)
        gid = owner.gid if owner else self._ourselves().gid
        self.launcher.seal(self.data_dir, self._relative(path), gid, everyone=isolation_number is None)

    def prepare_volume(self, path: str, group: int) -> None:
        ourselves = self._ourselves()
        owner = Owner(ourselves.uid, self.gid_base + group) if self.drop_rights else ourselves
        self.launcher.give(self.data_dir, self._relative(path), owner, mode=0o2770, share_with_group=True)

    def _owner(self, tenant: int | None, group: int) -> Owner | None:
        if tenant is None or not self.drop_rights:
            return None
        number = self.uid_base + (0 if self.shared_user else tenant)
        return Owner(number, number, (self.gid_base + group,) if group else ())

    def _ourselves(self) -> Owner:
        return Owner(os.geteuid(), os.getegid())

    def _relative(self, path: str) -> str:
        relative = os.path.relpath(path, self.data_dir) if os.path.isabs(path) else path
        if relative in ("", ".") or relative.startswith(".."):
            raise LauncherRefused(f"{path} is not below {self.data_dir}")
        return relative


def _path(text: str) -> str:
    try:
        return path_of(text)
    except ValueError as error:
        raise LauncherRefused(f"{text!r}: {error}") from None


def _named(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(entry if (text := text_of(entry.path)) == entry.path else replace(entry, path=text) for entry in entries)


def host_files(config: Config, launcher: Launcher | None = None) -> HostFiles:
    """Give the files of this installation; uses its launcher if one runs, else this process."""
    found, drop_rights = find_launcher(config)
    return TenantFiles(
        launcher=launcher or found,
        data_dir=str(Path(config.data_dir).resolve()),
        uid_base=config.local_uid_base,
        gid_base=config.local_gid_base,
        drop_rights=drop_rights,
        shared_user=config.local_isolation == "none",
    )
