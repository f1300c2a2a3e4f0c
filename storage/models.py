from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from kernel.ids import new_id

VOLUME_NAME_LENGTH = 63
CLAIM_LENGTH = 253  # Kubernetes: names of objects, and of hosts, are DNS subdomains (RFC 1123).
PATH_LENGTH = 1_024  # Characters of a path inside a volume, a snapshot or an attempt's outputs.


class VolumeKind(models.TextChoices):
    LOCAL = "local"  # A directory of this host, chosen by the server.
    CLAIM = "claim"  # A PersistentVolumeClaim of one cluster.
    NFS = "nfs"  # A directory that an NFS server exports.


class VolumeNumber(models.Model):
    """Hands out numbers that are never used twice: both databases count this key up and never down."""

    id = models.BigAutoField(primary_key=True)

    def __str__(self) -> str:
        return f"volume number {self.pk}"


class Volume(models.Model):
    """Data of one tenant that jobs mount. `number` becomes a group id of its own on the local engine, so it is never reused.

    Where it is depends on its kind (`storage/places.py`): `location` is a directory of this host; `cluster` and `claim` name a
    claim that is there, or, with an empty name, one that the engine makes, of `size_quota_bytes`; `server` and `export` an NFS
    directory. The platform itself sees the files of the first kind alone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=VOLUME_NAME_LENGTH)
    kind = models.CharField(max_length=20, choices=VolumeKind.choices, default=VolumeKind.LOCAL)
    description = models.CharField(max_length=500, blank=True, default="")
    location = models.CharField(max_length=500)
    cluster = models.ForeignKey("clusters.Cluster", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    claim = models.CharField(max_length=CLAIM_LENGTH, blank=True, default="", db_default="")
    server = models.CharField(max_length=CLAIM_LENGTH, blank=True, default="", db_default="")
    export = models.CharField(max_length=500, blank=True, default="", db_default="")
    number = models.PositiveBigIntegerField(unique=True)
    size_quota_bytes = models.BigIntegerField(null=True)
    used_bytes = models.BigIntegerField(null=True)
    used_read_at = models.DateTimeField(null=True)
    read_only = models.BooleanField(default=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)
    is_deleted = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], condition=Q(is_deleted=False), name="volume_name_in_tenant"),
            models.CheckConstraint(
                condition=Q(size_quota_bytes__isnull=True) | Q(size_quota_bytes__gte=0), name="volume_quota_not_negative"
            ),
        ]
        indexes = [models.Index(fields=["is_deleted", "removed_at"], name="volume_to_remove")]

    def __str__(self) -> str:
        return f"volume {self.name} ({self.id})"


class VolumeGrant(models.Model):
    """Lets another tenant mount a volume, read-only unless said otherwise."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="grants")
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    read_only = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["volume", "tenant"], name="volume_grant_once_per_tenant")]

    def __str__(self) -> str:
        return f"grant of {self.volume_id} to {self.tenant_id}"


class UploadTarget(models.TextChoices):
    VOLUME = "volume"
    CODE = "code"


class Upload(models.Model):
    """A file on its way in, byte by byte resumable. `offset_bytes` says how much of it is safely on disk."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    target = models.CharField(max_length=20, choices=UploadTarget.choices)
    volume = models.ForeignKey(Volume, null=True, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=PATH_LENGTH, blank=True, default="")
    size_bytes = models.BigIntegerField()
    offset_bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(offset_bytes__gte=0) & Q(offset_bytes__lte=models.F("size_bytes")), name="upload_offset_in_size"
            ),
            models.CheckConstraint(
                condition=(Q(target="volume") & Q(volume__isnull=False)) | (Q(target="code") & Q(volume__isnull=True)),
                name="upload_volume_fits_target",
            ),
        ]
        indexes = [models.Index(fields=["updated_at"], name="upload_expiry")]

    def __str__(self) -> str:
        return f"upload {self.id} at {self.offset_bytes} of {self.size_bytes}"


class CodeSnapshot(models.Model):
    """An archive of source code, known by its digest inside one tenant and never changed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    unpacked_bytes = models.BigIntegerField()
    file_count = models.PositiveIntegerField()
    location = models.CharField(max_length=500)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "digest"], name="code_digest_in_tenant")]

    def __str__(self) -> str:
        return f"code {self.digest[:12]}"


class GitCommit(models.Model):
    """Which snapshot a commit of a repository was fetched into, for one tenant."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    url = models.CharField(max_length=1_024)
    commit = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "url", "commit"], name="git_commit_once_per_tenant")]

    def __str__(self) -> str:
        return f"commit {self.commit[:12]} of {self.url}"


class ArtifactCollection(models.Model):
    """What was brought home from one attempt: how much, and in words what was left behind and why."""

    attempt_id = models.UUIDField(primary_key=True)
    job_id = models.UUIDField()
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    file_count = models.PositiveIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    skipped_count = models.PositiveIntegerField(default=0)
    skipped_bytes = models.BigIntegerField(default=0)
    marker = models.CharField(max_length=500, blank=True, default="")
    collected_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["job_id"], name="artifact_collection_job"),
            models.Index(fields=["removed_at", "collected_at"], name="artifact_collection_age"),
        ]

    def __str__(self) -> str:
        return f"outputs of attempt {self.attempt_id}"


class Artifact(models.Model):
    """One file that an attempt left below its declared outputs, copied into the store with its digest."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    job_id = models.UUIDField()
    attempt_id = models.UUIDField()
    path = models.CharField(max_length=PATH_LENGTH)
    size_bytes = models.BigIntegerField()
    mode = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    location = models.CharField(max_length=500)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt_id", "path"], name="artifact_path_in_attempt")]
        indexes = [models.Index(fields=["job_id", "path"], name="artifact_job_path")]

    def __str__(self) -> str:
        return f"artifact {self.path} of attempt {self.attempt_id}"


class AttemptLog(models.Model):
    """The log of one attempt as a whole: where the next chunk goes in its order, how much there is, whether more may come."""

    attempt_id = models.UUIDField(primary_key=True)
    job_id = models.UUIDField()
    tenant_id = models.UUIDField()
    next_sequence = models.BigIntegerField(default=1)
    stored_bytes = models.BigIntegerField(default=0)
    complete = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["removed_at", "updated_at"], name="attempt_log_age"),
            models.Index(fields=["job_id"], name="attempt_log_job"),
        ]

    def __str__(self) -> str:
        return f"log of attempt {self.attempt_id}"


class LogStreamState(models.Model):
    """How far one stream of one task is stored: `cursor` counts the stream's own bytes, `file_bytes` those of our file."""

    id = models.BigAutoField(primary_key=True)
    attempt_id = models.UUIDField()
    role = models.CharField(max_length=63)
    index = models.PositiveIntegerField()
    stream = models.CharField(max_length=10)
    cursor = models.BigIntegerField(default=0)
    file_bytes = models.BigIntegerField(default=0)
    complete = models.BooleanField(default=False)
    last_sequence = models.BigIntegerField(default=0)
    last_marker = models.CharField(max_length=500, blank=True, default="")  # Set while the stream's newest row is a gap.

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt_id", "role", "index", "stream"], name="log_stream_once_per_attempt")
        ]

    def __str__(self) -> str:
        return f"{self.stream} of {self.role}-{self.index} at {self.cursor}"


class LogChunkIndex(models.Model):
    """Where a run of stored log bytes lies. One row per chunk, never one per line; a row with a `marker` stands for a gap."""

    id = models.BigAutoField(primary_key=True)
    attempt_id = models.UUIDField()
    sequence = models.BigIntegerField()
    role = models.CharField(max_length=63)
    index = models.PositiveIntegerField()
    stream = models.CharField(max_length=10)
    offset = models.BigIntegerField()
    length = models.BigIntegerField()
    file_offset = models.BigIntegerField()
    file_length = models.BigIntegerField()
    marker = models.CharField(max_length=500, blank=True, default="")
    skipped_bytes = models.BigIntegerField(default=0)
    stored_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt_id", "sequence"], name="log_sequence_in_attempt")]
        indexes = [models.Index(fields=["attempt_id", "role", "index", "stream", "offset"], name="log_chunk_stream")]

    def __str__(self) -> str:
        return f"chunk {self.sequence} of attempt {self.attempt_id}"


class Checkpoint(models.Model):
    """The directory that a job keeps over its attempts: what was measured in it last, and when it is looked at next.

    `saved_at` is the time of the newest whole checkpoint. `due_at` None: nothing is to be done until the job moves.
    """

    job_id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    location = models.CharField(max_length=500)
    problem = models.CharField(max_length=500, blank=True, default="")  # Why no attempt can go on from it, in words.
    saved_at = models.DateTimeField(null=True)
    size_bytes = models.BigIntegerField(default=0)
    file_count = models.PositiveIntegerField(default=0)
    is_writing = models.BooleanField(default=False)
    checked_at = models.DateTimeField(null=True)
    started_from = models.UUIDField(null=True)  # The job whose checkpoint it began with a copy of.
    is_copied = models.BooleanField(default=False)
    kept_until = models.DateTimeField(null=True)  # Set once the job has ended.
    removed_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="checkpoint_due"),
            models.Index(fields=["kept_until"], condition=Q(removed_at__isnull=True), name="checkpoint_to_remove"),
            models.Index(fields=["started_from"], condition=Q(is_copied=False), name="checkpoint_to_copy"),
        ]

    def __str__(self) -> str:
        return f"checkpoint of job {self.job_id}"
