"""Rows around the order of jobs: who asked for a higher priority than their own, and what became of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from jobs.lifecycle.requests import REQUEST_STATES, RequestState
from kernel.ids import new_id
from kernel.priorities import PRIORITY_MAX


class PriorityRequest(models.Model):
    """Asks for a priority above a user's grant: for one job, or, without a job, for all that `user` submits in a window.

    `user` is who gains: the owner of the job, or the person. `expires_at`: when it is over by itself if undecided.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, related_name="priority_requests")
    job = models.ForeignKey("jobs.Job", models.CASCADE, null=True, related_name="priority_requests")
    user = models.ForeignKey("tenants.User", models.PROTECT, related_name="priority_requests")
    priority = models.IntegerField()
    state = models.CharField(max_length=10, default=RequestState.PENDING.value)
    reason = models.CharField(max_length=1000, blank=True, default="")
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.PROTECT, related_name="+")
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="+")
    answer = models.CharField(max_length=1000, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "id"], name="priority_request_tenant"),
            models.Index(fields=["expires_at"], condition=Q(state="pending"), name="priority_request_pending"),
            models.Index(
                fields=["user", "ends_at"], condition=Q(state="approved", job__isnull=True), name="priority_request_window"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job"], condition=Q(state="pending"), name="priority_request_one_per_job"),
            models.CheckConstraint(condition=Q(state__in=REQUEST_STATES), name="priority_request_state_known"),
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=PRIORITY_MAX), name="priority_request_in_range"),
            models.CheckConstraint(
                condition=Q(job__isnull=False, starts_at__isnull=True, ends_at__isnull=True)
                | Q(job__isnull=True, starts_at__isnull=False, ends_at__gt=models.F("starts_at")),
                name="priority_request_job_or_window",
            ),
        ]

    def __str__(self) -> str:
        return f"request {self.id} for priority {self.priority}, {self.state}"
