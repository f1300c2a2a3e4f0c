"""Rows of the HTTP layer: requests that must not happen twice."""

from __future__ import annotations

from django.db import models

from kernel.ids import new_id


class IdempotencyKey(models.Model):
    """One accepted request and its answer, written in the transaction of its effect."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor_id = models.UUIDField()
    key = models.CharField(max_length=200)
    operation = models.CharField(max_length=500, help_text="Method and path with query.")
    body_digest = models.CharField(max_length=64, help_text="SHA-256 of content type and body.")
    status = models.PositiveSmallIntegerField(default=0)
    body = models.TextField(default="")
    headers = models.JSONField(default=dict)
    rights = models.JSONField(null=True)  # What the first request rested on (`webapi.idempotency`). Null: an older release's row.
    is_shown_once = models.BooleanField(default=False, db_default=False)  # The answer held a secret and was not kept.
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor_id", "key"], name="idempotency_key_once_per_actor")]
        indexes = [models.Index(fields=["expires_at"], name="idempotency_key_expiry")]

    def __str__(self) -> str:
        return f"{self.operation} by {self.actor_id} at {self.created_at:%Y-%m-%dT%H:%M:%SZ}"


class FactMark(models.Model):
    """Left by a transaction that changed what requests remember (`webapi.facts`); `id` is the transaction's number."""

    id = models.BigIntegerField(primary_key=True)
    salt = models.BigIntegerField()

    def __str__(self) -> str:
        return f"mark {self.id}"
