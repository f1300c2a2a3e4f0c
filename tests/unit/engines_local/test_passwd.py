"""The passwd and group files that tasks see: the system's lines as they are, and at most one more for each number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusters.engines import users
from clusters.engines.local import passwd

SYSTEM = b"root:x:0:0:root:/root:/bin/bash\n# a comment\nalice:x:1000:1000:,,,:/home/alice:/bin/zsh"


@pytest.mark.parametrize("key", ["k3f9abcdeq", "7abc234567", "Team.Vision/β", "x" * 100, ""])
def test_every_tenant_has_a_name_that_linux_takes(key: str) -> None:
    assert users.NAME.fullmatch(users.user_name(key))


def test_a_user_without_a_line_gets_one_behind_the_systems_own() -> None:
    assert passwd.with_user(SYSTEM, "berth-x", 200_001, 200_002, "/berth/home") == (
        SYSTEM + b"\nberth-x:x:200001:200002::/berth/home:/bin/sh\n"
    )
    assert passwd.with_user(b"", "berth-x", 7, 7, "/h") == b"berth-x:x:7:7::/h:/bin/sh\n"
    assert passwd.with_groups(b"root:x:0:\n", "berth-x", 7, (0, 300_004)) == b"root:x:0:\nberth-x:x:7:\nvolume-300004:x:300004:\n"


def test_a_user_who_has_a_name_keeps_it() -> None:
    assert passwd.with_user(SYSTEM, "berth-x", 1000, 1000, "/berth/home") == SYSTEM
    assert [passwd.name_of(SYSTEM, number) for number in (1000, 100, 0)] == ["alice", "", "root"]
    assert passwd.name_of(b"$(id):x:5:5::/:/bin/sh\n", 5) == ""


def test_of_an_image_only_a_plain_file_of_a_bounded_length_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    assert passwd.read(str(tmp_path), "passwd") is None
    (folder / "passwd").write_bytes(SYSTEM)
    assert passwd.read(str(tmp_path), "passwd") == SYSTEM
    (folder / "passwd").write_bytes(b"\n" * (passwd.BYTES_MAX + 1))
    assert passwd.read(str(tmp_path), "passwd") is None
    (folder / "passwd").unlink()
    os.symlink("/etc/passwd", folder / "passwd")
    os.mkfifo(folder / "group")
    assert [passwd.read(str(tmp_path), name) for name in ("passwd", "group")] == [None, None]
