"""Reading what tasks print, from files that may not be there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.engines.interface import Stream
from clusters.engines.local.logfiles import LogFiles
from clusters.engines.local.records import ATTEMPTS, CONTROL

QUOTA = 1_000_000


def read(root: Path, *, ended: bool) -> tuple[bytes, bool]:
    found = LogFiles(str(root)).read("attempt", "worker-0", Stream.OUT, 0, quota=QUOTA, ended=ended)
    return b"".join(chunk.data for chunk in found.chunks), found.complete


def test_a_task_that_has_not_begun_may_still_print(tmp_path: Path) -> None:
    assert read(tmp_path, ended=False) == (b"", False)
    control = tmp_path / ATTEMPTS / "attempt" / CONTROL
    control.mkdir(parents=True)
    assert read(tmp_path, ended=False) == (b"", False)
    (control / "worker-0.stdout").write_bytes(b"hello\n")
    assert read(tmp_path, ended=False) == (b"hello\n", False)
    assert read(tmp_path, ended=True) == (b"hello\n", True)


@pytest.mark.parametrize("has_place", [False, True])
def test_one_that_is_over_and_left_no_file_printed_nothing(tmp_path: Path, has_place: bool) -> None:
    if has_place:
        (tmp_path / ATTEMPTS / "attempt" / CONTROL).mkdir(parents=True)
    assert read(tmp_path, ended=True) == (b"", True)
