"""The one written form of a job: the same bytes whichever door it came through, readable, and a document like any other.

Keys are those that users write, quantities are integers where the unit allows it, and what was left out stays out, except for
resources and priority: a default that changes later must not change what a stored job asks for. So a stored job can be shown,
edited and submitted again, and `parse_spec(to_document(spec)) == spec`."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from jobs.spec import model
from jobs.spec.model import JobSpec, Role
from kernel.signals import SignalTarget


def canonical(spec: JobSpec) -> str:
    """Canonical JSON: sorted keys, no spaces, UTF-8 text."""
    return json.dumps(to_document(spec), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spec_digest(spec: JobSpec | str) -> str:
    """SHA-256 in hexadecimal of the canonical form, which may be given instead of the spec."""
    text = spec if isinstance(spec, str) else canonical(spec)
    return hashlib.sha256(text.encode()).hexdigest()


def to_document(spec: JobSpec) -> dict[str, Any]:
    """The spec as a plain document; always with name, priority and roles."""
    document: dict[str, Any] = {
        "name": spec.name,
        "priority": spec.priority,
        "roles": {name: _role(role) for name, role in spec.roles.items()},
    }
    for key in _PLAIN:
        value = getattr(spec, key)
        if value != _DEFAULTS[key]:
            document[key] = value
    for key in _LISTS:
        if entries := getattr(spec, key):
            document[key] = list(entries)
    for key in _MAPPINGS:
        if mapping := getattr(spec, key):
            document[key] = dict(mapping)
    return {**document, **_structured(spec)}


_PLAIN = ("queue", "pool", "cluster", "image", "workdir", "framework", "ssh", "hold", "kind")
_LISTS = ("outputs", "tags", "after", "after_ok", "after_any")
_MAPPINGS = ("env", "secrets", "labels")
_DEFAULTS = {key: JobSpec.model_fields[key].default for key in _PLAIN}


def _role(role: Role) -> dict[str, Any]:
    document: dict[str, Any] = {
        "command": role.command if isinstance(role.command, str) else list(role.command),
        "resources": _resources(role.resources),
    }
    if (role.replicas.min, role.replicas.max) != (1, 1):
        same = role.replicas.min == role.replicas.max
        document["replicas"] = role.replicas.max if same else {"min": role.replicas.min, "max": role.replicas.max}
    if role.shell is not model.Shell.AUTO:
        document["shell"] = str(role.shell)
    if role.ports:
        document["ports"] = list(role.ports)
    if role.env:
        document["env"] = dict(role.env)
    if role.ready is not None:
        document["ready"] = {**_given(role.ready, ("port", "path", "log")), "timeout": role.ready.timeout_seconds}
    if role.start_after_ready:
        document["start_after_ready"] = list(role.start_after_ready)
    if role.max_retry is not None:
        document["max_retry"] = role.max_retry
    if role.policies:
        document["policies"] = [_policy(policy) for policy in role.policies]
    return document


def _policy(policy: model.RolePolicy) -> dict[str, Any]:
    codes = {"exit_code": list(policy.exit_code)} if policy.exit_code else {}
    return {"on": [str(event) for event in policy.on], "do": str(policy.action), **codes}


def _resources(ask: model.ResourceAsk) -> dict[str, Any]:
    document: dict[str, Any] = {"cpu": _cpu(ask.cpu_millis), "memory": ask.memory_bytes}
    if ask.gpu.millis or ask.gpu.model:
        document["gpu"] = _gpu(ask.gpu)
    if ask.shm_bytes:
        document["shm"] = ask.shm_bytes
    if ask.cpu_exclusive:
        document["cpu_exclusive"] = True
    if ask.rdma:
        document["rdma"] = True
    if ask.processes_per_gpu != 1:
        document["processes_per_gpu"] = ask.processes_per_gpu
    return document


def _cpu(millis: int) -> int | str:
    return f"{millis}m" if millis % 1000 else millis // 1000


def _gpu(ask: model.GpuAsk) -> int | str:
    number = format(Decimal(ask.millis) / 1000, "f") if ask.millis % 1000 else str(ask.millis // 1000)
    if ask.model:
        return f"{ask.model}:{number}"
    return number if ask.millis % 1000 else ask.millis // 1000


def _structured(spec: JobSpec) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "max_runtime": spec.max_runtime_seconds,
        "start_after": spec.start_after and _moment(spec.start_after),
        "retry": spec.retry and {"limit": spec.retry.limit, "on": [str(entry) for entry in spec.retry.on]},
        "checkpoint": spec.checkpoint and _checkpoint(spec.checkpoint),
        "mounts": [{"volume": mount.volume, "path": mount.path, "read_only": mount.read_only} for mount in spec.mounts],
        "code": spec.code and _given(spec.code, ("path", "git", "ref", "secret", "snapshot")),
        "array": spec.array and _given(spec.array, ("size", "parallelism")),
        "completion": _completion(spec.completion),
        "placement": _placement(spec.placement),
    }
    return {key: value for key, value in parts.items() if value}


def _checkpoint(checkpoint: model.Checkpoint) -> dict[str, Any]:
    document: dict[str, Any] = {"path": checkpoint.path, "signal": checkpoint.signal, "grace": checkpoint.grace_seconds}
    if checkpoint.signal_target != SignalTarget.PROGRAMS:
        document["to"] = str(checkpoint.signal_target)
    if checkpoint.before_deadline_seconds is not None:
        document["before_deadline"] = checkpoint.before_deadline_seconds
    if checkpoint.interval_seconds is not None:
        document["interval"] = checkpoint.interval_seconds
    if checkpoint.per != model.CheckpointScope.JOB:
        document["per"] = str(checkpoint.per)
    if checkpoint.start_from is not None:
        document["from"] = checkpoint.start_from
    return document


def _completion(completion: model.Completion) -> dict[str, Any]:
    roles = {name: _given(rule, ("min_failed", "min_succeeded")) for name, rule in completion.roles.items()}
    return {**({"chief": completion.chief} if completion.chief else {}), **({"roles": roles} if roles else {})}


def _placement(placement: model.Placement) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "together": placement.together,
        "labels": {name: list(accepted) for name, accepted in placement.labels.items()},
        "tolerates": list(placement.tolerates),
    }
    return {key: value for key, value in parts.items() if value}


def _given(value: model.Model, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found for name in names if (found := getattr(value, name)) is not None}


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
