"""The scheduler: one leader by lease, any number of standbys; and the sequencer that numbers committed events."""

from __future__ import annotations

import threading

from activity import hints
from activity.sequencer import sequence
from controlplane.processes.leader import Leader
from controlplane.processes.loops import Loop
from jobs.reconcile.driver import SchedulerDriver
from kernel.clock import database_now
from kernel.config import current

STANDBY_SECONDS = 1.0
IDLE_SECONDS = 1.0  # Without a hint, look again this soon.
# A look costs the same for one new job and for fifty. The first after a pause waits for nothing.
GATHER_SHARE = 4.0  # Busy, it works a fifth of the time at most, and leaves the rest to other processes.
GATHER_SECONDS = 0.05
GATHER_SECONDS_EVENTS = 0.02


def loops() -> list[Loop]:
    """The scheduler's loops; hints wake them."""
    return [_scheduling_loop(), _sequencing_loop()]


def _scheduling_loop() -> Loop:
    leader = Leader("scheduler")
    driver = SchedulerDriver()

    def step(stop: threading.Event) -> float:
        if not leader.holds():
            driver.forget()
            return STANDBY_SECONDS
        with leader.working():
            wait = driver.run()
        loop.gather_share = GATHER_SHARE if not driver.has_admitted else 1.0  # While there is room, it is not kept waiting.
        return min(wait, IDLE_SECONDS, current().leadership_seconds / 4)  # In time to renew the lease.

    loop = Loop(
        "scheduler",
        step,
        topics=(hints.SEQUENCED, "capacity", "scheduler"),
        gather_seconds=GATHER_SECONDS,
        gather_share=GATHER_SHARE,
        finally_=leader.resign,
    )
    return loop


def _sequencing_loop() -> Loop:
    def step(stop: threading.Event) -> float:
        numbered = sequence(database_now())
        return 0.0 if numbered else IDLE_SECONDS

    return Loop("sequencer", step, topics=(hints.EVENTS,), gather_seconds=GATHER_SECONDS_EVENTS)
