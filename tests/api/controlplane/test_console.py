"""The operators' console: who gets in, that every page opens at a fixed cost, and that what it changes goes by the services."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.translation import override

from activity.models import AuditEvent
from clusters.models import Node
from controlplane.console import words_zh
from tenants.capacity.lifecycle import EditState
from tenants.models import QueueLimit, QuotaEdit, Token, User
from tests.factories.clusters import a_cluster
from tests.factories.tenants import make_session, make_tenant, make_token, make_user, top_queue

pytestmark = pytest.mark.database
PASSWORD = "correct horse battery"
STATEMENTS_MAX = 14


def browser(**more: Any) -> Client:
    """From an address of its own: tries are counted by name and address, with Redis also from one test to the next."""
    return Client(REMOTE_ADDR=f"2001:db8:{secrets.randbelow(1 << 16):x}:{secrets.randbelow(1 << 16):x}::1", **more)


@pytest.fixture
def otto(db: None) -> User:
    return make_user(f"otto-{secrets.token_hex(4)}", is_operator=True, password=PASSWORD)


@pytest.fixture
def console(otto: User) -> Client:
    client = browser()
    signed_in = client.post("/admin/login/", {"username": otto.name, "password": PASSWORD})
    assert signed_in.status_code == 302
    return client


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


def lists() -> list[str]:
    return sorted(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") for model in admin.site._registry)


def test_an_operator_signs_in_and_out_and_the_audit_has_it(console: Client, otto: User) -> None:
    assert b"Console" in console.get("/admin/").content
    assert AuditEvent.objects.filter(verb="console.sign_in", actor_id=otto.pk).count() == 1
    console.post("/admin/logout/")
    assert console.get("/admin/").status_code == 302


def test_whoever_came_by_the_portal_is_out_of_both(otto: User) -> None:
    session = make_session(otto)
    client = browser()
    client.cookies["berth-session"] = session.text
    assert client.get("/admin/").status_code == 200
    answer = client.post("/admin/logout/")
    assert answer.cookies["berth-session"].value == ""
    client.cookies["berth-session"] = session.text

    assert client.get("/admin/").status_code == 302
    assert client.get("/api/v1/session").status_code == 401


@pytest.mark.parametrize("name", ["mia", "robot", "gone", "nobody"])
def test_nobody_else_gets_in_and_all_are_told_the_same(db: None, name: str) -> None:
    make_user("mia", password=PASSWORD)
    make_user("gone", is_operator=True, is_active=False, password=PASSWORD)
    make_user("robot", kind="service", tenant=make_tenant(), password=PASSWORD)
    refused = browser().post("/admin/login/", {"username": name, "password": PASSWORD})
    assert refused.status_code == 200
    assert b"Please enter the correct" in refused.content
    assert not AuditEvent.objects.filter(verb="console.sign_in").exists()


def test_guessing_is_slowed_by_name(otto: User) -> None:
    client = browser()
    answers = [client.post("/admin/login/", {"username": otto.name, "password": f"guess {number}"}) for number in range(6)]
    assert b"Too many tries" not in answers[4].content
    assert b"Too many tries" in answers[5].content
    late = client.post("/admin/login/", {"username": otto.name, "password": PASSWORD})
    assert late.status_code == 200, "the right password is not tried either"


def test_a_token_opens_no_page_and_a_session_no_api(console: Client, otto: User) -> None:
    header = f"Bearer {make_token(otto).text}"
    assert browser().get("/admin/", headers={"authorization": header}).status_code == 302
    assert console.get("/api/v1/jobs").status_code == 401


def test_a_session_that_somebody_planted_is_not_the_one_that_is_signed_in(otto: User) -> None:
    client = browser()
    client.post("/admin/login/", {"username": otto.name, "password": "a wrong one"})
    client.cookies["berth-console"] = "planted-by-somebody-else"
    client.post("/admin/login/", {"username": otto.name, "password": PASSWORD})
    assert client.cookies["berth-console"].value != "planted-by-somebody-else"
    assert browser(headers={"cookie": "berth-console=planted-by-somebody-else"}).get("/admin/").status_code == 302


@pytest.mark.parametrize("loss", [{"is_operator": False}, {"is_active": False}])
def test_who_is_no_operator_any_more_is_out_with_the_next_click(console: Client, otto: User, loss: dict[str, bool]) -> None:
    User.objects.filter(id=otto.pk).update(**loss)
    assert console.get("/admin/tenants/tenant/").status_code == 302


def test_a_changed_password_ends_other_sessions_and_every_token(console: Client, otto: User) -> None:
    token = make_token(otto)
    other = browser()
    other.post("/admin/login/", {"username": otto.name, "password": PASSWORD})
    fields = {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
    assert b"12 to" in console.post("/admin/password_change/", fields).content
    fields = {"old_password": PASSWORD, "new_password1": "a much better one", "new_password2": "a much better one"}
    assert console.post("/admin/password_change/", fields).status_code == 302
    assert other.get("/admin/").status_code == 302
    assert Token.objects.get(id=token.token.pk).revoked_at is not None


def test_a_post_without_the_forms_token_changes_nothing(console: Client, pool: Any) -> None:
    strict = browser(enforce_csrf_checks=True)
    strict.cookies = console.cookies
    node = Node.objects.first()
    assert node is not None
    refused = strict.post("/admin/clusters/node/", {"action": "cordon", "_selected_action": [str(node.pk)]})
    assert refused.status_code == 403
    assert not Node.objects.get(id=node.pk).cordoned


def test_pages_have_a_policy_of_their_own_and_run_nothing_inline(console: Client) -> None:
    page = console.get("/admin/")
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["Referrer-Policy"] == "same-origin", "a browser would send its forms from nowhere"
    assert console.cookies["berth-console"]["httponly"]
    assert console.cookies["berth-console"]["samesite"] == "Strict"


def test_every_list_opens_within_its_budget_and_stays_there_with_more_rows(console: Client, pool: Any) -> None:
    costs = {}
    for number in range(2):
        for place in lists():
            with CaptureQueriesContext(connection) as asked:
                assert console.get(place).status_code == 200, place
            assert costs.setdefault(place, len(asked)) >= len(asked), f"{place} costs more with more rows"
            assert len(asked) <= STATEMENTS_MAX, place
        for _ in range(3 * (number + 1)):
            tenant = make_tenant()
            make_token(make_user(f"user-of-{tenant.slug}"))
            QuotaEdit.objects.create(tenant=tenant, changes=[], effective_from=tenant.created_at, created_at=tenant.created_at)


def test_what_is_registered_shows_no_secret(console: Client, otto: User) -> None:
    token = make_token(otto)
    pages = [console.get(f"/admin/tenants/user/{otto.pk}/change/"), console.get(f"/admin/tenants/token/{token.token.pk}/change/")]
    assert [page.status_code for page in pages] == [200, 200]
    assert otto.password.encode() not in pages[0].content
    assert token.token.digest.encode() not in pages[1].content


def test_nothing_is_added_edited_or_deleted_as_a_row(console: Client, otto: User) -> None:
    assert console.get("/admin/tenants/user/add/").status_code == 403
    assert console.post(f"/admin/tenants/user/{otto.pk}/change/", {"name": "other"}).status_code == 403
    assert console.post(f"/admin/tenants/user/{otto.pk}/delete/", {"post": "yes"}).status_code == 403
    assert User.objects.get(id=otto.pk).name == otto.name


def test_a_node_is_cordoned_by_the_service_with_its_audit(console: Client, otto: User, pool: Any) -> None:
    nodes = list(Node.objects.all())
    done = console.post("/admin/clusters/node/", {"action": "cordon", "_selected_action": [str(node.pk) for node in nodes]})
    assert done.status_code == 302
    assert all(node.cordoned for node in Node.objects.all())
    assert AuditEvent.objects.filter(verb="node.cordon", actor_id=otto.pk).count() == len(nodes)


def gpus(pool: Any, **columns: str) -> dict[str, str]:
    return {f"{pool.pk.hex}-gpu_millis-{column}": value for column, value in columns.items()}


def fields(page: Any) -> dict[str, str]:
    """The form as it stands."""
    form = page.context["form"]
    return {name: "" if form[name].initial is None else str(form[name].initial) for name in form.fields}


def test_limits_are_tried_made_and_kept_in_the_audit(console: Client, pool: Any) -> None:
    queue = top_queue(make_tenant("vision"))
    place = f"/admin/tenants/queue/{queue.pk}/limits/"
    page = console.get(place)
    assert b"The pool has" in page.content
    wanted = {**fields(page), **gpus(pool, deserved="12", ceiling="16"), "comment": "They have a deadline."}
    tried = console.post(place, {**wanted, "do": "try"})
    assert b"If this were made" in tried.content
    assert not QueueLimit.objects.filter(queue=queue).exists()
    assert console.post(place, {**wanted, "do": "make"}).status_code == 302
    row = QueueLimit.objects.get(queue=queue, resource="gpu_millis")
    assert (row.deserved, row.ceiling, row.guarantee, row.weight) == (12_000, 16_000, 0, 1)
    assert QuotaEdit.objects.get().comment == "They have a deadline."
    assert AuditEvent.objects.filter(target_kind="quota_edit").count() == 1
    stale = console.post(place, {**wanted, **gpus(pool, deserved="4"), "do": "make"})
    assert b"has version" in stale.content or b"changed" in stale.content
    assert QueueLimit.objects.get(queue=queue, resource="gpu_millis").deserved == 12_000


def test_limits_that_break_the_tree_are_refused_with_every_reason(console: Client, pool: Any) -> None:
    queue = top_queue(make_tenant())
    place = f"/admin/tenants/queue/{queue.pk}/limits/"
    wanted = {**fields(console.get(place)), **gpus(pool, guarantee="20", ceiling="10")}
    for button in ("try", "make"):
        answer = console.post(place, {**wanted, "do": button})
        assert answer.status_code == 200
        assert b"guarantee" in answer.content
    assert not QueueLimit.objects.filter(queue=queue).exists()
    broken = console.post(place, {**wanted, **gpus(pool, guarantee="NaN", weight="-1"), "do": "make"})
    assert broken.status_code == 200
    assert broken.context["form"].errors


def test_limits_from_a_later_time_wait_for_it(console: Client, pool: Any) -> None:
    queue = top_queue(make_tenant())
    place = f"/admin/tenants/queue/{queue.pk}/limits/"
    wanted = {**fields(console.get(place)), **gpus(pool, ceiling="8"), "effective_from": "2199-01-01T00:00", "do": "make"}
    too_late = console.post(place, wanted)
    assert too_late.context["form"].errors
    soon = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    assert console.post(place, {**wanted, "effective_from": soon}).status_code == 302
    assert QuotaEdit.objects.get().state == EditState.PENDING
    assert not QueueLimit.objects.filter(queue=queue).exists()


CHINESE = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}


def test_the_console_speaks_chinese_to_those_who_read_it_and_english_to_all_others(console: Client, pool: Any) -> None:
    index = console.get("/admin/", headers=CHINESE)
    page = index.content.decode()
    assert index.headers["Content-Language"] == "zh-hans"
    assert "Accept-Language" in index.headers["Vary"]
    for words in ("控制台", "集群", "资源池", "队列", "审计记录", "令牌"):
        assert words in page
    for words in ("Console", "Clusters", "Audit events", "Quota edits"):
        assert f">{words}<" not in "".join(page.split())
    english = console.get("/admin/").content.decode()
    assert "控制台" not in english
    assert "Console" in english, "a reader of Chinese changes nothing for others"


def test_columns_filters_and_actions_of_a_list_are_chinese_too(console: Client, pool: Any) -> None:
    page = console.get("/admin/clusters/node/", headers=CHINESE).content.decode()
    for words in ("名称", "资源池", "就绪", "停止调度的原因", "GPU 型号", "不再接受新任务"):
        assert words in page
    assert "Let nothing new start there" not in page
    done = console.post(
        "/admin/clusters/node/",
        {"action": "cordon", "_selected_action": [str(Node.objects.all()[0].pk)]},
        headers=CHINESE,
        follow=True,
    )
    assert "不再接受新任务的节点: 1." in done.content.decode()


def test_the_page_of_limits_is_chinese_too(console: Client, pool: Any) -> None:
    queue = top_queue(make_tenant())
    page = console.get(f"/admin/tenants/queue/{queue.pk}/limits/", headers=CHINESE, follow=True).content.decode()
    for words in (f"队列 {queue.name} 的限额", "保障", "上限", "试算", "执行", "记入审计。"):
        assert words in page
    for words in ("Try it", "Make it so", "Kept in the audit."):
        assert words not in page


def test_whoever_mistypes_the_password_is_told_so_in_chinese(otto: User) -> None:
    client = browser(headers=CHINESE)
    for _ in range(6):
        page = client.post("/admin/login/", {"username": otto.name, "password": "a guess"}).content.decode()
    assert "尝试次数过多" in page


def test_everything_that_the_console_names_or_says_has_a_chinese_word() -> None:
    named = set()
    for model, record in admin.site._registry.items():
        with override("en"):
            named |= {
                str(model._meta.verbose_name),
                str(model._meta.verbose_name_plural),
                str(model._meta.app_config.verbose_name),
            }
            named |= {str(field.verbose_name) for field in model._meta.concrete_fields if field.name not in record.secrets}
    root = Path(__file__).parents[3]
    sources = [*root.glob("*/admin.py"), *root.glob("platform/*/admin.py"), *root.glob("tenants/capacity/console/*.py")]
    sources += root.glob("platform/controlplane/console/*.py")
    said = {text for path in sources for text in re.findall(r"\b(?:_|gettext_lazy)\(\s*\"([^\"]+)\"", path.read_text("utf-8"))}
    said |= set(re.findall(r'translate "([^"]+)"', (root / "tenants/templates/tenants/console/limits.html").read_text("utf-8")))
    assert len(said) > 40
    assert sorted((named | said) - set(words_zh.CHINESE)) == []


def test_a_word_of_the_console_changes_no_table() -> None:
    field = Node._meta.get_field("cordon_reason")
    assert str(field.verbose_name) == "cordon reason"
    assert "verbose_name" not in field.deconstruct()[3]


def test_the_console_has_the_colours_of_the_portal(console: Client) -> None:
    page = "".join(console.get("/admin/").content.decode().split())
    theme = (Path(__file__).parents[3] / "frontend" / "src" / "app" / "theme.ts").read_text("utf-8")
    portal = re.findall(r"#[0-9a-f]{6}", re.search(r"berth: \[(.*?)\]", theme)[1])  # type: ignore[index]
    for weight, colour in (("50", portal[0]), ("600", portal[7]), ("700", portal[8])):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        assert f"--color-primary-{weight}:rgb({red},{green},{blue});" in page
    sheet = re.search(r'href="(/static/unfold/css/styles[^"]*)"', page)
    assert sheet is not None
