"""Looking into the directory that a job keeps: listed, read, and packed with the rights of its tenant, never with ours."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from clusters.hostfiles import Entry
from kernel.errors import Conflict
from kernel.words import Text
from storage import bounds, checkpoint_files
from storage.models import Checkpoint
from storage.paths import clean_path
from storage.services.files import FilePage, OpenFile, file_page
from storage.tar_stream import Member, pack


def list_files(kept: Checkpoint, path: str, *, start: str = "", limit: int) -> FilePage:
    """The names in one folder, in order, from one on. NotFound if there is no such folder."""
    folder = clean_path(path)
    listing = checkpoint_files.list_folder(kept.location, kept.tenant_id, folder, limit=limit, start=start)
    return file_page(folder, listing)


def open_file(kept: Checkpoint, path: str) -> OpenFile:
    """Open a regular file for reading. NotFound for anything else, a link included."""
    descriptor = checkpoint_files.open_for_reading(kept.location, kept.tenant_id, clean_path(path, required=True))
    facts = os.fstat(descriptor)
    return OpenFile(descriptor, facts.st_size, f"{facts.st_ino:x}-{facts.st_mtime_ns:x}-{facts.st_size:x}")


def archive(kept: Checkpoint, path: str) -> Iterator[bytes]:
    """A folder as a tar archive, piece by piece, one file after the other; names are relative to the folder.

    Only files and folders: a link could make its unpacking write anywhere. NotFound if there is no such folder; Conflict if it
    holds more files than one archive may.
    """
    folder = clean_path(path)
    listing = checkpoint_files.list_tree(kept.location, kept.tenant_id, folder, limit=bounds.CHECKPOINT_ARCHIVE_FILES_MAX)
    if listing is None:
        raise Conflict(
            Text(
                f"The folder holds more than {bounds.CHECKPOINT_ARCHIVE_FILES_MAX:,} files.",
                f"该目录中的文件超过 {bounds.CHECKPOINT_ARCHIVE_FILES_MAX:,} 个。",
            ),
            hint=Text("Fetch it file by file: `berth cp JOB:checkpoint/ DIR`.", "请逐个下载：`berth cp JOB:checkpoint/ DIR`。"),
        )
    return pack([_member(kept, folder, entry) for entry in listing.entries if entry.kind in ("file", "directory")])


def _member(kept: Checkpoint, folder: str, entry: Entry) -> Member:
    if entry.kind == "directory":
        return Member(entry.path, entry.mode, entry.modified_at)
    inside = f"{folder}/{entry.path}" if folder else entry.path
    opened = functools.partial(checkpoint_files.open_for_reading, kept.location, kept.tenant_id, inside)
    return Member(entry.path, entry.mode, entry.modified_at, opened)
