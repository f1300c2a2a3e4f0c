"""Stored specs: written once per tenant and digest, read often."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from jobs.models import StoredSpec
from jobs.scheduling.snapshot import RoleAsk
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.errors import InvalidInput
from kernel.ids import new_id
from reconciling import bulk

CACHED_SPECS = 10_000
READ_AT_ONCE = 500  # SQLite's bound on parameters is a thousand.


@dataclass(frozen=True, slots=True)
class SpecAsk:
    """What the scheduler wants to know of a spec. Many specs have the same."""

    roles: tuple[RoleAsk, ...]
    pool_name: str
    cluster_name: str


def load_spec(spec_id: uuid.UUID) -> JobSpec:
    """A stored spec as a value. Specs never change, so what is remembered never lies."""
    spec = _specs.get(spec_id)
    if spec is None:
        document = StoredSpec.objects.values_list("document", flat=True).get(id=spec_id)
        spec = _keep_spec(spec_id, parse_spec(json.loads(document)))
    return spec


def preload_specs(spec_ids: Iterable[uuid.UUID]) -> None:
    """Read the specs of a batch in one statement, for `load_spec` to find. One that nobody can read is left to it, to fail at."""
    for spec_id, document in _documents({spec_id for spec_id in spec_ids if spec_id not in _specs}):
        with contextlib.suppress(InvalidInput, ValueError):
            _keep_spec(spec_id, parse_spec(json.loads(document)))


def spec_asks(spec_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, SpecAsk]:
    """What stored specs ask of the scheduler, in one statement for 500; those that nobody can read are left out.

    Specs that differ in their names, commands and variables alone, as those of a batch do, are read as one.
    """
    found = {}
    for spec_id, document in _documents(spec_ids):
        with contextlib.suppress(InvalidInput, ValueError, AttributeError, TypeError, KeyError):
            content = json.loads(document)
            asked = {name: (role.get("replicas"), role["resources"]) for name, role in content["roles"].items()}
            key = json.dumps((content.get("pool"), content.get("cluster"), asked), sort_keys=True)
            if key not in _asks:
                if len(_asks) >= CACHED_SPECS:
                    _asks.clear()
                _asks[key] = ask_of(parse_spec(content))
            found[spec_id] = _asks[key]
    return found


def ask_of(spec: JobSpec) -> SpecAsk:
    return SpecAsk(role_asks(spec), spec.pool or "", spec.cluster or "")


def forget_specs() -> None:
    """Remember nothing, as a process that has just started."""
    _specs.clear()
    _asks.clear()
    _stored.clear()


_specs: dict[uuid.UUID, JobSpec] = {}
_asks: dict[str, SpecAsk] = {}


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


def role_asks(spec: JobSpec) -> tuple[RoleAsk, ...]:
    """What a spec's roles ask for, as the scheduler takes it."""
    return tuple(
        RoleAsk(name, role.replicas.max, role.resources.amounts, role.resources.gpu.model)
        for name, role in sorted(spec.roles.items())
    )
