from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from images.lifecycle import BuildState
from kernel.ids import new_id

IMAGE_NAME_LENGTH = 63
REFERENCE_LENGTH = 500


class ImageKind(models.TextChoices):
    HOST = "host"  # The host's own programs.
    PYTHON = "python"  # A Python environment built from requirements.
    REGISTRY = "registry"  # A container image, for engines that pull: one that is there, or one that is built and pushed.


class Image(models.Model):
    """Software to run in, under a name of its tenant. Without a tenant it belongs to the operators and all users may use it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=IMAGE_NAME_LENGTH)
    kind = models.CharField(max_length=20, choices=ImageKind.choices)
    description = models.CharField(max_length=500, blank=True, default="")
    state = models.CharField(max_length=20)
    digest = models.CharField(max_length=80, blank=True, default="")
    requirements = models.TextField(blank=True, default="")
    containerfile = models.TextField(blank=True, default="", db_default="")
    base = models.CharField(max_length=REFERENCE_LENGTH, blank=True, default="", db_default="")
    context_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    reference = models.CharField(max_length=REFERENCE_LENGTH, blank=True, default="")
    python = models.CharField(max_length=40, blank=True, default="")
    location = models.CharField(max_length=500, blank=True, default="")
    size_bytes = models.BigIntegerField(null=True)
    packages = models.JSONField(default=list)
    error = models.CharField(max_length=4_000, blank=True, default="")
    build_job_id = models.UUIDField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)
    is_deleted = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(is_deleted=False, tenant__isnull=False), name="image_name_in_tenant"
            ),
            models.UniqueConstraint(
                fields=["name"], condition=Q(is_deleted=False, tenant__isnull=True), name="image_name_shared"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "digest"], name="image_digest"),
            models.Index(fields=["location"], name="image_location"),
        ]

    def __str__(self) -> str:
        return f"image {self.name} ({self.id})"

    @property
    def is_built_container(self) -> bool:
        """Whether it is a container image that a job builds and pushes to `reference`."""
        return self.kind == ImageKind.REGISTRY and bool(self.containerfile or self.base)


class BuildRequest(models.Model):
    """Asks for one build of one digest for one tenant. Jobs turns it into a job and reports back."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="build_requests")
    digest = models.CharField(max_length=80)
    requirements = models.TextField()
    location = models.CharField(max_length=500)
    state = models.CharField(max_length=20, default=BuildState.QUEUED.value)
    job_id = models.UUIDField(null=True)
    error = models.CharField(max_length=4_000, blank=True, default="")
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "digest"],
                condition=Q(state__in=(BuildState.QUEUED.value, BuildState.BUILDING.value)),
                name="build_once_per_digest",
            )
        ]
        indexes = [
            models.Index(fields=["state", "id"], name="build_pending"),
            models.Index(fields=["tenant", "digest", "id"], name="build_of_digest"),
        ]

    def __str__(self) -> str:
        return f"build {self.id} of {self.digest[:19]}"


class RegistryAccount(models.Model):
    """Whom a registry takes a tenant for when its images are pulled. The password can be written and used, never read back."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    host = models.CharField(max_length=255)
    username = models.CharField(max_length=255)
    ciphertext = models.TextField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "host"], name="registry_account_once")]

    def __str__(self) -> str:
        return f"account at {self.host} of tenant {self.tenant_id}"
