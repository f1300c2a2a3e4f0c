"""Small disks in the place of folders, which a test fills, closes and opens again. Needs root that may mount."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

FILLER = ".filler"


class SmallDisk:
    """A file system in memory, mounted at one folder with its owner and mode."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Use up all room, but for so much."""
        facts = os.statvfs(self.place)
        room = facts.f_bavail * facts.f_frsize - leave_bytes
        # Without a buffer: what did not fit because somebody else wrote meanwhile must not be written again at the end.
        with (self.place / FILLER).open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while room > 0:
                room -= file.write(b"\0" * min(room, 2**20))

    def use_up_inodes(self) -> None:
        folder = self.place / f"{FILLER}s"
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            for number in range(100_000):
                (folder / str(number)).touch()

    def free(self) -> None:
        """Give back all that `fill` and `use_up_inodes` took."""
        (self.place / FILLER).unlink(missing_ok=True)
        folder = self.place / f"{FILLER}s"
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()

    def close(self) -> None:
        """Mount it read-only, as the kernel does after an error of a disk."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.place)], check=True, capture_output=True)

    def open(self) -> None:
        subprocess.run(["mount", "-o", "remount,rw", str(self.place)], check=True, capture_output=True)


@contextlib.contextmanager
def small_disk(place: Path, *, mebibytes: int = 16, inodes: int = 2_000) -> Iterator[SmallDisk]:
    """Mount one at a folder that is there, and take it away afterwards. Skips the test where nobody may mount."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    facts = place.stat()
    options = f"size={mebibytes}m,nr_inodes={inodes},uid={facts.st_uid},gid={facts.st_gid},mode={facts.st_mode & 0o7777:o}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nobody may mount here: {done.stderr.strip()}")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)
