"""The audit in the operators' console."""

from __future__ import annotations

from django.contrib import admin

from activity.models import AuditEvent
from webapi.console import Record


@admin.register(AuditEvent)
class AuditRecord(Record):
    list_display = ("at", "actor_name", "verb", "target_kind", "target_name", "count")
    list_filter = ("verb",)
    search_fields = ("actor_name", "target_name", "=target_id", "=request_id")
    ordering = ("-id",)
