"""How far tasks are, from what they print into their rows: by the pump while they run, and by what reads the rest of it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from clusters.engines.interface import LogChunk, Stream, TaskName
from jobs.models import Job, Task
from jobs.reconcile import finish, launch, poll, pump
from jobs.reconcile.progress import ProgressReader
from kernel import clock
from kernel.clock import utc_text
from storage.logs import AttemptKey, FileLogStore, LogStoreFull, StreamKey
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

SMALL = {"cpu": "50m", "memory": "16Mi"}
RUNS_ON = Script(duration_seconds=None)


def running(quay: Quay, name: str = "train", *, replicas: int = 1, script: Script = RUNS_ON) -> Job:
    """A job whose tasks run."""
    role = {"command": "true", "replicas": replicas, "resources": SMALL}
    job = quay.submit(name, script=script, roles={"worker": role})
    quay.schedule()
    launch.launch(quay.cluster.pk)
    quay.pass_time(1)
    poll.poll(quay.cluster.pk)
    return job


def prints(quay: Quay, job: Job, text: bytes, *, index: int = 0) -> None:
    """Add to the standard output of a task."""
    (attempt,) = quay.attempts(job)
    task = quay.engine.state.attempts[attempt.id].tasks[TaskName("worker", index)]
    task.script = replace(task.script, stdout=task.script.stdout + text)


def pump_at(quay: Quay) -> str | None:
    """A pass of the pump; its time."""
    with clock.virtual(lambda: quay.now):
        pump.pump_live(quay.cluster.pk)
    return utc_text(quay.now)


def progress(quay: Quay, job: Job) -> list[Any]:
    return [task.progress for task in quay.tasks(job)]


def test_the_row_of_a_task_has_what_it_said_last(quay: Quay) -> None:
    job = running(quay, replicas=2)
    prints(quay, job, b"berth: progress 1/10\nloss 0.3\nberth: progress 2/10\nloss 0.2\n")
    at = pump_at(quay)
    assert progress(quay, job) == [{"done": 2, "total": 10, "at": at}, None]
    quay.pass_time(5)
    prints(quay, job, b"berth: progress 2/10\n")
    pump_at(quay)
    assert progress(quay, job)[0]["at"] == at, "nothing changed"
    prints(quay, job, b"berth: progress 7/10\n")
    later = pump_at(quay)
    assert progress(quay, job) == [{"done": 7, "total": 10, "at": later}, None]


def test_a_line_is_read_that_came_in_two_passes(quay: Quay) -> None:
    job = running(quay)
    prints(quay, job, b"berth: progress 1")
    pump_at(quay)
    assert progress(quay, job) == [None]
    prints(quay, job, b"2/40\n")
    at = pump_at(quay)
    assert progress(quay, job) == [{"done": 12, "total": 40, "at": at}]


def test_what_a_task_says_at_its_end_is_read_with_the_rest_of_its_log(quay: Quay) -> None:
    good = running(quay, "good", script=Script(duration_seconds=5, stdout=b"berth: progress 10/10\n"))
    bad = running(quay, "bad", script=Script(duration_seconds=5, code=3, stderr=b"berth: progress 4/10\n"))
    with clock.virtual(lambda: quay.now):
        quay.pass_time(10)
        poll.poll(quay.cluster.pk)
        finish.finish(quay.cluster.pk)
    assert [(task.progress["done"], task.progress["total"]) for task in quay.tasks(good)] == [(10, 10)]
    assert [(task.progress["done"], task.progress["total"]) for task in quay.tasks(bad)] == [(4, 10)]


def test_what_was_stored_later_stands_whoever_writes_first(quay: Quay) -> None:
    job = running(quay)
    (attempt,) = quay.attempts(job)
    key = StreamKey(AttemptKey(attempt.tenant_id, attempt.job_id, attempt.id), TaskName("worker", 0), Stream.OUT)
    slow, quick = ProgressReader(), ProgressReader(waits=True)
    slow.look(key, [LogChunk(0, b"berth: progress 1/10\n")], quay.now)
    quick.look(key, [LogChunk(21, b"berth: progress 9/10\n")], quay.now + timedelta(seconds=1))
    quick.write()
    slow.write()
    assert progress(quay, job)[0]["done"] == 9


def test_a_line_that_there_was_no_room_to_store_is_read_once_it_is_stored(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = running(quay)
    prints(quay, job, b"berth: progress 1/10\n")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(FileLogStore, "write", full)
        with pytest.raises(LogStoreFull):
            pump_at(quay)
    assert progress(quay, job) == [None]
    pump_at(quay)
    assert progress(quay, job)[0]["done"] == 1


def statements(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as seen:
        act()
    return len(seen)


def test_a_pass_writes_in_as_many_statements_however_many_tasks_speak(quay: Quay) -> None:
    few, many = running(quay, "few", replicas=3), running(quay, "many", replicas=30)
    pump_at(quay)
    used = []
    for job, replicas in ((few, 3), (many, 30)):
        for index in range(replicas):
            prints(quay, job, b"berth: progress 1/2\n", index=index)
        used.append(statements(lambda: pump_at(quay)))
        assert [stored["done"] for stored in progress(quay, job)] == [1] * replicas
    assert used[0] == used[1]


def test_a_pass_in_which_no_task_speaks_asks_for_no_task(quay: Quay) -> None:
    job = running(quay)
    pump_at(quay)
    prints(quay, job, b"step 1, berth: progress is good\n")
    with CaptureQueriesContext(connection) as seen:
        pump_at(quay)
    assert not [query for query in seen if Task._meta.db_table in query["sql"]]
