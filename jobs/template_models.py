"""Templates: jobs with places to fill in, kept for a tenant or for all users."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from kernel.ids import new_id

TEMPLATE_NAME_LENGTH = 63


class Template(models.Model):
    """A job document with parameters (`jobs/spec/templating.py`). Without a tenant it is public: operators', or published.

    `found_by` holds name, title and tags in lower case for the search; `uses` counts how often it was filled in to be run.
    `test_job_id` is the job of the last test run, and `test_digest` what the template made of its defaults then.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, null=True, related_name="+")
    owner = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=TEMPLATE_NAME_LENGTH)
    title = models.CharField(max_length=100)
    title_zh = models.CharField(max_length=100, blank=True, default="")
    description = models.CharField(max_length=4_000, blank=True, default="")
    description_zh = models.CharField(max_length=4_000, blank=True, default="")
    icon = models.CharField(max_length=40, blank=True, default="")
    tags = models.JSONField(default=list)
    parameters = models.JSONField(default=list)
    spec = models.JSONField()
    is_shipped = models.BooleanField(default=False)
    found_by = models.TextField(default="")
    uses = models.BigIntegerField(default=0)
    test_job_id = models.UUIDField(null=True)
    test_digest = models.CharField(max_length=64, blank=True, default="")
    tested_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], condition=Q(tenant__isnull=False), name="template_name_in_tenant"),
            models.UniqueConstraint(fields=["name"], condition=Q(tenant__isnull=True), name="template_name_public"),
        ]
        indexes = [models.Index(fields=["tenant", "id"], name="template_tenant")]

    def __str__(self) -> str:
        return f"template {self.name} ({self.id})"
