from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskName
from jobs import bounds
from jobs.lifecycle.exit_classes import Payer
from jobs.lifecycle.exits import EndedTask, ExitVerdict, classify
from jobs.lifecycle.retry import PastAttempt, RetrySettings, decide_retry, payer_of
from jobs.spec import parse_spec

START = datetime(2027, 1, 1, tzinfo=UTC)
ATTEMPT = uuid.UUID(int=7)
SETTINGS = RetrySettings()


def verdict_of(**values: object) -> ExitVerdict:
    stop = values.pop("stop", None)
    return classify([EndedTask(TaskName("worker", 0), TaskExit(**{"code": None, **values}))], stop_cause=stop)


USER = verdict_of(code=1)
NEVER = verdict_of(code=127)
OOM = verdict_of(code=137, reason=ExitReason.OOM)
PLATFORM = verdict_of(reason=ExitReason.NODE_LOST)
UNKNOWN = verdict_of(code=137)
HANG = classify(engine_code="hang")
PREEMPTED = verdict_of(code=0, stop=StopCause.PREEMPTED)
STOPPED = verdict_of(code=0, stop=StopCause.USER)
DEADLINE = verdict_of(code=0, stop=StopCause.DEADLINE)


def past(*classes: str, every_seconds: float = 3600) -> list[PastAttempt]:
    return [PastAttempt(name, START + timedelta(seconds=every_seconds * number)) for number, name in enumerate(classes)]


def policy(**retry: object):
    return parse_spec({"command": "x", "retry": retry}).retry


def decide(verdict: ExitVerdict, history: list[PastAttempt] | None = None, retry=None, settings: RetrySettings = SETTINGS):
    return decide_retry(retry, history or past(verdict.failure_class), verdict, settings, attempt_id=ATTEMPT)


@pytest.mark.parametrize("verdict", [verdict_of(code=0), STOPPED, DEADLINE, NEVER])
def test_some_ends_are_never_tried_again_whatever_the_job_asks(verdict):
    assert not decide(verdict, retry=policy(limit=19)).retry


@pytest.mark.parametrize("verdict", [USER, OOM])
def test_users_failures_are_tried_again_only_if_the_job_asks(verdict):
    assert decide(verdict).reason == "retry_not_asked"
    assert decide(verdict, retry=policy(limit=1)).retry
    assert not decide(verdict, retry=policy(limit=1, on=["platform"])).retry


def test_a_retry_limit_is_the_number_of_further_attempts():
    ask = policy(limit=2, on=["user"])
    assert [decide(USER, past(*["user"] * count), ask).retry for count in (1, 2, 3, 4)] == [True, True, False, False]
    assert decide(USER, past("user", "user", "user"), ask).reason == "retries_exhausted"


def test_the_classes_a_job_names_share_its_limit():
    ask = policy(limit=2)
    assert not decide(USER, past("user", "platform", "user"), ask).retry
    assert not decide(PLATFORM, past("user", "platform", "platform"), ask).retry


def test_classes_that_a_job_does_not_name_keep_the_operators_budget():
    ask = policy(limit=1, on=["user"])
    assert decide(PLATFORM, past("user", "platform", "platform"), ask).retry


def test_a_limit_of_zero_means_no_retry_at_all():
    for verdict in (USER, OOM, PLATFORM, UNKNOWN, HANG):
        assert not decide(verdict, retry=policy(limit=0)).retry


@pytest.mark.parametrize(("verdict", "budget"), [(PLATFORM, 5), (UNKNOWN, 3), (HANG, 2)])
def test_operators_budgets_are_bounded(verdict, budget):
    name = verdict.failure_class
    answers = [decide(verdict, past(*[name] * count)).retry for count in range(1, budget + 3)]
    assert answers == [True] * budget + [False, False]


def test_budgets_of_different_classes_do_not_mix():
    assert decide(PLATFORM, past("unknown", "unknown", "unknown", "platform")).retry


def test_the_hard_ceiling_holds_whatever_the_budgets():
    generous = RetrySettings(platform_max=1000)
    assert decide(PLATFORM, past(*["platform"] * 19), settings=generous).retry
    decision = decide(PLATFORM, past(*["platform"] * bounds.ATTEMPTS_PER_JOB), settings=generous)
    assert (decision.retry, decision.reason) == (False, "attempts_exhausted")


def test_preemption_counts_nowhere():
    pushed = ["preempted"] * 50
    assert decide(PREEMPTED, past(*pushed)).retry
    assert decide(PLATFORM, past(*pushed, "platform")).retry
    assert decide(PREEMPTED, past(*pushed), policy(limit=0)).retry
    assert decide(PREEMPTED).paid_by == ""
    assert payer_of(decide(PREEMPTED), PREEMPTED) is Payer.NOBODY


def test_a_job_pushed_around_too_often_waits():
    assert decide(PREEMPTED, past(*["preempted"] * 9, every_seconds=60)).after_seconds == 0
    decision = decide(PREEMPTED, past(*["preempted"] * 10, every_seconds=60))
    assert decision.reason == "preempted_often"
    assert decision.after_seconds >= 0.8 * SETTINGS.backoff_seconds_max


@pytest.mark.capability("57", "An evicted job goes back to the queue, and no retry is spent")
def test_an_eviction_goes_back_to_the_queue_without_being_paid():
    decision = decide(verdict_of(reason=ExitReason.EVICTED), past("preempted"))
    assert (decision.retry, decision.paid_by, decision.after_seconds) == (True, "", 0)


def test_waits_double_up_to_the_longest():
    waits = [
        decide(PLATFORM, past(*["platform"] * count), settings=RetrySettings(platform_max=19)).after_seconds
        for count in range(1, 15)
    ]
    spread = waits[0] / SETTINGS.backoff_seconds
    assert 0.8 <= spread <= 1
    assert [round(wait / spread) for wait in waits[:8]] == [5, 10, 20, 40, 80, 160, 320, 600]
    assert max(waits) <= SETTINGS.backoff_seconds_max


def test_the_spread_of_waits_is_fixed_by_the_attempt():
    def wait(number: int) -> float:
        return decide_retry(None, past("platform"), PLATFORM, SETTINGS, attempt_id=uuid.UUID(int=number)).after_seconds

    assert wait(1) == wait(1)
    assert len({wait(number) for number in range(50)}) == 50


def test_a_crash_loop_waits_its_longest():
    loop = past("unknown", "unknown", "unknown", every_seconds=10)
    assert decide(UNKNOWN, loop).after_seconds >= 0.8 * SETTINGS.backoff_seconds_max
    slow = past("unknown", "unknown", "unknown", every_seconds=200)
    assert decide(UNKNOWN, slow).after_seconds <= 20


@pytest.mark.capability("57", "What a lost machine ended is tried again, and no retry of the user is spent")
def test_who_pays_is_named():
    assert decide(PLATFORM).paid_by == "platform"
    assert payer_of(decide(PLATFORM), PLATFORM) is Payer.PLATFORM
    assert payer_of(decide(USER), USER) is Payer.USER
