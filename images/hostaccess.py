"""Environments on this host, through `clusters.hostfiles`: made for a tenant's build, sealed, read, removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from clusters.hostfiles import HostFiles, LauncherRefused, LauncherUnavailable, host_files
from images.builder import MANIFEST, REASON
from kernel.config import current
from kernel.errors import Unavailable
from kernel.words import Text


def give_environment(location: str, tenant_number: int) -> None:
    """Make the place of an environment, for its tenant's build to fill."""
    with _told():
        _files().prepare_image_directory(location, tenant_number)


def seal_environment(location: str, tenant_number: int) -> None:
    """Take a built environment from its tenant: its jobs read it, no user changes it any more. Twice is fine."""
    with _told(), contextlib.suppress(FileNotFoundError):
        _files().seal_tree(location, tenant_number)


def has_environment(location: str, tenant_number: int) -> bool:
    """Whether a complete environment lies there."""
    return read_manifest(location, tenant_number, bytes_max=1) is not None


def read_manifest(location: str, tenant_number: int, *, bytes_max: int) -> bytes | None:
    """What a build wrote last, None if it is missing. A tenant's text, read with the tenant's rights, cut at `bytes_max`."""
    return _read(location, MANIFEST, tenant_number, bytes_max)


def read_reason(location: str, tenant_number: int, *, bytes_max: int) -> bytes:
    """What a build of a container image says of its failure; empty if it says nothing. Read as the manifest is."""
    return _read(location, REASON, tenant_number, bytes_max) or b""


def remove_environment(location: str) -> None:
    """Remove an environment; absent is done."""
    with _told():
        _files().remove_tree(location)


def _read(location: str, name: str, tenant_number: int, bytes_max: int) -> bytes | None:
    with _told():
        try:
            descriptor = _files().open_read(location, name, tenant=tenant_number)
        except (OSError, LauncherRefused):
            return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(bytes_max)


def _files() -> HostFiles:
    Path(current().data_dir, "images").mkdir(mode=0o711, exist_ok=True)
    return host_files(current())


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except LauncherUnavailable as error:
        raise Unavailable(
            Text("The part of Berth that reads tenants' files does not answer.", "读取租户文件的 Berth 组件没有应答。"),
            retry_after_seconds=2,
        ) from error
