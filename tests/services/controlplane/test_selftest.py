"""The tenant escape self-test: it finds a hole where there is one, nothing where there is none, and leaves nothing behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from activity.models import AuditEvent, Event
from controlplane import selftest
from controlplane.models import SelfTest
from controlplane.processes.heartbeat import Heartbeat
from controlplane.selftest.parties import Answer, Caller
from controlplane.selftest.removal import remove_what_was_made
from controlplane.selftest.run import selftest_metrics
from jobs.models import Job
from jobs.services.counts import recount_jobs
from storage.models import Volume
from tenants.models import Tenant, Token, User
from tests.factories.tenants import Cast, make_tenant

pytestmark = [pytest.mark.database, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch, configure: Callable[..., Any]) -> None:
    """Requests go through the whole stack below the socket."""

    def send(self: Caller, method: str, path: str, *, body: object = None, query: dict[str, str] | None = None) -> Answer:
        self.requests += 1
        client = APIClient(raise_request_exception=False)
        if self.token:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.token}")
        content = b"" if body is None else json.dumps(body).encode()
        options = {"content_type": "application/json"} if content else {}
        answer = client.generic(method, path, content, **options, **({"QUERY_STRING": urlencode(query)} if query else {}))
        return Answer(answer.status_code, "" if answer.streaming else answer.content.decode())

    monkeypatch.setattr(Caller, "send", send)
    configure(requests_per_minute=0, selftest_url="http://testserver")


@pytest.fixture
def before(cast: Cast) -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in (Tenant, User, Token, Job, Volume)}


def left(before: dict[str, int]) -> dict[str, int]:
    return {model.__name__: model.objects.count() - before[model.__name__] for model in (Tenant, User, Token, Job, Volume)}


@pytest.mark.capability("6.18", "Every operation is tried from one throw-away tenant on another, and nothing is left behind")
def test_nothing_is_found_and_nothing_is_left(before: dict[str, int]) -> None:
    run = selftest.run_selftest(seconds_max=600)

    assert run is not None
    assert (run.verdict, run.findings, run.detail) == ("passed", [], "")
    assert run.requests > 200
    assert set(left(before).values()) == {0}
    assert run.removed_at is not None
    assert AuditEvent.objects.filter(verb="selftest.run", after__verdict="passed").exists()
    assert Event.objects.filter(kind="selftest.passed", tenant_id__isnull=True).exists()


def test_two_self_tests_leave_the_number_of_jobs_as_it_was(cast: Cast, api: Callable[..., APIClient]) -> None:
    waiting = api(cast.otto).get("/api/v1/jobs:counts").json()
    for _ in range(2):
        selftest.run_selftest(seconds_max=600)

    assert api(cast.otto).get("/api/v1/jobs:counts").json() == waiting
    assert recount_jobs(timezone.now()) == []


@pytest.mark.capability("6.18", "A hole between tenants is found, and told by log, event and metric")
def test_a_hole_is_found_and_told(before: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the rule of every model forgot the tenant for reading."""
    from tenants.identity import access

    original = access.tenants_with
    monkeypatch.setattr(access, "tenants_with", lambda actor, verb: None if verb.endswith(".read") else original(actor, verb))
    run = selftest.run_selftest(seconds_max=600)

    assert run is not None
    assert run.verdict == "failed"
    found = {finding["operation"] for finding in run.findings}
    assert {"GET /api/v1/jobs", "GET /api/v1/jobs/{job}", "GET /api/v1/audit"} <= found
    assert {finding["by"] for finding in run.findings} == {"stranger"}
    assert set(left(before).values()) == {0}
    assert Event.objects.filter(kind="selftest.failed").exists()
    findings = {metric.name: [sample.value for sample in metric.samples] for metric in selftest_metrics(timezone.now())}
    assert findings["berth_selftest_findings"][0] > 0
    assert findings["berth_selftest_passed_timestamp_seconds"] == []


@pytest.mark.capability("6.18", "Every operation is tried from one throw-away tenant on another, and nothing is left behind")
def test_what_an_interrupted_run_left_is_removed_later(before: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """The process is gone: nothing of it cleans up."""

    from controlplane.selftest import run as running

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(running, "_try_everything", die)
        patch.setattr(running, "_conclude", die)
        with pytest.raises(Killed):
            selftest.run_selftest(seconds_max=600)
    assert left(before)["Tenant"] == 2
    assert left(before)["Job"] == 1

    assert selftest.remove_leftovers(timezone.now()) == 0
    assert selftest.remove_leftovers(timezone.now() + timedelta(minutes=11)) == 1
    assert set(left(before).values()) == {0}
    assert SelfTest.objects.get().verdict == "broken"


def test_a_tenant_of_people_is_never_removed(cast: Cast) -> None:
    """Not even when a row names it: what was made is known by three marks at once."""
    theirs = make_tenant("selftest-of-somebody")
    run = SelfTest.objects.create(started_at=timezone.now(), tenant_ids=[str(theirs.pk), str(cast.tenant.pk)])

    remove_what_was_made(run, now=timezone.now())

    assert Tenant.objects.filter(pk__in=[theirs.pk, cast.tenant.pk]).count() == 2
    assert User.objects.filter(pk=cast.bob.user.pk).exists()


def test_a_run_that_cannot_be_carried_out_says_so_and_is_no_pass(before: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Caller, "send", lambda self, *_, **__: Answer(503, "down"))
    run = selftest.run_selftest(seconds_max=600)

    assert run is not None
    assert run.verdict == "broken"
    assert "503" in run.detail
    assert left(before)["Tenant"] == 0


@pytest.mark.capability("6.18", "The self-test runs every day and leaves a report for operators")
def test_it_is_due_a_day_after_the_last_and_not_on_a_new_installation(cast: Cast, configure: Callable[..., Any]) -> None:
    now = timezone.now()

    assert not selftest.due(now)
    assert selftest.due(now + timedelta(hours=25))
    SelfTest.objects.create(started_at=now + timedelta(hours=25))
    assert not selftest.due(now + timedelta(hours=26))
    configure(selftest_hours=0.0)
    assert not selftest.due(now + timedelta(days=30))


def test_it_refuses_while_its_own_installation_does_not_run(
    before: dict[str, int], configure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: Caller, *_: Any, **__: Any) -> Answer:
        raise AssertionError(f"{self.url} was asked")

    monkeypatch.setattr(Caller, "send", never)
    configure(selftest_url="")
    with pytest.raises(CommandError, match="nothing holds"):
        call_command("selftest_isolation")
    run = selftest.run_selftest(seconds_max=600)

    assert not Token.objects.filter(name="selftest").exists()
    assert run is not None
    assert (run.verdict, run.requests) == ("broken", 0)
    assert "No web server of this installation runs" in run.detail
    assert set(left(before).values()) == {0}


def test_it_asks_the_web_process_of_this_host_that_said_where_it_serves(cast: Cast, configure: Callable[..., Any]) -> None:
    configure(selftest_url="", port=1)
    Heartbeat("worker").beat(threading.Event())
    Heartbeat("web", url="http://127.0.0.1:8641").beat(threading.Event())

    assert selftest.own_url() == "http://127.0.0.1:8641"


def test_two_do_not_run_at_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    from controlplane.selftest import run as running

    inner = []
    original = running._run

    def twice(seconds_max: float) -> SelfTest:
        inner.append(selftest.run_selftest())
        return original(seconds_max)

    monkeypatch.setattr(running, "_run", twice)

    assert selftest.run_selftest(seconds_max=600) is not None
    assert inner == [None]


@pytest.mark.capability("6.18", "The self-test runs every day and leaves a report for operators")
def test_operators_read_the_reports_and_nobody_else_does(cast: Cast, api: Callable[..., APIClient]) -> None:
    SelfTest.objects.create(started_at=timezone.now(), verdict="passed", requests=7)

    [shown] = api(cast.otto).get("/api/v1/selftests").json()["items"]
    assert (shown["verdict"], shown["requests"], shown["removed"]) == ("passed", 7, False)
    assert api(cast.alice).get("/api/v1/selftests").json()["items"] == []


def test_the_command_prints_the_report_and_fails_on_findings(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    call_command("selftest_isolation", "--json", stdout=out)
    assert json.loads(out.getvalue())["verdict"] == "passed"
    monkeypatch.setattr(Caller, "send", lambda self, *_, **__: Answer(503, "down"))
    with pytest.raises(CommandError, match="broken"):
        call_command("selftest_isolation")
