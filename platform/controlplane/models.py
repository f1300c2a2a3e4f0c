"""Rows of the installation itself: how its tenants were tried against each other."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_id


class SelfTest(models.Model):
    """One run of the tenant escape self-test: two throw-away tenants, every operation tried from the one on the other."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    started_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True)
    verdict = models.CharField(max_length=20, blank=True, default="", help_text="passed, failed or broken; empty while it runs.")
    requests = models.PositiveIntegerField(default=0)
    findings = models.JSONField(default=list, help_text="What nobody should have been answered, at most 100.")
    walls = models.JSONField(default=list, help_text="What a job could reach on each local cluster, wall by wall.")
    detail = models.TextField(blank=True, default="", help_text="Why a run is broken.")
    tenant_ids = models.JSONField(default=list, help_text="What it made, so that it is removed also after a crash.")
    removed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"self-test of {self.started_at:%Y-%m-%dT%H:%M:%SZ}: {self.verdict or 'running'}"
