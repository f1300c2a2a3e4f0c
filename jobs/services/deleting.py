"""Disabling a tenant with its jobs, and deleting one with all that is its: what this does is told before it is done.

Deleting hides a tenant and takes away what its people had: roles, invitations, service accounts, secrets, bookings, what its
queues were promised, volumes and images. Files go by the ordinary retention. The record stays: ledger, statements, audit, and the
rows of its jobs, which operators can read; their logs and outputs go by the ordinary retention, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from images.services.catalogue import count_images_of, delete_images_of
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Job
from jobs.services.stop import stop_jobs
from kernel.actor import Actor
from kernel.errors import Conflict
from kernel.words import Text, counted
from storage.services.volumes import count_volumes_of, delete_volumes_of
from tenants.identity.access import demand
from tenants.identity.services.standing import disable_tenant
from tenants.selectors import Tenant, people_in, tenants_below
from tenants.services.deleting import belongings_of, delete_belongings, demand_deletable, demand_name

STOP_BATCH = 1_000
Plan = dict[str, dict[str, int]]
RUNNING = frozenset(JOB_LIFECYCLE.live_states) - {JobState.QUEUED}


@dataclass(frozen=True, slots=True)
class Touched:
    """Whom disabling a tenant touches, with the tenants below it."""

    tenants: int
    people: int
    waiting: int
    running: int

    def as_dict(self) -> dict[str, int]:
        return {"tenants": self.tenants, "people": self.people, "waiting": self.waiting, "running": self.running}


def touched_by_disabling(*, actor: Actor, tenant: Tenant) -> Touched:
    """Who cannot begin anything any more, and which jobs wait and run. Four queries."""
    demand(actor, None, "tenant.disable")
    ids = tenants_below(tenant.pk)
    return Touched(len(ids), people_in(ids), _jobs(ids, {JobState.QUEUED}).count(), _jobs(ids, RUNNING).count())


def disable(*, actor: Actor, tenant: Tenant, reason: str | None, stops_jobs: bool, now: datetime) -> tuple[Tenant, Touched, int]:
    """Disable a tenant; with `stops_jobs`, stop what runs in it and below. The tenant, whom it touched, and how many jobs were
    asked to stop. Jobs that wait go on waiting. May be called again."""
    touched = touched_by_disabling(actor=actor, tenant=tenant)
    disabled = disable_tenant(actor=actor, tenant=tenant, reason=reason, now=now)
    return disabled, touched, _stop_running(actor, tenant, disabled.disabled_reason or "", now) if stops_jobs else 0


def plan_deletion(*, actor: Actor, tenant: Tenant, now: datetime) -> Plan:
    """What would go and what would stay, in numbers."""
    demand(actor, None, "tenant.delete")
    gone = {
        **belongings_of(tenant, now=now).as_dict(),
        "volumes": count_volumes_of(tenant.pk),
        "images": count_images_of(tenant.pk),
    }
    return {"goes": gone, "stays": {"jobs": Job.objects.filter(tenant_id=tenant.pk).count()}}


def delete_tenant(
    *, actor: Actor, tenant: Tenant, confirm: str, hold: Callable[[Plan], None] = lambda plan: None, now: datetime
) -> Plan:
    """Delete a disabled tenant without live jobs, whose name was typed; what went. Conflict or InvalidInput. `hold` raises where
    the plan is not the one that was asked for."""
    with transaction.atomic():
        found = demand_deletable(actor=actor, tenant=tenant)
        demand_name(found, confirm)
        live = _jobs([found.pk], JOB_LIFECYCLE.live_states).count()
        if live:
            words = counted(live, f"job of {found.name} waits or runs", f"jobs of {found.name} wait or run")
            raise Conflict(
                Text(f"{words}.", f"{found.name} 还有 {live} 个等待或运行中的作业。"),
                hint=Text("Stop what is left, and delete the tenant when it has ended.", "请停止剩余的部分，结束后再删除租户。"),
            )
        plan = plan_deletion(actor=actor, tenant=found, now=now)
        hold(plan)
        delete_volumes_of(tenant_id=found.pk, now=now)
        delete_images_of(tenant_id=found.pk, now=now)
        delete_belongings(actor=actor, tenant=found, gone=plan["goes"], now=now)
    return plan


def _stop_running(actor: Actor, tenant: Tenant, reason: str, now: datetime) -> int:
    asked = 0
    for tenant_id in tenants_below(tenant.pk):  # An audit row for each, as each has its own log.
        last: uuid.UUID | None = None
        while True:
            rows = _jobs([tenant_id], RUNNING).filter(desired="run").order_by("id")
            jobs = list((rows if last is None else rows.filter(id__gt=last))[:STOP_BATCH])
            if not jobs:
                break
            asked += stop_jobs(jobs, actor=actor, grace_seconds=None, now=now, note=reason)
            last = jobs[-1].id
    return asked


def _jobs(tenant_ids: Collection[uuid.UUID], states: Collection[str]) -> Any:
    """Jobs that are no arrays, which are counted by their children."""
    return Job.objects.filter(tenant_id__in=tenant_ids, state__in=states, array_size__isnull=True)
