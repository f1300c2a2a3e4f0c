"""Reads of this app, for its own API and for apps above. They never write."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from clusters.services import Obstacle
from kernel.actor import Actor
from kernel.clock import database_now
from kernel.errors import NotFound
from kernel.words import Text, counted
from storage.models import Artifact, ArtifactCollection, Checkpoint, CodeSnapshot, Volume, VolumeGrant
from tenants.identity.access import role_allows

NAMES_SHOWN = 5  # Of the volumes that keep a cluster.


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What was brought home from one attempt. `marker` says in words what was left behind; empty for nothing."""

    file_count: int
    size_bytes: int
    skipped_count: int
    skipped_bytes: int
    marker: str
    is_removed: bool


def list_artifacts(attempt_id: uuid.UUID) -> QuerySet[Artifact]:
    """The artifacts of one attempt; page them by `path`, which is unique within it."""
    return Artifact.objects.filter(attempt_id=attempt_id)


def get_artifact(attempt_id: uuid.UUID, path: str) -> Artifact:
    """One artifact by its path. NotFound for any other text: a path is looked up, never opened."""
    found = Artifact.objects.filter(attempt_id=attempt_id, path=path).first() if "\0" not in path else None
    if found is None:
        raise NotFound(
            Text(f"The job has no artifact {path[:200]!r}.", f"该作业没有产物 {path[:200]!r}。"),
            hint=Text("List its artifacts to see what there is.", "请列出其产物以查看现有内容。"),
        )
    return found


def artifact_facts(artifact: Artifact) -> dict[str, object]:
    """An artifact as the API shows it."""
    return {
        "path": artifact.path,
        "size_bytes": artifact.size_bytes,
        "sha256": artifact.sha256,
        "mode": f"{artifact.mode:04o}",
        "created_at": artifact.created_at,
    }


def collections_of(attempt_ids: Iterable[uuid.UUID]) -> Mapping[uuid.UUID, OutputFacts]:
    """What became of the outputs of many attempts; an attempt that is missing is not collected yet. One query."""
    rows = ArtifactCollection.objects.filter(attempt_id__in=frozenset(attempt_ids))
    return {
        row.attempt_id: OutputFacts(
            row.file_count, row.size_bytes, row.skipped_count, row.skipped_bytes, row.marker, row.removed_at is not None
        )
        for row in rows
    }


def has_code(tenant_id: uuid.UUID, digest: str) -> bool:
    """Whether the tenant has a code snapshot of this digest."""
    return CodeSnapshot.objects.filter(tenant_id=tenant_id, digest=digest).exists()


def has_checkpoint(job_id: uuid.UUID) -> bool:
    """Whether a job has left a whole checkpoint that is still there and that another attempt can go on from; also while its
    directory still has to be looked through, as just after an end: the copy then finds out."""
    kept = Checkpoint.objects.filter(job_id=job_id, removed_at__isnull=True, problem="")
    return kept.filter(Q(saved_at__isnull=False) | Q(due_at__lte=database_now())).exists()


def find_checkpoint(job_id: uuid.UUID) -> Checkpoint | None:
    """What is known of a job's directory; None before its first attempt."""
    return Checkpoint.objects.filter(job_id=job_id).first()


def checkpoint_times(job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
    """When the newest checkpoint of each of these jobs was written, of those that have one. One query."""
    rows = Checkpoint.objects.filter(job_id__in=job_ids, saved_at__isnull=False)
    return {job_id: saved_at for job_id, saved_at in rows.values_list("job_id", "saved_at") if saved_at is not None}


def acting_tenant(actor: Actor, volume: Volume, verb: str) -> uuid.UUID | None:
    """The tenant in whose name the actor may do `verb` to a volume's files: its owner, or one that it is granted to."""
    if role_allows(actor, volume.tenant_id, verb):
        return volume.tenant_id
    grants = VolumeGrant.objects.filter(volume=volume).order_by("id")
    if verb == "volume.write":
        grants = grants.filter(read_only=False)
    for tenant_id in grants.values_list("tenant_id", flat=True):
        if tenant_id in actor.roles and role_allows(actor, tenant_id, verb):
            return tenant_id
    return None


def obstacles(cluster_id: uuid.UUID, _pool_ids: Sequence[uuid.UUID]) -> list[Obstacle]:
    """What stands against the removal of a cluster: volumes that are claims there. One query."""
    names = list(Volume.objects.filter(cluster_id=cluster_id, is_deleted=False).order_by("id").values_list("name", flat=True))
    if not names:
        return []
    shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
    text = Text(
        f"{counted(len(names), 'volume is a claim', 'volumes are claims')} there: {shown}.",
        f"有 {len(names)} 个存储卷是其中的存储声明：{shown}。",
    )
    return [Obstacle("volumes", text, Text("Delete them.", "请将其删除。"), is_of_place=True)]


def grants_of(volume_ids: Iterable[uuid.UUID]) -> Mapping[uuid.UUID, list[VolumeGrant]]:
    """Grants of many volumes, oldest first. One query."""
    found: dict[uuid.UUID, list[VolumeGrant]] = {}
    for grant in VolumeGrant.objects.filter(volume_id__in=frozenset(volume_ids)).order_by("id"):
        found.setdefault(grant.volume_id, []).append(grant)
    return found
