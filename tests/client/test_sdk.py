"""The SDK against the stub: retries, idempotency, pages, names, and errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TOKEN, a_job, problem

import berth
from berth.errors import AnswerInvalid


def test_a_job_is_submitted_from_yaml_text_with_an_idempotency_key(stub: Any, client: Any) -> None:
    job = client.jobs.submit("name: digits\ncommand: echo hello\n")

    assert (job.name, job.state) == ("digits", "queued")
    [request] = stub.sent("POST /jobs")
    assert request.headers["Idempotency-Key"]
    assert json.loads(request.content) == {"spec": {"name": "digits", "command": "echo hello"}}


def test_a_submission_whose_answer_is_lost_makes_one_job(stub: Any, client: Any) -> None:
    def accept_then_break(request: httpx2.Request) -> httpx2.Response:
        stub.create_job(request)
        raise httpx2.ReadError("the line broke")

    stub.fail("POST /jobs", accept_then_break)

    job = client.jobs.submit({"name": "digits", "command": "true"})

    assert [found["id"] for found in stub.jobs] == [job.id]
    first, second = stub.sent("POST /jobs")
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_the_same_key_gives_the_same_job(stub: Any, client: Any) -> None:
    jobs = [client.jobs.submit({"command": "true"}, idempotency_key="k1") for _ in range(2)]

    assert jobs[0].id == jobs[1].id


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_says_later_is_asked_again_when_it_says(stub: Any, client: Any, naps: list[float], status: int) -> None:
    stub.fail("GET /whoami", problem(status, "later", "Later.", headers={"Retry-After": "7"}))

    assert client.whoami()["user"]["name"] == "alice"
    assert naps == [7.0]


def test_retries_end_with_an_error_that_names_the_server(stub: Any, naps: list[float]) -> None:
    stub.fail("GET /whoami", *[httpx2.ConnectError("connection refused")] * 9)
    client = berth.Client(SERVER, TOKEN, http=stub.transport(), sleep=naps.append, tries=3)

    with pytest.raises(berth.ServerUnreachable, match=r"berth\.test does not answer: connection refused"):
        client.whoami()
    assert len(naps) == 2


def test_whoever_waits_for_a_job_waits_for_an_absent_server_too(stub: Any, client: Any, naps: list[float]) -> None:
    stub.jobs = [a_job(state="succeeded")]
    stub.fail("GET /jobs/[^/]+", *[httpx2.ConnectError("connection refused")] * 20)
    told: list[bool] = []
    client.transport.on_outage = lambda: told.append(True)

    assert client.jobs.wait(stub.jobs[0]["id"]).succeeded
    assert (len(naps), told) == (20, [True])


def test_an_import_whose_answer_is_lost_is_not_sent_again(stub: Any, client: Any) -> None:
    stub.fail("POST /users:import", httpx2.ReadError("the line broke"))

    with pytest.raises(berth.ServerUnreachable):
        client.users.import_csv("name,email\n")
    assert len(stub.sent("POST /users:import")) == 1


def test_a_delete_whose_answer_was_lost_is_done(stub: Any, client: Any) -> None:
    stub.fail("DELETE /tokens/x", httpx2.ReadError("the line broke"), problem(404, "not_found", "Gone."))

    client.tokens.revoke("x")


def test_a_redirect_is_not_followed_with_the_token(stub: Any, client: Any) -> None:
    stub.fail("GET /whoami", httpx2.Response(302, headers={"Location": "https://elsewhere.test/"}))

    with pytest.raises(AnswerInvalid, match=r"elsewhere\.test"):
        client.whoami()
    assert len(stub.requests) == 1


def test_a_list_is_read_page_by_page_while_it_is_iterated(stub: Any, client: Any) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 8)]
    stub.page_size = 3

    found = [job.id for job in client.jobs.list()]

    assert found == sorted((job["id"] for job in stub.jobs), reverse=True)
    assert len(stub.sent("GET /jobs")) == 3


def test_a_limit_stops_asking_for_pages(stub: Any, client: Any) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 8)]
    stub.page_size = 3

    assert len(list(client.jobs.list(limit=2))) == 2
    assert len(stub.sent("GET /jobs")) == 1


def test_a_name_means_its_latest_job(stub: Any, client: Any) -> None:
    stub.jobs = [a_job("digits", number=1), a_job("other", number=2), a_job("digits", number=3)]

    assert client.jobs.get("digits").id == stub.jobs[2]["id"]


def test_a_job_that_is_not_there_is_not_found(client: Any) -> None:
    with pytest.raises(berth.NotFound):
        client.jobs.get("nothing")


def test_changes_reach_inside_and_are_sent_as_whole_keys(stub: Any, client: Any) -> None:
    stub.jobs = [a_job("digits")]
    roles = {"worker": {"command": "true", "resources": {"cpu": 1}}}
    stub.specs[stub.jobs[0]["id"]] = {"name": "digits", "roles": roles, "env": {"A": "1"}}

    client.jobs.rerun("digits", changes=["resources.memory=32Gi", "env.B=2"])

    [request] = stub.sent(r"POST /jobs/[^/]+/rerun")
    assert json.loads(request.content) == {
        "changes": {
            "roles": {"worker": {"command": "true", "resources": {"cpu": 1, "memory": "32Gi"}}},
            "env": {"A": "1", "B": "2"},
        }
    }


def test_mistakes_found_by_the_server_name_the_line_of_the_file(stub: Any, client: Any) -> None:
    text = "name: digits\n\n# a comment\ncomand: true\nimagee: x\n"

    with pytest.raises(berth.InvalidInput) as caught:
        client.jobs.submit(text)
    assert [(field.path, field.line) for field in caught.value.fields] == [("/comand", 4), ("/imagee", 5)]


def test_a_refusal_over_a_limit_has_its_own_class(client: Any) -> None:
    with pytest.raises(berth.QuotaExceeded) as caught:
        client.jobs.submit({"name": "huge", "command": "true"})
    assert (caught.value.code, caught.value.exit_code, caught.value.hint) == ("quota_exceeded", 5, "Ask a manager.")


def test_a_dry_run_submits_nothing(stub: Any, client: Any) -> None:
    assert client.jobs.submit({"command": "true"}, dry_run=True).state == "planned"
    assert stub.jobs == []


def test_waiting_ends_with_the_job_and_gives_up_in_time(stub: Any, client: Any) -> None:
    stub.jobs = [a_job(state="queued")]
    stub.states_to_come = ["queued", "running", "succeeded"]
    seen: list[str] = []

    assert client.jobs.wait(stub.jobs[0]["id"], on_change=lambda job: seen.append(job.state)).succeeded
    assert seen == ["queued", "running", "succeeded"]
    stub.jobs = [a_job(state="running")]
    with pytest.raises(berth.WaitTimeout, match="it goes on"):
        client.jobs.wait(stub.jobs[0]["id"], timeout=0)


def test_an_answer_that_is_not_berths_is_named_so(stub: Any, client: Any) -> None:
    stub.fail("GET /whoami", httpx2.Response(200, text="<html>a proxy</html>"))

    with pytest.raises(AnswerInvalid, match="not JSON"):
        client.whoami()


def test_an_endless_answer_is_not_read_to_its_end(stub: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.ANSWER_BYTES", 1000)
    stub.fail("GET /whoami", httpx2.Response(200, content=b"x" * 2000))

    with pytest.raises(AnswerInvalid, match="larger"):
        client.whoami()


@pytest.mark.capability("93", "The use of a task's GPUs is measured and kept, and a gap stays a gap")
def test_metrics_are_lists_with_gaps(stub: Any, client: Any) -> None:
    stub.jobs = [a_job()]

    [cpu, *_rest] = client.jobs.get("digits").metrics()

    assert (cpu.name, cpu.metric, cpu.values, cpu.latest) == ("worker-0", "cpu_millis", (900.0, None, 1800.0), 1800.0)
    assert len(cpu.times) == 3


async def test_the_async_client_submits_waits_and_lists(stub: Any) -> None:
    async with berth.AsyncClient(SERVER, TOKEN, http=stub.transport()) as client:
        job = await client.submit({"name": "digits", "command": "true"})
        stub.states_to_come = ["succeeded"]
        assert (await client.wait(job["id"], timeout=5))["state"] == "succeeded"
        assert [found["id"] async for found in client.list()] == [job["id"]]


def test_the_client_imports_nothing_of_the_server() -> None:
    script = (
        "import sys, pkgutil, importlib, berth\n"
        "for found in pkgutil.walk_packages(berth.__path__, 'berth.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "server = {'django', 'rest_framework', 'kernel', 'webapi', 'activity', 'clusters', 'tenants', 'storage', 'jobs'}\n"
        "print(sorted(server & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    assert _python(script) == "[]"


def test_importing_berth_or_asking_for_help_loads_neither_http_nor_rich() -> None:
    script = (
        "import sys, berth, contextlib, io\n"
        "sys.argv = ['berth', '--help']\n"
        "from berth.cli.root import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print(sorted({'httpx2', 'rich', 'yaml', 'pathspec', 'ssl', 'asyncio'} & set(sys.modules)), len(sys.modules) < 330)\n"
    )
    assert _python(script) == "[] True"


def _python(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=_client_only()
    ).stdout.strip()


def _client_only() -> dict[str, str]:
    from pathlib import Path

    return {"PYTHONPATH": str(Path(berth.__file__).parents[1]), "PATH": "/usr/bin:/bin", "BERTH_LANG": "en"}
