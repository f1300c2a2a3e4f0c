"""What the portal keeps: which features are on, announcements, and what people prefer."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from kernel.ids import new_id
from kernel.words import LANGUAGES

LEVELS = ("info", "warning", "critical")
THEMES = ("system", "light", "dark")


class FeatureSetting(models.Model):
    """Whether a feature is on: for a tenant and those below it, or, without a tenant, for the installation. No row: inherited."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.CASCADE, null=True, related_name="feature_settings")
    name = models.CharField(max_length=40)
    enabled = models.BooleanField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], condition=Q(tenant__isnull=False), name="feature_once_in_tenant"),
            models.UniqueConstraint(fields=["name"], condition=Q(tenant__isnull=True), name="feature_once_in_installation"),
        ]

    def __str__(self) -> str:
        return f"feature {self.name} {'on' if self.enabled else 'off'} for tenant {self.tenant_id}"


class Announcement(models.Model):
    """Words for all users, or for those who belong to a tenant, or to one above it; in a window."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.CASCADE, null=True, related_name="announcements")
    level = models.CharField(max_length=10, default="info")
    text = models.CharField(max_length=2_000)
    text_zh = models.CharField(max_length=2_000, blank=True, default="")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="announcements")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        indexes = [models.Index(fields=["tenant", "id"], name="announcement_tenant")]
        constraints = [
            models.CheckConstraint(condition=Q(level__in=LEVELS), name="announcement_level_known"),
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gt=F("starts_at")), name="announcement_ends_after_start"
            ),
        ]

    def __str__(self) -> str:
        return f"announcement {self.id}"


class AnnouncementDismissal(models.Model):
    """A user has read an announcement and does not want to see it again."""

    announcement = models.ForeignKey(Announcement, models.CASCADE, related_name="dismissals")
    user = models.ForeignKey("tenants.User", models.CASCADE, related_name="dismissals")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["announcement", "user"], name="announcement_dismissed_once")]

    def __str__(self) -> str:
        return f"announcement {self.announcement_id}, dismissed by {self.user_id}"


class Preference(models.Model):
    """How a person wants the portal. Empty: as the browser says."""

    user = models.OneToOneField("tenants.User", models.CASCADE, primary_key=True, related_name="preference")
    language = models.CharField(max_length=5, blank=True, default="")
    theme = models.CharField(max_length=10, default="system")
    time_zone = models.CharField(max_length=64, blank=True, default="")
    default_tenant = models.ForeignKey("tenants.Tenant", models.SET_NULL, null=True, related_name="+")
    first_steps_done = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(language__in=("", *LANGUAGES)), name="preference_language_known"),
            models.CheckConstraint(condition=Q(theme__in=THEMES), name="preference_theme_known"),
        ]

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"


class SavedFilter(models.Model):
    """A query string that a person keeps for a page of the portal. It is data: the portal reads it, the platform never does."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey("tenants.User", models.CASCADE, related_name="saved_filters")
    page = models.CharField(max_length=40)
    name = models.CharField(max_length=63)
    query = models.CharField(max_length=1_000, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "page", "name"], name="saved_filter_name_unique")]

    def __str__(self) -> str:
        return f"filter {self.name} of {self.user_id} for {self.page}"
