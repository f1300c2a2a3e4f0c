"""The client for programs with an event loop: what it sends, what it gives back, and how it meets faults of line and server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TOKEN, a_job, a_log, problem

import berth
from berth import limits
from berth.errors import AnswerInvalid, ConfigurationInvalid, ServerUnreachable
from berth.logs import LogFilter


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been waited, each time; nothing is."""
    pauses: list[float] = []
    at_once = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await at_once(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return pauses


@pytest.fixture
async def client(stub: Any) -> AsyncIterator[berth.AsyncClient]:
    async with berth.AsyncClient(SERVER, TOKEN, tenant="vision", http=stub.transport()) as connected:
        yield connected


def line(request: httpx2.Request) -> str:
    return f"{request.method} {request.url.raw_path.decode().partition('?')[0].removeprefix('/api/v1')}"


# --- What is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "wanted", "body"),
    [
        (lambda c: c.whoami(), "GET /whoami", None),
        (lambda c: c.get(" a/b "), "GET /jobs/a%2Fb", None),
        (lambda c: c.submit({"command": "true"}), "POST /jobs", {"spec": {"command": "true"}, "tenant": "vision"}),
        (lambda c: c.submit("command: echo hi\n"), "POST /jobs", {"spec": {"command": "echo hi"}, "tenant": "vision"}),
        (lambda c: c.stop("x"), "POST /jobs/x/stop", {}),
        (lambda c: c.stop("x", grace_seconds=0, reason="Why."), "POST /jobs/x/stop", {"grace_seconds": 0, "reason": "Why."}),
        (lambda c: c.rerun("x"), "POST /jobs/x/rerun", {}),
        (lambda c: c.rerun("x", changes={"env": None}), "POST /jobs/x/rerun", {"changes": {"env": None}}),
        (lambda c: c.request("PATCH", "/odd", json={"a": 1}), "PATCH /odd", {"a": 1}),
        (lambda c: c.request("GET", "/odd", params={"a": [1, 2], "b": None}), "GET /odd", None),
    ],
)
async def test_a_method_is_one_request(client: berth.AsyncClient, stub: Any, ask: Any, wanted: str, body: Any) -> None:
    stub.fail(".*", httpx2.Response(200, json={**a_job(), "items": []}))
    await ask(client)

    [request] = stub.requests
    assert line(request) == wanted
    assert (json.loads(request.content) if request.content else None) == body
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert ("Idempotency-Key" in request.headers) is (request.method == "POST")


async def test_filters_of_a_list_go_with_each_page(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job(state="failed", number=number) for number in range(1, 8)]
    stub.page_size = 3
    found = [job["id"] async for job in client.list(state=["failed", "stopped"], q="数字")]

    assert found == [job["id"] for job in reversed(stub.jobs)]
    asked = [request.url.params for request in stub.requests]
    assert [params.get("cursor") for params in asked] == [None, "3", "6"]
    assert all(params.get_list("state") == ["failed", "stopped"] and params["q"] == "数字" for params in asked)
    assert all(params["tenant"] == "vision" for params in asked)


@pytest.mark.parametrize("wanted", [0, 1, 3, 4, 99])
async def test_a_limit_of_a_list_is_kept(client: berth.AsyncClient, stub: Any, wanted: int) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 6)]
    stub.page_size = 3
    found = [job["id"] async for job in client.list(limit=wanted, tenant=None)]

    assert found == [job["id"] for job in reversed(stub.jobs)][:wanted]
    assert len(stub.requests) == (0 if wanted == 0 else 1 if wanted <= 3 else 2)
    assert all("tenant" not in request.url.params for request in stub.requests)


async def test_a_list_of_which_no_more_is_wanted_asks_for_no_more(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 6)]
    stub.page_size = 2
    rows = client.list()
    assert (await anext(rows))["id"] == stub.jobs[-1]["id"]
    await rows.aclose()
    assert len(stub.requests) == 1


async def test_a_folder_of_code_is_for_the_other_client(client: berth.AsyncClient, stub: Any, own_home: Path) -> None:
    (own_home / "work/job.yaml").write_text("command: python a.py\ncode: {path: .}\n")
    with pytest.raises(ValueError, match=r"berth\.Client"):
        await client.submit(own_home / "work/job.yaml")
    assert stub.requests == []
    (own_home / "work/job.yaml").write_text("name: x\ncommand: python a.py\n")
    assert (await client.submit(own_home / "work/job.yaml"))["name"] == "x"


# --- Faults of the line and of the server -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_says_later_is_asked_again_when_it_says(
    client: berth.AsyncClient, stub: Any, without_pauses: list[float], status: int
) -> None:
    stub.fail("GET /whoami", problem(status, "later", "Later.", headers={"Retry-After": "7"}))
    assert (await client.whoami())["user"]["name"] == "alice"
    assert without_pauses == [7.0]


@pytest.mark.parametrize("seconds", ["121", "99999"])
async def test_a_wish_to_wait_too_long_is_an_error(
    client: berth.AsyncClient, stub: Any, without_pauses: list[float], seconds: str
) -> None:
    stub.fail("GET /whoami", problem(503, "unavailable", "Later.", headers={"Retry-After": seconds}))
    with pytest.raises(berth.errors.Unavailable) as caught:
        await client.whoami()
    assert caught.value.retry_after_seconds == float(seconds)
    assert without_pauses == []


async def test_a_lost_answer_makes_one_job(client: berth.AsyncClient, stub: Any) -> None:
    def accept_then_break(request: httpx2.Request) -> httpx2.Response:
        stub.create_job(request)
        raise httpx2.ReadError("the line broke")

    stub.fail("POST /jobs", accept_then_break, problem(503, "unavailable", "Restarting."))
    job = await client.submit({"command": "true"})

    assert [found["id"] for found in stub.jobs] == [job["id"]]
    assert len({request.headers["Idempotency-Key"] for request in stub.sent("POST /jobs")}) == 1
    assert len(stub.sent("POST /jobs")) == 3


async def test_a_key_of_your_own_gives_the_same_job(client: berth.AsyncClient, stub: Any) -> None:
    jobs = [await client.submit({"command": "true"}, idempotency_key="k-1") for _time in range(2)]
    assert jobs[0]["id"] == jobs[1]["id"]
    with pytest.raises(berth.InvalidInput):
        await client.submit({"command": "true"}, idempotency_key="键")


async def test_a_removal_whose_answer_was_lost_is_done(client: berth.AsyncClient, stub: Any) -> None:
    stub.fail("DELETE /tokens/x", httpx2.ReadError("the line broke"), problem(404, "not_found", "Gone."))
    assert await client.request("DELETE", "/tokens/x") is None
    stub.fail("DELETE /tokens/y", problem(404, "not_found", "Gone."))
    with pytest.raises(berth.NotFound):
        await client.request("DELETE", "/tokens/y")


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_have_arrived_is_not_sent_again(client: berth.AsyncClient, stub: Any, method: str) -> None:
    stub.fail(f"{method} /odd", httpx2.ReadError("the line broke"))
    with pytest.raises(ServerUnreachable):
        await client.request(method, "/odd", json={})
    assert len(stub.requests) == 1
    stub.fail(f"{method} /odd", httpx2.ConnectError("refused"), httpx2.Response(204))
    assert await client.request(method, "/odd", json={}) is None, "what never left is sent again"


async def test_a_server_that_stays_away_is_named_after_all_tries(stub: Any, without_pauses: list[float]) -> None:
    stub.fail("GET /whoami", *[httpx2.ConnectError("connection refused")] * 9)
    async with berth.AsyncClient(SERVER, TOKEN, http=stub.transport(), tries=3) as client:
        with pytest.raises(ServerUnreachable, match=r"berth\.test does not answer: connection refused"):
            await client.whoami()
    assert len(without_pauses) == 2


@pytest.mark.parametrize(
    ("status", "code", "kind", "ends"),
    [
        (401, "not_authenticated", berth.errors.NotAuthenticated, 3),
        (403, "forbidden", berth.errors.Forbidden, 3),
        (404, "not_found", berth.NotFound, 4),
        (409, "conflict", berth.errors.Conflict, 1),
        (412, "plan_changed", berth.errors.PlanChanged, 1),
        (422, "quota_exceeded", berth.QuotaExceeded, 5),
        (422, "of_a_newer_server", berth.InvalidInput, 2),
        (418, "of_a_newer_server", berth.errors.ApiError, 1),
        (507, "storage_full", berth.errors.StorageFull, 5),
    ],
)
async def test_a_refusal_is_the_class_that_it_stands_for(
    client: berth.AsyncClient, stub: Any, status: int, code: str, kind: type[berth.errors.ApiError], ends: int
) -> None:
    stub.fail("GET /jobs/x", problem(status, code, "It is so.", hint="Do this.", fields=[{"path": "/a", "message": "m"}]))
    with pytest.raises(kind) as caught:
        await client.get("x")
    error = caught.value
    assert (type(error), error.code, error.status, error.exit_code) == (kind, code, status, ends)
    assert (error.detail, error.hint, error.fields[0].path, error.request_id) == ("It is so.", "Do this.", "/a", "r-1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b"{", b"{}"])
async def test_an_answer_that_is_no_job_is_said_to_be_none(client: berth.AsyncClient, stub: Any, body: bytes) -> None:
    stub.fail("GET /jobs/x", httpx2.Response(200, content=body))
    with pytest.raises(AnswerInvalid):
        await client.get("x")


@pytest.mark.parametrize("page", [{}, {"items": None}, {"items": {}}, {"items": ["a"]}, {"jobs": []}])
async def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(client: berth.AsyncClient, stub: Any, page: Any) -> None:
    stub.fail("GET /jobs.*", *[httpx2.Response(200, json=page)] * 2)
    with pytest.raises(AnswerInvalid):
        _rows = [job async for job in client.list()]
    with pytest.raises(AnswerInvalid):
        _lines = [line async for line in client.logs("x", attempt=1)]


async def test_a_cursor_without_rows_ends_a_list(client: berth.AsyncClient, stub: Any) -> None:
    stub.fail("GET /jobs", *[httpx2.Response(200, json={"items": [], "next": "again"})] * 3)
    assert [job async for job in client.list()] == []
    assert len(stub.requests) == 1


async def test_an_answer_without_end_is_not_read_to_it(
    client: berth.AsyncClient, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_BYTES", 1000)
    stub.fail("GET /whoami", httpx2.Response(200, content=b"x" * 2000))
    with pytest.raises(AnswerInvalid, match="larger"):
        await client.whoami()


async def test_a_redirect_is_not_followed_with_the_token(client: berth.AsyncClient, stub: Any) -> None:
    stub.fail("GET /whoami", httpx2.Response(302, headers={"Location": "https://elsewhere.test/"}))
    with pytest.raises(AnswerInvalid, match=r"elsewhere\.test"):
        await client.whoami()
    assert len(stub.requests) == 1


# --- Waiting and reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["succeeded", "failed", "stopped"])
async def test_waiting_ends_with_the_job(client: berth.AsyncClient, stub: Any, without_pauses: list[float], end: str) -> None:
    stub.jobs = [a_job(state="queued")]
    stub.states_to_come = ["queued", "admitted", "starting", "running", "stopping", end]
    assert (await client.wait("digits"))["state"] == end
    assert len(stub.sent("GET /jobs/digits")) == 6
    assert without_pauses == sorted(without_pauses), "ever longer"
    assert max(without_pauses) <= limits.POLL_SECONDS_MAX


async def test_waiting_that_takes_too_long_ends_with_124_and_leaves_the_job(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job(state="running")]
    with pytest.raises(berth.WaitTimeout, match="digits is running") as caught:
        await client.wait("digits", timeout=0)
    assert caught.value.exit_code == 124
    assert [request.method for request in stub.requests] == ["GET"]


async def test_a_job_that_has_ended_is_not_waited_for(client: berth.AsyncClient, stub: Any, without_pauses: list[float]) -> None:
    stub.jobs = [a_job(state="failed")]
    assert (await client.wait("digits", timeout=0))["state"] == "failed"
    assert without_pauses == []


async def test_several_jobs_are_waited_for_at_once(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job("a", "succeeded", 1), a_job("b", "failed", 2), a_job("c", "stopped", 3)]
    ended = await asyncio.gather(*(client.wait(name) for name in "abc"))
    assert [job["state"] for job in ended] == ["succeeded", "failed", "stopped"]


async def test_a_log_is_read_to_its_end_over_pages_that_repeat_themselves(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job(state="succeeded")]
    stub.logs = [
        a_log("one\ntw", 0),
        a_log("o\nthree", 6),
        a_log("o\nthree", 6),
        a_log("\n未完", 13),
        a_log("x\n", 0, stream="stderr"),
    ]
    lines = [line async for line in client.logs("digits", attempt=1)]

    assert [(line.text, line.stream, line.offset) for line in lines] == [
        ("one", "stdout", 0),
        ("two", "stdout", 4),
        ("three", "stdout", 8),
        ("x", "stderr", 0),
        ("未完", "stdout", 14),
    ]
    assert len(stub.sent("GET .*/logs")) == 3


async def test_a_log_is_followed_until_it_is_complete(client: berth.AsyncClient, stub: Any) -> None:
    pages = [
        {"items": [], "cursor": None, "complete": False},
        {"items": [a_log("a\n", 0)], "cursor": "1", "complete": False},
        {"items": [], "cursor": "1", "complete": False},
        {"items": [a_log("b\n", 2)], "cursor": "2", "complete": True},
    ]
    stub.fail("GET /jobs/x/logs", *[httpx2.Response(200, json=page) for page in pages])
    chosen = LogFilter(role="worker", index=0, stream="stdout")
    assert [line.text async for line in client.logs("x", attempt=2, log_filter=chosen, follow=True)] == ["a", "b"]

    asked = [request.url.params for request in stub.requests]
    assert [params.get("cursor") for params in asked] == [None, None, "1", "1"]
    assert {(params["attempt"], params["role"], params["index"], params["stream"]) for params in asked} == {
        ("2", "worker", "0", "stdout")
    }


async def test_a_log_that_has_nothing_yet_is_not_waited_for_unless_it_is_followed(client: berth.AsyncClient, stub: Any) -> None:
    stub.fail("GET /jobs/x/logs", httpx2.Response(200, json={"items": [], "complete": False}))
    assert [line async for line in client.logs("x", attempt=1)] == []
    assert len(stub.requests) == 1


async def test_a_gap_in_a_log_stands_where_it_is(client: berth.AsyncClient, stub: Any) -> None:
    stub.jobs = [a_job(state="succeeded")]
    stub.logs = [a_log("a", 0), a_log("", 1, marker="lost", skipped_bytes=9), a_log("b\n", 10)]
    lines = [line async for line in client.logs("digits", attempt=1)]
    assert [(line.text, line.marker) for line in lines] == [("a", ""), ("", "lost"), ("b", "")]


# --- Settings ---------------------------------------------------------------------------------------------------------


async def test_server_and_token_come_from_where_those_of_the_other_client_do(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_SERVER", SERVER)
    monkeypatch.setenv("BERTH_TOKEN", TOKEN)
    monkeypatch.setenv("BERTH_TENANT", "lab")
    async with berth.AsyncClient(http=stub.transport()) as client:
        _rows = [job async for job in client.list()]
        assert (await client.submit({"command": "true"}))["state"] == "queued"
    assert stub.sent("GET /jobs")[0].url.params["tenant"] == "lab"
    assert json.loads(stub.sent("POST /jobs")[0].content)["tenant"] == "lab"


@pytest.mark.parametrize("token", ["se cret", "se\ncret", "令牌", "se\x00cret"])
async def test_a_client_without_a_server_or_with_an_odd_token_is_none(token: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="server"):
        berth.AsyncClient()
    with pytest.raises(ConfigurationInvalid) as caught:
        berth.AsyncClient(SERVER, token)
    assert token not in str(caught.value)
