"""Keeps the scheduler's state up to date, asks it for decisions, and applies them.

`Core` has the state: what waits, what runs, machines, quotas. The driver feeds it from the database: changed jobs by the `seq` of
their events, and everything around them - pools, nodes, limits, budgets - by comparing what is with what was at the last look.
A sweep reads all jobs and proves that nothing was missed. What a pass costs goes with what changed.

Whatever goes wrong between the database and the core, the database is right: the core is thrown away and made anew. So it is too,
once, whenever nothing has happened for a while and jobs wait: its wake-ups are hints, and a job that a change failed to wake is
found by looking at everything again.
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from activity.selectors import changed_subjects
from activity.sequencer import last_seq
from images.lifecycle import ImageState
from images.services import ResolvedImage, resolved_images
from jobs.lifecycle.states import AttemptState
from jobs.loading import memory
from jobs.loading.predictions import Predictions
from jobs.loading.specs import load_spec, wish_of, wishes
from jobs.loading.state import (
    MOVING,
    SCHEDULE,
    Around,
    Judge,
    LiveRow,
    Numbers,
    PendingRow,
    Shared,
    digest_of,
    load_live,
    load_parallelism,
    load_pending,
    load_tasks,
    load_volumes,
    look_around,
    make_state,
    one_held,
    tenants_of,
    volumes_of,
)
from jobs.reconcile import demand, poisoned_jobs
from jobs.reconcile.admit import Admission, Eviction, Placement, admit, evict, store_reasons
from jobs.reconcile.event_log import EventLog
from jobs.reconcile.measuring import MIX_SECONDS, count_mixes, measure_pools
from jobs.reconcile.reason_translation import ReasonTranslator
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.eligibility import Refusal, Wish
from jobs.scheduling.core.place.machines import Machines, TaskAsk
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.core.state import work
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reason, Wait
from jobs.scheduling.questions.records import CLAIM, REFUSE, Names, policy_version, records_of
from jobs.scheduling.replay.log import (
    CapsChanged,
    Checkpointed,
    Decided,
    Ended,
    Event,
    LimitsChanged,
    MachineChanged,
    MixChanged,
    Resumed,
    Started,
    Submitted,
    ToldToLeave,
    WeightsChanged,
    WindowsChanged,
    Withdrawn,
)
from jobs.services.decision_records import DecisionRow, record_decisions
from jobs.services.unstartable import fail_unstartable
from kernel.clock import database_now
from kernel.config import current
from kernel.resources import Resources
from reconciling import poison
from storage.selectors import checkpoint_times
from tenants.quota.accounting import mark

log = structlog.get_logger("scheduler")

FULL_LOAD_REST = 40  # A full load takes at most one part in so many of our time, however many wait.
FULL_LOAD_ROWS = 20_000  # From so many changed jobs on, reading all that wait is no dearer than picking out these.
AGAIN_SECONDS = 0.05  # After a pass that failed at one job, or a race that was lost: the others wait no longer for it.
LOOK_SECONDS = 1.0
REST_SECONDS = 30  # Without any change for so long, jobs that wait are looked at by a core that is built anew.
REBUILD_REST = 40  # Building the core anew takes at most one part in so many of our time.
IDLE_LOOK_SECONDS = 10.0  # While nobody waits; bookings are cleared half a minute before they begin.


class SchedulerDriver:
    """One per process; only the leader's is used."""

    pending: dict[uuid.UUID, PendingRow]

    _log: EventLog | None = None

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop everything: a new leader starts from the database."""
        self.pending = {}
        self.has_admitted = False  # In its last run.
        self._images: Counter[uuid.UUID] = Counter()  # How many of those who wait refer to each.
        self._bounds: dict[uuid.UUID, int | None] = {}  # How many children of an array run at once, by array.
        self._wishes: dict[uuid.UUID, Wish] = {}  # By stored spec.
        self._volumes: dict[tuple[uuid.UUID, str], uuid.UUID | None] = {}  # That jobs mount, by tenant and name.
        self._shared: Shared = {}
        self._predictions = Predictions()
        self._stale: set[uuid.UUID] = set()  # To be read again, whatever events say.
        self._cursor: int | None = None
        self._full_load_at = 0.0
        self._looked_at = time.monotonic()  # Around, the last time.
        self._demand_at: int | None = None  # Up to when what waits was written down; None: nobody waited.
        self._measured_at = self._mixed_at = self._saved_looked_at = 0
        self._lost: frozenset[uuid.UUID] = frozenset()  # In the last pass. Who loses twice in a row has lost no race.
        self._has_changed = False  # Since the last pass.
        self._rests = False  # Nothing has happened for a while, and the last pass found nothing to do.
        self._stirred_at: int | None = None  # When something happened last that the core was told of; None: since it was built.
        self._building_seconds = 0.0  # How long building the core took the last time.
        self._forget_core()

    def _forget_core(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None
        self._core: Core | None = None
        self._around: Around | None = None
        self._numbers: Numbers | None = None
        self._teller: ReasonTranslator | None = None
        self._saved_at = 0  # When what it remembers was kept last.
        self._under_way = memory.UnderWay()  # As it was kept then.
        self._resumed: Resumed | None = None  # What was under way before a change of leaders, for those who still wait.
        self._judged_by: object = None  # What the waiting jobs were last judged by.
        self._held: frozenset[str] = frozenset()  # Images and data that some machine has, when they were last judged.
        self._known_images: Mapping[uuid.UUID, ResolvedImage] = {}
        self._waiting: dict[str, work.Job] = {}  # As the core has them.
        self._withheld: dict[str, Refusal] = {}
        self._told: dict[str, Reason | None] = {}  # Why each waits, as it was told last.
        self._names: Names | None = None
        self._live: dict[str, LiveRow] = {}  # The attempts of which the core knows that they run.
        self._to_judge: set[uuid.UUID] = set()
        self._to_tell: set[str] = set()
        self._due: list[tuple[datetime, uuid.UUID]] = []  # A heap of those who wait for a time.

    def run(self, *, now: datetime | None = None) -> float:
        """Take in changes and decide; seconds until it is worth looking again.

        Without `now`, the time is read once changes have been taken in: nothing starts before it came.
        """
        self.has_admitted = False
        try:
            self._take_in_changes()
            now = database_now() if now is None else now
            wait = self._decide(now)
        except Exception as error:  # One waiting job must not keep all others waiting: find it, and go on without it.
            self._forget_core()
            if poison.is_infrastructure(error) or not self._sift(list(self.pending.values()), now or database_now()):
                raise
            return AGAIN_SECONDS
        self._measure(now)
        return wait

    def _decide(self, now: datetime) -> float:
        if not self.pending:
            self._demand_at = None
            if not self._has_plans():
                return LOOK_SECONDS
        self._looked_at = time.monotonic()
        return self._pass(now)

    def _measure(self, now: datetime) -> None:
        """Tell how pools are filled, and count again what they usually get, when it is time."""
        core, around = self._core, self._around
        if core is None or around is None:
            return
        if mark(now) - self._mixed_at >= MIX_SECONDS:
            self._mixed_at = mark(now)
            count_mixes(now)
        if mark(now) - self._measured_at >= current().telemetry_seconds:
            self._measured_at = mark(now)
            measure_pools(core, around, now)

    def _has_plans(self) -> bool:
        """Whether there is something to do though nobody waits: room to be cleared for a booking, now or before long."""
        core = self._core
        if core is not None and (core.transfers or core.windows):
            return True
        return time.monotonic() - self._looked_at >= IDLE_LOOK_SECONDS

    # --- What happened ------------------------------------------------------------------------------------------------

    def _take_in_changes(self) -> None:
        if self._cursor is None or time.monotonic() >= self._full_load_at:
            self._load_everything()
            return
        changed, cursor = self._stale, self._cursor  # What is not taken in, because reading fails, stays stale.
        while True:
            more, cursor_after = changed_subjects("job", after=cursor)
            if cursor_after == cursor:
                break
            changed |= more
            cursor = cursor_after
            if len(changed) > FULL_LOAD_ROWS:
                self._load_everything()
                return
        self._cursor = cursor
        self._has_changed |= bool(changed)
        for ids in _batches(sorted(changed)):
            fresh = {row.id: row for row in self._predictions.predict(load_pending(self._shared, id__in=ids))}
            live = {row.job_id: row for row in load_live(job_id__in=ids)} if self._core is not None else {}
            self._take_in(ids, fresh, live)
            self._stale.difference_update(ids)

    def _load_everything(self) -> None:
        """Read all jobs that wait or run, and take in whatever events did not tell of."""
        began, is_first, self._full_load_at = time.thread_time(), not self._full_load_at, 0.0  # Until it is done, it is due.
        self._cursor = last_seq()  # Read before the rows: a change in between is then seen twice, never missed.
        self._shared = {}
        fresh = {row.id: row for row in self._predictions.predict(load_pending(self._shared))}
        live = {row.job_id: row for row in load_live()} if self._core is not None else {}
        known = {row.job_id for row in self._live.values()}
        differ = {
            job_id for job_id in fresh.keys() | self.pending.keys() if not _is_same(fresh.get(job_id), self.pending.get(job_id))
        }
        differ |= known ^ live.keys() if self._core is not None else set()
        differ |= self._stale  # Whose start was lost: nothing about them need have changed, and the core does not have them.
        if not is_first and (fresh.keys() != self.pending.keys() or (self._core is not None and known != live.keys())):
            log.info("full_load_differs", kept=len(self.pending), found=len(fresh), running=len(known), run=len(live))
        self._stale = set()
        self._has_changed |= bool(differ)
        self._take_in(sorted(differ), fresh, live)
        used = {row.spec_id for row in fresh.values()}
        self._wishes = {spec_id: wish for spec_id, wish in self._wishes.items() if spec_id in used}
        self._read_volumes_again()
        parents = {row.parent_id for row in fresh.values()}
        self._bounds = {parent: bound for parent, bound in self._bounds.items() if parent in parents}
        # Waiting for a database is no work: it must not keep the next sweep away.
        self._full_load_at = time.monotonic() + max(current().sweep_seconds, (time.thread_time() - began) * FULL_LOAD_REST)

    def _read_volumes_again(self) -> None:
        """Names of volumes may mean others by now; who mounts some is judged again if they do."""
        known, wishes_of = self._volumes, self._wishes
        mounting = [row for row in self.pending.values() if row.spec_id in wishes_of and wishes_of[row.spec_id].mounts]
        self._volumes = load_volumes(((row, wishes_of[row.spec_id]) for row in mounting), {})
        if any(known.get(name) != volume for name, volume in self._volumes.items()):
            self._to_judge.update(row.id for row in mounting)

    def _take_in(
        self, ids: Iterable[uuid.UUID], fresh: Mapping[uuid.UUID, PendingRow], live: Mapping[uuid.UUID, LiveRow]
    ) -> None:
        """Bring the core up to what the database says of these jobs: first what ended, then what runs, then what waits."""
        began: list[LiveRow] = []
        for job_id in ids:
            key, runs, row = str(job_id), live.get(job_id), fresh.get(job_id)
            if self._core is not None:
                known = self._live.get(key)
                if known is not None and (runs is None or runs.attempt_id != known.attempt_id):
                    self._end(key)
                if runs is not None and key not in self._live:
                    began.append(runs)
                elif runs is not None and runs.state == AttemptState.STOPPING:
                    self._feed(ToldToLeave(key))
            if row is not None:
                self._put(row)
            else:
                self._drop(job_id)
        self._begin(began)

    def _end(self, key: str) -> None:
        self._predictions.has_ended((self._live.pop(key),))
        if self._core is not None and key in self._core.running:
            self._feed(Ended(key))

    def _begin(self, rows: Sequence[LiveRow]) -> None:
        """What runs and was not admitted by this core: adopted, or admitted by the leader before."""
        if not rows or self._core is None or self._numbers is None or self._around is None:
            return
        tasks = load_tasks([row.attempt_id for row in rows])
        bounds, asked = load_parallelism((), rows), wishes({row.spec_id for row in rows})
        for row in rows:
            devices = _Fullest(self._core.machines)
            held = one_held(
                row, tasks.get(row.attempt_id, ()), asked.get(row.spec_id), self._numbers, devices, bounds,
                self._around.tenant_paths,
            )  # fmt: skip
            devices.undo()
            key = str(row.job_id)
            if held is None or key in self._core.running:
                continue
            self._feed(Started(held.job, held.placed, held.started_at, held.need))
            self._live[key] = row
            if held.leaving:
                self._feed(ToldToLeave(key))

    def _put(self, row: PendingRow) -> None:
        old = self.pending.get(row.id)
        if old is None or old.image_id != row.image_id:
            self._count_image(old, -1)
            self._count_image(row, 1)
        self.pending[row.id] = row
        self._to_judge.add(row.id)

    def _drop(self, job_id: uuid.UUID) -> None:
        """It waits no longer."""
        self._count_image(self.pending.pop(job_id, None), -1)
        self._to_judge.discard(job_id)
        key = str(job_id)
        if self._waiting.pop(key, None) is not None and self._core is not None and key not in self._live:
            self._feed(Withdrawn(key))
        self._withheld.pop(key, None)
        self._told.pop(key, None)
        self._to_tell.discard(key)

    def _count_image(self, row: PendingRow | None, step: int) -> None:
        if row is not None and row.image_id is not None:
            self._images[row.image_id] += step
            if not self._images[row.image_id]:
                del self._images[row.image_id]

    # --- What is around -----------------------------------------------------------------------------------------------

    def _pass(self, now: datetime) -> float:
        images = resolved_images(set(self._images))
        self._fail_without_image(images, now)
        around = look_around(now, tenants_of(self._live.values()))
        struck = self._struck(now)
        core = self._follow(around, now)
        self._held, had = frozenset(core.machines.holders), self._held
        judge = Judge(around, self._expect_numbers(), images, struck, self._parallelism(), now, self._held, self._volumes)
        self._judge_near(self._held ^ had, images)
        self._judge(judge, core)
        self._tell_saved(now)
        began = time.monotonic()
        decisions = self._feed(Decided(mark(now)))
        lost = self._apply(decisions, core, now)
        self._save(core, now)
        self._demand_at = demand.keep(core, self._expect_numbers(), since=self._demand_at, now=mark(now))
        if self.has_admitted or lost:
            log.info(
                "pass", waiting=len(self.pending), decisions=len(decisions), lost=len(lost),
                seconds=round(time.monotonic() - began, 4),
            )  # fmt: skip
        is_race, self._lost = bool(lost - self._lost), lost
        return AGAIN_SECONDS if is_race else self._next_look(core, now)

    def _feed(self, event: Event) -> tuple[Decision, ...]:
        """Tell the core what happened; what it decided where that was a pass."""
        assert self._log is not None
        return self._log.tell(event)

    def _save(self, core: Core, now: datetime) -> None:
        """Keep what it remembers: now and then, and at once where a start was booked or claimed, or is not any more."""
        under_way = memory.under_way_of(core)
        if under_way != self._under_way or mark(now) - self._saved_at >= memory.SAVE_SECONDS:
            memory.save(memory.remember(core), now=now)
            self._saved_at, self._under_way = mark(now), under_way

    def _follow(self, around: Around, now: datetime) -> Core:
        """Tell the core what changed around the jobs; make it anew where things came or went that it has numbered."""
        before, core = self._around, self._core
        if core is None or before is None or self._is_of_other_parts(before, around) or self._has_come_to_rest(core):
            return self._build(around, now)
        if self._log is not None and self._log.is_full(now):
            return self._build(around, now)
        if around.machines != before.machines:
            for was, machine in zip(before.machines, around.machines, strict=True):
                if was != machine:
                    self._feed(MachineChanged(machine))
        for pool, rules in around.rules.items():
            if rules is not before.rules.get(pool):
                self._feed(MixChanged(pool, rules.mix))
                if rules.weights != before.rules[pool].weights:
                    self._feed(WeightsChanged(pool, rules.weights))
        if around.queues != before.queues or around.capacities != before.capacities:
            self._feed(LimitsChanged(around.queues, around.capacities))
        if around.caps != before.caps:
            self._feed(CapsChanged(around.caps))
        if around.windows != before.windows:
            self._feed(WindowsChanged(around.windows))
        if self._names is not None and around.rules != before.rules:
            self._names = replace(self._names, policy=policy_version(core))
        if self._teller is None or around.machines != before.machines or around.queues != before.queues:
            self._teller = ReasonTranslator(around, self._expect_numbers())
        self._around = around
        return core

    def _has_come_to_rest(self, core: Core) -> bool:
        """Whether jobs wait though nothing has happened for a while, and the last pass found nothing to do: then all of them are
        looked at anew, once.

        Not while somebody was promised the room of those who leave: the end of their leaving is something that happens.
        """
        return self._rests and not self._has_changed and bool(self._waiting) and not core.transfers

    @staticmethod
    def _is_of_other_parts(before: Around, after: Around) -> bool:
        """Whether pools, machines or queues came or went, or what quarantine holds."""
        if before.holds.allocated != after.holds.allocated or _said(before) != _said(after):
            return True
        if len(before.machines) != len(after.machines) or len(before.queues) != len(after.queues):
            return True
        return (
            [pool.id for pool in before.pools] != [pool.id for pool in after.pools]
            or any(
                (one.pool, one.name) != (other.pool, other.name)
                for one, other in zip(before.machines, after.machines, strict=True)
            )
            or any(
                (one.id, one.parent_id, one.name) != (other.id, other.parent_id, other.name)
                for one, other in zip(before.queues, after.queues, strict=True)
            )
        )

    def _build(self, around: Around, now: datetime) -> Core:
        """A core of what runs; who waits is handed in afterwards, as always."""
        before, began = self._core, time.thread_time()
        known, had = memory.load() if before is None else memory.remember(before), list(self._live.values())
        self._forget_core()
        live = load_live()
        self._predictions.has_ended(had, still={row.attempt_id for row in live})
        self._around = around = look_around(now, tenants_of(live)) if before is None else around
        self._numbers = around.numbers()
        state = make_state(around, self._numbers, (), live, load_parallelism((), live), now, known)
        self._log = EventLog(state, now)
        core = self._log.core
        self._under_way = known.under_way
        self._resumed = Resumed(tuple(one for one in state.running if one.leaving_for), state.reserved, state.claims)
        self._live = {str(row.job_id): row for row in live if str(row.job_id) in core.running}
        self._saved_at = mark(now)
        self._core = core
        self._teller = ReasonTranslator(around, self._numbers)
        queues = [str(queue_id) if queue_id is not None else "" for queue_id in self._numbers.queues]
        self._names = Names([pool.name for pool in around.pools], queues, policy_version(core))
        self._to_judge = set(self.pending)
        self._rests, self._stirred_at, self._building_seconds = False, None, time.thread_time() - began
        return core

    def _expect_numbers(self) -> Numbers:
        assert self._numbers is not None
        return self._numbers

    def _tell_saved(self, now: datetime) -> None:
        """Tell the core when running jobs saved their work last: what an eviction would lose counts from then.

        One query, and none where no running job keeps a checkpoint.
        """
        if mark(now) - self._saved_looked_at < current().checkpoint_seconds:
            return
        self._saved_looked_at = mark(now)
        kept = [row.job_id for row in self._live.values() if row.checkpoint is not None]
        for job_id, saved_at in checkpoint_times(kept).items() if kept else ():
            self._feed(Checkpointed(str(job_id), mark(saved_at)))

    def _fail_without_image(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> None:
        """A job whose image could not be built will never start: say so now."""
        failed = {image_id: image for image_id, image in images.items() if image.state == ImageState.FAILED}
        rows = [row for row in self.pending.values() if row.image_id in failed] if failed else []
        if rows:
            fail_unstartable(
                [
                    (row.id, "image_build_failed", {"image": failed[row.image_id].name})
                    for row in rows
                    if row.image_id is not None
                ],
                now=now,
            )
            for row in rows:
                self._drop(row.id)

    # --- Who waits ----------------------------------------------------------------------------------------------------

    def _judge(self, judge: Judge, core: Core) -> None:
        """Hand the core those that came or changed; all of them where what they are judged by did."""
        while self._due and self._due[0][0] <= judge.now:
            self._to_judge.add(heapq.heappop(self._due)[1])
        around = judge.around
        judged_by = (
            around.pools, around.holds, around.spent, around.tenant_paths, around.disabled, judge.images, frozenset(judge.struck)
        )  # fmt: skip
        if judged_by != self._judged_by:
            self._judged_by = judged_by
            self._to_judge = set(self.pending)
        rows = [self.pending[job_id] for job_id in sorted(self._to_judge) if job_id in self.pending]
        self._to_judge = set()
        missing = {row.spec_id for row in rows if row.spec_id not in self._wishes}
        if missing:
            self._wishes.update(wishes(missing))
        asked = ((row, self._wishes[row.spec_id]) for row in rows if row.spec_id in self._wishes)
        self._volumes.update(load_volumes(asked, self._volumes))
        for row in rows:
            self._hand_in(row, judge, core)
        if self._resumed is not None:
            self._feed(self._resumed)
            self._resumed = None

    def _judge_near(self, changed: frozenset[str], images: Mapping[uuid.UUID, ResolvedImage]) -> None:
        """Those who would like to be near what machines hold, or do not hold any more, are judged again."""
        if not changed:
            return
        for row in self.pending.values():
            wish = self._wishes.get(row.spec_id)
            mounted = volumes_of(row, wish, self._volumes) if wish is not None and wish.mounts else ()
            if digest_of(row, images) in changed or not changed.isdisjoint(mounted):
                self._to_judge.add(row.id)

    def _hand_in(self, row: PendingRow, judge: Judge, core: Core) -> None:
        key = str(row.id)
        if row.id in judge.struck or row.queue_id not in judge.numbers.queue_at:
            if self._waiting.pop(key, None) is not None:
                self._feed(Withdrawn(key))
            return
        # A spec that could not be read is read again here, alone, and fails at the job that has it.
        job, withheld = judge.job(row, self._wishes.get(row.spec_id) or wish_of(load_spec(row.spec_id)))
        if row.not_before_at is not None and row.not_before_at > judge.now:
            heapq.heappush(self._due, (row.not_before_at, row.id))
        if self._waiting.get(key) == job and self._withheld.get(key) == withheld:
            return
        if key in core.transfers:  # It was edited while others leave for it: it is looked at as it is now, without a claim.
            self._feed(Withdrawn(key))
        elif key in core.running:  # What we thought that we had started.
            self._live.pop(key, None)
            self._feed(Ended(key))
        self._feed(Submitted(job))
        self._waiting[key] = job
        self._to_tell.add(key)
        if withheld is None:
            self._withheld.pop(key, None)
        else:
            self._withheld[key] = withheld

    def _parallelism(self) -> dict[uuid.UUID, int]:
        unknown = [
            self.pending[job_id]
            for job_id in self._to_judge
            if job_id in self.pending and self.pending[job_id].parent_id not in self._bounds
        ]
        found = load_parallelism(unknown, ())
        for row in unknown:
            if row.parent_id is not None:
                self._bounds[row.parent_id] = found.get(row.parent_id)
        return {parent: bound for parent, bound in self._bounds.items() if bound is not None}

    def _struck(self, now: datetime) -> Collection[uuid.UUID]:
        """The waiting jobs at which a pass fails. Those of them whose time has come are tried, alone."""
        struck = poison.strikes(SCHEDULE)
        due = [self.pending[job_id] for job_id, strike in struck.items() if job_id in self.pending and strike.due_at <= now]
        if due:
            self._sift(due, now)
            struck = poison.strikes(SCHEDULE)
        return frozenset(struck)

    def _sift(self, rows: Sequence[PendingRow], now: datetime) -> bool:
        """Decide without writing, to find the jobs at which deciding fails; whether there are any."""
        live = load_live()
        around = look_around(now, tenants_of(live))
        numbers = around.numbers()
        images = resolved_images({row.image_id for row in rows if row.image_id is not None})
        judge = Judge(around, numbers, images, (), load_parallelism(rows, live), now)

        def decide(part: Sequence[PendingRow]) -> None:
            core = build(make_state(around, numbers, (), live, judge.parallelism, now, memory.NOTHING))
            for row in part:
                if row.queue_id in numbers.queue_at:
                    core.submit(judge.job(row, wish_of(load_spec(row.spec_id)))[0])
            core.decide(mark(now))

        struck = poison.work_through(SCHEDULE, rows, decide, now=now, key=lambda row: row.id)
        poisoned_jobs.say_why_it_waits(struck)
        return bool(struck)

    # --- What was decided ---------------------------------------------------------------------------------------------

    def _apply(self, decisions: Sequence[Decision], core: Core, now: datetime) -> frozenset[uuid.UUID]:
        """Write it down; the jobs whose races were lost."""
        admissions = [self._admission(one, core) for one in decisions if isinstance(one, Admit)]
        allowed, kept_out = self._one_tenant_each(admissions)
        records = self._records(decisions, core)
        admitted = admit(allowed, self.pending, records, now=now)
        for one in allowed:
            if one.job_id in admitted:
                self._has_started(one, admitted[one.job_id], now)
        lost = [one for one in (*allowed, *kept_out) if one.job_id not in admitted]
        for one in lost:
            key = str(one.job_id)
            self._feed(Ended(key))
            self._waiting.pop(key, None)
            self._stale.add(one.job_id)
        claims = [one for one in decisions if isinstance(one, Claim)]
        evict([_eviction(one) for one in decisions if isinstance(one, Evict)], records, now=now)
        record_decisions([one for one in records.values() if one.kind in (CLAIM, REFUSE)], now=now)
        self.has_admitted = bool(admitted)
        if self._has_changed or (decisions and not all(isinstance(one, Wait) for one in decisions)):
            self._has_changed, self._stirred_at = False, mark(now)
        rest_seconds = max(REST_SECONDS, self._building_seconds * REBUILD_REST)
        self._rests = self._stirred_at is not None and mark(now) - self._stirred_at >= rest_seconds
        waits = {one.id for one in decisions if isinstance(one, Wait)} | {one.id for one in claims}
        self._tell(waits, core)
        return frozenset(one.job_id for one in lost)

    def _records(self, decisions: Sequence[Decision], core: Core) -> dict[uuid.UUID, DecisionRow]:
        """What is kept of a pass, by job. That a job still waits is kept when it waits for something else than before."""
        assert self._names is not None
        found = {}
        for one in records_of(decisions, core, self._names, waited=self._told):
            if one.kind == REFUSE:
                reason = core.why(one.job_id)
                last = self._told.get(one.job_id)
                if reason is None or (last is not None and last[:4] == reason[:4]):
                    continue
            job_id = uuid.UUID(one.job_id)
            row, runs = self.pending.get(job_id), self._live.get(one.job_id)
            tenant_id = row.tenant_id if row is not None else runs.tenant_id if runs is not None else None
            if tenant_id is not None:
                found[job_id] = DecisionRow(job_id, tenant_id, one.kind, one.pool, one.payload)
        return found

    def _admission(self, one: Admit, core: Core) -> Admission:
        assert self._around is not None
        pool = self._around.pools[one.placed.pool]
        whole = Resources()
        placements = []
        for task in one.placed.tasks:
            amount = task.ask.resources
            whole += amount
            placements.append(Placement(task.role, task.index, core.machines.at[task.machine].name, amount))
        return Admission(uuid.UUID(one.id), pool, whole, tuple(placements))

    def _one_tenant_each(self, admissions: Sequence[Admission]) -> tuple[list[Admission], list[Admission]]:
        """A cluster that cannot keep tenants apart gets the first of them; the others are looked at again without it."""
        bound = {one.pool.cluster_id: one.pool.tenant_bound for one in admissions if not one.pool.keeps_apart}
        allowed, kept_out = [], []
        for one in admissions:
            if not one.pool.keeps_apart:
                tenant_id = self.pending[one.job_id].tenant_id
                if (bound.get(one.pool.cluster_id) or tenant_id) != tenant_id:
                    kept_out.append(one)
                    continue
                bound[one.pool.cluster_id] = tenant_id
            allowed.append(one)
        return allowed, kept_out

    def _has_started(self, one: Admission, attempt_id: uuid.UUID, now: datetime) -> None:
        key, row = str(one.job_id), self.pending[one.job_id]
        self._live[key] = LiveRow(
            attempt_id, row.id, AttemptState.ADMITTED, one.pool.id, one.pool.cluster_id, row.tenant_id, row.queue_id,
            row.priority, row.parent_id, row.user_id, row.spec_id, row.max_runtime_seconds, row.submitted_at, now, None, None, "",
            row.checkpoint, row.predicted_seconds, row.cautious_seconds,
        )  # fmt: skip
        self._drop(row.id)

    def _tell(self, told: Iterable[str], core: Core) -> None:
        """Write why jobs wait: of all that meet one fate where that changed, and of those that came or changed."""
        assert self._teller is not None
        keys: dict[str, None] = {}
        for key in told:
            group = core.ordering.group(key)
            for member in group.ids() if group is not None else (key,):
                keys[member] = None
        keys.update(dict.fromkeys(sorted(self._to_tell)))
        self._to_tell = set()
        known: dict[object, Refusal] = {}
        reasons = []
        for key in keys:
            row = self.pending.get(uuid.UUID(key))
            reason = core.why(key)
            if row is None or reason is None:
                continue
            self._told[key] = reason
            own = self._withheld.get(key)
            if own is None:
                job = self._waiting[key]
                at = (reason, id(job.gang), job.pools)
                if at not in known:
                    known[at] = self._teller.tell(core, job, reason)
                own = known[at]
            reasons.append((row, own))
        for row in store_reasons(reasons):
            self.pending[row.id] = row

    def _next_look(self, core: Core, now: datetime) -> float:
        """Seconds until time alone may change something; a second where nothing is known to."""
        moments = [LOOK_SECONDS]
        if self._due:
            moments.append((self._due[0][0] - now).total_seconds())
        if core.next_ring is not None:
            moments.append(core.next_ring - now.timestamp())
        return max(0.01, min(moments))


def _said(around: Around) -> dict[int, tuple[object, ...]]:
    """How pools are filled, but for what changes while the core goes on: mixes and weights."""
    return {pool: rules.said for pool, rules in around.rules.items()}


def _eviction(one: Evict) -> Eviction:
    """What its people are told: it goes on elsewhere, its queue has more than its part, or somebody has an older right."""
    reason = MOVING if one.to is not None else "evening_out" if one.rebalances else "making_way"
    return Eviction(uuid.UUID(one.id), uuid.UUID(one.claimant) if one.claimant else None, reason)


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
            self._machines.take_back(machine, ask, devices)


def _is_same(one: PendingRow | None, other: PendingRow | None) -> bool:
    """Whether two readings of a waiting job are the same but for why it waits, which is ours to write."""
    if one is None or other is None:
        return one is other
    return one == other or one._replace(reason_code="", reason_detail={}) == other._replace(reason_code="", reason_detail={})


def _batches(ids: list[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    return (ids[start : start + 500] for start in range(0, len(ids), 500))
