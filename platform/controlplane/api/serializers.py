"""Reports of the installation as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from controlplane.models import SelfTest
from controlplane.selftest.boundaries import sentence
from kernel.clock import utc_text
from webapi.fields import UtcTimeField


class FindingOut(serializers.Serializer[Any]):
    """A request that was answered wrongly."""

    operation = serializers.CharField()
    by = serializers.ChoiceField(["stranger", "nobody", "job"])
    status = serializers.IntegerField(help_text="Status of the answer; 0 where a job found it.")
    problem = serializers.CharField()
    query = serializers.ListField(child=serializers.CharField(), required=False)


class WallOut(serializers.Serializer[Any]):
    """An isolation wall around a job, tried by a job from inside."""

    cluster = serializers.CharField()
    boundary = serializers.CharField(allow_blank=True, help_text="Name of the wall; empty if none was tried.")
    outcome = serializers.ChoiceField(
        ["closed", "open", "hole", "not_tried"], help_text="`open`: as the cluster declares; `hole`: against its declaration."
    )
    text = serializers.CharField(help_text="The outcome as a sentence.")
    evidence = serializers.CharField(allow_blank=True, help_text="What the job reached, or why no attempt was made.")


class SelfTestOut(serializers.Serializer[Any]):
    """A run of the tenant escape self-test."""

    id = serializers.UUIDField()
    verdict = serializers.ChoiceField(["", "passed", "failed", "broken"], help_text="Empty while it runs.")
    started_at = UtcTimeField()
    finished_at = UtcTimeField(allow_null=True)
    requests = serializers.IntegerField()
    findings = FindingOut(many=True)
    walls = WallOut(many=True, help_text="Reach of a job on the local cluster, by isolation wall.")
    detail = serializers.CharField(help_text="Reason why a run is broken.")
    removed = serializers.BooleanField(help_text="All objects of the run are removed.")


def show_selftests(rows: Sequence[SelfTest], *, language: str = "en") -> list[dict[str, Any]]:
    """Runs as they are answered."""
    return [
        {
            "id": str(row.pk),
            "verdict": row.verdict,
            "started_at": utc_text(row.started_at),
            "finished_at": utc_text(row.finished_at),
            "requests": row.requests,
            "findings": row.findings,
            "walls": [{**wall, "text": sentence(wall["boundary"], wall["outcome"], language)} for wall in row.walls],
            "detail": row.detail,
            "removed": row.removed_at is not None,
        }
        for row in rows
    ]
