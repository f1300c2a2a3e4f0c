"""The checker against histories made by hand: for each invariant one that holds and ones that break it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.histories.checker import check, main
from tests.histories.history import History
from tests.histories.lifecycles import is_path
from tests.histories.records import BadHistory, HistoryFile, Record, read_history
from tests.histories.report import Report
from tests.histories.witness import payload_records, witness_command

JOB_PATH = ("", "queued", "admitted", "starting", "running", "succeeded")
ATTEMPT_PATH = ("admitted", "starting", "running", "ended")
TASK_PATH = ("pending", "running", "succeeded")
AMOUNT = {"cpu_millis": 1000, "memory_bytes": 10, "gpu_millis": 0}
NO_AMOUNT = {"cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 0}
CEILINGS = {"cpu_millis": 1000, "memory_bytes": None, "gpu_millis": None}


class Tale:
    """One job with one attempt that went well, from submission to rest; tests change what they want."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._seq = 0
        add = self.add
        add(1, "client", "submit_acked", jobs=["j"], name="once")
        add(3, "engine", "create", attempt="a1", job="j", number=1)
        add(4, "payload", "start", job="j", number=1, task="worker-0", monotonic=104.0)
        self.count("restored", 0, t=4)
        self.count("saving", 3, t=6)
        self.count("saved", 3, t=6)
        add(9, "payload", "printed", job="j", number=1, task="worker-0", monotonic=109.0, lines=10)
        add(9, "payload", "stop", job="j", number=1, task="worker-0", monotonic=109.0)
        add(9.5, "database", "sample", queue="q", pool="p", used=AMOUNT, ceilings=CEILINGS)
        self.job("j")
        self.attempt("a1", "j", 1, launched_at=3.0, ended_at=10.0)
        add(20, "database", "task", task="t1", attempt="a1", state="succeeded")
        self.path("job", "j", JOB_PATH, tell=True)
        self.path("attempt", "a1", ATTEMPT_PATH, tell=True)
        self.path("task", "t1", TASK_PATH)
        add(20, "database", "queue", queue="root", path=["root"])
        add(20, "database", "queue", queue="q", path=["root", "q"])
        add(20, "database", "ceiling", queue="q", pool="p", ceilings=CEILINGS)
        add(20, "database", "usage", queue="q", pool="p", used=NO_AMOUNT)
        self.reservation("a1", 2.0, 10.0)
        add(20, "database", "ledger", attempt="a1", pool="p", amount=AMOUNT, started_at=4.5, ended_at=10.0)
        add(20, "database", "count", queue="q", state="succeeded", kept=1, counted=1)
        add(20, "database", "audit", verb="job.submit", target="j", count=1)
        add(20, "database", "audit_chain", sealed=1, unsealed=0, problems=[])
        add(20, "database", "log", job="j", number=1, task="worker-0", lines=10, missing=[], repeated=[])

    def add(self, t: float, source: str, event: str, **data: Any) -> None:
        self.records.append(Record(t, source, event, data))

    def count(self, event: str, count: int, *, t: float, number: int = 1, half: bool = False) -> None:
        """What the payload said of its checkpoint."""
        self.add(
            t, "payload", event, job="j", number=number, task="worker-0", monotonic=100.0 + t, count=count, half=half
        )  # fmt: skip

    def job(self, job: str, **given: Any) -> None:
        facts = {
            "state": "succeeded", "desired": "run", "hold": False, "open_dependencies": 0, "attempt_count": 1, "reason": "",
            "name": "once",
        }  # fmt: skip
        self.add(20, "database", "job", job=job, **{**facts, **given})

    def attempt(self, attempt: str, job: str, number: int, **given: Any) -> None:
        facts = {"state": "ended", "created_at": 2.0, "launched_at": None, "ended_at": 10.0, "forgotten": True}
        self.add(20, "database", "attempt", attempt=attempt, job=job, number=number, **{**facts, **given})

    def reservation(self, attempt: str, created_at: float, released_at: float | None, **given: Any) -> None:
        facts = {"queue": "q", "pool": "p", "amount": AMOUNT}
        times = {"created_at": created_at, "released_at": released_at}
        self.add(20, "database", "reservation", attempt=attempt, **{**facts, **times, **given})

    def path(self, kind: str, subject: str, states: tuple[str, ...], *, tell: bool = False, number: int = 1) -> None:
        for place, (start, end) in enumerate(pairwise(states)):
            self.add(2 + place, "database", "transition", kind=kind, subject=subject, order=place, **{"from": start, "to": end})
            if tell:
                self._seq += 1
                attempt = number if (kind, end) == ("job", "admitted") else None
                facts = {"from": start, "to": end, "attempt": attempt}
                self.add(2 + place, "database", "event", seq=self._seq, kind=f"{kind}.{end}", subject=subject, job="j", **facts)

    def change(self, source: str, event: str, **data: Any) -> None:
        """Change fields of the last record of a kind."""
        place = max(place for place, each in enumerate(self.records) if (each.source, each.event) == (source, event))
        old = self.records[place]
        self.records[place] = Record(data.pop("t", old.t), source, event, {**old.data, **data})

    def drop(self, source: str, event: str) -> None:
        self.records = [each for each in self.records if (each.source, each.event) != (source, event)]

    def check(self) -> Report:
        return check([*self.records, Record(20, "database", "end", {})])

    def broken(self) -> set[str]:
        return self.check().broken()


@pytest.fixture
def tale() -> Tale:
    return Tale()


def test_a_history_that_went_well_holds_and_says_what_it_was_decided_over(tale: Tale) -> None:
    tale.add(19, "client", "stop_acked", job="j", grace_seconds=1)
    tale.add(20, "database", "audit", verb="job.stop", target="j", count=1)
    report = check([*tale.records, Record(20, "database", "end", {})])
    assert report.holds, report.text()
    assert report.not_checked() == []
    assert report.checked["I2"] == {"jobs": 1, "intervals": 1}
    assert "1 samples" in report.text()


def test_an_empty_history_claims_nothing() -> None:
    report = check([Record(1, "database", "end", {})])
    assert set(report.not_checked()) >= {"I1", "I2", "I3", "I4", "I5", "I7", "I8"}
    assert "NOT CHECKED" in report.text()


def test_without_the_databases_side_only_what_ran_is_decided(tale: Tale) -> None:
    tale.drop("database", "job")
    assert check(tale.records).holds


class TestI1:
    def test_a_lost_job_is_found(self, tale: Tale) -> None:
        tale.add(1, "client", "submit_acked", jobs=["gone"])
        assert "I1" in tale.broken()

    def test_a_submission_that_became_two_jobs_is_found(self, tale: Tale) -> None:
        tale.job("twin", state="queued", hold=True, attempt_count=0)
        assert "I1" in tale.broken()

    def test_a_submission_that_was_answered_with_two_jobs_is_found(self, tale: Tale) -> None:
        tale.job("twin", name="other", state="queued", hold=True, attempt_count=0)
        tale.add(2, "client", "submit_acked", jobs=["twin"], name="once")
        assert "I1" in tale.broken()

    def test_a_submission_that_was_refused_and_stored_is_found(self, tale: Tale) -> None:
        tale.add(1, "client", "submit_refused", name="once")
        assert "I1" in tale.broken()


class TestI2:
    def second(self, tale: Tale, began: float, ended: float) -> None:
        tale.add(began, "payload", "start", job="j", number=2, task="worker-0")
        tale.add(ended, "payload", "stop", job="j", number=2, task="worker-0")

    def test_attempts_that_follow_each_other_are_right(self, tale: Tale) -> None:
        self.second(tale, 9, 12)
        assert "I2" not in tale.broken()

    def test_attempts_that_overlap_are_found(self, tale: Tale) -> None:
        self.second(tale, 8.9, 12)
        assert "I2" in tale.broken()

    def test_an_attempt_inside_a_longer_one_is_found_behind_a_short_one(self, tale: Tale) -> None:
        tale.add(30, "payload", "beat", job="j", number=1, task="worker-0")
        self.second(tale, 10, 11)
        assert "I2" in tale.broken()

    def test_who_was_killed_lived_until_its_last_beat(self, tale: Tale) -> None:
        tale.add(12, "payload", "start", job="j", number=2, task="worker-0")
        tale.add(15, "payload", "beat", job="j", number=2, task="worker-0")
        tale.add(14, "payload", "start", job="j", number=3, task="worker-0")
        assert "I2" in tale.broken()

    def test_a_held_lock_is_proof(self, tale: Tale) -> None:
        tale.add(8, "payload", "overlap", job="j", number=2, task="worker-0")
        assert "I2" in tale.broken()

    def test_a_task_that_started_twice_in_one_attempt_is_found(self, tale: Tale) -> None:
        tale.add(5, "payload", "start", job="j", number=1, task="worker-0")
        assert "I2" in tale.broken()


class TestI3:
    def test_an_attempt_made_twice_is_found(self, tale: Tale) -> None:
        tale.add(5, "engine", "create", attempt="a1", job="j", number=1)
        assert "I3" in tale.broken()

    def test_an_attempt_that_nobody_wrote_down_is_found(self, tale: Tale) -> None:
        tale.add(5, "engine", "create", attempt="a9", job="j", number=2)
        assert "I3" in tale.broken()

    def test_an_attempt_that_counts_as_launched_and_was_never_made_is_found(self, tale: Tale) -> None:
        tale.change("engine", "create", number=7, attempt="a7")
        assert "I3" in tale.broken()


class TestI4:
    def test_an_edge_that_is_not_declared_is_found(self, tale: Tale) -> None:
        tale.path("task", "t1", ("succeeded", "running"))
        assert "I4" in tale.broken()

    def test_an_end_that_was_overwritten_is_found(self, tale: Tale) -> None:
        tale.change("database", "job", state="failed")
        assert "I4" in tale.broken()

    def test_two_ends_are_found(self, tale: Tale) -> None:
        tale.path("job", "j", ("running", "failed"))
        assert "I4" in tale.broken()

    def test_a_change_that_nobody_wrote_down_is_found(self, tale: Tale) -> None:
        tale.change("database", "attempt", state="running")
        assert "I4" in tale.broken()

    def test_events_in_another_order_than_what_happened_are_found(self, tale: Tale) -> None:
        tale.change("database", "event", kind="job.admitted", subject="j", **{"from": "queued", "to": "admitted"})
        assert "I4" in tale.broken()

    def test_a_path_may_pass_a_state_twice(self) -> None:
        edges = [("", "queued"), ("queued", "admitted"), ("admitted", "queued"), ("queued", "stopped")]
        assert is_path(edges, "", "stopped")
        assert not is_path(edges[1:], "", "stopped")
        assert not is_path([*edges, ("running", "running")], "", "stopped")
        assert is_path([], "admitted", "admitted")


class TestI5:
    def second_attempt(self, tale: Tale, *, admitted_before_the_first_ends: bool) -> None:
        seq = 2.5 if admitted_before_the_first_ends else 100
        tale.attempt("a2", "j", 2, created_at=12.0, ended_at=15.0)
        tale.reservation("a2", 12.0, 15.0)
        facts = {"subject": "j", "job": "j", "from": "queued", "to": "admitted", "attempt": 2}
        tale.add(12, "database", "event", seq=seq, kind="job.admitted", **facts)

    def test_a_second_attempt_after_the_first_fits(self, tale: Tale) -> None:
        self.second_attempt(tale, admitted_before_the_first_ends=False)
        assert "I5" not in tale.broken()

    def test_a_second_attempt_beside_the_first_is_over_the_ceiling(self, tale: Tale) -> None:
        self.second_attempt(tale, admitted_before_the_first_ends=True)
        assert "I5" in tale.broken()

    def test_a_ceiling_of_a_queue_above_counts(self, tale: Tale) -> None:
        tale.drop("database", "ceiling")
        tale.add(20, "database", "ceiling", queue="root", pool="p", ceilings={**CEILINGS, "cpu_millis": 999})
        assert "I5" in tale.broken()

    def test_a_sample_above_the_ceiling_is_found(self, tale: Tale) -> None:
        tale.add(5, "database", "sample", queue="q", pool="p", used={**AMOUNT, "cpu_millis": 1001}, ceilings=CEILINGS)
        assert "I5" in tale.broken()

    def test_use_above_a_ceiling_that_was_cut_may_fall(self, tale: Tale) -> None:
        less = {**AMOUNT, "cpu_millis": 900}
        tale.add(10, "database", "sample", queue="q", pool="p", used=less, ceilings={**CEILINGS, "cpu_millis": 500})
        assert "I5" not in tale.broken()


class TestI6:
    @pytest.mark.parametrize(
        ("event", "change"),
        [
            ("usage", {"used": AMOUNT}),
            ("reservation", {"released_at": None}),
            ("reservation", {"released_at": 9.0}),
            ("ledger", {"amount": NO_AMOUNT}),
            ("ledger", {"ended_at": 11.0}),
        ],
    )
    def test_books_that_differ_are_found(self, tale: Tale, event: str, change: dict[str, Any]) -> None:
        tale.change("database", event, **change)
        assert "I6" in tale.broken()

    def test_an_attempt_that_is_charged_twice_is_found(self, tale: Tale) -> None:
        tale.add(20, "database", "ledger", attempt="a1", pool="p", amount=AMOUNT, started_at=3.0, ended_at=10.0)
        assert "I6" in tale.broken()

    def test_an_attempt_that_is_not_charged_is_found(self, tale: Tale) -> None:
        tale.drop("database", "ledger")
        assert "I6" in tale.broken()


class TestI7:
    def waiting(self, tale: Tale, **given: Any) -> None:
        tale.job("w", **{"name": "w", "state": "queued", "attempt_count": 0, **given})
        tale.path("job", "w", ("", "queued"))
        tale.add(20, "database", "audit", verb="job.submit", target="w", count=1)

    @pytest.mark.parametrize("given", [{"hold": True}, {"not_before_at": 50.0}])
    def test_a_job_may_wait_for_a_person_or_a_time(self, tale: Tale, given: dict[str, Any]) -> None:
        self.waiting(tale, **given)
        assert tale.broken() == set()

    def test_a_job_may_wait_for_one_that_waits_rightly(self, tale: Tale) -> None:
        self.waiting(tale, hold=True)
        tale.job("x", name="x", state="queued", attempt_count=0, open_dependencies=1)
        tale.add(20, "database", "dependency", job="x", on="w", met=None)
        assert "I7" not in tale.broken()

    def test_a_job_that_waits_for_one_that_has_ended_is_found(self, tale: Tale) -> None:
        self.waiting(tale, open_dependencies=1)
        tale.add(20, "database", "dependency", job="w", on="j", met=None)
        assert tale.broken() == {"I7"}

    def test_a_job_that_waits_for_nothing_is_found(self, tale: Tale) -> None:
        self.waiting(tale)
        assert tale.broken() == {"I7"}

    def test_an_object_that_the_database_has_not_is_found(self, tale: Tale) -> None:
        tale.add(20, "engine", "object", attempt="a9", alive=True)
        assert "I7" in tale.broken()

    def test_an_object_that_was_forgotten_is_found(self, tale: Tale) -> None:
        tale.add(20, "engine", "object", attempt="a1", alive=False)
        assert "I7" in tale.broken()

    def test_an_attempt_that_was_not_tidied_away_is_found(self, tale: Tale) -> None:
        tale.change("database", "attempt", forgotten=False)
        assert "I7" in tale.broken()


class TestI8:
    def stop(self, tale: Tale, t: float = 5.0) -> None:
        tale.add(t, "client", "stop_acked", job="j", grace_seconds=2)
        tale.add(20, "database", "audit", verb="job.stop", target="j", count=1)

    def test_a_payload_that_ends_in_time_is_right(self, tale: Tale) -> None:
        self.stop(tale)
        assert "I8" not in tale.broken()

    def test_a_payload_that_lives_on_is_found(self, tale: Tale) -> None:
        self.stop(tale)
        tale.add(37.5, "payload", "beat", job="j", number=1, task="worker-0")
        assert "I8" in tale.broken()

    def test_while_something_is_broken_no_deadline_runs(self, tale: Tale) -> None:
        self.stop(tale)
        tale.add(6, "fault", "outage", what="engine")
        tale.add(30, "fault", "healed", what="engine")
        tale.add(37.5, "payload", "beat", job="j", number=1, task="worker-0")
        assert "I8" not in tale.broken()
        tale.add(63, "payload", "beat", job="j", number=1, task="worker-0")
        assert "I8" in tale.broken()

    def test_an_attempt_that_begins_after_the_stop_is_found(self, tale: Tale) -> None:
        self.stop(tale, t=1.5)
        assert "I8" in tale.broken()

    def test_outages_that_follow_each_other_start_the_wait_anew(self) -> None:
        spans = [(1, "outage"), (2, "healed"), (5, "outage"), (9, "healed")]
        history = History([Record(t, "fault", event, {"what": "x"}) for t, event in spans])
        assert history.healthy_deadline(0, 0.5) == 0.5
        assert history.healthy_deadline(0, 2) == 4
        assert history.healthy_deadline(1.5, 4) == 13
        assert history.healthy_deadline(9.5, 1) == 10.5


def test_a_process_that_is_lost_may_have_held_work_for_a_lease() -> None:
    told = [Record(3.0, "fault", "injected", {"what": "kill worker", "lease_seconds": 30.0})]
    history = History([*told, Record(4.0, "fault", "injected", {"what": "redis dies"})])
    assert history.lease_lost(0.0, 10.0) == 30.0
    assert history.lease_lost(3.5, 10.0) == 0.0


class TestStopsInCalm:
    """Where nothing is broken a stop has two seconds, not thirty; and what it came before does not start at all."""

    def stop(self, tale: Tale, *, t: float) -> None:
        tale.add(t, "client", "stop_acked", job="j", grace_seconds=1, state="admitted", calm_seconds=2.0)
        tale.add(20, "database", "audit", verb="job.stop", target="j", count=1)

    def test_a_stop_that_takes_seconds_longer_without_any_fault_is_found(self, tale: Tale) -> None:
        self.stop(tale, t=5)
        assert tale.broken() == {"I8"}

    def test_with_a_fault_before_it_has_the_longer_bound(self, tale: Tale) -> None:
        self.stop(tale, t=5)
        tale.add(2, "fault", "injected", what="kill worker")
        assert tale.broken() == set()

    def test_a_start_after_the_acknowledged_stop_is_found_however_soon_it_ends(self, tale: Tale) -> None:
        tale.change("database", "attempt", created_at=2.0)
        self.stop(tale, t=2.5)
        assert "started 1.500 s after its stop" in tale.check().text()

    def test_stops_are_counted_by_the_state_that_they_met(self, tale: Tale) -> None:
        self.stop(tale, t=8)
        assert tale.check().checked["I8"]["stops of admitted jobs"] == 1


class TestBillsOfWhatDidNotRun:
    def test_a_bill_of_an_attempt_that_was_never_launched_is_found(self, tale: Tale) -> None:
        tale.change("database", "attempt", launched_at=None)
        for event in ("start", "printed", "stop"):
            tale.drop("payload", event)
        assert "I6" in tale.broken()


class TestI11:
    """What is billed against what the payload told of itself."""

    @pytest.mark.parametrize(("started_at", "ended_at"), [(3.0, 10.0), (9.0, 9.5), (4.0, 60.0)])
    def test_a_wrong_bill_is_found(self, tale: Tale, started_at: float, ended_at: float) -> None:
        tale.change("database", "ledger", started_at=started_at, ended_at=ended_at)
        assert "I11" in tale.broken()

    def test_a_bill_within_a_second_is_right(self, tale: Tale) -> None:
        assert tale.broken() == set()

    def test_a_slow_machine_is_no_fault_of_the_bill_while_it_is_slow(self, tale: Tale) -> None:
        tale.change("database", "ledger", started_at=3.0, ended_at=10.0)
        tale.add(30, "machine", "slow", seconds=5.0)
        assert "I11" in tale.broken()
        tale.add(5, "machine", "slow", seconds=1.1)
        assert "I11" not in tale.broken()

    def test_a_bill_for_what_never_ran_is_found(self, tale: Tale) -> None:
        tale.attempt("a2", "j", 2, launched_at=11.0, ended_at=14.0)
        tale.add(20, "database", "ledger", attempt="a2", pool="p", amount=AMOUNT, started_at=11.0, ended_at=14.0)
        assert "attempt 2 of job j ran 0.0 s and 3.0 s are billed" in tale.check().text()

    def test_one_that_was_killed_ran_until_its_next_sign_of_life_at_most(self, tale: Tale) -> None:
        tale.drop("payload", "stop")
        tale.change("database", "ledger", started_at=3.2, ended_at=10.0)  # 6.8 s; 5 s by the last word.
        assert tale.broken() == set()
        tale.change("database", "ledger", started_at=2.8)
        assert tale.broken() == {"I11"}

    def test_a_bill_beyond_the_end_is_found(self, tale: Tale) -> None:
        tale.change("database", "ledger", started_at=5.5, ended_at=10.5)
        assert tale.broken() == {"I6"}

    def test_what_ran_without_the_platform_having_noted_its_start_is_billed_too(self, tale: Tale) -> None:
        tale.change("database", "attempt", launched_at=None)
        assert "I6" not in tale.broken()


class TestI12:
    """Where an attempt went on, against what the one before had put in place."""

    @pytest.mark.parametrize("count", [3, 4])
    def test_an_attempt_goes_on_where_the_last_one_was_killed_at_its_rename(self, tale: Tale, count: int) -> None:
        tale.count("saving", 4, t=7)
        tale.count("restored", count, t=11, number=2)
        report = tale.check()
        assert report.of("I12") == []
        assert report.checked["I12"] == {"checkpoints": 1, "attempts that went on": 1}

    def test_an_attempt_that_began_at_nothing_is_found(self, tale: Tale) -> None:
        tale.count("restored", 0, t=11, number=2)
        assert "attempt 2 of job j began at 0, though 3 was in place" in tale.check().text()

    def test_an_attempt_that_began_at_an_older_checkpoint_is_found(self, tale: Tale) -> None:
        tale.count("saving", 4, t=7)
        tale.count("saved", 4, t=7)
        tale.count("restored", 3, t=11, number=2)
        assert "I12" in tale.broken()

    def test_an_attempt_that_began_at_what_was_never_written_is_found(self, tale: Tale) -> None:
        tale.count("restored", 5, t=11, number=2)
        assert "I12" in tale.broken()

    def test_an_attempt_that_began_with_a_half_written_checkpoint_is_found(self, tale: Tale) -> None:
        tale.count("restored", 3, t=11, number=2, half=True)
        assert "half-written" in tale.check().text()

    def test_a_loss_two_attempts_ago_is_found_and_told_once(self, tale: Tale) -> None:
        tale.count("restored", 0, t=11, number=2)
        tale.count("restored", 0, t=13, number=3)
        assert len(tale.check().of("I12")) == 1

    def test_a_first_attempt_that_found_something_is_found(self, tale: Tale) -> None:
        tale.records = [each for each in tale.records if each.event not in ("restored", "saving", "saved")]
        tale.count("restored", 7, t=4)
        assert "I12" in tale.broken()


class TestCounts:
    @pytest.mark.parametrize("kept", [-1, 0, 2])
    def test_a_number_of_jobs_that_is_not_that_of_the_rows_is_found(self, tale: Tale, kept: int) -> None:
        tale.change("database", "count", kept=kept)
        assert tale.broken() == {"I6"}

    def test_a_number_below_nothing_is_found_even_where_rows_agree(self, tale: Tale) -> None:
        tale.change("database", "count", kept=-1, counted=-1)
        assert tale.broken() == {"I6"}


class TestI9:
    @pytest.mark.parametrize(
        ("event", "change"),
        [
            ("audit", {"count": 2}),
            ("audit", {"verb": "job.edit"}),
            ("audit_chain", {"problems": ["7: changed"]}),
            ("audit_chain", {"unsealed": 1}),
            ("event", {"seq": None}),
            ("event", {"seq": 100}),
            ("log", {"lines": 9}),
            ("log", {"missing": [3]}),
            ("log", {"repeated": [3]}),
        ],
    )
    def test_what_is_not_complete_is_found(self, tale: Tale, event: str, change: dict[str, Any]) -> None:
        tale.change("database", event, **change)
        assert "I9" in tale.broken()

    def test_a_stop_without_its_audit_row_is_found(self, tale: Tale) -> None:
        tale.add(5, "client", "stop_acked", job="j", grace_seconds=9)
        assert "I9" in tale.broken()

    def test_a_stop_whose_answer_was_lost_has_a_row_or_none(self, tale: Tale) -> None:
        tale.add(5, "client", "stop_unknown", job="j")
        assert "I9" not in tale.broken()
        tale.add(20, "database", "audit", verb="job.stop", target="j", count=1)
        assert "I9" not in tale.broken()
        tale.add(20, "database", "audit", verb="job.stop", target="j", count=1)
        assert "I9" in tale.broken()

    def test_a_log_that_is_not_there_is_found(self, tale: Tale) -> None:
        tale.drop("database", "log")
        assert "I9" in tale.broken()


def test_a_history_survives_its_file_and_a_kill_in_the_middle_of_a_line(tale: Tale, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    file = HistoryFile(path)
    file.add_all(tale.records)
    file.close()
    with path.open("a") as open_file:
        open_file.write('{"t": 1, "sour')
    assert [record.line() for record in read_history(path)] == [record.line() for record in tale.records]


def test_the_program_says_what_it_found(tale: Tale, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    file = HistoryFile(path)
    file.add_all([*tale.records, Record(20, "database", "end", {})])
    assert main([str(path)]) == 0
    file.add(1, "client", "submit_acked", jobs=["gone"])
    file.close()
    assert main([str(path)]) == 1
    assert "I1 BROKEN" in capsys.readouterr().out


def test_a_record_that_is_not_understood_is_refused() -> None:
    with pytest.raises(BadHistory, match="no event client"):
        Record.from_line('{"t": 1, "source": "client", "event": "dreams"}')
    with pytest.raises(BadHistory, match="lacks number"):
        Record.from_line('{"t": 1, "source": "payload", "event": "start", "job": "j", "task": "t"}')
    with pytest.raises(BadHistory, match="not a record"):
        Record.from_line("nonsense")


def test_a_witness_tells_its_life_and_finds_a_second_attempt_beside_it(tmp_path: Path) -> None:
    def run(number: int, **given: Any) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "BERTH_JOB_ID": "j",
            "BERTH_ATTEMPT": str(number),
            "BERTH_ROLE": "worker",
            "BERTH_INDEX": "0",
        }
        command = witness_command(str(tmp_path), python=sys.executable, **given)
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)

    first = run(1, argv=["sleep", "600"])
    try:
        while not any(record.event == "beat" for record in payload_records(tmp_path)):
            assert first.poll() is None
        assert run(2, lines=250, code=3).wait(100) == 3
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # Whatever it started, too.
        first.wait()
    records = payload_records(tmp_path)
    assert [(record.event, record["number"]) for record in records if record.event != "beat"] == [
        ("start", 1), ("overlap", 2), ("start", 2), ("printed", 2), ("stop", 2),
    ]  # fmt: skip
    assert check(records).broken() == {"I2"}
    [printed] = [record for record in records if record.event == "printed"]  # The first one's beats may come after it.
    assert json.loads(printed.line())["lines"] == 250
