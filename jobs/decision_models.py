"""The table of decisions. `jobs/models.py` offers it as the rest of the app's models."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_id
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
    kind = models.CharField(max_length=20)  # See KINDS of jobs/scheduling/questions/records.py.
    pool = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    payload = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["job_id", "id"], name="decision_by_job")]

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job_id}"


class StartPrediction(models.Model):
    """When a waiting job was expected to start, the first time that it was predicted; and when it did. One per job.

    What it was first told is kept and judged. `now_` is what every page tells: as it was looked ahead last, at `looked_at`.
    Table and index keep an older name, promises, so that the release before works on them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    job = models.OneToOneField("Job", on_delete=models.CASCADE, related_name="startprediction")
    tenant_id = models.UUIDField()
    made_at = models.DateTimeField()
    p50_at = models.DateTimeField(null=True)  # None: it could not be told.
    p90_at = models.DateTimeField(null=True)
    ahead_p50_at = models.DateTimeField(null=True)  # As it was looked ahead, before it was corrected by how others came true.
    ahead_p90_at = models.DateTimeField(null=True)
    sure_p50_at = models.DateTimeField(null=True)  # Corrected; told or not. None: the look ahead was not sure of it.
    started_at = models.DateTimeField(null=True)
    now_p50_at = models.DateTimeField(null=True)
    now_p90_at = models.DateTimeField(null=True)
    now_reason = models.CharField(max_length=40, default="", db_default="")  # Why there is none.
    now_error_permille = models.IntegerField(null=True)  # Of the p50, of late, of the wait.
    looked_at = models.DateTimeField(null=True)  # None: an earlier release wrote it, and only the first is known.

    class Meta:
        db_table = "jobs_startpromise"
        indexes = [models.Index(fields=["made_at"], name="promise_made")]

    def __str__(self) -> str:
        return f"predicted start of job {self.job_id}"


class SchedulerMemory(models.Model):
    """What a scheduler knows that no other table says: past use, as it fades, and how many were evicted of late. One row.

    `document` is `jobs/loading/memory.py`'s. It is written about once a minute: a new leader forgets a minute at most.
    """

    id = models.CharField(primary_key=True, max_length=20)
    document = models.JSONField(default=dict)
    saved_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"memory of the scheduler, {self.saved_at}"
