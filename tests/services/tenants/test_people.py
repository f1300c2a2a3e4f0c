from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from kernel.actor import TenantRole
from kernel.errors import Conflict, Forbidden, InvalidInput, NotAuthenticated, NotFound, PreconditionFailed, Unavailable
from tenants import services
from tenants.identity.credentials import authenticate_token, recipients, refresh_actors
from tenants.identity.services.names import Problems, display_name
from tenants.identity.services.user_import import export_users_csv
from tenants.models import Counter, Membership, Queue, Secret, Tenant, Token, User
from tests.factories.tenants import (
    SYSTEM,
    Cast,
    actor_of,
    make_member,
    make_service_account,
    make_tenant,
    make_token,
    make_user,
    now,
)

pytestmark = pytest.mark.database
PASSWORD = "correct horse battery"


def audit_verbs() -> list[str]:
    return list(apps.get_model("activity.AuditEvent").objects.order_by("id").values_list("verb", flat=True))


# --- Bootstrap -------------------------------------------------------------------------------------------------------


def test_an_empty_installation_gets_an_operator_a_tenant_and_a_token_once() -> None:
    credentials = services.bootstrap_installation(now=now(), tenant_name="lab")

    assert credentials is not None
    actor = authenticate_token(credentials.token)
    tenant = Tenant.objects.get(slug=credentials.tenant_slug)
    assert (actor.is_operator, actor.roles[tenant.pk], tenant.name, tenant.number) == (True, TenantRole.MANAGER, "lab", 1)
    assert User.objects.get(name=credentials.user_name).check_password(credentials.password)
    assert credentials.token not in repr(credentials)
    assert credentials.password not in repr(credentials)
    assert services.bootstrap_installation(now=now()) is None


def test_two_installations_share_no_credential() -> None:
    first = services.bootstrap_installation(now=now())
    Membership.objects.all().delete()
    Token.objects.all().delete()
    User.objects.all().delete()
    second = services.bootstrap_installation(now=now(), tenant_name="again")

    assert first is not None
    assert second is not None
    assert len({first.password, second.password, first.token, second.token}) == 4


# --- Tenants ---------------------------------------------------------------------------------------------------------


def test_slug_and_number_cannot_be_changed_even_by_our_own_mistake() -> None:
    tenant = make_tenant()

    for change in ({"slug": "aaaaaaaaaa"}, {"number": 999}):
        with pytest.raises(Exception, match="keeps its slug and number"):  # noqa: PT012 - the savepoint belongs to the block.
            from django.db import transaction

            with transaction.atomic():
                Tenant.objects.filter(id=tenant.pk).update(**change)


def test_numbers_are_never_given_out_twice() -> None:
    last = make_tenant()
    Queue.objects.filter(tenant=last).delete()
    last.delete()

    assert make_tenant().number == last.number + 1
    assert Counter.objects.get(name="tenant_number").value == last.number + 1


@pytest.mark.parametrize("name", ["a‮b", "​x", "x\x00y", "a:b", "a\\b", "\n"])
def test_names_that_deceive_the_eye_are_refused(name: str) -> None:
    problems = Problems()
    display_name(name, problems)

    assert problems.fields


# --- Roles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", list(TenantRole))
@pytest.mark.parametrize("given", list(TenantRole))
def test_nobody_gives_more_than_they_hold(cast: Cast, own: TenantRole, given: TenantRole) -> None:
    actor = {TenantRole.MANAGER: cast.alice, TenantRole.MEMBER: cast.bob, TenantRole.VIEWER: cast.vera}[own].actor
    target = make_user()

    def add() -> None:
        services.add_member(actor=actor, tenant_id=cast.tenant.pk, user=target, role=given, now=now())

    if own == TenantRole.MANAGER:
        add()
        assert actor_of(target).roles[cast.tenant.pk] == given
    else:
        with pytest.raises(Forbidden):
            add()
        assert not Membership.objects.filter(user=target).exists()


def test_a_manager_of_a_child_reaches_nothing_above(cast: Cast) -> None:
    child = make_tenant(parent=cast.tenant)
    make_member(child, cast.carol.user, "manager")
    actor = actor_of(cast.carol.user)

    with pytest.raises(NotFound):
        services.add_member(actor=actor, tenant_id=cast.tenant.pk, user=cast.carol.user, role=TenantRole.VIEWER, now=now())
    services.add_member(actor=actor, tenant_id=child.pk, user=cast.bob.user, role=TenantRole.MANAGER, now=now())


def test_a_service_account_stays_in_its_tenant(cast: Cast) -> None:
    account = make_service_account(cast.elsewhere)

    with pytest.raises(Forbidden, match="own tenant only"):
        services.add_member(actor=cast.alice.actor, tenant_id=cast.tenant.pk, user=account, role=TenantRole.MEMBER, now=now())


def test_a_manager_above_is_enough_for_a_child_to_lose_its_own(cast: Cast) -> None:
    child = make_tenant(parent=cast.tenant)
    only = make_member(child, cast.carol.user, "manager")

    services.remove_member(actor=actor_of(cast.carol.user), membership=only, now=now())

    assert not Membership.objects.filter(tenant=child).exists()


def test_a_disabled_manager_does_not_count_as_one(cast: Cast) -> None:
    second = make_member(cast.tenant, make_user(is_active=False), "manager")
    first = Membership.objects.get(tenant=cast.tenant, user=cast.alice.user)

    with pytest.raises(Conflict, match="last manager"):
        services.remove_member(actor=cast.alice.actor, membership=first, now=now())
    services.remove_member(actor=cast.alice.actor, membership=second, now=now())


def test_a_role_is_changed_from_the_version_that_was_read(cast: Cast) -> None:
    membership = Membership.objects.get(tenant=cast.tenant, user=cast.bob.user)
    services.change_role(actor=cast.alice.actor, membership=membership, role=TenantRole.VIEWER, expected_version=1, now=now())

    with pytest.raises(PreconditionFailed):
        services.change_role(actor=cast.alice.actor, membership=membership, role=TenantRole.MEMBER, expected_version=1, now=now())


# --- Credentials -----------------------------------------------------------------------------------------------------


def test_disabling_a_user_ends_tokens_and_long_connections(cast: Cast) -> None:
    live = [cast.bob.actor, cast.vera.actor]
    services.disable_user(actor=cast.otto.actor, user=cast.bob.user, now=now())

    assert refresh_actors(live) == [None, cast.vera.actor]
    with pytest.raises(NotAuthenticated):
        authenticate_token(cast.bob.token)
    assert apps.get_model("activity.Event").objects.filter(kind="token.revoked").exists()


def test_long_connections_learn_of_changed_roles_and_expired_tokens(cast: Cast) -> None:
    Membership.objects.filter(user=cast.bob.user).update(role="viewer")
    Token.objects.filter(user=cast.vera.user).update(created_at=now() - timedelta(2), expires_at=now() - timedelta(1))

    bob, vera = refresh_actors([cast.bob.actor, cast.vera.actor])

    assert bob is not None
    assert bob.roles[cast.tenant.pk] == TenantRole.VIEWER
    assert vera is None


def test_refreshing_takes_three_queries_for_any_number_of_connections(cast: Cast) -> None:
    actors = [cast.alice.actor, cast.bob.actor, cast.vera.actor, cast.carol.actor] * 10
    with CaptureQueriesContext(connection) as queries:
        assert refresh_actors(actors) == actors

    assert len(queries) == 3


def test_recipients_are_active_users_with_what_they_see_now(cast: Cast) -> None:
    services.disable_user(actor=cast.otto.actor, user=cast.vera.user, now=now())

    found = recipients([cast.bob.user.pk, cast.vera.user.pk])

    assert set(found) == {cast.bob.user.pk}
    assert found[cast.bob.user.pk].actor.roles == {cast.tenant.pk: TenantRole.MEMBER}


def test_changing_the_password_ends_every_token(cast: Cast) -> None:
    user = make_user("paula", password=PASSWORD)
    token = make_token(user)
    actor = actor_of(user)

    with pytest.raises(InvalidInput, match="old password"):
        services.set_password(actor=actor, user=user, old="wrong", new="another password", now=now())
    with pytest.raises(InvalidInput):
        services.set_password(actor=actor, user=user, old=PASSWORD, new="short", now=now())
    services.set_password(actor=actor, user=user, old=PASSWORD, new="another password", now=now())

    with pytest.raises(NotAuthenticated):
        authenticate_token(token.text)


def test_the_last_operator_stays(cast: Cast) -> None:
    second = make_user(is_operator=True)
    services.update_user(actor=actor_of(second), user=cast.otto.user, is_operator=False, now=now())

    with pytest.raises(Conflict):
        services.update_user(actor=SYSTEM, user=second, is_active=False, now=now())


def test_only_a_digest_of_a_token_is_kept(cast: Cast) -> None:
    issued = services.create_token(actor=cast.bob.actor, user=cast.bob.user, name="x", now=now())
    secret = issued.text.split("_", 2)[2]

    stored = [str(value) for row in Token.objects.values() for value in row.values()]
    audits = [str(row) for row in apps.get_model("activity.AuditEvent").objects.values()]
    assert not [text for text in stored + audits if secret in text]


# --- Secrets ---------------------------------------------------------------------------------------------------------

CANARY = "canary-5c2e"


def put(cast: Cast, name: str = "HF_TOKEN", value: str = CANARY) -> None:
    services.set_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name=name, value=value, now=now())


def test_a_secret_goes_to_jobs_of_its_tenant_and_stands_nowhere_in_clear(cast: Cast) -> None:
    put(cast)

    assert services.decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": CANARY}
    assert services.missing_secrets(cast.elsewhere.pk, ["HF_TOKEN"]) == ["HF_TOKEN"]
    with pytest.raises(InvalidInput, match="HF_TOKEN"):
        services.decrypt_secrets(cast.elsewhere.pk, ["HF_TOKEN"])
    for model in apps.get_models():
        assert not [row for row in model._default_manager.values() if CANARY in str(row)], model
    assert "secret.edit" in audit_verbs()


def test_a_secret_copied_to_another_tenant_or_name_does_not_open(cast: Cast) -> None:
    put(cast)
    row = Secret.objects.get()
    for tenant, name in ((cast.elsewhere, "HF_TOKEN"), (cast.tenant, "OTHER")):
        Secret.objects.create(tenant=tenant, name=name, ciphertext=row.ciphertext, created_at=now(), updated_at=now())
        with pytest.raises(Unavailable):
            services.decrypt_secrets(tenant.pk, [name])


def test_the_installation_key_is_rotated_without_losing_a_secret(cast: Cast, settings: object) -> None:
    put(cast)
    old = settings.SECRET_KEY  # type: ignore[attr-defined]
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 20 + "ew key of the installation", [old]  # type: ignore[attr-defined]
    assert services.decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": CANARY}

    assert services.rotate_secrets() == 1
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]
    assert services.decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": CANARY}

    settings.SECRET_KEY = old  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="HF_TOKEN"):
        services.decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"])


# --- Import ----------------------------------------------------------------------------------------------------------


def test_exported_cells_are_no_formulas_and_come_back_as_they_were() -> None:
    rows = [("bob", "=cmd|' /C calc'!A0", "+vision", "@member"), ("eve", "-1+1", "\tx", "")]
    text = export_users_csv(rows)

    cells = [cell for line in list(csv.reader(io.StringIO(text)))[1:] for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_an_import_takes_as_many_statements_for_a_hundred_users_as_for_two(cast: Cast) -> None:
    counts = []
    for start, size in ((0, 2), (2, 100)):
        lines = [f"u{number},u{number}@example.org,vision,member" for number in range(start, start + size)]
        with CaptureQueriesContext(connection) as queries:
            services.import_users_csv(actor=cast.otto.actor, text="\n".join(["name,email,tenant,role", *lines]), now=now())
        counts.append(len(queries))

    assert counts[0] == counts[1]


def test_an_operator_does_not_import_themselves_into_a_tenant(cast: Cast) -> None:
    with pytest.raises(InvalidInput) as refused:
        services.import_users_csv(
            actor=cast.otto.actor, text="name,email,tenant,role\notto,otto@example.org,vision,manager\n", now=now()
        )

    assert [entry.code for entry in refused.value.fields] == ["beyond_own"]


def test_every_accepted_call_leaves_one_audit_row(cast: Cast) -> None:
    before = len(audit_verbs())
    services.create_user(actor=cast.otto.actor, name="zoe", now=now())
    services.invite_user(
        actor=cast.alice.actor, tenant_id=cast.tenant.pk, email="y@example.org", role=TenantRole.VIEWER, now=now()
    )
    services.create_queue(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name="day", now=now())
    services.update_tenant(actor=cast.alice.actor, tenant=cast.tenant, description="Cameras", now=now())

    assert audit_verbs()[before:] == ["user.create", "invitation.create", "queue.create", "tenant.edit"]
