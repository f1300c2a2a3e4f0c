"""Where volumes are, as engines take it."""

from __future__ import annotations

import uuid

from clusters.engines.interface import Claim, HostDir, Place, Share
from storage.models import Volume, VolumeKind

MADE_BY_ENGINES = ("volume-", "checkpoint-", "shared-", "nfs-")
"""How names of claims begin that engines make in a tenant's namespace. None of them may be named as an existing claim: what is on
it is a job's, or a whole tree of the host."""
_GONE = uuid.UUID(int=0)


def is_placed(volume: Volume) -> bool:
    """Whether an operator said where it is: then it is an operator's to change, and to say who may write."""
    return bool(volume.claim) or volume.kind == VolumeKind.NFS


def claim_name(volume: Volume) -> str:
    """The claim that it is, in the namespace of its tenant; empty where it is none."""
    return (volume.claim or f"{MADE_BY_ENGINES[0]}{volume.id}") if volume.kind == VolumeKind.CLAIM else ""


def place_of(volume: Volume) -> Place:
    """Where an engine finds it."""
    if volume.kind == VolumeKind.CLAIM:
        return Claim(
            volume.cluster_id or _GONE, claim_name(volume), is_made=not volume.claim, size_bytes=volume.size_quota_bytes or 0
        )
    if volume.kind == VolumeKind.NFS:
        return Share(volume.server, volume.export)
    return HostDir(volume.location)
