"""Stored specs: written once per tenant and digest, read often."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from django.db import transaction

from jobs.models import StoredSpec
from jobs.scheduling.snapshot import RoleAsk
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.ids import new_id
from reconciling import bulk

CACHED_SPECS = 10_000


@lru_cache(maxsize=CACHED_SPECS)
def load_spec(spec_id: uuid.UUID) -> JobSpec:
    """A stored spec as a value. Specs never change, so the cache never lies."""
    return parse_spec(json.loads(StoredSpec.objects.values_list("document", flat=True).get(id=spec_id)))


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
