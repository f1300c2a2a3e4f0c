"""The core that is kept from pass to pass, and what was told to it.

`KeptCore` is made of what runs; who waits is handed in afterwards. It follows what is around the jobs - pools, nodes, limits,
budgets - by comparing what is with what was at the last look. Whatever goes wrong between the database and the core, the
database is right: it is thrown away and made anew. So it is too, once, whenever nothing has happened for a while and jobs wait:
its wake-ups are hints, and a job that a change failed to wake is found by looking at everything again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from jobs.lifecycle.states import AttemptState
from jobs.loading import memory
from jobs.loading.around import Around, Numbers, look_around
from jobs.loading.graces import graces_of
from jobs.loading.predictions import Predictions
from jobs.loading.reason_translation import ReasonTranslator
from jobs.loading.rows import LiveRow, load_live, load_parallelism, load_tasks, tenants_of
from jobs.loading.specs import wishes
from jobs.loading.state import make_state, one_held
from jobs.reconcile.event_log import EventLog
from jobs.reconcile.missed_wakeups import Rested, rested
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.eligibility import Refusal
from jobs.scheduling.core.place.machines import Machines, TaskAsk
from jobs.scheduling.core.snapshot import State
from jobs.scheduling.core.state import work
from jobs.scheduling.core.state.decisions import Decision, WaitReason
from jobs.scheduling.questions.records import Names, policy_version
from jobs.scheduling.replay.log import (
    BookingsChanged,
    CapsChanged,
    Ended,
    Event,
    LimitsChanged,
    MachineChanged,
    MixChanged,
    Resumed,
    Started,
    ToldToLeave,
    WeightsChanged,
    Withdrawn,
)
from jobs.selectors.reasons import others_in
from tenants.capacity.quota.accounting import mark

REST_SECONDS = 30  # Without any change for so long, jobs that wait are looked at by a core that is built anew.
TOLD_ANEW = 50  # Jobs that get another reason at once when the job that theirs names has started or ended.
REBUILD_REST = 40  # Building the core anew takes at most one part in so many of our time.


class KeptCore:
    """A core at work, what it was told, and what of it is told to people."""

    def __init__(
        self, state: State, around: Around, numbers: Numbers, live: Sequence[LiveRow], predictions: Predictions, now: datetime
    ) -> None:
        self._predictions = predictions
        self.log = EventLog(state, now)
        self.core: Core = self.log.core
        self.around = around
        self.numbers = numbers
        self.progress = ReasonTranslator(around, numbers, self._graces)
        queues = [str(queue_id) if queue_id is not None else "" for queue_id in numbers.queues]
        self.names = Names([pool.name for pool in around.pools], queues, policy_version(self.core))
        self.live = {str(row.job_id): row for row in live if str(row.job_id) in self.core.running}  # Whose attempts it knows.
        self.waiting: dict[str, work.JobAsk] = {}  # As the core has them.
        self.withheld: dict[str, Refusal] = {}
        self.told: dict[str, WaitReason | None] = {}  # Why each waits, as it was told last.
        self.to_judge: set[uuid.UUID] = set()
        self.to_tell: set[str] = set()
        self._told_of: dict[str, set[str]] = {}  # By job that reasons name, jobs that were told so.
        self.due: list[tuple[datetime, uuid.UUID]] = []  # A heap of those who wait for a time.
        self.judged_by: object = None  # What the waiting jobs were last judged by.
        self.held: frozenset[str] = frozenset()  # Images and data that some machine has, when they were last judged.
        # What was under way before a change of leaders, for those who still wait.
        self.resumed: Resumed | None = Resumed(
            tuple(held for held in state.running if held.leaving_for), state.reserved, state.claims
        )
        self.rests = False  # Nothing has happened for a while, and the last pass found nothing to do.
        self._stirred_at: int | None = None  # When something happened last that the core was told of; None: since it was built.
        self._building_seconds = 0.0
        self._saved_at = mark(now)  # When what it remembers was kept last.
        self._under_way = memory.under_way_of(self.core)  # As it was kept then.

    @classmethod
    def build(
        cls, around: Around | None, known: memory.Memory, had: Collection[LiveRow], predictions: Predictions, now: datetime
    ) -> Self:
        """A core of what runs, with what the one before it remembered and `had` running. `around` None: it is looked at now."""
        began = time.thread_time()
        live = load_live()
        predictions.has_ended(had, still={row.attempt_id for row in live})
        if around is None:
            around = look_around(now, tenants_of(live))
        numbers = around.numbers()
        state = make_state(around, numbers, (), live, load_parallelism((), live), now, known)
        made = cls(state, around, numbers, live, predictions, now)
        made._under_way = known.under_way
        made._building_seconds = time.thread_time() - began
        return made

    def feed(self, event: Event) -> tuple[Decision, ...]:
        """Tell the core what happened; what it decided where that was a pass."""
        return self.log.tell(event)

    def close(self) -> None:
        self.log.close()

    # --- Jobs ---------------------------------------------------------------------------------------------------------

    def compare(self, job_id: uuid.UUID, runs: LiveRow | None) -> None:
        """The attempt of this job is `runs` now: the one that was known has ended if it is another, or was told to leave."""
        key = str(job_id)
        known = self.live.get(key)
        if known is not None and (runs is None or runs.attempt_id != known.attempt_id):
            self._predictions.has_ended((self.live.pop(key),))
            self._moved_on(key)
            if key in self.core.running:
                self.feed(Ended(key))
        elif known is not None and runs is not None and runs.state == AttemptState.STOPPING:
            self.feed(ToldToLeave(key))

    def begin(self, rows: Sequence[LiveRow]) -> None:
        """What runs and was not admitted by this core: adopted, or admitted by the leader before."""
        if not rows:
            return
        tasks = load_tasks([row.attempt_id for row in rows])
        bounds, asked = load_parallelism((), rows), wishes({row.spec_id for row in rows})
        for row in rows:
            devices = _Fullest(self.core.machines)
            held = one_held(
                row, tasks.get(row.attempt_id, ()), asked.get(row.spec_id), self.numbers, devices, bounds,
                self.around.tenant_paths,
            )  # fmt: skip
            devices.undo()
            key = str(row.job_id)
            if held is None or key in self.core.running:
                continue
            self.feed(Started(held.job, held.placed, held.started_at, held.need))
            self.live[key] = row
            if held.leaving:
                self.feed(ToldToLeave(key))

    def drop(self, job_id: uuid.UUID) -> None:
        """It waits no longer."""
        self.to_judge.discard(job_id)
        key = str(job_id)
        if self.waiting.pop(key, None) is not None and key not in self.live:
            self.feed(Withdrawn(key))
        self.withheld.pop(key, None)
        self.told.pop(key, None)
        self.to_tell.discard(key)
        self._moved_on(key)

    def note_others(self, key: str, reason: Refusal) -> None:
        """A job was told a reason: once a job that it names has moved on, the first of those that were told so are told anew."""
        for other in others_in(reason[1]):
            told = self._told_of.setdefault(other, set())
            if len(told) < TOLD_ANEW:
                told.add(key)

    def _moved_on(self, key: str) -> None:
        self.to_tell |= self._told_of.pop(key, set())

    # --- What is around the jobs --------------------------------------------------------------------------------------

    def is_to_be_built_anew(self, around: Around, now: datetime, *, have_changes_come: bool) -> bool:
        """Whether things came or went that it has numbered, it has come to rest, or its log is full."""
        return (
            _is_of_other_parts(self.around, around)
            or (not have_changes_come and self._has_come_to_rest())
            or self.log.is_full(now)
        )

    def follow(self, around: Around) -> None:
        """Tell the core what changed around the jobs."""
        before, core = self.around, self.core
        if around.machines != before.machines:
            for was, machine in zip(before.machines, around.machines, strict=True):
                if was != machine:
                    self.feed(MachineChanged(machine))
        for pool, rules in around.rules.items():
            if rules is not before.rules.get(pool):
                self.feed(MixChanged(pool, rules.mix))
                if rules.weights != before.rules[pool].weights:
                    self.feed(WeightsChanged(pool, rules.weights))
        if around.queues != before.queues or around.capacities != before.capacities:
            self.feed(LimitsChanged(around.queues, around.capacities))
        if around.caps != before.caps:
            self.feed(CapsChanged(around.caps))
        if around.bookings != before.bookings:
            self.feed(BookingsChanged(around.bookings))
        if around.rules != before.rules:
            self.names = replace(self.names, policy=policy_version(core))
        if around.machines != before.machines or around.queues != before.queues:
            self.progress = ReasonTranslator(around, self.numbers, self._graces)
        self.around = around

    def _graces(self, job_ids: Collection[str]) -> dict[str, int]:
        """How long those who leave may take, in seconds by job."""
        return graces_of([self.live[job_id] for job_id in job_ids if job_id in self.live])

    def _has_come_to_rest(self) -> bool:
        """Whether jobs wait though nothing has happened for a while, and the last pass found nothing to do: then all of them are
        looked at anew, once.

        Not while a job was promised the room of leaving jobs: the end of their leaving is something that happens.
        """
        return self.rests and bool(self.waiting) and not self.core.transfers

    def asked_once_more(self, around: Around, now: datetime) -> Rested | None:
        """What it decides at this moment, before it is replaced because it has come to rest; None where it is for another reason.
        It is of no use afterwards: its decisions are not carried out."""
        if not self._has_come_to_rest() or _is_of_other_parts(self.around, around) or self.log.is_full(now):
            return None
        self.follow(around)
        return rested(self.core.decide(mark(now)), self.waiting)

    # --- After a pass -------------------------------------------------------------------------------------------------

    def note_rest(self, now: datetime, *, stirred: bool) -> None:
        """Whether something happened in this pass or before it."""
        if stirred:
            self._stirred_at = mark(now)
        rest_seconds = max(REST_SECONDS, self._building_seconds * REBUILD_REST)
        self.rests = self._stirred_at is not None and mark(now) - self._stirred_at >= rest_seconds

    def save(self, now: datetime) -> None:
        """Keep what it remembers: now and then, and at once where a start was reserved or claimed, or is not any more."""
        under_way = memory.under_way_of(self.core)
        if under_way != self._under_way or mark(now) - self._saved_at >= memory.SAVE_SECONDS:
            memory.save(memory.remember(self.core), now=now)
            self._saved_at, self._under_way = mark(now), under_way


def _is_of_other_parts(before: Around, after: Around) -> bool:
    """Whether pools, machines or queues came or went, or what quarantine holds."""
    if before.holds.allocated != after.holds.allocated or _said(before) != _said(after):
        return True
    if len(before.machines) != len(after.machines) or len(before.queues) != len(after.queues):
        return True
    return (
        [pool.id for pool in before.pools] != [pool.id for pool in after.pools]
        or any(
            (machine.pool, machine.name) != (other.pool, other.name)
            for machine, other in zip(before.machines, after.machines, strict=True)
        )
        or any(
            (queue.id, queue.parent_id, queue.name) != (other.id, other.parent_id, other.name)
            for queue, other in zip(before.queues, after.queues, strict=True)
        )
    )


def _said(around: Around) -> dict[int, tuple[object, ...]]:
    """How pools are filled, but for what changes while the core goes on: mixes and weights."""
    return {pool: rules.said for pool, rules in around.rules.items()}


class _Fullest:
    """Hands out the devices that the core itself would take."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._taken: list[tuple[int, TaskAsk, tuple[int, ...]]] = []

    def next(self, machine: int, ask: TaskAsk, names: tuple[str, ...] = ()) -> tuple[int, ...]:
        devices = self._machines.take(machine, ask)
        self._taken.append((machine, ask, devices))
        return devices

    def undo(self) -> None:
        for machine, ask, devices in reversed(self._taken):
            self._machines.give(machine, ask, devices)
