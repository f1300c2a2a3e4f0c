"""Output on its way from the engine into the store, where a stop and a launch meet."""

from __future__ import annotations

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import Stream, TaskName, Workload
from jobs.reconcile import finish, poll, pump
from jobs.services.compile import compile_attempts
from kernel import clock
from storage.logs import read_tail
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def test_what_one_prints_that_was_stopped_while_it_was_handed_over_is_kept(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=1.0, stdout=b"hello\n"))
    quay.schedule()
    (attempt,) = quay.attempts(job)
    (workload,) = compile_attempts([attempt])  # A worker has it in hand ...
    assert isinstance(workload, Workload)
    quay.stop(job)  # ... when somebody stops it,
    with clock.virtual(lambda: quay.now):
        pump.pump_live(quay.cluster.pk)  # and somebody else looks for output before the engine has it.
        quay.engine.ensure([workload])
        quay.pass_time(2)
        poll.poll(quay.cluster.pk)
        finish.finish(quay.cluster.pk)
    assert quay.attempts(job)[0].forgotten
    (task,) = quay.tasks(job)
    assert read_tail(attempt.id, TaskName(task.role, task.index), Stream.OUT, size_bytes=100) == "hello\n"
