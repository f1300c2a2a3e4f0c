"""Who takes part: two tenants, an account in each, and what the first of them owns."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx2
from django.db import transaction

from controlplane.models import SelfTest
from kernel.actor import TenantRole, system_actor
from kernel.ids import new_id
from tenants.services import create_service_account, create_tenant, create_token

ACTOR = system_actor("selftest")
NAME = "selftest"  # What the tenants' names begin with; what may be removed is known by the run's row, not by its name.
TOKEN_LIFETIME = timedelta(hours=1)
REQUEST_SECONDS = 10.0
WAITS_MAX = 5  # Times that a throttled request is sent again.
SECRET = "SELFTEST"  # noqa: S105 - a name.


class SelfTestBroken(Exception):
    """The test itself could not be carried out; it says nothing about the tenants."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    text: str


@dataclass(slots=True)
class Caller:
    """A sender of requests; without a token, anonymous."""

    name: str
    url: str
    token: str = ""
    requests: int = 0
    client: httpx2.Client | None = None

    def send(self, method: str, path: str, *, body: object = None, query: dict[str, str] | None = None) -> Answer:
        """One request; of an answer that does not end by itself, the beginning."""
        headers = {"User-Agent": "berth-selftest"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        options: dict[str, Any] = {"headers": headers, "params": query}
        if body is not None:
            options["json"] = body
        for _ in range(WAITS_MAX):
            self.requests += 1
            with self._connected().stream(method, path, **options) as answer:
                if answer.status_code == 429:
                    time.sleep(min(REQUEST_SECONDS, float(answer.headers.get("Retry-After", "1"))))
                    continue
                if "event-stream" in answer.headers.get("Content-Type", ""):
                    return Answer(answer.status_code, "")
                answer.read()
                return Answer(answer.status_code, answer.text)
        raise SelfTestBroken(f"{method} {path} was throttled {WAITS_MAX} times.")

    def _connected(self) -> httpx2.Client:
        if self.client is None:
            self.client = httpx2.Client(base_url=self.url, timeout=REQUEST_SECONDS, trust_env=False)
        return self.client

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


@dataclass(slots=True)
class Parties:
    """The owner with what it made, and the stranger. `made` are the owner's own requests, which the stranger repeats."""

    owner: Caller
    stranger: Caller
    nobody: Caller
    slug: str
    stranger_slug: str
    stranger_number: int
    values: dict[str, str] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    made: list[tuple[str, str, Any]] = field(default_factory=list)

    def close(self) -> None:
        for caller in (self.owner, self.stranger, self.nobody):
            caller.close()

    @property
    def names(self) -> list[str]:
        """By what a query could name something of the owner: its tenant, its things, a part of their names."""
        examples = [self.values[key] for key in ("jobs/job", "volumes/volume_id", "queues/queue_id", "users/user_id")]
        return [self.slug, *examples, NAME]

    @property
    def requests(self) -> int:
        return self.owner.requests + self.stranger.requests + self.nobody.requests


def make_parties(run: SelfTest, *, url: str, now: datetime) -> Parties:
    """Two tenants with an account each. The run's row names them in the same transaction, so that none is ever forgotten."""
    with transaction.atomic():
        tenants = [
            create_tenant(actor=ACTOR, name=f"{NAME}-{run.pk.hex[-12:]}-{side}", description=NAME, now=now)
            for side in ("owner", "stranger")
        ]
        SelfTest.objects.filter(id=run.pk).update(tenant_ids=[str(tenant.pk) for tenant in tenants])
        accounts = [
            create_service_account(actor=ACTOR, tenant=tenant, name=NAME, role=TenantRole.MANAGER, now=now) for tenant in tenants
        ]
        tokens = [
            create_token(actor=ACTOR, user=account, name=NAME, expires_at=now + TOKEN_LIFETIME, now=now) for account in accounts
        ]
    owner, stranger = (Caller(name, url, token.text) for name, token in zip(("owner", "stranger"), tokens, strict=True))
    parties = Parties(owner, stranger, Caller("nobody", url), tenants[0].slug, tenants[1].slug, tenants[1].number)
    parties.values = {"tenant": tenants[0].slug, "tenants/tenant": tenants[0].slug, "members/user_id": str(accounts[0].pk)}
    parties.values["users/user_id"] = parties.values["members/member"] = str(accounts[0].pk)
    parties.marks = {tenants[0].slug, str(tenants[0].pk), tenants[0].name, str(accounts[0].pk), run.pk.hex}
    make_belongings(parties, canary=f"{NAME}-{run.pk.hex}")
    return parties


def make_belongings(parties: Parties, *, canary: str) -> None:
    """One thing of each kind, made through the API as people make them."""
    tenant = parties.slug
    _make(parties, "PUT", f"/api/v1/tenants/{tenant}/secrets/{SECRET}", {"value": canary})
    volume = _make(parties, "POST", "/api/v1/volumes", {"tenant": tenant, "name": canary[:60], "description": canary})
    queue = _make(parties, "POST", "/api/v1/queues", {"tenant": tenant, "name": canary[:60]})
    spec = {"name": canary, "command": "true", "hold": True, "resources": {"cpu": 1, "memory": "16Mi"}}
    job = _make(parties, "POST", "/api/v1/jobs", {"tenant": tenant, "spec": spec})
    image = _make(
        parties,
        "POST",
        "/api/v1/images",
        {"tenant": tenant, "name": canary[:60], "kind": "registry", "reference": "registry.example.org/selftest/image:1"},
    )
    account = _make(parties, "POST", f"/api/v1/tenants/{tenant}/service-accounts", {"name": "robot"})
    token = _make(parties, "POST", "/api/v1/tokens", {"name": canary, "service_account": account["id"]})
    invitation = _make(
        parties, "POST", "/api/v1/invitations", {"tenant": tenant, "email": f"{canary}@example.org", "role": "viewer"}
    )
    upload = _make(
        parties,
        "POST",
        "/api/v1/uploads",
        {"tenant": tenant, "target": {"volume": volume["id"], "path": "file"}, "size_bytes": 3, "sha256": "0" * 64},
    )
    ids = {
        "volumes/volume_id": volume,
        "queues/queue_id": queue,
        "jobs/job": job,
        "images/image_id": image,
        "service-accounts/user_id": account,
        "tokens/token_id": token,
        "invitations/invitation_id": invitation,
        "uploads/upload_id": upload,
    }
    parties.values |= {name: str(made["id"]) for name, made in ids.items()}
    parties.marks |= {str(made["id"]) for made in ids.values()} | {canary, canary[:60]}
    parties.values |= {"secrets/name": SECRET, "attempts/number": "1", "tags/tag": NAME, "artifacts/path": "file"}
    parties.values |= {"tasks/role": "worker", "role": "worker", "index": "0", "stream": "stdout", "logs/stream": "stdout"}
    unknown = str(new_id())  # No object has these; a caller who is told more than that learns something.
    parties.values |= {"grants/grant_id": unknown, "subscriptions/subscription": unknown, "deliveries/delivery": unknown}


def _make(parties: Parties, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = parties.owner.send(method, path, body=body)
    if not 200 <= answer.status < 300:
        raise SelfTestBroken(f"The owner could not {method} {path}: {answer.status} {answer.text[:300]}")
    parties.made.append((method, path, body))
    made: dict[str, Any] = json.loads(answer.text) if answer.text else {}
    return made
