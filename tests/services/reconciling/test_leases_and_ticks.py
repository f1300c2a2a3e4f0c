"""Leases with fencing, periodic duties, and the one door of states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.models import Attempt, Job
from jobs.services.transition import JOB
from kernel.ids import new_id
from kernel.lifecycle import IllegalTransition
from reconciling import leases, ticks
from reconciling.models import Tick, Transition
from reconciling.transition import Change, apply
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.usefixtures("db")
class TestNamedLeases:
    def test_one_holder_at_a_time_and_the_next_after_expiry(self) -> None:
        first = leases.acquire("scheduler", holder="a", seconds=10, now=NOW)
        assert first is not None
        assert leases.acquire("scheduler", holder="b", seconds=10, now=later(9)) is None
        assert leases.acquire("scheduler", holder="b", seconds=10, now=later(10)) is not None
        assert not leases.renew("scheduler", first, seconds=10, now=later(11))

    def test_a_renewed_lease_lasts_and_a_released_one_is_free(self) -> None:
        token = leases.acquire("scheduler", holder="a", seconds=10, now=NOW)
        assert token is not None
        assert leases.renew("scheduler", token, seconds=10, now=later(9))
        assert leases.acquire("scheduler", holder="b", seconds=10, now=later(15)) is None
        leases.release("scheduler", token)
        assert leases.acquire("scheduler", holder="b", seconds=10, now=later(15)) is not None

    def test_releasing_a_lost_lease_takes_it_from_nobody(self) -> None:
        lost = leases.acquire("scheduler", holder="a", seconds=1, now=NOW)
        held = leases.acquire("scheduler", holder="b", seconds=10, now=later(2))
        assert lost is not None
        assert held is not None
        leases.release("scheduler", lost)
        assert leases.renew("scheduler", held, seconds=10, now=later(3))


class TestWorkThatTakesLongerThanItsLease:
    """It keeps what it has in hand while its process lives: two workers that overtake each other would never be done."""

    def claim(self, quay: Quay) -> Any:
        quay.submit("job")
        quay.schedule()
        return leases.claim(Attempt.objects.all(), now=quay.now, seconds=10, limit=5)

    def claimed_after(self, quay: Quay, seconds: float) -> int:
        at = quay.now + timedelta(seconds=seconds)
        return len(leases.claim(Attempt.objects.all(), now=at, seconds=10, limit=5)[1])

    def test_it_is_claimed_by_no_second_worker(self, quay: Quay) -> None:
        token, ids = self.claim(quay)
        with leases.in_hand(Attempt, token, ids):
            assert leases.has_in_hand()
            leases.keep_in_hand(seconds=10, now=quay.now + timedelta(seconds=8))
            assert self.claimed_after(quay, 12) == 0
            assert Attempt.objects.filter(lease_token=token).count() == len(ids) == 1
        assert not leases.has_in_hand()
        assert self.claimed_after(quay, 12) == 1, "handed back at the end, not when the lease is over"

    def test_one_that_was_paused_past_its_lease_does_not_get_it_back(self, quay: Quay) -> None:
        token, ids = self.claim(quay)
        with leases.in_hand(Attempt, token, ids):
            leases.keep_in_hand(seconds=10, now=quay.now + timedelta(seconds=11))
            assert self.claimed_after(quay, 12) == 1

    def test_one_that_is_stuck_loses_it_in_the_end(self, quay: Quay) -> None:
        token, ids = self.claim(quay)
        with leases.in_hand(Attempt, token, ids):
            leases.keep_in_hand(seconds=0, now=quay.now + timedelta(seconds=8))  # So many leases of nothing are over at once.
            assert self.claimed_after(quay, 12) == 1


def test_rows_in_hand_are_skipped_until_their_lease_expires(quay: Quay) -> None:
    for number in range(3):
        quay.submit(f"job-{number}")
    quay.schedule()
    rows = Attempt.objects.all()
    _, first = leases.claim(rows, now=quay.now, seconds=10, limit=2)
    _, second = leases.claim(rows, now=quay.now, seconds=10, limit=2)
    assert (len(first), len(second)) == (2, 1)
    assert not set(first) & set(second)
    _, again = leases.claim(rows, now=quay.now + timedelta(seconds=11), seconds=10, limit=5)
    assert len(again) == 3


def test_a_worker_paused_past_its_lease_changes_nothing(quay: Quay) -> None:
    """The result of a launch is applied only while the token still matches."""
    from jobs.reconcile import launch
    from reconciling import crashpoints

    job = quay.submit()
    quay.schedule()

    def lose_lease() -> None:
        Attempt.objects.update(lease_token=new_id())

    crashpoints.arm("jobs.launch.after_ensure", lose_lease)
    launch.launch(quay.cluster.pk)
    assert quay.state(job) == "admitted"
    quay.pass_time(60)
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert len(quay.engine.state.starts) == 1


@pytest.mark.usefixtures("db")
class TestTicks:
    @pytest.fixture(autouse=True)
    def _own_duties(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ticks, "_duties", {})
        ticks.register("sweep", every_seconds=10)
        ticks.install(NOW)

    def fired(self, at: datetime) -> list[str]:
        names: list[str] = []
        ticks.run_due(at, holder="test", fire=names.append)
        return names

    def test_each_slot_fires_once_whoever_looks(self) -> None:
        assert self.fired(NOW) == ["sweep"]
        assert self.fired(NOW) == []
        assert self.fired(later(9)) == []
        assert self.fired(later(10)) == ["sweep"]

    def test_missed_slots_become_one(self) -> None:
        self.fired(NOW)
        assert self.fired(later(600)) == ["sweep"]
        assert self.fired(later(600)) == []

    def test_a_duty_that_is_gone_leaves_no_row(self) -> None:
        ticks._duties.clear()
        ticks.register("other", every_seconds=1)
        ticks.install(NOW)
        assert list(Tick.objects.values_list("name", flat=True)) == ["other"]


class TestTheDoor:
    def change(self, job: Job, to_state: str, **given: Any) -> list[Change]:
        with transaction.atomic():
            return apply(JOB, [Change(job.id, job.state, to_state, **given)], actor="test", at=NOW)

    def test_a_row_that_moved_meanwhile_is_left_alone(self, quay: Quay) -> None:
        job = quay.submit(hold=True)
        stale = quay.job(job.id)
        quay.stop(job)
        assert self.change(stale, "admitted") == []
        assert quay.state(job) == "stopped"

    def test_an_edge_that_the_table_lacks_is_our_mistake(self, quay: Quay) -> None:
        job = quay.submit(hold=True)
        with pytest.raises(IllegalTransition):
            self.change(job, "stopping")

    def test_it_needs_a_transaction(self, quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
        from reconciling import bulk

        job = quay.submit(hold=True)
        monkeypatch.setattr(bulk, "in_transaction", lambda model: False)
        with pytest.raises(AssertionError, match="transaction"):
            apply(JOB, [Change(job.id, job.state, "stopped")], actor="test", at=NOW)

    def test_every_change_leaves_a_transition_and_an_event(self, quay: Quay) -> None:
        from activity.models import Event

        job = quay.submit(hold=True)
        self.change(job, "stopped", reason="because", detail={"amount": 3})
        row = Transition.objects.filter(subject_id=job.id).order_by("id").last()
        assert row is not None
        assert (row.from_state, row.to_state, row.reason, row.detail) == ("queued", "stopped", "because", {"amount": 3})
        event = Event.objects.filter(subject_id=job.id, kind="job.stopped").get()
        assert event.data["reason"] == "because"

    def test_a_thousand_rows_cost_as_many_statements_as_ten(self, quay: Quay, django_assert_max_num_queries: Any) -> None:
        parent = quay.submit(array={"size": 1000}, hold=True)
        children = list(Job.objects.filter(parent=parent))
        with django_assert_max_num_queries(12), transaction.atomic():
            changes = [Change(child.id, "queued", "stopped") for child in children]
            assert len(apply(JOB, changes, actor="test", at=NOW)) == 1000
