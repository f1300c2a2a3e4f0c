"""What one job left never keeps the outputs of others from coming home."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence

import pytest

from clusters.engines.fake import FakeEngine, Script
from clusters.engines.interface import EngineUnreachable, OutputFile
from jobs.models import Attempt
from jobs.reconcile import finish
from storage.models import Artifact
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

Listing = Callable[[uuid.UUID], None]


@pytest.fixture
def outputs(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> Callable[[Listing], None]:
    """Let every attempt have left one file; the given function is called before one's files are listed."""

    def use(before: Listing) -> None:
        def listed(self: FakeEngine, attempt: uuid.UUID, paths: Sequence[str]) -> Sequence[OutputFile]:
            before(attempt)
            return [OutputFile("model", 5, 0o644)]

        def opened(self: FakeEngine, attempt: uuid.UUID, path: str) -> int:
            read_end, write_end = os.pipe()
            os.write(write_end, b"bytes")
            os.close(write_end)
            return read_end

        monkeypatch.setattr(FakeEngine, "list_outputs", listed, raising=False)
        monkeypatch.setattr(FakeEngine, "open_output", opened, raising=False)

    return use


def submit(quay: Quay, count: int) -> list[uuid.UUID]:
    jobs = [quay.submit(f"leaves-{number}", script=Script(duration_seconds=1), outputs=["model"]) for number in range(count)]
    quay.turn()
    quay.pass_time(2)
    return [quay.attempts(job)[0].pk for job in jobs]


def home() -> set[uuid.UUID]:
    return set(Artifact.objects.values_list("attempt_id", flat=True))


def test_an_attempt_whose_files_cannot_be_listed_leaves_the_others_alone(quay: Quay, outputs: Callable[[Listing], None]) -> None:
    broken: set[uuid.UUID] = set()

    def refuse(attempt: uuid.UUID) -> None:
        if attempt in broken:
            raise EngineUnreachable("the answer is larger than a message may be")

    outputs(refuse)
    first, *others = submit(quay, 4)
    broken.add(first)
    quay.turn()

    assert home() == set(others)
    assert set(Attempt.objects.filter(forgotten=True).values_list("id", flat=True)) == set(others)
    broken.clear()
    quay.pass_time(3)
    quay.turn()
    assert home() == {first, *others}


def test_an_engine_that_answers_for_nobody_is_not_asked_for_each(quay: Quay, outputs: Callable[[Listing], None]) -> None:
    asked: list[uuid.UUID] = []

    def refuse(attempt: uuid.UUID) -> None:
        asked.append(attempt)
        raise EngineUnreachable("it is gone")

    outputs(refuse)
    submit(quay, 8)
    quay.turn()

    assert len(asked) == finish.UNREACHABLE_MAX


def test_those_behind_a_slow_look_come_first_in_the_next_round(
    quay: Quay, outputs: Callable[[Listing], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look here takes as long as a round may."""
    passed = [0.0]
    asked: list[uuid.UUID] = []

    def wait(attempt: uuid.UUID) -> None:
        asked.append(attempt)
        passed[0] += finish.OUTPUT_SECONDS + 1
        if len(asked) <= 3:
            raise EngineUnreachable("it took too long")

    outputs(wait)
    monkeypatch.setattr(finish.time, "monotonic", lambda: passed[0])
    attempts = submit(quay, 3)
    for _ in range(3):
        quay.turn()

    assert set(asked[:3]) == set(attempts), "each had its turn before one came again"
    for _ in range(3):
        quay.pass_time(3)
        quay.turn()
    assert home() == set(attempts)
