"""Whether a platform comes to rest once everything is healed; and if it does not, what keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from tests.builders.live import LivePlatform

STILL_SECONDS = 120.0  # Longer than any lease, sweep or pause of a round: what has not moved by then will not.
LOOK_SECONDS = 0.3
SHOWN = 10


@dataclass(frozen=True)
class Look:
    """What is not at rest yet, and how many changes of state were written so far."""

    left: Mapping[str, int]
    changes: int

    @property
    def is_rest(self) -> bool:
        return not any(self.left.values())

    def __str__(self) -> str:
        return ", ".join(f"{number} {what}" for what, number in self.left.items() if number)


def look(platform: LivePlatform) -> Look:
    sql = (
        "SELECT (SELECT count(*) FROM jobs_job WHERE state NOT IN ('succeeded', 'failed', 'stopped')),"
        " (SELECT count(*) FROM jobs_attempt WHERE NOT forgotten),"
        " (SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL),"
        " (SELECT count(*) FROM activity_event WHERE seq IS NULL) + (SELECT count(*) FROM activity_auditevent WHERE seq IS NULL),"
        " (SELECT count(*) FROM reconciling_transition)"
    )
    try:
        [(jobs, attempts, reservations, events, changes)] = platform.rows(sql)
    except psycopg.OperationalError:  # It has just been started again.
        jobs, attempts, reservations, events, changes = 1, 1, 1, 1, 0
    objects = len(list(platform.data_dir.glob("engine/*/attempts/*")))
    left = {
        "jobs": jobs, "attempts": attempts, "reservations": reservations, "events without a number": events,
        "objects of the engine": objects,
    }  # fmt: skip
    return Look(left, changes)


def stuck(platform: LivePlatform) -> list[str]:
    """The rows that are not at rest, in words."""
    jobs = platform.rows(
        "SELECT id, state, desired, hold, reason_code FROM jobs_job WHERE state NOT IN ('succeeded', 'failed', 'stopped')"
        f" ORDER BY id LIMIT {SHOWN}"
    )
    attempts = platform.rows(
        "SELECT job_id, number, state, outcome, stop_cause, condition, tries, last_error, due_at, lease_expires_at,"
        f" logs_stored, outputs_stored FROM jobs_attempt WHERE NOT forgotten ORDER BY id LIMIT {SHOWN}"
    )
    return [
        *(
            f"job {job}: {state}, to {desired}{', held' * hold}, {reason or 'no reason'}"
            for job, state, desired, hold, reason in jobs
        ),
        *(
            f"attempt {number} of job {job}: {state} {outcome} {cause} {condition}, {tries} tries {error}, due {due},"
            f" leased until {lease}, logs {'' if logs else 'not '}stored, outputs {'' if outputs else 'not '}stored"
            for job, number, state, outcome, cause, condition, tries, error, due, lease, logs, outputs in attempts
        ),
    ]  # fmt: skip


def wait_for_rest(
    look: Callable[[], Look],
    stuck: Callable[[], Sequence[str]],
    *,
    seconds: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until nothing is left, at most `seconds`, and no longer than anything changes; what is wrong, empty for rest."""
    began = changed_at = clock()
    last: Look | None = None
    while not (found := look()).is_rest:
        say(f"Waiting for rest: {found}")
        now = clock()
        if found != last:
            last, changed_at = found, now
        if now - began > seconds or now - changed_at > STILL_SECONDS:
            what = (
                f"nothing changed for {STILL_SECONDS:.0f} s" if now - began <= seconds else f"not at rest after {seconds:.0f} s"
            )
            return f"{what} once everything was healed: {found}; {'; '.join(stuck())}"
        pause(LOOK_SECONDS)
    return ""
