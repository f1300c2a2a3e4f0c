"""The platform's own log stays below its bound, without losing the descriptor that everything writes to."""

from __future__ import annotations

import os
from pathlib import Path

from controlplane.logs import bound_file


def test_the_older_half_goes_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "platform.log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for number in range(100):
        os.write(descriptor, f"line {number:05d}\n".encode())
    assert bound_file(path, descriptor, bytes_max=400) > 0
    os.write(descriptor, b"after\n")
    lines = path.read_text().splitlines()
    assert lines[-2:] == ["line 00099", "after"]
    assert lines[0].startswith("line 000")
    assert path.stat().st_size < 400
    assert bound_file(path, descriptor, bytes_max=400) == 0
    os.close(descriptor)


def test_a_log_that_somebody_else_keeps_is_left_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "platform.log", tmp_path / "other"
    path.write_text("x" * 1000)
    with other.open("ab") as file:
        assert bound_file(path, file.fileno(), bytes_max=10) == 0
    assert bound_file(tmp_path / "missing", 2, bytes_max=10) == 0
    assert path.stat().st_size == 1000
