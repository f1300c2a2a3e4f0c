"""Volumes and the platform's directories as pods see them: by claims, which restricted Pod Security admits, and never by a path
of the host.

As the operator has it. *Shared paths* are directories that are mounted alike on all nodes: each tenant's namespace gets one claim
on each, bound to a volume of its own that no other namespace can claim, and a pod mounts one directory below it. An *NFS server*
is mounted the same way, each share by a claim of its own. *A storage class* makes a claim for each job's checkpoint directory,
which outlives attempts, and for each volume that is one; deleting it is the operator's. A claim that is *there already* is
mounted as it is, and nothing is asked of it before.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from clusters.engines.interface import Claim, HostDir, MountRef, Places, Share, Workload
from clusters.engines.kubernetes import names, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.manifests import Volume

_CODE_BYTES_MAX = 512 * 1024  # An object of the API holds 1 MiB, and etcd's pages are not for data.


def places_of(config: KubernetesConfig) -> Places:
    """Where volumes may be that pods of this cluster mount."""
    makes = bool(config.storage_class)
    return Places(
        below=tuple(config.shared_paths),
        claims=True,
        makes_claims=makes,
        shares=tuple(config.nfs_servers),
        checkpoints=makes,
    )


def root_of(location: str, config: KubernetesConfig) -> str | None:
    """The shared path that the location is in."""
    return places_of(config).root_of(location)


def claim_name(root: str) -> str:
    """The claim of a tenant on a shared path."""
    return f"shared-{hashlib.sha256(root.encode()).hexdigest()[:12]}"


def shared_claim(root: str, namespace: str, config: KubernetesConfig) -> tuple[Json, Json]:
    """A volume on the path and a tenant's claim on it."""
    return _bound(claim_name(root), namespace, {"hostPath": {"path": os.path.normpath(root), "type": "Directory"}}, config)


def share_claim_name(share: Share) -> str:
    """The claim of a tenant on a directory of an NFS server."""
    return f"nfs-{hashlib.sha256(f'{share.server}:{share.path}'.encode()).hexdigest()[:12]}"


def share_claim(share: Share, namespace: str, config: KubernetesConfig) -> tuple[Json, Json]:
    """A volume on an NFS server's directory and a tenant's claim on it."""
    source = {"nfs": {"server": share.server, "path": share.path}}
    return _bound(share_claim_name(share), namespace, source, config)


def _bound(claim: str, namespace: str, source: Json, config: KubernetesConfig) -> tuple[Json, Json]:
    """A volume and a tenant's claim, each bound to the other alone."""
    volume = f"{namespace}-{claim}"
    labels = _labels(config)
    size = {"storage": "1Ti"}  # A directory has no size; a volume must name one.
    disk = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume, "labels": labels},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
            **source,
        },
    }
    claimed = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": size},
        },
    }
    return disk, claimed


def job_claim(workload: Workload, namespace: str, config: KubernetesConfig) -> Json:
    """The claim that a job's checkpoint directory is on."""
    assert workload.checkpoint is not None
    labels = _labels(config) | {names.JOB: str(workload.checkpoint.id)}
    return _classed(f"checkpoint-{workload.checkpoint.id}", namespace, labels, config.storage_bytes, config)


def volume_claim(claim: Claim, namespace: str, config: KubernetesConfig) -> Json:
    """The claim that is a volume."""
    return _classed(claim.name, namespace, _labels(config), claim.size_bytes or config.storage_bytes, config)


def _classed(name: str, namespace: str, labels: Json, size_bytes: int, config: KubernetesConfig) -> Json:
    """A claim that the cluster's storage class serves."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": [config.storage_access],
            "storageClassName": config.storage_class,
            "resources": {"requests": {"storage": str(size_bytes)}},
        },
    }


def _labels(config: KubernetesConfig) -> dict[str, str]:
    return {names.MANAGED_BY: names.BERTH, names.CLUSTER: config.cluster_id}


def refuse_storage(workload: Workload, config: KubernetesConfig) -> tuple[str, str] | None:
    """Why the workload's directories cannot be given, or None."""
    for mount in workload.mounts:
        if why := _refuse_place(mount, config):
            return "storage_not_shared", why
    kept = workload.checkpoint
    if kept is not None and kept.location and root_of(kept.location, config) is None and not config.storage_class:
        detail = "The cluster has neither a storage class for checkpoint directories nor the platform's directory on its nodes."
        return "storage_not_shared", detail
    code = workload.code
    if code is not None and root_of(code.location, config) is None and not os.access(code.location, os.R_OK):
        return "code_not_carried", "The code snapshot is neither on a shared path of the nodes nor readable by this worker."
    return None


def _refuse_place(mount: MountRef, config: KubernetesConfig) -> str:
    """Why a volume cannot be mounted here. A job is not sent to where it cannot, but settings may change before it starts."""
    places = places_of(config)
    match mount.place:
        case HostDir(path) if places.root_of(path) is None:
            return f"The volume at {path} is on no path that this cluster's nodes share (`shared_paths`)."
        case Claim(cluster_id, name) if str(cluster_id) != config.cluster_id:
            return f"The claim {name} is of another cluster."
        case Claim(_, name, is_made=True) if not places.makes_claims:
            return f"The cluster has no storage class (`storage_class`) to make the claim {name} by."
        case Share(server) if server not in places.shares:
            return f"The NFS server {server} is none of those that this cluster's nodes mount (`nfs_servers`)."
    return ""


def volumes_of(workload: Workload, config: KubernetesConfig) -> tuple[Volume, ...]:
    """What the tasks mount."""
    found = [_mounted(mount, config) for mount in workload.mounts]
    kept = workload.checkpoint
    if kept is not None and kept.location:
        if root_of(kept.location, config) is not None:
            found.append(_shared(kept.location, wrapper.CHECKPOINT, config))
        else:
            found.append(Volume("checkpoint", f"checkpoint-{kept.id}", wrapper.CHECKPOINT))
    code = workload.code
    if code is not None and root_of(code.location, config) is not None:
        found.append(_shared(code.location, f"{wrapper.CODE}/code", config, read_only=True))
    return tuple(found)


def claims_of(workload: Workload, namespace: str, config: KubernetesConfig) -> Iterator[Json]:
    """What there must be before the workload's pods can be, and what outlives them. It is made once, and shared."""
    places = [mount.place for mount in workload.mounts]
    locations = [place.path for place in places if isinstance(place, HostDir)]
    if workload.checkpoint is not None and workload.checkpoint.location:
        locations.append(workload.checkpoint.location)
    if workload.code is not None:
        locations.append(workload.code.location)
    for root in sorted({root for location in locations if (root := root_of(location, config)) is not None}):
        yield from shared_claim(root, namespace, config)
    for place in dict.fromkeys(places):
        if isinstance(place, Share):
            yield from share_claim(place, namespace, config)
        elif isinstance(place, Claim) and place.is_made:
            yield volume_claim(place, namespace, config)
    if needs_job_claim(workload, config):
        yield job_claim(workload, namespace, config)


def needs_job_claim(workload: Workload, config: KubernetesConfig) -> bool:
    """Whether the checkpoint's directory is on a claim of its own."""
    kept = workload.checkpoint
    return kept is not None and bool(kept.location) and root_of(kept.location, config) is None


def read_code(workload: Workload, config: KubernetesConfig) -> bytes | None:
    """The code archive where it travels in an object. Raises OSError."""
    if workload.code is None or root_of(workload.code.location, config) is not None or carried_code(workload, config):
        return None
    with open(workload.code.location, "rb") as file:
        return file.read(_CODE_BYTES_MAX)


def carried_code(workload: Workload, config: KubernetesConfig) -> str:
    """The code archive's file where it is too large for an object; "" else. Raises OSError."""
    code = workload.code
    if code is None or root_of(code.location, config) is not None or os.stat(code.location).st_size <= _CODE_BYTES_MAX:
        return ""
    return code.location


def _mounted(mount: MountRef, config: KubernetesConfig) -> Volume:
    match mount.place:
        case HostDir(path):
            return _shared(path, mount.target, config, read_only=mount.read_only)
        case Claim(_, name):
            return Volume(_volume_name(name), name, mount.target, read_only=mount.read_only)
        case Share() as share:
            claim = share_claim_name(share)
            return Volume(claim, claim, mount.target, read_only=mount.read_only)


def _volume_name(claim: str) -> str:
    """A pod's name for a claim: shorter than a claim's may be, and without dots."""
    return f"claim-{hashlib.sha256(claim.encode()).hexdigest()[:12]}"


def _shared(location: str, target: str, config: KubernetesConfig, *, read_only: bool = False) -> Volume:
    root = root_of(location, config)
    assert root is not None
    claim = claim_name(root)
    return Volume(claim, claim, target, os.path.relpath(os.path.normpath(location), os.path.normpath(root)), read_only)
