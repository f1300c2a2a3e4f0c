"""Looks at a cluster between two whole ones: what changed is taken in at once, and only that; time is for the whole looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.models import Attempt, Job
from jobs.reconcile import poll
from jobs.reconcile.record import record_observations
from jobs.reconcile.watched import Watched
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

WHOLE_SECONDS = 60.0
ENDLESS = Script(duration_seconds=None)
SMALL: Mapping[str, str] = {"cpu": "50m", "memory": "16Mi"}


@pytest.fixture(autouse=True)
def _seldom_whole(configure: Callable[..., Any]) -> None:
    configure(poll_seconds=WHOLE_SECONDS)


@pytest.fixture
def gone_into(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """By look the jobs whose attempts it goes into; a look that goes into none is left out."""
    looks: list[list[str]] = []

    def record(watched: Sequence[Watched], **options: Any) -> None:
        looks.append(sorted(item.job.name for item in watched))
        record_observations(watched, **options)

    monkeypatch.setattr(poll, "record_observations", record)
    return looks


def run(quay: Quay, *names: str, script: Script = ENDLESS, **spec: Any) -> list[Job]:
    """Jobs that run, and it is written down that they do."""
    jobs = [quay.submit(name, script=script, resources=SMALL, **spec) for name in names]
    quay.turn()
    assert {quay.state(job) for job in jobs} == {"running"}
    return jobs


def look(quay: Quay, *, after_seconds: float = 0.2) -> int:
    """Look at the cluster some time after the last look; the number of statements that it took."""
    quay.pass_time(after_seconds)
    with CaptureQueriesContext(connection) as seen:
        poll.poll(quay.cluster.pk)
    return len(seen)


def test_a_look_at_which_nothing_is_new_goes_into_nothing(quay: Quay, gone_into: list[list[str]]) -> None:
    run(quay, "one")
    gone_into.clear()
    few = look(quay)
    run(quay, *(f"more-{number}" for number in range(20)))
    gone_into.clear()
    assert look(quay) == few <= 3  # The third notes when the cluster was seen: what vanishes is billed until then.
    assert gone_into == []


def test_only_what_changed_is_gone_into_and_it_is_written_down_at_once(quay: Quay, gone_into: list[list[str]]) -> None:
    run(quay, "a", "b", "c")
    (short,) = run(quay, "short", script=Script(duration_seconds=5))
    gone_into.clear()
    look(quay)
    assert gone_into == []
    look(quay, after_seconds=5)
    assert gone_into == [["short"]]
    assert quay.state(short) == "succeeded"


def test_what_is_not_seen_any_more_is_gone_into_at_once(quay: Quay, gone_into: list[list[str]]) -> None:
    _, lost = run(quay, "kept", "lost")
    gone_into.clear()
    quay.engine.delete(Attempt.objects.get(job_id=lost.id).id)
    look(quay)
    assert gone_into == [["lost"]]
    assert quay.state(lost) != "running"


def test_a_deadline_is_acted_on_at_the_next_whole_look(quay: Quay, gone_into: list[list[str]]) -> None:
    _, limited = run(quay, "endless", "limited", max_runtime="10s")
    gone_into.clear()
    look(quay, after_seconds=WHOLE_SECONDS / 2)
    assert (gone_into, quay.state(limited)) == ([], "running")
    look(quay, after_seconds=WHOLE_SECONDS / 2)
    assert gone_into == [["endless", "limited"]]
    assert quay.state(limited) == "stopping"


def test_many_attempts_are_gone_into_a_part_with_each_look(
    quay: Quay, gone_into: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "WINDOW_ATTEMPTS", 2)
    names = ["a", "b", "c", "d", "e"]
    run(quay, *names)
    look(quay)
    look(quay)
    gone_into.clear()
    looks = [look(quay, after_seconds=WHOLE_SECONDS), look(quay), look(quay)]
    assert len(looks) == len(gone_into) == 3
    assert sorted(name for part in gone_into for name in part) == names
    look(quay)
    assert len(gone_into) == 3, "the next round is not due"


def test_what_could_not_be_written_down_is_gone_into_again(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    run(quay, "good")
    (bad,) = run(quay, "bad", script=Script(duration_seconds=5))

    def refuse(watched: Sequence[Watched], **options: Any) -> None:
        if any(item.job.name == "bad" for item in watched):
            raise ValueError("this row is broken")

    with monkeypatch.context() as broken:
        broken.setattr(poll, "record_observations", refuse)
        look(quay, after_seconds=5)
    look(quay)  # Too soon after the first strike: it is left out.
    assert quay.state(bad) == "running"
    look(quay, after_seconds=2)  # The pause is over, and nothing else is seen than before.
    assert quay.state(bad) == "succeeded"
