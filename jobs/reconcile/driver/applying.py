"""Writes down what a pass decided, and why jobs wait."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from jobs.lifecycle.states import AttemptState
from jobs.loading.rows import MOVING, LiveRow
from jobs.reconcile.admit import Admission, Eviction, TaskPlacement, admit, evict, store_reasons
from jobs.reconcile.driver.kept_core import KeptCore
from jobs.reconcile.driver.pending import Pending
from jobs.scheduling.core.eligibility import Refusal
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Wait
from jobs.scheduling.questions.records import CLAIM, REFUSE, records_of
from jobs.scheduling.replay.log import Ended
from jobs.services.decision_records import DecisionRow, record_decisions
from kernel.resources import Resources
from kernel.wait_codes import WaitCode


class Applied(NamedTuple):
    """The jobs that start, and those whose races were lost: they are to be read again."""

    admitted: frozenset[uuid.UUID]
    lost: frozenset[uuid.UUID]


def apply_decisions(decisions: Sequence[Decision], kept: KeptCore, pending: Pending, now: datetime) -> Applied:
    """Write them down in a few batches, and tell the core of the starts that the database refused."""
    admissions = [_admission(decision, kept) for decision in decisions if isinstance(decision, Admit)]
    allowed, kept_out = _one_tenant_each(admissions, pending)
    records = _records(decisions, kept, pending)
    admitted = admit(allowed, pending.rows, records, now=now)
    for admission in allowed:
        if admission.job_id in admitted:
            _has_started(admission, admitted[admission.job_id], kept, pending, now)
    lost = [admission.job_id for admission in (*allowed, *kept_out) if admission.job_id not in admitted]
    for job_id in lost:
        kept.feed(Ended(str(job_id)))
        kept.waiting.pop(str(job_id), None)
    evict([_eviction(decision) for decision in decisions if isinstance(decision, Evict)], records, now=now)
    record_decisions([record for record in records.values() if record.kind in (CLAIM, REFUSE)], now=now)
    return Applied(frozenset(admitted), frozenset(lost))


def tell_waiting(decisions: Iterable[Decision], kept: KeptCore, pending: Pending, now: datetime) -> None:
    """Write why jobs wait: of all that meet one fate where that changed, and of those that came or changed."""
    keys: dict[str, None] = {}
    for key in {decision.id for decision in decisions if isinstance(decision, Wait | Claim)}:
        group = kept.core.ordering.group(key)
        for member in group.ids() if group is not None else (key,):
            keys[member] = None
    keys.update(dict.fromkeys(sorted(kept.to_tell)))
    kept.to_tell = set()
    known: dict[object, Refusal] = {}
    reasons = []
    for key in keys:
        row = pending.rows.get(uuid.UUID(key))
        reason = kept.core.why(key)
        if row is None or reason is None:
            continue
        kept.told[key] = reason
        own = kept.withheld.get(key)
        if own is None:
            job = kept.waiting[key]
            is_alone = reason.code == WaitCode.CLAIM or key in kept.core.reservations.by_job
            at = (reason, id(job.gang), job.pools, key if is_alone else "")
            if at not in known:
                known[at] = kept.progress.tell(kept.core, job, reason)
            own = known[at]
            kept.note_others(key, own)
        reasons.append((row, own))
    for row in store_reasons(reasons, now=now):
        pending.rows[row.id] = row


def _records(decisions: Sequence[Decision], kept: KeptCore, pending: Pending) -> Mapping[uuid.UUID, DecisionRow]:
    """What is kept of a pass, by job. That a job still waits is kept when it waits for something else than before."""
    found = {}
    for record in records_of(decisions, kept.core, kept.names, waited=kept.told):
        if record.kind == REFUSE:
            reason = kept.core.why(record.job_id)
            last = kept.told.get(record.job_id)
            if reason is None or (last is not None and last[:4] == reason[:4]):
                continue
        job_id = uuid.UUID(record.job_id)
        row, runs = pending.rows.get(job_id), kept.live.get(record.job_id)
        tenant_id = row.tenant_id if row is not None else runs.tenant_id if runs is not None else None
        if tenant_id is not None:
            found[job_id] = DecisionRow(job_id, tenant_id, record.kind, record.pool, record.payload)
    return found


def _admission(decision: Admit, kept: KeptCore) -> Admission:
    whole = Resources()
    placements = []
    for task in decision.placed.tasks:
        amount = task.ask.resources
        whole += amount
        placements.append(TaskPlacement(task.role, task.index, kept.core.machines.at[task.machine].name, amount))
    return Admission(uuid.UUID(decision.id), kept.around.pools[decision.placed.pool], whole, tuple(placements))


def _one_tenant_each(admissions: Sequence[Admission], pending: Pending) -> tuple[list[Admission], list[Admission]]:
    """A cluster that cannot keep tenants apart gets the first of them; the others are looked at again without it."""
    bound = {admission.pool.cluster_id: admission.pool.tenant_bound for admission in admissions if not admission.pool.keeps_apart}
    allowed, kept_out = [], []
    for admission in admissions:
        if not admission.pool.keeps_apart:
            tenant_id = pending.rows[admission.job_id].tenant_id
            if (bound.get(admission.pool.cluster_id) or tenant_id) != tenant_id:
                kept_out.append(admission)
                continue
            bound[admission.pool.cluster_id] = tenant_id
        allowed.append(admission)
    return allowed, kept_out


def _has_started(admission: Admission, attempt_id: uuid.UUID, kept: KeptCore, pending: Pending, now: datetime) -> None:
    row = pending.rows[admission.job_id]
    kept.live[str(admission.job_id)] = LiveRow(
        attempt_id, row.id, AttemptState.ADMITTED, admission.pool.id, admission.pool.cluster_id, row.tenant_id, row.queue_id,
        row.priority, row.parent_id, row.user_id, row.spec_id, row.max_runtime_seconds, row.submitted_at, now, None, None, "",
        row.checkpoint, row.predicted_seconds, row.cautious_seconds,
    )  # fmt: skip
    pending.drop(row.id)
    kept.drop(row.id)


def _eviction(decision: Evict) -> Eviction:
    """What its people are told: it goes on elsewhere, its queue has more than its part, or somebody has an older right."""
    reason = MOVING if decision.to is not None else "evening_out" if decision.rebalances else "making_way"
    return Eviction(uuid.UUID(decision.id), uuid.UUID(decision.claimant) if decision.claimant else None, reason)
