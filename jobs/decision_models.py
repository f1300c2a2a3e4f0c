"""The table of decisions. `jobs/models.py` offers it as the rest of the app's models."""

from __future__ import annotations

from django.db import models

from kernel.limits import NAME_LENGTH


class DecisionRecord(models.Model):
    """One decision of the scheduler about one job: where it started or why it did not, and what it was weighed against.

    Written in the transaction that applies the decision, never changed, and removed when `decision_days` are over. Ids are in the
    order of time. `pool` is a name: the record stays true when the pool is gone.
    """

    id = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    job_id = models.UUIDField()
    tenant_id = models.UUIDField()
    kind = models.CharField(max_length=20)  # See KINDS of jobs/scheduling/records.py.
    pool = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    payload = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["job_id", "id"], name="decision_by_job")]

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job_id}"
