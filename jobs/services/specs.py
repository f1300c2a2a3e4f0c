"""Stored specs: written once per tenant and digest, read often."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from jobs.models import StoredSpec
from jobs.scheduling.snapshot import RoleAsk
from jobs.spec.canonical import canonical, spec_digest
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.ids import new_id
from reconciling import bulk

CACHED_SPECS = 10_000


@lru_cache(maxsize=CACHED_SPECS)
def load_spec(spec_id: uuid.UUID) -> JobSpec:
    """A stored spec as a value. Specs never change, so the cache never lies."""
    return parse_spec(json.loads(StoredSpec.objects.values_list("document", flat=True).get(id=spec_id)))


def store_specs(tenant_id: uuid.UUID, specs: list[JobSpec], *, now: datetime) -> Mapping[str, uuid.UUID]:
    """Make sure that every spec has its row; ids by digest, in a constant number of statements."""
    documents = {spec_digest(spec): spec for spec in specs}
    known = _ids(tenant_id, documents)
    missing = documents.keys() - known.keys()
    if missing:
        bulk.insert(
            StoredSpec,
            [
                {
                    "id": new_id(),
                    "tenant_id": tenant_id,
                    "digest": digest,
                    "document": canonical(documents[digest]),
                    "created_at": now,
                }
                for digest in sorted(missing)
            ],
            ignore_conflicts=True,
        )
        known = _ids(tenant_id, documents)
    return known


def _ids(tenant_id: uuid.UUID, digests: Mapping[str, object]) -> dict[str, uuid.UUID]:
    wanted = sorted(digests)
    found: dict[str, uuid.UUID] = {}
    for start in range(0, len(wanted), 500):
        rows = StoredSpec.objects.filter(tenant_id=tenant_id, digest__in=wanted[start : start + 500])
        found.update(rows.values_list("digest", "id"))
    return found


def role_asks(spec: JobSpec) -> tuple[RoleAsk, ...]:
    """What a spec's roles ask for, as the scheduler takes it."""
    return tuple(
        RoleAsk(name, role.replicas.max, role.resources.amounts, role.resources.gpu.model)
        for name, role in sorted(spec.roles.items())
    )
