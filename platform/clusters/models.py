"""What engines talk to and what they found there. Nothing here is typed in by hand but a cordon and an engine's configuration."""

from __future__ import annotations

from django.db import models
from django.db.models import Q, Value

from kernel.ids import new_id
from kernel.limits import NAME_LENGTH, NOTE_LENGTH

METRIC_LENGTH = 64
SUBJECT_LENGTH = 400  # `gpu:`, a cluster's id, a node name, a device identifier.


class ClusterKind(models.TextChoices):
    LOCAL = "local", "This machine"
    KUBERNETES = "kubernetes", "Kubernetes"
    SLURM = "slurm", "Slurm"
    FAKE = "fake", "Simulated cluster for tests"


class ClusterCondition(models.TextChoices):
    """Whether the engine answers. A condition, never a state: what ran keeps running while contact is lost."""

    UNKNOWN = "unknown", "Not asked yet"
    REACHABLE = "reachable", "Reachable"
    LOST_CONTACT = "lost_contact", "Lost contact"


class Cluster(models.Model):
    """Something an engine talks to: this host, a Kubernetes cluster, a Slurm cluster."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=20, choices=ClusterKind.choices)
    config = models.JSONField(default=dict, blank=True)  # Of its engine, and nothing secret.
    credentials_sealed = models.TextField(blank=True, default="", db_default="")  # `services/credentials.py`.
    access = models.JSONField(null=True)  # What may be told of the credentials: `engines/settings.py`.
    is_enabled = models.BooleanField(default=True)
    lost_at = models.DateTimeField(null=True)  # When an operator declared that nothing runs there any more.
    condition = models.CharField(max_length=20, choices=ClusterCondition.choices, default=ClusterCondition.UNKNOWN)
    condition_detail = models.CharField(max_length=NOTE_LENGTH, blank=True, default="")
    condition_since_at = models.DateTimeField(null=True)
    isolation = models.JSONField(default=list, blank=True)
    tenants_kept_apart = models.BooleanField(default=True)
    abilities = models.JSONField(null=True)  # What its engine says that it can do (`clusters/abilities.py`); None: not yet.
    observe_cursor = models.TextField(blank=True, default="")
    inventory_read_at = models.DateTimeField(null=True)
    quarantine_since_at = models.DateTimeField(null=True)  # Set while it may run what the database does not know.
    quarantine_looked_at = models.DateTimeField(null=True)  # When all that it runs was first compared with the database.
    version = models.PositiveIntegerField(default=1, db_default=1)  # Of what operators set: engines are made anew with it.
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="cluster_name_unique"),
            models.CheckConstraint(condition=Q(condition__in=ClusterCondition.values), name="cluster_condition_known"),
        ]

    def __str__(self) -> str:
        return f"cluster {self.name}"


class Pool(models.Model):
    """A homogeneous group of nodes: limits and prices are per pool, so its id outlives a change of its nodes.

    The shape (`gpu_model`, and per node `cpu_millis`, `memory_bytes`, `gpu_millis`) is what one healthy node offers.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pools")
    name = models.CharField(max_length=NAME_LENGTH)
    gpu_model = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    gpus_simulated = models.BooleanField(default=False)
    node_cpu_millis = models.BigIntegerField(default=0)
    node_memory_bytes = models.BigIntegerField(default=0)
    node_gpu_millis = models.BigIntegerField(default=0)
    node_count = models.IntegerField(default=0)
    rules = models.JSONField(null=True)  # How an operator wants it filled (`clusters/placement.py`); left out: the defaults.
    version = models.PositiveIntegerField(default=1, db_default=1)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="pool_name_unique"),
            models.CheckConstraint(
                condition=Q(node_cpu_millis__gte=0, node_memory_bytes__gte=0, node_gpu_millis__gte=0, node_count__gte=0),
                name="pool_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"pool {self.name}"


class Node(models.Model):
    """A machine of a pool, as last observed. A person decides `cordoned`, with what belongs to it, and `taints` alone."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=NAME_LENGTH)
    cpu_millis = models.BigIntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    gpu_millis = models.BigIntegerField(default=0)
    gpu_model = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    gpus = models.JSONField(default=list, blank=True)
    gpus_simulated = models.BooleanField(default=False)
    tasks_max = models.PositiveIntegerField(null=True)  # Whatever they need; None: no bound.
    ready = models.BooleanField(default=True)
    reason = models.CharField(max_length=NOTE_LENGTH, blank=True, default="")
    ready_since_at = models.DateTimeField()
    labels = models.JSONField(default=dict, blank=True)
    gpu_faults = models.JSONField(default=list, blank=True, db_default=Value([], models.JSONField()))  # `clusters/gpu_faults.py`.
    taints = models.JSONField(null=True)  # Effects by name, of an operator; those of the cluster are among the labels.
    cordoned = models.BooleanField(default=False)
    cordon_reason = models.CharField(max_length=NOTE_LENGTH, blank=True, default="")
    cordoned_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    cordoned_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField()
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_name_unique"),
            models.CheckConstraint(
                condition=Q(cpu_millis__gte=0, memory_bytes__gte=0, gpu_millis__gte=0), name="node_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(cordoned=False, cordoned_at=None) | Q(cordoned=True, cordoned_at__isnull=False),
                name="node_cordoned_since",
            ),
        ]

    def __str__(self) -> str:
        return f"node {self.name}"


class MaintenanceWindow(models.Model):
    """Machines that are out of service from then to then: all of a pool, or some. What it has come to is told from its times.

    `cordoned_ids` are the nodes that it took out of service itself, and which return when it is over; who was out already stays.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="maintenance")
    node_ids = models.JSONField(default=list)  # Ids as texts; empty where the whole pool is meant.
    reason = models.CharField(max_length=NOTE_LENGTH, blank=True, default="")
    drain = models.BooleanField(default=False)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cancelled_at = models.DateTimeField(null=True)
    cordoned_ids = models.JSONField(default=list)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=NAME_LENGTH)

    class Meta:
        indexes = [models.Index(fields=["starts_at"], condition=Q(ended_at__isnull=True), name="maintenance_open")]
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=models.F("starts_at")), name="maintenance_ends_after_start"),
        ]

    def __str__(self) -> str:
        return f"maintenance {self.id}"


class NodeContents(models.Model):
    """Which images and data a node holds already, as far as its engine says or as work that ran there brought them: the oldest
    first, at most `contents.HELD_MAX` of each. A preference of the scheduler and nothing more, so it may be out of date.

    `version` grows with each change; a process that remembers a row reads it again only then.
    """

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="contents")
    images = models.JSONField(default=list)  # Digests.
    data = models.JSONField(default=list)  # Ids of volumes.
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"contents of {self.node_id}"


class PoolMeasure(models.Model):
    """What a pool usually gets (`mix`), which weights were found best for that (`learned`), and how the leading scheduler found
    it filled last; history is in the telemetry."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="measure")
    mix = models.JSONField(default=list)  # Tasks with how often: [cpu_millis, memory_bytes, gpu_millis, models, often].
    mixed_at = models.DateTimeField(null=True)
    learned = models.JSONField(null=True)  # `services.measures.Learned`; none until it was asked for.
    learned_at = models.DateTimeField(null=True)
    fragmentation_millis = models.IntegerField(null=True)  # Thousandths of the idle GPU; none without GPUs or without a mix.
    idle = models.JSONField(default=dict)
    measured_at = models.DateTimeField(null=True)
    uneven = models.JSONField(default=dict)  # In what its nodes differ though they are of one shape: values by label.

    def __str__(self) -> str:
        return f"measure of {self.pool_id}"


class Quarantined(models.Model):
    """An attempt that a cluster has and the database does not know: newer than the backup that was restored.

    Nothing is done to it until an operator decides. What it is told from are the engine's labels; without `job_id` the
    engine's object has none, and which job it belongs to is not known. `resolution` is empty while it is undecided and there.
    """

    attempt_id = models.UUIDField(primary_key=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="quarantined")
    job_id = models.UUIDField(null=True, db_index=True)
    number = models.IntegerField(null=True)
    name = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    tenant_key = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    tasks = models.JSONField(default=list)  # Each with role, index, node, state and amounts.
    runs = models.BooleanField(default=True)
    started_at = models.DateTimeField(null=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    stop_asked_at = models.DateTimeField(null=True)
    resolution = models.CharField(max_length=20, blank=True, default="")
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(resolution__in=["", "adopted", "stopped", "gone"]), name="quarantined_resolution_known"
            )
        ]
        indexes = [models.Index(fields=["cluster"], condition=Q(resolution=""), name="quarantined_open")]

    def __str__(self) -> str:
        return f"quarantined attempt {self.attempt_id}"


class SeriesChunk(models.Model):
    """A fixed number of neighbouring slots of one series at one resolution, packed (`clusters/telemetry/chunks.py`).

    Subjects are opaque text here: a chunk refers to no node and no task, and outlives both until `expires_at`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    subject = models.CharField(max_length=SUBJECT_LENGTH)
    metric = models.CharField(max_length=METRIC_LENGTH)
    resolution_millis = models.PositiveIntegerField()
    start_at = models.DateTimeField()
    packed = models.TextField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "metric", "resolution_millis", "start_at"], name="serieschunk_place_unique"
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="serieschunk_expiry")]

    def __str__(self) -> str:
        return f"{self.metric} of {self.subject} from {self.start_at:%Y-%m-%dT%H:%MZ}"
