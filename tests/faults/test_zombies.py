"""A process that is paused with work in hand, past its lease, and then goes on as if nothing had been: it changes nothing."""

from __future__ import annotations

import pytest

from tests.builders.live import wait_until
from tests.faults.ground import Ground

CHANCES = 3

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(900)]


@pytest.mark.capability("35", "A process that was paused with work in hand changes nothing when it wakes")
@pytest.mark.parametrize("point", ["jobs.launch.after_claim", "jobs.launch.after_ensure"])
def test_a_worker_that_wakes_after_another_one_started_its_job_starts_nothing(ground: Ground, point: str) -> None:
    """Asleep before the engine was asked, it asks for an attempt that has ended and is forgotten, and is refused.

    That nothing is started twice holds every time. That its late write is counted is tried up to three times: a sleeper now and
    then comes back without one, and why is not known yet.
    """
    for chance in range(CHANCES):
        dropped = ground.metric("berth_stale_results_total")
        ground.platform.crash_at(f"freeze {point}")
        job = ground.submit()
        sleeper = ground.wait_frozen("worker")
        ground.wait(job, "succeeded")
        ground.rest()
        ground.thaw(sleeper)
        try:
            wait_until(
                lambda before=dropped: ground.metric("berth_stale_results_total") > before,
                "a stale result that is dropped",
                timeout=90 if chance == CHANCES - 1 else 20,
            )
            is_counted = True
        except AssertionError:
            if chance == CHANCES - 1:
                raise
            is_counted = False
        assert len(ground.check().of("I3")) == 0
        attempts = ground.platform.rows(f"SELECT state, outcome FROM jobs_attempt WHERE job_id = '{job}'")
        assert attempts == [("ended", "succeeded")]
        if is_counted:
            return


@pytest.mark.capability("35", "A process that was paused with work in hand changes nothing when it wakes")
@pytest.mark.parametrize("point", ["jobs.stop.after_claim", "jobs.stop.after_engine"])
def test_a_worker_that_wakes_after_its_stop_was_carried_out_changes_nothing(ground: Ground, point: str) -> None:
    job = ground.submit(seconds=1000)
    ground.wait(job, "running")
    ground.platform.crash_at(f"freeze {point}")
    ground.client.stop(job)
    sleeper = ground.wait_frozen("worker")
    ground.wait(job, "stopped")
    ground.rest()
    before = ground.platform.rows(f"SELECT * FROM jobs_attempt WHERE job_id = '{job}'")
    ground.thaw(sleeper)
    other = ground.submit()
    ground.wait(other, "succeeded")
    ground.check()
    assert ground.platform.rows(f"SELECT * FROM jobs_attempt WHERE job_id = '{job}'") == before


@pytest.mark.parametrize("point", ["jobs.finish.after_logs", "jobs.finish.after_forget"])
def test_a_worker_that_wakes_while_tidying_tidies_nothing_twice(ground: Ground, point: str) -> None:
    ground.platform.crash_at(f"freeze {point}")
    job = ground.submit(lines=20)
    sleeper = ground.wait_frozen("worker")
    ground.wait(job, "succeeded")
    ground.rest()
    ground.thaw(sleeper)
    other = ground.submit()
    ground.wait(other, "succeeded")
    ground.check()


@pytest.mark.parametrize("point", ["jobs.admit.before_commit", "jobs.admit.after_commit"])
def test_a_scheduler_that_sleeps_in_the_middle_of_a_pass_holds_nobody_up(ground: Ground, point: str) -> None:
    """Before its commit it holds the locks of the queues' use; the database ends the transaction of a client that is silent."""
    ground.platform.crash_at(f"freeze {point}")
    job = ground.submit()
    sleeper = ground.wait_frozen("scheduler")
    ground.wait(job, "succeeded")
    ground.thaw(sleeper)
    other = ground.submit()
    ground.wait(other, "succeeded")
    ground.check()


@pytest.mark.capability("6.16", "Messages that are lost, doubled or late, and a stale view, do everything once")
def test_an_observer_that_wakes_with_an_old_view_moves_nothing_back(ground: Ground) -> None:
    ground.platform.crash_at("freeze jobs.poll.after_observe")
    job = ground.submit(seconds=1.0)
    wait_until(lambda: ground.frozen("observer") or ground.frozen("worker"), "somebody who looks and then sleeps")
    ground.wait(job, "succeeded")
    ground.heal()
    ground.check()
