"""Jobs, their attempts and tasks. Desired and observed live in different columns, written by different code (design rule 2)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from jobs.decision_models import DecisionRecord as DecisionRecord
from jobs.decision_models import SchedulerMemory as SchedulerMemory
from jobs.decision_models import StartPrediction as StartPrediction
from jobs.lifecycle.states import AttemptState, JobState, TaskState
from jobs.order_models import PriorityRequest as PriorityRequest
from jobs.template_models import TEMPLATE_NAME_LENGTH as TEMPLATE_NAME_LENGTH
from jobs.template_models import Template as Template
from kernel.ids import new_id
from kernel.limits import NAME_LENGTH

_TOP = Q(parent__isnull=True)
_TOP_ENDED = Q(parent__isnull=True, ended_at__isnull=False)


class StoredSpec(models.Model):
    """A validated spec, stored once per tenant as canonical JSON; jobs that share it (an array, a rerun) share the row."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    digest = models.CharField(max_length=64)
    document = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "digest"], name="spec_once_per_tenant")]

    def __str__(self) -> str:
        return f"spec {self.digest[:12]}"


class Job(models.Model):
    """What a user asked for. `state` is observed, `desired` is wanted; only `jobs/services/transition.py` writes `state`.

    Every index is paid for by each child of an array of 100,000: foreign keys that no query looks up by have none.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    queue = models.ForeignKey("tenants.Queue", on_delete=models.PROTECT, related_name="+", db_index=False)
    user = models.ForeignKey("tenants.User", on_delete=models.PROTECT, related_name="+", db_index=False)
    spec = models.ForeignKey(StoredSpec, on_delete=models.PROTECT, related_name="+", db_index=False)
    image_id = models.UUIDField(null=True)
    image_kind = models.CharField(max_length=20, default="host")
    image_name = models.CharField(max_length=512, default="host")
    image_digest = models.CharField(max_length=100, blank=True, default="")
    code_digest = models.CharField(max_length=64, blank=True, default="")
    # Of code from Git, once it is fetched. With a default, SQLite would copy the table without its triggers.
    code_commit = models.CharField(max_length=64, null=True)  # noqa: DJ001

    name = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=20, default="batch")
    framework = models.CharField(max_length=40, default="none")
    labels = models.JSONField(default=dict)
    tags = models.JSONField(default=list)
    pool_name = models.CharField(max_length=NAME_LENGTH, blank=True, default="")

    state = models.CharField(max_length=20, default=JobState.QUEUED)
    desired = models.CharField(max_length=10, default="run")  # run | stop
    stop_grace_seconds = models.FloatField(null=True)
    hold = models.BooleanField(default=False)
    priority = models.IntegerField(default=0)
    reason_code = models.CharField(max_length=80, blank=True, default="")
    reason_detail = models.JSONField(default=dict)
    exit = models.JSONField(null=True)
    condition = models.CharField(max_length=40, blank=True, default="")
    condition_since_at = models.DateTimeField(null=True)

    cpu_millis = models.BigIntegerField(default=0)  # The whole gang, as reserved.
    memory_bytes = models.BigIntegerField(default=0)
    gpu_millis = models.BigIntegerField(default=0)
    max_runtime_seconds = models.BigIntegerField(null=True)
    # By which the scheduler plans; no job is held to them. `jobs/loading/predictions.py` writes both once per job.
    predicted_seconds = models.BigIntegerField(null=True)  # It typically runs for so long. None: nothing is known of its kind.
    cautious_seconds = models.BigIntegerField(null=True)  # At most, by nine in ten of its kind; until then its queue's.

    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children", db_index=False)
    array_index = models.IntegerField(null=True)
    array_size = models.IntegerField(null=True)  # Set on the parent; a parent never runs itself.
    array_parallelism = models.IntegerField(null=True)
    origin = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)  # Run again from.
    origin_kind = models.CharField(max_length=10, blank=True, default="")
    build_request_id = models.UUIDField(null=True)
    open_dependencies = models.IntegerField(default=0)
    dependency_failed = models.BooleanField(default=False)

    attempt_count = models.IntegerField(default=0)
    attempt = models.ForeignKey("Attempt", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)  # The latest.
    # None: the platform keeps no directory. With a default SQLite would copy the table, and lose its triggers.
    checkpoint = models.CharField(max_length=12, null=True)  # noqa: DJ001 - see above. `CheckpointGate` has its values.
    paid = models.JSONField(default=dict)  # Attempts spent per budget: user, platform, unknown, hang, preempted.
    not_before_at = models.DateTimeField(null=True)  # start_after, or the end of a retry's backoff.

    submitted_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    placed_at = models.DateTimeField(null=True)  # Where it stands in its queue, if it was moved: as if submitted then.
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[str(state) for state in JobState]), name="job_state_known"),
            models.CheckConstraint(condition=Q(desired__in=["run", "stop"]), name="job_desired_known"),
            models.UniqueConstraint(fields=["parent", "array_index"], name="job_once_per_index"),
            models.UniqueConstraint(
                fields=["build_request_id"], condition=Q(build_request_id__isnull=False), name="job_once_per_build"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "priority", "id"], name="job_pending"),
            models.Index(fields=["queue", "state", "-id"], name="job_by_queue"),
            models.Index(fields=["desired", "state"], name="job_to_stop"),
            models.Index(fields=["-ended_at"], condition=Q(ended_at__isnull=False), name="job_ended"),
            # Lists in their orders, without the children of arrays.
            models.Index(fields=["-id"], condition=_TOP, name="job_top"),
            models.Index(fields=["tenant", "-id"], condition=_TOP, name="job_top_tenant"),
            models.Index(fields=["state", "-id"], condition=_TOP, name="job_top_state"),
            models.Index(fields=["tenant", "state", "-id"], condition=_TOP, name="job_top_tenant_state"),
            models.Index(fields=["-priority", "-id"], condition=_TOP, name="job_top_priority"),
            models.Index(fields=["tenant", "-priority", "-id"], condition=_TOP, name="job_top_tenant_priority"),
            models.Index(fields=["-ended_at", "-id"], condition=_TOP_ENDED, name="job_top_ended"),
            models.Index(fields=["tenant", "-ended_at", "-id"], condition=_TOP_ENDED, name="job_top_tenant_ended"),
            models.Index(fields=["tenant", "name", "-id"], condition=_TOP, name="job_top_name"),
            models.Index(fields=["user", "-id"], condition=_TOP, name="job_top_user"),
        ]

    def __str__(self) -> str:
        return f"job {self.name} {self.id}"


class ClusterLook(models.Model):
    """When all attempts of a cluster were last looked at: until then those whose end is not known are known to have run."""

    cluster_id = models.UUIDField(primary_key=True)
    looked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"look at cluster {self.cluster_id} at {self.looked_at}"


class JobCount(models.Model):
    """So many more jobs (fewer, if negative) of a tenant, queue and state; added up they say how many there are.

    Written by triggers on Job, which leave the children of arrays out; folded by `jobs/services/counts.py`.
    """

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()
    queue_id = models.UUIDField()
    state = models.CharField(max_length=20)
    number = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "queue_id", "state"], name="job_count_tenant")]

    def __str__(self) -> str:
        return f"{self.number:+} jobs {self.state} of queue {self.queue_id}"


class Dependency(models.Model):
    """`job` waits for `on`: `after` its start, `after_ok` its success, `after_any` its end, `code` what it fetches."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependents")
    condition = models.CharField(max_length=10)
    met = models.BooleanField(null=True)  # None: open. False: can never be met.

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "on", "condition"], name="dependency_once")]
        indexes = [models.Index(fields=["on", "met"], name="dependency_open")]

    def __str__(self) -> str:
        return f"{self.job_id} {self.condition} {self.on_id}"


class Attempt(models.Model):
    """One try at a job. The row exists before anything happens on an engine; at most one per job is alive."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    tenant_id = models.UUIDField()
    number = models.IntegerField()
    state = models.CharField(max_length=20, default=AttemptState.ADMITTED)
    outcome = models.CharField(max_length=20, blank=True, default="")
    cluster_id = models.UUIDField()
    pool_id = models.UUIDField()
    cluster_name = models.CharField(max_length=NAME_LENGTH, default="")
    pool_name = models.CharField(max_length=NAME_LENGTH, default="")
    gpus_simulated = models.BooleanField(default=False)
    isolation = models.CharField(max_length=200, blank=True, default="")

    created_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    exit = models.JSONField(null=True)

    stop_cause = models.CharField(max_length=20, blank=True, default="")
    stop_verdict = models.JSONField(null=True)  # What the completion policy had decided when it stopped the rest.
    stop_grace_seconds = models.FloatField(null=True)
    stop_sent_at = models.DateTimeField(null=True)
    evicted_for = models.UUIDField(null=True)  # The waiting job that gets what this one held.
    condition = models.CharField(max_length=40, blank=True, default="")
    condition_since_at = models.DateTimeField(null=True)

    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)  # When a reconciler looks next; None when nothing is left to do.
    tries = models.IntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    logs_stored = models.BooleanField(default=False)
    outputs_stored = models.BooleanField(default=False)
    forgotten = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[str(state) for state in AttemptState]), name="attempt_state_known"),
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["job"], condition=~Q(state=AttemptState.ENDED), name="attempt_one_alive"),
        ]
        indexes = [
            models.Index(fields=["state", "due_at"], name="attempt_due"),
            models.Index(fields=["cluster_id", "state"], name="attempt_by_cluster"),
            models.Index(fields=["forgotten", "due_at"], condition=Q(forgotten=False), name="attempt_unfinished"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}"


class Task(models.Model):
    """One replica of one role in one attempt, as last observed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    job_id = models.UUIDField()
    tenant_id = models.UUIDField()
    role = models.CharField(max_length=63)
    index = models.IntegerField()
    state = models.CharField(max_length=20, default=TaskState.PENDING)
    node_name = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    address = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    ports = models.JSONField(default=dict)
    gpus = models.JSONField(default=list)
    gpus_simulated = models.BooleanField(default=False)
    cpu_millis = models.BigIntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    gpu_millis = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit = models.JSONField(null=True)  # code, signal, reason, stop_cause, evidence
    waiting = models.JSONField(null=True)  # What it waits for before it begins: `jobs/lifecycle/start_waits.py`.
    progress = models.JSONField(null=True)  # done, total, at: as it said itself. `jobs/lifecycle/progress.py`.

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[str(state) for state in TaskState]), name="task_state_known"),
            models.UniqueConstraint(fields=["attempt", "role", "index"], name="task_once"),
        ]

    def __str__(self) -> str:
        return f"task {self.role}-{self.index} of attempt {self.attempt_id}"
