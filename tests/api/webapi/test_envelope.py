"""The envelope: ids, security headers, and bodies that are bounded before they are read."""

import asyncio
import errno
import json

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import AsyncClient

from webapi import bounds
from webapi.body_limit import BodyLimit

MIB = 1024 * 1024


def test_a_harmless_request_id_is_kept_and_reaches_the_actor(alice):
    response = alice.get("/api/v1/echo", HTTP_X_REQUEST_ID="build-4711.a_b")

    assert response["X-Request-ID"] == "build-4711.a_b"
    assert response.json() == {"actor": "alice", "request_id": "build-4711.a_b"}


@pytest.mark.parametrize(
    "offered", ["", "short", "a" * 65, "x y z x y z", "evil\r\nSet-Cookie: a=b", "<script>alert(1)</script>"]
)
def test_any_other_request_id_is_replaced(alice, offered):
    response = alice.get("/api/v1/echo", HTTP_X_REQUEST_ID=offered)

    assert response["X-Request-ID"] != offered
    assert len(response["X-Request-ID"]) == 32


@pytest.mark.parametrize("path", ["/api/v1/echo", "/api/v1/nothing", "/api/v1/plain", "/livez", "/api/v1/docs"])
def test_every_answer_has_the_security_headers(alice, path):
    response = alice.get(path)

    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Cache-Control"] == "no-store"
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'unsafe-inline'" not in policy


def test_no_log_line_holds_a_token_or_a_query(alice):
    from structlog.testing import capture_logs

    with capture_logs() as entries:
        alice.get("/api/v1/echo?password=hunter2")
        alice.get("/api/v1/fails/fault?password=hunter2")

    assert any(entry["event"] == "request" for entry in entries)
    assert "alice-token" not in str(entries)
    assert "hunter2" not in str(entries)


def test_a_long_or_hostile_user_agent_is_cut(alice):
    from django.test import RequestFactory

    from webapi.middleware import open_request

    request = RequestFactory().get("/", HTTP_USER_AGENT="a\x1b[31m\n" + "b" * 10_000)
    open_request(request)

    assert request.META["HTTP_USER_AGENT"].startswith("a[31mb")
    assert len(request.META["HTTP_USER_AGENT"]) <= bounds.USER_AGENT_LENGTH


def test_a_large_body_needs_a_token_also_without_the_asgi_bound(alice, nobody, client_of):
    body = json.dumps("x" * (MIB + 10))

    assert nobody.post("/api/v1/echo", body, content_type="application/json").status_code == 401
    assert client_of("garbage").post("/api/v1/echo", body, content_type="application/json").status_code == 401
    assert alice.post("/api/v1/echo", body, content_type="application/json").status_code == 200
    large = {"CONTENT_LENGTH": str(bounds.BODY_BYTES + 1)}
    assert alice.post("/api/v1/echo", b"{}", content_type="application/json", **large).status_code == 413


async def ask(pieces, *, headers=(), content_type="application/json", application=None, **options):
    """Send one request in pieces through the bound; returns status, problem or body, and how many pieces were taken."""
    sent, taken, queue = [], 0, list(pieces)

    async def receive():
        nonlocal taken
        if not queue:
            await asyncio.Event().wait()
        taken += 1
        return {"type": "http.request", "body": queue.pop(0), "more_body": bool(queue)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/v1/echo",
        "raw_path": b"/api/v1/echo",
        "query_string": b"",
        "scheme": "http",
        "server": ("127.0.0.1", 8620),
        "client": ("127.0.0.1", 4242),
        "headers": [(b"content-type", content_type.encode()), *headers],
    }
    application = application or django_application()
    await asyncio.wait_for(BodyLimit(application, **options)(scope, receive, send), timeout=60)
    status = sent[0]["status"]
    body = json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
    return status, body, taken


def django_application():
    from upstream.django import Application

    return Application()


ALICE = (b"authorization", b"Bearer alice-token")
GARBAGE = (b"authorization", b"Bearer garbage")


async def test_an_undeclared_body_from_nobody_is_read_to_one_mebibyte_and_no_further():
    for headers in ([], [GARBAGE]):
        status, problem, taken = await ask([b"x" * MIB] * 40, headers=headers)

        assert (status, problem["code"]) == (401, "not_authenticated")
        assert taken == 2


async def test_a_declared_body_from_nobody_is_not_read_at_all():
    status, problem, taken = await ask([b"x"] * 40, headers=[(b"content-length", str(2 * MIB).encode())])

    assert (status, problem["code"], taken) == (401, "not_authenticated", 0)


async def test_nobody_may_send_a_small_body_in_pieces():
    status, problem, _ = await ask([b'{"a":', b"1}"])

    assert (status, problem["code"]) == (401, "not_authenticated")  # The operation's own answer, after the body.
    assert "token" in problem["detail"]


async def test_a_token_lets_in_more_but_not_everything():
    status, body, _ = await ask([b'"', b"x" * MIB, b"x" * MIB, b'"'], headers=[ALICE])
    assert (status, len(body["got"])) == (200, 2 * MIB)

    status, problem, taken = await ask([b"x" * MIB] * 64, headers=[ALICE])
    assert (status, problem["code"], taken) == (413, "too_large", 33)


async def test_a_declared_body_above_the_limit_is_refused_unread_for_everybody():
    for size in (bounds.BODY_BYTES + 1, 10**30):
        status, problem, taken = await ask([b"x"] * 4, headers=[ALICE, (b"content-length", str(size).encode())])

        assert (status, problem["code"], taken) == (413, "too_large", 0)


async def test_a_piece_of_an_upload_has_its_own_limit():
    pieces = [b"x" * MIB] * 9
    status, problem, _ = await ask(pieces, headers=[ALICE], content_type="application/offset+octet-stream")
    assert (status, problem["code"]) == (413, "too_large")

    status, body, _ = await ask(pieces[:8], headers=[ALICE], content_type="application/offset+octet-stream")
    assert (status, body) == (200, {"got": 8 * MIB})


async def test_a_length_that_is_no_number_is_refused():
    status, problem, taken = await ask([b"x"], headers=[(b"content-length", b"-1")])

    assert (status, problem["code"], taken) == (400, "bad_request", 0)


async def test_a_stalled_body_ends_with_an_answer():
    async def stalled(scope, receive, send):
        while (await receive())["type"] == "http.request":
            pass

    pieces = [b"x"]

    async def receive():
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": True}
        return await asyncio.Event().wait()

    sent = []

    async def send(message):
        sent.append(message)

    await asyncio.wait_for(BodyLimit(stalled, idle_seconds=0.05)({"type": "http", "headers": []}, receive, send), timeout=60)

    assert sent[0]["status"] == 408


async def test_other_connections_pass_untouched():
    seen = []

    async def application(scope, receive, send):
        seen.append((scope, receive, send))

    scope = {"type": "websocket"}
    await BodyLimit(application)(scope, ask, ask)

    assert seen == [(scope, ask, ask)]


async def test_the_envelope_works_in_an_async_chain():
    response = await AsyncClient().get("/api/v1/echo", headers={"authorization": "Bearer alice-token"})

    assert response.json()["actor"] == "alice"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert isinstance(django_application(), ASGIHandler)


async def test_too_many_open_files_outside_all_views_are_a_503_and_faults_of_ours_stay_faults():
    sent = []

    async def starved(scope, receive, send):
        raise OSError(errno.EMFILE, "Too many open files")

    async def faulty(scope, receive, send):
        raise OSError(errno.ENOENT, "No such file")

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/api/v1/jobs", "headers": []}
    await BodyLimit(starved)(scope, None, send)
    assert sent[0]["status"] == 503
    assert b"retry-after" in {name.lower() for name, _ in sent[0]["headers"]}
    with pytest.raises(FileNotFoundError):
        await BodyLimit(faulty)(scope, None, send)
