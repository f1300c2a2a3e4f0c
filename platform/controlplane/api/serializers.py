"""Reports of the installation as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from controlplane.models import SelfTest
from webapi.fields import UtcTimeField, utc_text


class FindingOut(serializers.Serializer[Any]):
    """One request that was answered as it should not have been."""

    operation = serializers.CharField()
    by = serializers.ChoiceField(["stranger", "nobody"])
    status = serializers.IntegerField()
    problem = serializers.CharField()
    query = serializers.ListField(child=serializers.CharField(), required=False)


class SelfTestOut(serializers.Serializer[Any]):
    """One run of the tenant escape self-test."""

    id = serializers.UUIDField()
    verdict = serializers.ChoiceField(["", "passed", "failed", "broken"], help_text="Empty while it runs.")
    started_at = UtcTimeField()
    finished_at = UtcTimeField(allow_null=True)
    requests = serializers.IntegerField()
    findings = FindingOut(many=True)
    detail = serializers.CharField(help_text="Why a run is broken.")
    removed = serializers.BooleanField(help_text="Whether everything that it made is gone.")


def show_selftests(rows: Sequence[SelfTest]) -> list[dict[str, Any]]:
    """Runs as they are answered."""
    return [
        {
            "id": str(row.pk),
            "verdict": row.verdict,
            "started_at": utc_text(row.started_at),
            "finished_at": utc_text(row.finished_at),
            "requests": row.requests,
            "findings": row.findings,
            "detail": row.detail,
            "removed": row.removed_at is not None,
        }
        for row in rows
    ]
