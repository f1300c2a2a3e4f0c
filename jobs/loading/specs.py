"""Stored specs: written once per tenant and digest, read often."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from django.db import transaction

from clusters.placement import RDMA, RDMA_PRESENT
from jobs.frameworks import get_framework
from jobs.frameworks.roles import ALL_ROLES
from jobs.models import StoredSpec
from jobs.scheduling.core.eligibility import Wish
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.spec.checks import role_shapes
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.errors import InvalidInput
from kernel.ids import new_id
from reconciling import bulk
from storage.services.mounts import MountRequest

_HAS_RDMA = (RDMA, frozenset({RDMA_PRESENT}))
CACHED_SPECS = 10_000
READ_AT_ONCE = 500  # SQLite's bound on parameters is a thousand.


def load_spec(spec_id: uuid.UUID) -> JobSpec:
    """A stored spec as a value. Specs never change, so what is remembered never lies."""
    spec = _specs.get(spec_id)
    if spec is None:
        document = StoredSpec.objects.values_list("document", flat=True).get(id=spec_id)
        spec = _keep_spec(spec_id, parse_spec(json.loads(document)))
    return spec


def preload_specs(spec_ids: Iterable[uuid.UUID]) -> None:
    """Read the specs of a batch in one statement, for `load_spec` to find. An unreadable spec is left to it, to fail at."""
    for spec_id, document in _documents({spec_id for spec_id in spec_ids if spec_id not in _specs}):
        with contextlib.suppress(InvalidInput, ValueError):
            _keep_spec(spec_id, parse_spec(json.loads(document)))


def wishes(spec_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Wish]:
    """What stored specs ask of the scheduler, in one statement for 500; unreadable ones are left out.

    Specs that differ in their names, commands and variables alone, as those of a batch do, are read as one.
    """
    found = {}
    for spec_id, document in _documents(spec_ids):
        with contextlib.suppress(InvalidInput, ValueError, AttributeError, TypeError, KeyError):
            content = json.loads(document)
            asked = {name: (role.get("replicas"), role["resources"]) for name, role in content["roles"].items()}
            mounts = [mount["volume"] for mount in content.get("mounts") or ()]
            checkpoint = content.get("checkpoint") or {}
            saves = (checkpoint.get("interval"), checkpoint.get("grace"), str(checkpoint.get("path") or "/").startswith("/"))
            where = (
                *(content.get(part) for part in ("pool", "cluster", "placement", "framework")),
                mounts,
                saves,
            )
            key = json.dumps((where, asked), sort_keys=True)
            if key not in _wishes:
                if len(_wishes) >= CACHED_SPECS:
                    _wishes.clear()
                _wishes[key] = wish_of(parse_spec(content))
            found[spec_id] = _wishes[key]
    return found


def wish_of(spec: JobSpec) -> Wish:
    """What a spec asks of the scheduler."""
    placement = spec.placement
    needs = tuple((label, frozenset(accepted)) for label, accepted in sorted(placement.labels.items()))
    tolerates = frozenset(placement.tolerates)
    roles = []
    by_kind = placement_by_kind(spec)
    for name, role in sorted(spec.roles.items()):
        amounts = role.resources.amounts
        alone = role.resources.cpu_exclusive
        labels = tuple(sorted({*needs, _HAS_RDMA}, key=lambda need: need[0])) if role.resources.rdma else needs
        ask = TaskAsk(amounts.cpu_millis, amounts.memory_bytes, amounts.gpu_millis, frozenset(), labels, tolerates, alone)
        roles.append(RoleAsk(name, ask, role.replicas.min, role.replicas.max, by_kind.get(name, "")))
    models = frozenset(role.resources.gpu.model for role in spec.roles.values() if role.resources.gpu.model)
    mounts = tuple(sorted({mount.volume for mount in spec.mounts}))
    saves = spec.checkpoint.interval_seconds if spec.checkpoint is not None else None
    grace = spec.checkpoint.grace_seconds if spec.checkpoint is not None else None
    gang = GangAsk(tuple(roles), placement.together or by_kind.get(ALL_ROLES, ""))
    kept = spec.checkpoint is not None and not spec.checkpoint.path.startswith("/")
    return Wish(gang, models, spec.pool or "", spec.cluster or "", mounts, (), kept, saves or 0, grace)


def placement_by_kind(spec: JobSpec) -> Mapping[str, str]:
    """How the tasks of each role go to machines by what their framework does, where the job says nothing of it."""
    if spec.placement.together is not None:
        return {}
    return get_framework(spec.framework).placement(role_shapes(spec))


def forget_specs() -> None:
    """Remember nothing, as a process that has just started."""
    _specs.clear()
    _wishes.clear()
    _stored.clear()


_specs: dict[uuid.UUID, JobSpec] = {}
_wishes: dict[str, Wish] = {}


def _keep_spec(spec_id: uuid.UUID, spec: JobSpec) -> JobSpec:
    if len(_specs) >= CACHED_SPECS:
        _specs.clear()
    _specs[spec_id] = spec
    return spec


def _documents(spec_ids: Collection[uuid.UUID]) -> Iterator[tuple[uuid.UUID, str]]:
    wanted = sorted(spec_ids)
    for start in range(0, len(wanted), READ_AT_ONCE):
        yield from StoredSpec.objects.filter(id__in=wanted[start : start + READ_AT_ONCE]).values_list("id", "document")


def store_specs(tenant_id: uuid.UUID, documents: Mapping[str, str], *, now: datetime) -> Mapping[str, uuid.UUID]:
    """Make sure that every document, given by digest, has its row; ids by digest, in a constant number of statements.

    Ids that were committed are remembered: specs are never deleted while their tenant is there.
    """
    known = {digest: stored for digest in documents if (stored := _stored.get((tenant_id, digest))) is not None}
    if len(known) == len(documents):
        return known
    found = _insert_missing(tenant_id, {digest: text for digest, text in documents.items() if digest not in known}, now)
    transaction.on_commit(lambda: _remember(tenant_id, found))
    return {**known, **found}


def _insert_missing(tenant_id: uuid.UUID, documents: Mapping[str, str], now: datetime) -> dict[str, uuid.UUID]:
    """One statement where all are new, as in most calls; three where some are not."""
    known = _ids(tenant_id, documents) if len(documents) > 1 else {}
    missing = {digest: new_id() for digest in sorted(documents.keys() - known.keys())}
    rows = [
        {"id": spec_id, "tenant_id": tenant_id, "digest": digest, "document": documents[digest], "created_at": now}
        for digest, spec_id in missing.items()
    ]
    if bulk.insert(StoredSpec, rows, ignore_conflicts=True) == len(rows):
        return {**known, **missing}
    return _ids(tenant_id, documents)


_stored: dict[tuple[uuid.UUID, str], uuid.UUID] = {}


def _remember(tenant_id: uuid.UUID, ids: Mapping[str, uuid.UUID]) -> None:
    if len(_stored) + len(ids) > CACHED_SPECS:
        _stored.clear()
    _stored.update({(tenant_id, digest): spec_id for digest, spec_id in ids.items()})


def _ids(tenant_id: uuid.UUID, digests: Mapping[str, object]) -> dict[str, uuid.UUID]:
    wanted = sorted(digests)
    found: dict[str, uuid.UUID] = {}
    for start in range(0, len(wanted), READ_AT_ONCE):
        rows = StoredSpec.objects.filter(tenant_id=tenant_id, digest__in=wanted[start : start + READ_AT_ONCE])
        found.update(rows.values_list("digest", "id"))
    return found


def mount_requests(spec: JobSpec) -> list[MountRequest]:
    return [MountRequest(mount.volume, mount.path, mount.read_only) for mount in spec.mounts]
