"""What all tests of jobs have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.reconcile import event_log
from tests.builders.again import decided_alike


@pytest.fixture(autouse=True)
def everything_is_decided_alike_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a scheduler decided in a test, its event log gives again, unless the test puts something into its core by hand."""
    _remove_files()  # Tests of other folders that schedule leave theirs, in the directory that all tests of a worker share.
    yield
    try:
        if request.node.get_closest_marker("changes_the_core") is None:
            decided_alike(event_log.folder())
    finally:
        _remove_files()


def _remove_files() -> None:
    for kept in event_log.files(event_log.folder()):
        kept.path.unlink()
