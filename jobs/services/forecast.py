"""When an ask would start and what it would cost, and the same for two smaller ones: what there is to weigh before submitting."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from jobs.loading.history import predictor_of_history
from jobs.loading.rows import PendingRow
from jobs.loading.specs import wish_of
from jobs.loading.state import Judge, Loaded, load_state, load_volumes
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.questions.lifetimes import Lifetimes
from jobs.scheduling.questions.predict import Prediction, Predictor, size_of
from jobs.scheduling.questions.whatif import Submit, apply
from jobs.services.planned import Planned, planned_seconds
from jobs.services.predicted_starts import TOO_MANY, accuracy, effort_asked, expect, lifetimes_of, moment
from jobs.services.redaction import one_question
from jobs.services.submission import Submission
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.resources import RESOURCE_NAMES, Resources
from tenants.billing.costs import estimate
from tenants.billing.ledger_rows import currency

SIZES = ("asked", "half", "quarter")
CORE = 1_000
HOUR = 3_600
NOBODY = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class SizeOption:
    """One size of the ask."""

    size: str
    gang: GangAsk

    @property
    def amount(self) -> Resources:
        whole = Resources()
        for role in self.gang.roles:
            whole += role.ask.resources * role.maximum
        return whole


def forecast(submission: Submission, *, actor: Actor, with_cost: bool, now: datetime) -> dict[str, Any]:
    """Expected start (p50 and p90) and cost of one job as asked, and of half and a quarter of it. Stores nothing."""
    wish = wish_of(submission.spec)
    predictor = predictor_of_history()
    with one_question():
        loaded = load_state(now)
        known = lifetimes_of(loaded) if effort_asked(loaded) is not None else None
        options = [_option(size, submission, loaded, known, predictor, actor, now) for size in _sizes(wish.gang)]
    lasts = predictor.predict(
        user=str(actor.user_id), name=submission.spec.name, queue=str(submission.queue.id),
        longest=submission.max_runtime_seconds,
        size=size_of(SizeOption("asked", wish.gang).amount.gpu_millis, submission.max_runtime_seconds),
    )  # fmt: skip
    for option in options:
        pool_ids = option.pop("pool_ids")
        option["cost"] = _cost(pool_ids, option["total"], lasts, now) if with_cost else None
    return {
        "currency": currency(),
        "runs_seconds": lasts.typical if lasts is not None else None,
        "runs_by": lasts.basis if lasts is not None else "",
        "options": options,
        "past": accuracy([submission.tenant.id], now),
    }


def _option(
    option: SizeOption,
    submission: Submission,
    loaded: Loaded,
    known: Lifetimes | None,
    predictor: Predictor,
    actor: Actor,
    now: datetime,
) -> dict[str, Any]:
    """One size, put into a copy of the state as if it were submitted now."""
    planned = planned_seconds(predictor, submission, actor.user_id or NOBODY, option.amount.gpu_millis)
    row = _row(submission, planned, actor, now)
    image = submission.image
    images = {image.id: image} if image.id is not None else {}
    wish = replace(wish_of(submission.spec), gang=option.gang)
    judge = Judge(loaded.around, loaded.numbers, images, (), {}, now, volumes=load_volumes([(submission.tenant.id, wish)], {}))
    job, withheld = judge.job(row, wish)
    p50 = p90 = None
    effort = effort_asked(loaded)
    reason = withheld[0] if withheld is not None else TOO_MANY if effort is None else ""
    if not reason and effort is not None:
        ahead = replace(loaded, state=apply(loaded.state, [Submit((job,))]))
        told = expect(ahead, {job.id}, now, effort, lifetimes=known)[job.id].told
        p50, p90, reason = moment(told.p50), moment(told.p90), told.reason
    pools = [loaded.around.pools[number] for number in job.pools]
    return {
        "size": option.size,
        "roles": [
            {"name": role.role, "replicas": role.maximum, "resources": role.ask.resources.as_dict()} for role in option.gang.roles
        ],
        "total": {name: getattr(option.amount, name) for name in RESOURCE_NAMES},
        "pools": [pool.name for pool in pools],
        "pool_ids": [pool.id for pool in pools],
        "p50_at": utc_text(p50),
        "p90_at": utc_text(p90),
        "starts_now": p50 is not None and p50 <= now,
        "reason": reason,
    }


def _cost(pool_ids: Sequence[uuid.UUID], total: dict[str, int], lasts: Prediction | None, now: datetime) -> dict[str, Any] | None:
    """In the cheapest and the dearest pool: an hour, and the time that it is thought to run. None where no pool takes it."""
    if not pool_ids:
        return None
    typical, cautious = (lasts.typical, lasts.cautious) if lasts is not None else (HOUR, HOUR)
    amount = Resources(**total)
    soon, late = (list(estimate(pool_ids, amount, seconds, now).values()) for seconds in (typical, cautious))
    return {
        "micros_per_hour": min(per_hour for per_hour, _ in soon),
        "micros_per_hour_max": max(per_hour for per_hour, _ in soon),
        "micros": min(micros for _, micros in soon) if lasts is not None else None,
        "micros_max": max(micros for _, micros in late) if lasts is not None else None,
    }


def _row(submission: Submission, planned: Planned, actor: Actor, now: datetime) -> PendingRow:
    """The job as it would wait; only the scheduler's copy ever sees it."""
    spec = submission.spec
    return PendingRow(
        id=NOBODY,
        tenant_id=submission.tenant.id,
        queue_id=submission.queue.id,
        priority=submission.priority,
        spec_id=NOBODY,
        image_id=submission.image.id,
        image_kind=str(submission.image.kind),
        image_digest=submission.image.digest,
        parent_id=None,
        hold=spec.hold,
        not_before_at=spec.start_after,
        open_dependencies=len(submission.dependencies),
        attempt_count=0,
        reason_code="",
        reason_detail={},
        user_id=actor.user_id or NOBODY,
        max_runtime_seconds=submission.max_runtime_seconds,
        submitted_at=now,
        placed_at=None,
        checkpoint=None,
        predicted_seconds=planned.typical,
        cautious_seconds=planned.cautious,
    )


# --- Smaller asks -------------------------------------------------------------------------------------------------------


def _sizes(gang: GangAsk) -> Iterator[SizeOption]:
    """The ask, half of it, and a quarter, as far as it can be made smaller."""
    found: GangAsk | None = gang
    for size in SIZES:
        if found is None:
            return
        yield SizeOption(size, found)
        found = half_of(found)


def half_of(gang: GangAsk) -> GangAsk | None:
    """About half of an ask: half as many tasks in its largest role; of one task each, half of their GPUs, with half of the cores
    and memory; without several GPUs, half of the cores and memory. None where there is no less of anything to ask for."""
    largest = max(gang.roles, key=lambda role: (role.maximum, role.role))
    if largest.maximum > 1:
        most = (largest.maximum + 1) // 2
        smaller = replace(largest, minimum=min(largest.minimum, most), maximum=most)
        return _with(gang, {largest.role: smaller})
    several = [role for role in gang.roles if role.ask.gpu_millis > WHOLE_MILLIS]
    chosen = several or [role for role in gang.roles if role.ask.cpu_millis > CORE]
    return _with(gang, {role.role: _smaller(role) for role in chosen}) if chosen else None


def _smaller(role: RoleAsk) -> RoleAsk:
    ask = role.ask
    gpus = (ask.gpu_millis // WHOLE_MILLIS + 1) // 2 * WHOLE_MILLIS if ask.gpu_millis > WHOLE_MILLIS else ask.gpu_millis
    return replace(role, ask=replace(ask, cpu_millis=ask.cpu_millis // 2, memory_bytes=ask.memory_bytes // 2, gpu_millis=gpus))


def _with(gang: GangAsk, roles: dict[str, RoleAsk]) -> GangAsk:
    return replace(gang, roles=tuple(roles.get(role.role, role) for role in gang.roles))
