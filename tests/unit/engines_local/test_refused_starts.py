"""Which failures of a start pass, and which end the attempt."""

from __future__ import annotations

import errno
import os

import pytest

from clusters.engines.local.launching.spawning import refusal
from clusters.engines.local.launching.verbs import StartOutcome
from jobs.lifecycle.exits import find_class


@pytest.mark.parametrize(
    "number", ["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EAGAIN", "ENOMEM", "EINTR", "EIO", "ENOENT", "EBUSY"]
)
def test_what_may_pass_is_tried_again(number: str) -> None:
    assert refusal(OSError(getattr(errno, number), "words", "/a/file")).outcome is StartOutcome.BUSY


@pytest.mark.parametrize("number", ["E2BIG", "ENAMETOOLONG", "EINVAL", "ELOOP", "ENOTDIR", "EISDIR", "EPERM", "EACCES", "EROFS"])
def test_what_does_not_pass_ends_the_attempt_with_a_class_of_the_exit_table(number: str) -> None:
    code = getattr(errno, number)
    started = refusal(OSError(code, os.strerror(code), "/a/file" + "x" * 5_000))
    assert started.outcome is StartOutcome.IMPOSSIBLE
    assert find_class(started.code) is not None
    assert started.detail.startswith(os.strerror(code))
    assert len(started.detail) < 400
