"""Jobs, attempts and requests for priorities in the operators' console."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from jobs.models import Attempt, Job, PriorityRequest
from jobs.services.priority_requests import approve, deny
from jobs.services.stop import stop_jobs
from webapi.console import Record, on_each


@admin.register(Job)
class JobRecord(Record):
    list_display = ("id", "name", "tenant", "queue", "user", "state", "reason_code", "priority", "submitted_at")
    list_filter = ("state", "framework", "desired")
    list_select_related = ("tenant", "queue", "user")
    search_fields = ("=id", "name__startswith")
    ordering = ("-id",)
    exclude = ("spec",)
    raw_id_fields = ("parent", "origin", "attempt")
    actions = ("stop",)

    stop = on_each(
        _("Stop, with each job's own grace"),
        lambda row, actor, now: stop_jobs([row], actor=actor, grace_seconds=None, now=now),
        done=_("Jobs told to stop"),
    )


@admin.register(Attempt)
class AttemptRecord(Record):
    list_display = ("id", "job", "number", "state", "outcome", "cluster_name", "pool_name", "started_at", "ended_at")
    list_filter = ("state", "outcome")
    list_select_related = ("job",)
    search_fields = ("=id", "=job__id")
    ordering = ("-id",)


@admin.register(PriorityRequest)
class PriorityRequestRecord(Record):
    list_display = ("id", "tenant", "user", "priority", "job", "state", "reason", "created_at")
    list_filter = ("state",)
    list_select_related = ("tenant", "user", "job")
    ordering = ("-id",)
    actions = ("approve", "deny")

    approve = on_each(_("Approve"), lambda row, actor, now: approve(actor=actor, request=row, now=now), done=_("Approved"))

    deny = on_each(_("Deny"), lambda row, actor, now: deny(actor=actor, request=row, now=now), done=_("Denied"))
