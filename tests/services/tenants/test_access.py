from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from django.apps import apps

from kernel.actor import ANONYMOUS, Actor, TenantRole, system_actor
from kernel.errors import Forbidden, NotAuthenticated, NotFound
from tenants.identity.access import demand, role_allows, roles_of_many
from tenants.identity.permissions import PERMISSIONS, ROLE_RANK, Permission, Scope, as_markdown, effective_scopes
from tenants.models import Queue, Secret, Tenant, Token, User
from tests.factories.tenants import Cast, make_member, make_service_account, make_tenant, make_token, top_queue
from webapi.access import fetch, registered_models, visible

OWN, OTHER = uuid.uuid4(), uuid.uuid4()
ME, SOMEBODY = uuid.uuid4(), uuid.uuid4()


def an_actor(role: TenantRole | None = None, *, is_operator: bool = False, scopes: frozenset[str] | None = None) -> Actor:
    return Actor(user_id=ME, name="me", is_operator=is_operator, roles={OWN: role} if role else {}, scopes=scopes)


@pytest.mark.capability("56", "Viewers, members, managers and operators may do what the table of permissions says")
@pytest.mark.parametrize("verb", PERMISSIONS)
@pytest.mark.parametrize("role", [None, *TenantRole])
def test_a_role_allows_what_the_table_says_and_only_in_its_tenant(verb: str, role: TenantRole | None) -> None:
    permission = PERMISSIONS[verb]
    reaches = role is not None and permission.minimum is not None and ROLE_RANK[role] >= ROLE_RANK[permission.minimum]
    owns = permission.own and role is not None and role != TenantRole.VIEWER
    actor = an_actor(role)

    assert role_allows(actor, OWN, verb) == (permission.everyone or reaches)
    assert role_allows(actor, OWN, verb, ME) == (permission.everyone or reaches or owns)
    assert role_allows(actor, OWN, verb, SOMEBODY) == (permission.everyone or reaches)
    assert role_allows(actor, OTHER, verb, ME) == permission.everyone
    assert role_allows(actor, None, verb, ME) == permission.everyone


@pytest.mark.capability("56", "Viewers, members, managers and operators may do what the table of permissions says")
@pytest.mark.parametrize("verb", PERMISSIONS)
def test_operators_do_what_the_table_says_in_every_tenant(verb: str) -> None:
    permission = PERMISSIONS[verb]

    assert role_allows(an_actor(is_operator=True), OTHER, verb) == (permission.operator or permission.everyone)


@pytest.mark.parametrize("verb", PERMISSIONS)
def test_a_stronger_role_allows_whatever_a_weaker_one_does(verb: str) -> None:
    answers = [role_allows(an_actor(role), OWN, verb) for role in TenantRole]

    assert answers == sorted(answers)


@pytest.mark.parametrize("verb", PERMISSIONS)
def test_a_token_without_the_scope_does_not_allow_the_verb(verb: str) -> None:
    scope = PERMISSIONS[verb].scope
    others = effective_scopes(str(other) for other in Scope if other not in (scope, Scope.ALL))
    actor = an_actor(TenantRole.MANAGER, is_operator=True, scopes=others)

    assert role_allows(actor, OWN, verb) == (scope == Scope.READ)
    assert role_allows(replace(actor, scopes=effective_scopes([scope])), OWN, verb)


def test_operators_reach_no_secret_and_submit_nowhere() -> None:
    for verb in (
        "secret.read",
        "secret.edit",
        "secret.delete",
        "job.submit",
        "job.rerun",
        "volume.files",
        "service_account.edit",
    ):
        assert not role_allows(an_actor(is_operator=True), OWN, verb), verb


def test_anonymous_may_nothing_and_the_platform_itself_everything() -> None:
    for verb in PERMISSIONS:
        assert not role_allows(ANONYMOUS, OWN, verb)
        assert role_allows(system_actor("sweep"), OWN, verb)
    with pytest.raises(NotAuthenticated):
        demand(ANONYMOUS, OWN, "tenant.read")


@pytest.mark.database
def test_demand_hides_what_is_not_visible_and_refuses_what_is(db: None) -> None:
    with pytest.raises(NotFound):
        demand(an_actor(TenantRole.MANAGER), OTHER, "tenant.edit")
    with pytest.raises(Forbidden, match=r"manager; operator"):
        demand(an_actor(TenantRole.VIEWER), OWN, "tenant.edit")
    with pytest.raises(Forbidden, match="scopes"):
        demand(an_actor(TenantRole.MANAGER, scopes=frozenset({"read"})), OWN, "tenant.edit")


@pytest.mark.database
def test_a_refusal_names_the_tenant_the_role_there_and_whom_to_ask(cast: Cast) -> None:
    with pytest.raises(Forbidden) as refused:
        demand(cast.vera.actor, cast.tenant.pk, "job.submit")
    assert refused.value.detail == "vera may not do this in tenant vision as viewer. It is for: member and above."
    assert refused.value.hint == "Ask a manager of tenant vision for the role: `berth members --tenant vision` lists them."
    assert "租户 vision" in refused.value.detail_text.zh

    with pytest.raises(Forbidden) as refused:
        demand(cast.alice.actor, cast.tenant.pk, "tenant.disable")
    assert refused.value.hint == "Ask an operator."

    with pytest.raises(Forbidden) as refused:
        demand(cast.otto.actor, cast.tenant.pk, "job.submit")
    assert refused.value.detail == "otto may not do this in tenant vision without a role there. It is for: member and above."

    with pytest.raises(Forbidden) as refused:
        demand(cast.alice.actor, None, "invitation.read")
    assert refused.value.hint == "Name a tenant in which your role allows it, with `tenant` (`--tenant`): vision."


def test_an_unknown_verb_is_our_mistake() -> None:
    with pytest.raises(LookupError, match=r"job\.fly"):
        role_allows(an_actor(TenantRole.MANAGER), OWN, "job.fly")


def test_every_verb_says_who_and_has_a_sentence() -> None:
    for verb, permission in PERMISSIONS.items():
        assert permission.who().en, verb
        assert permission.who().zh, verb
        assert permission.means.endswith("."), verb
        assert isinstance(permission, Permission)


def test_the_documented_table_is_the_one_in_force() -> None:
    page = Path(__file__).parents[3] / "docs" / "permissions.md"

    assert page.read_text() == as_markdown(), (
        "run: PYTHONPATH=.:platform python -m tenants.identity.permissions > docs/permissions.md"
    )


# --- Rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_roles_are_inherited_down_the_tree_and_never_up_or_sideways(cast: Cast) -> None:
    child = make_tenant(parent=cast.tenant)
    grandchild, sibling = make_tenant(parent=child), make_tenant(parent=cast.tenant)
    make_member(child, cast.carol.user, "manager")
    make_member(grandchild, cast.vera.user, "member")

    roles = roles_of_many([cast.alice.user.pk, cast.carol.user.pk, cast.vera.user.pk])

    assert roles[cast.alice.user.pk] == dict.fromkeys([cast.tenant.pk, child.pk, grandchild.pk, sibling.pk], TenantRole.MANAGER)
    assert roles[cast.carol.user.pk] == dict.fromkeys([cast.elsewhere.pk, child.pk, grandchild.pk], TenantRole.MANAGER)
    assert roles[cast.vera.user.pk][grandchild.pk] == TenantRole.MEMBER
    assert roles[cast.vera.user.pk][sibling.pk] == TenantRole.VIEWER


@pytest.mark.database
def test_models_of_this_app_and_below_are_served_by_a_rule() -> None:
    labels = {model._meta.label for model in registered_models()}

    assert {
        "tenants.Tenant",
        "tenants.Membership",
        "tenants.Invitation",
        "tenants.Secret",
        "tenants.Queue",
        "tenants.User",
        "tenants.Token",
        "clusters.Cluster",
        "clusters.Pool",
        "clusters.Node",
        "activity.AuditEvent",
        "activity.Event",
        "activity.Subscription",
        "activity.Delivery",
    } <= labels
    for label in ("tenants.Counter", "tenants.TenantAncestor", "tenants.LedgerEntry", "tenants.Reservation"):
        with pytest.raises(LookupError):
            visible(an_actor(TenantRole.MANAGER), apps.get_model(label))


@pytest.mark.database
def test_rows_are_visible_to_their_tenant_and_nobody_else(cast: Cast) -> None:
    account = make_service_account(cast.tenant)
    token = make_token(account).token

    assert set(visible(cast.carol.actor, Tenant)) == {cast.elsewhere}
    assert set(visible(cast.carol.actor, Queue)) == {top_queue(cast.elsewhere)}
    assert set(visible(cast.vera.actor, User)) == {cast.alice.user, cast.bob.user, cast.vera.user, account}
    assert visible(cast.vera.actor, Secret).count() == 0
    assert token in visible(cast.alice.actor, Token)
    assert token not in visible(cast.bob.actor, Token)
    assert token in visible(cast.otto.actor, Token), "operators may have to revoke one"
    for model in (Tenant, Queue, User, Token, Secret):
        assert visible(ANONYMOUS, model).count() == 0


@pytest.mark.database
def test_who_belongs_nowhere_does_not_see_the_clusters(cast: Cast) -> None:
    cluster = apps.get_model("clusters.Cluster").objects.create(name="here", kind="fake", created_at=cast.tenant.created_at)
    model = type(cluster)

    assert visible(cast.vera.actor, model).count() == 1
    assert visible(an_actor(), model).count() == 0
    with pytest.raises(Forbidden):
        fetch(cast.alice.actor, model, cluster.pk, "cluster.edit")
    assert fetch(cast.otto.actor, model, cluster.pk, "cluster.edit") == cluster
