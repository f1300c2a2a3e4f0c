"""What requests remember holds as long as nothing was changed, and not a moment longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Pool
from images.models import Image
from tenants.models import (
    FeatureSetting,
    Membership,
    PriorityGrant,
    Queue,
    QueueLimit,
    QueueRule,
    Tenant,
    TenantAncestor,
    Token,
    User,
    UserCap,
)
from tests.factories.clusters import make_pool
from tests.factories.tenants import Cast, limit, make_queue, now, top_queue
from webapi import facts
from webapi.models import FactMark

pytestmark = pytest.mark.database

MODELS: dict[str, type[models.Model]] = {
    model._meta.db_table: model
    for model in (
        Token,
        User,
        Membership,
        Tenant,
        TenantAncestor,
        Queue,
        QueueLimit,
        QueueRule,
        UserCap,
        PriorityGrant,
        FeatureSetting,
        Cluster,
        Pool,
        Image,
    )
}


def test_every_table_that_requests_rely_on_has_its_triggers(db: None) -> None:
    assert facts.missing_triggers() == frozenset()
    assert facts.TABLES.keys() == MODELS.keys()


def test_what_was_found_is_not_asked_for_again(cast: Cast) -> None:
    asked: list[int] = []
    for _ in range(3):
        facts.look().find("a key", lambda: asked.append(1))
    assert asked == [1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a revoked token", lambda cast: Token.objects.filter(user=cast.bob.user).update(revoked_at="2026-01-01T00:00Z")),
        ("a disabled user", lambda cast: User.objects.filter(id=cast.bob.user.pk).update(is_active=False)),
        ("another role", lambda cast: Membership.objects.filter(user=cast.bob.user).update(role="viewer")),
        ("a lost membership", lambda cast: Membership.objects.filter(user=cast.bob.user).delete()),
        ("a new name", lambda cast: Tenant.objects.filter(id=cast.tenant.pk).update(name="sight")),
        ("a new queue", lambda cast: make_queue(cast.tenant, "night")),
        ("a new time limit", lambda cast: QueueRule.objects.create(queue=top_queue(cast.tenant), max_runtime_seconds=60)),
        ("a new grant", lambda cast: PriorityGrant.objects.create(tenant=cast.tenant, role="member", priority=900)),
        ("a new limit", lambda cast: limit(top_queue(cast.tenant), make_pool().pk, gpu_millis=1)),
    ],
)
def test_a_change_lets_everything_be_forgotten(cast: Cast, name: str, change: Callable[[Cast], Any]) -> None:
    facts.look().find("a key", lambda: "before")
    change(cast)
    assert facts.look().find("a key", lambda: "after") == "after", name


def test_the_use_of_a_token_is_no_change(cast: Cast) -> None:
    before = facts.look().mark
    Token.objects.filter(user=cast.bob.user).update(last_used_at="2026-01-01T00:00Z")
    assert facts.look().mark == before


def test_a_change_that_was_taken_back_is_not_mistaken_for_the_next_one(cast: Cast) -> None:
    User.objects.filter(id=cast.bob.user.pk).update(name="bobby")
    with transaction.atomic():
        User.objects.filter(id=cast.bob.user.pk).update(name="robert")
        taken_back = facts.look().mark
        transaction.set_rollback(True)
    User.objects.filter(id=cast.bob.user.pk).update(name="rob")
    assert facts.look().mark != taken_back


def test_folding_keeps_requests_from_adding_up_many_marks(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    FactMark.objects.bulk_create([FactMark(id=-number, salt=number) for number in range(1, 3 * facts.MARKS_MAX)])
    before = facts.look().mark
    assert facts.fold(now()) >= facts.MARKS_MAX
    assert FactMark.objects.count() == 1
    assert facts.look().mark != before
    assert facts.fold(now()) == 0


def test_without_a_trigger_nothing_is_remembered(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_is_complete", lambda vendor: False)
    asked: list[int] = []
    for _ in range(2):
        facts.look().find("a key", lambda: asked.append(1))
    assert asked == [1, 1]


def test_a_revoked_token_is_refused_by_the_next_request_though_it_was_remembered(cast: Cast, api: Callable[..., Any]) -> None:
    client = api(cast.bob)
    assert client.get("/api/v1/whoami").status_code == 200
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/api/v1/schemas/job-spec").status_code == 200
    assert len(queries) == 1  # The look alone.
    Token.objects.filter(user=cast.bob.user).update(revoked_at="2026-01-01T00:00Z")
    assert client.get("/api/v1/whoami").status_code == 401


def test_all_models_are_known(db: None) -> None:
    assert all(apps.get_model(model._meta.label) is model for model in MODELS.values())
