"""Directories of the platform as pods see them: by claims, which restricted Pod Security admits, and never by a path of the
host.

Two ways, as the operator has it. *Shared paths* are directories that are mounted alike on all nodes: each tenant's namespace
gets one claim on each, bound to a volume of its own that no other namespace can claim, and a pod mounts one directory below it.
*A storage class* makes a claim for each job's checkpoint directory, which outlives attempts; deleting it is the operator's.
"""

from __future__ import annotations

import hashlib
import os

from clusters.engines.interface import Workload
from clusters.engines.kubernetes import names, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.manifests import Volume

_CODE_BYTES_MAX = 512 * 1024  # An object of the API holds 1 MiB, and etcd's pages are not for data.


def root_of(location: str, config: KubernetesConfig) -> str | None:
    """The shared path that the location is in."""
    path = os.path.normpath(location)
    return next((root for root in config.shared_paths if path.startswith(os.path.normpath(root) + "/")), None)


def claim_name(root: str) -> str:
    """The claim of a tenant on a shared path."""
    return f"shared-{hashlib.sha256(root.encode()).hexdigest()[:12]}"


def shared_claim(root: str, namespace: str, config: KubernetesConfig) -> tuple[Json, Json]:
    """A volume on the path and a tenant's claim on it, each bound to the other alone."""
    claim = claim_name(root)
    volume = f"{namespace}-{claim}"
    labels = {names.MANAGED_BY: names.BERTH, names.CLUSTER: config.cluster_id}
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
            "hostPath": {"path": os.path.normpath(root), "type": "Directory"},
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
    labels = {names.MANAGED_BY: names.BERTH, names.CLUSTER: config.cluster_id, names.JOB: str(workload.checkpoint.id)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"checkpoint-{workload.checkpoint.id}", "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": [config.storage_access],
            "storageClassName": config.storage_class,
            "resources": {"requests": {"storage": str(config.storage_bytes)}},
        },
    }


def refuse_storage(workload: Workload, config: KubernetesConfig) -> tuple[str, str] | None:
    """Why the workload's directories cannot be given, or None."""
    for mount in workload.mounts:
        if root_of(mount.location, config) is None:
            return (
                "storage_not_shared",
                f"The volume at {mount.location} is on no path that this cluster's nodes share (`shared_paths`).",
            )
    kept = workload.checkpoint
    if kept is not None and kept.location and root_of(kept.location, config) is None and not config.storage_class:
        detail = "The cluster has neither a storage class for checkpoint directories nor the platform's directory on its nodes."
        return "storage_not_shared", detail
    code = workload.code
    if code is not None and root_of(code.location, config) is None and not os.access(code.location, os.R_OK):
        return "code_not_carried", "The code snapshot is neither on a shared path of the nodes nor readable by this worker."
    return None


def volumes_of(workload: Workload, config: KubernetesConfig) -> tuple[Volume, ...]:
    """What the tasks mount."""
    found = [_shared(mount.location, mount.target, config, read_only=mount.read_only) for mount in workload.mounts]
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


def shared_roots(workload: Workload, config: KubernetesConfig) -> frozenset[str]:
    """The shared paths of which the tenant needs a claim."""
    locations = [mount.location for mount in workload.mounts]
    if workload.checkpoint is not None and workload.checkpoint.location:
        locations.append(workload.checkpoint.location)
    if workload.code is not None:
        locations.append(workload.code.location)
    return frozenset(root for location in locations if (root := root_of(location, config)) is not None)


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


def _shared(location: str, target: str, config: KubernetesConfig, *, read_only: bool = False) -> Volume:
    root = root_of(location, config)
    assert root is not None
    claim = claim_name(root)
    return Volume(claim, claim, target, os.path.relpath(os.path.normpath(location), os.path.normpath(root)), read_only)
