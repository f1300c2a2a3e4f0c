"""Answers that are none of Berth's, broken lines, addresses and tokens that cannot be: a sentence and an exit code, no trace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TOKEN, CutOff, a_job, problem

import berth
from berth.errors import AnswerInvalid, ConfigurationInvalid

READINGS = (("ps",), ("whoami",), ("get", "hello"), ("members",), ("audit",), ("nodes",))


class Pieces(httpx2.SyncByteStream):
    """A body as it is on the line, before it is unpacked."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def always(stub: Any, make: Any) -> None:
    stub.fail(".*", *[lambda request: make()] * 20)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'"ok"', b"42", b"[" * 100_000, b"\xff\xfe", b'{"items": [', b"<!DOCTYPE html><h1>Sign in</h1>"],
    ids=["empty", "null", "list", "text", "number", "nested", "binary", "cut off", "html"],
)
@pytest.mark.parametrize("words", READINGS, ids=lambda words: words[0])
def test_an_answer_that_is_no_object_is_told_in_a_sentence(run: Any, stub: Any, words: tuple[str, ...], body: bytes) -> None:
    always(stub, lambda: httpx2.Response(200, content=body))

    done = run(*words)

    assert done.exit_code == 1
    assert "does not look like a Berth server" in done.stderr
    assert "Hint: Check the address" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("body", [{}, {"items": None}, {"items": {}}, {"items": [1]}, {"error": "sign in first"}])
@pytest.mark.parametrize("words", [("ps",), ("get", "hello"), ("audit",), ("whoami",), ("members",)], ids=lambda words: words[0])
def test_an_object_of_another_service_is_not_taken_for_an_empty_list(
    run: Any, stub: Any, words: tuple[str, ...], body: dict[str, Any]
) -> None:
    always(stub, lambda: httpx2.Response(200, json=body))

    done = run(*words)

    assert done.exit_code == 1
    assert "of Berth's" in done.stderr


def test_a_proxys_page_with_an_error_keeps_the_status_and_names_no_html(run: Any, stub: Any) -> None:
    always(stub, lambda: httpx2.Response(403, text="<html><body>Blocked by policy</body></html>"))

    done = run("ps")

    assert done.exit_code == 3
    assert "The server answered 403 without saying why." in done.stderr
    assert "<html>" not in done.stderr


def test_a_refusal_that_is_nested_without_end_is_still_a_refusal(run: Any, stub: Any) -> None:
    always(stub, lambda: httpx2.Response(404, content=b"[" * 100_000))

    assert run("get", "hello").exit_code == 4


@pytest.mark.parametrize("status", [200, 404, 502])
def test_a_body_that_cannot_be_unpacked_is_told(run: Any, stub: Any, status: int) -> None:
    always(stub, lambda: httpx2.Response(status, headers={"Content-Encoding": "gzip"}, stream=Pieces(b"no gzip")))

    done = run("ps")

    assert done.exit_code == 1
    assert "damaged" in done.stderr


async def test_the_async_client_tells_a_damaged_answer_too() -> None:
    class Damaged(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield b"no gzip"

    answer = httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=Damaged())
    async with berth.AsyncClient(SERVER, TOKEN, http=httpx2.MockTransport(lambda request: answer)) as client:
        with pytest.raises(AnswerInvalid, match="damaged"):
            await client.whoami()


def test_a_packed_answer_is_bounded_by_what_it_unpacks_to(stub: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.ANSWER_BYTES", 10_000)
    packed = gzip.compress(b" " * 1_000_000)
    assert len(packed) < 10_000
    stub.fail("GET /whoami", httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=Pieces(packed)))

    with pytest.raises(AnswerInvalid, match="larger"):
        client.whoami()


def test_an_answer_that_breaks_off_is_asked_for_again(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("hello")]
    stub.fail("GET /jobs", httpx2.Response(200, stream=CutOff(b'{"items": [')), httpx2.Response(200, stream=CutOff()))

    done = run("ps")

    assert done.exit_code == 0
    assert "hello" in done.stdout
    assert len(stub.sent("GET /jobs")) == 3


# --- Refusals by status -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "invalid_input", 2),
        (401, "not_authenticated", 3),
        (403, "forbidden", 3),
        (404, "not_found", 4),
        (409, "conflict", 1),
        (412, "precondition_failed", 1),
        (412, "plan_changed", 1),
        (413, "too_large", 1),
        (422, "invalid_input", 2),
        (422, "quota_exceeded", 5),
        (507, "storage_full", 5),
        (500, "error", 1),
    ],
)
def test_a_refusal_shows_detail_and_hint_and_ends_with_its_code(
    run: Any, stub: Any, status: int, code: str, exit_code: int
) -> None:
    stub.fail("GET /nodes", problem(status, code, "What happened.", hint="What to do."))
    done = run("nodes")
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("Error: What happened.\nHint: What to do.\n")
    assert len(stub.sent("GET /nodes")) == 1, "a refusal for good is not asked for again"

    stub.fail("GET /nodes", problem(status, code, "What happened.", hint="What to do."))
    document = json.loads(run("nodes", "--json").stderr)
    assert document == {"code": code, "detail": "What happened.", "hint": "What to do.", "fields": [], "exit_code": exit_code}


def test_all_mistakes_are_shown_at_once_each_with_its_next_step(run: Any, stub: Any) -> None:
    fields = [
        {"path": f"/{place}", "code": "bad", "message": f"{place} is wrong.", "hint": f"Mend {place}."}
        for place in ("a", "b", "c")
    ]
    stub.fail("POST /tokens", problem(422, "invalid_input", "Three mistakes.", fields=fields))

    told = run("tokens", "create", "ci").stderr

    assert [line.split()[0] for line in told.splitlines() if " is wrong." in line] == ["/a", "/b", "/c"]
    assert [f"Mend {place}." in told for place in "abc"] == [True] * 3


def test_a_refused_field_is_told_by_the_option_that_gave_it_and_without_words_of_http(run: Any, stub: Any) -> None:
    wrong = '"king" is not a choice. Choose from: viewer, member, manager.'
    field = {"path": "/role", "code": "invalid_choice", "message": wrong}
    refused = problem(
        422, "invalid_input", f"1 field is not valid: /role - {wrong}", hint="`fields` lists every one of them with its path.",
        fields=[field],
    )  # fmt: skip
    stub.fail("POST /invitations", refused)
    stub.fail("POST /invitations", refused)

    told = run("users", "invite", "bob@example.org", "--role", "king")
    assert (told.exit_code, told.stderr) == (2, f"Error: --role: {wrong}\n")
    document = json.loads(run("users", "invite", "bob@example.org", "--role", "king", "--json").stderr)
    assert document["fields"][0]["path"] == "/role", "programs read what the API says"


@pytest.mark.parametrize(
    ("status", "code", "theirs", "ours"),
    [
        (401, "not_authenticated", "Run `berth login`, or send `Authorization: Bearer <token>`.", "Sign in: berth login"),
        (404, "not_found", "GET /api/v1/nodes tells them.", None),
        (403, "forbidden", "Ask: POST /api/v1/priority-requests, or `berth priority request`.", "berth priority request"),
        (409, "conflict", "Drain it first.", "Drain it first."),
    ],
)
def test_a_hint_about_http_gives_way_to_one_about_the_command(
    run: Any, stub: Any, status: int, code: str, theirs: str, ours: str | None
) -> None:
    stub.fail("GET /nodes", problem(status, code, "What happened.", hint=theirs))

    assert run("nodes").stderr == f"Error: What happened.\n{f'Hint: {ours}' if ours else ''}\n".replace("\n\n", "\n")


def test_an_option_whose_field_has_a_unit_or_is_a_list_is_found(run: Any, stub: Any) -> None:
    fields = [
        {"path": "/expires_at", "code": "past", "message": "It has passed."},
        {"path": "/scopes/0", "code": "invalid_choice", "message": "There is no such scope."},
    ]
    stub.fail(
        "POST /tokens", problem(422, "invalid_input", "2 fields are not valid: /expires_at - It has passed.", fields=fields)
    )

    told = run("tokens", "create", "ci", "--scope", "king").stderr
    assert [line.split()[0] for line in told.splitlines()[1:3]] == ["--expires", "--scope"]
    assert "/expires_at" not in told


def test_a_wish_to_wait_long_is_shown_and_not_waited_for(stub: Any, client: Any, naps: list[float]) -> None:
    stub.fail("GET /whoami", problem(429, "too_many_requests", "Too many.", headers={"Retry-After": "3600"}))

    with pytest.raises(berth.TooManyRequests) as caught:
        client.whoami()
    assert (caught.value.retry_after_seconds, naps) == (3600.0, [])


@pytest.mark.parametrize("header", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "-5", ""])
def test_an_odd_wish_to_wait_is_no_reason_to_fail(stub: Any, client: Any, naps: list[float], header: str) -> None:
    stub.fail("GET /whoami", problem(503, "unavailable", "Later.", headers={"Retry-After": header}))

    assert client.whoami()["user"]["name"] == "alice"
    assert len(naps) == 1
    assert 0 <= naps[0] < 1


@pytest.mark.parametrize(
    "error", [httpx2.ReadTimeout("timed out"), httpx2.ConnectTimeout("timed out"), httpx2.RemoteProtocolError("cut")]
)
def test_a_server_that_stays_silent_ends_the_command_with_1_and_its_address(run: Any, stub: Any, error: Exception) -> None:
    always(stub, lambda: _raised(error))

    done = run("ps")

    assert done.exit_code == 1
    assert f"{SERVER} does not answer" in done.stderr
    assert "berth version" in done.stderr
    assert "does not answer now; trying again." in done.stderr


def _raised(error: Exception) -> httpx2.Response:
    raise error


@pytest.mark.parametrize("status", [502, 504])
def test_what_may_not_be_repeated_is_not_sent_again_by_way_of_a_gateway(stub: Any, client: Any, status: int) -> None:
    stub.fail("POST /users:import", *[problem(status, "bad_gateway", "No answer.")] * 3)

    with pytest.raises(berth.Unavailable):
        client.users.import_csv("name,email\n")
    assert len(stub.sent("POST /users:import")) == 1


def test_a_submission_keeps_its_key_over_every_kind_of_failure(stub: Any, client: Any) -> None:
    faults = [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), problem(502, "x", "x"), problem(429, "x", "x")]
    stub.fail("POST /jobs", *faults)

    client.jobs.submit({"command": "true"})

    keys = {request.headers["Idempotency-Key"] for request in stub.sent("POST /jobs")}
    assert (len(stub.sent("POST /jobs")), len(keys), len(stub.jobs)) == (5, 1, 1)


def test_two_submissions_have_two_keys(stub: Any, client: Any) -> None:
    for _ in range(2):
        client.jobs.submit({"command": "true"})

    assert len({request.headers["Idempotency-Key"] for request in stub.sent("POST /jobs")}) == 2


def test_a_key_that_no_header_can_carry_is_refused_before_anything_is_sent(run: Any, stub: Any) -> None:
    done = run("submit", "--idempotency-key", "钥匙", "true")

    assert done.exit_code == 2
    assert "钥匙" in done.stderr
    assert stub.jobs == []


# --- Addresses, tokens, arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        *("http://host:99999", "http://host:0", "http://host:port", "http://[::1", "[::1", "http://a b", "http://ho\nst"),
        *("http://" + "a" * 300, "http://..", "http://\u2603.example"),
    ],
)
def test_an_address_that_none_can_be_is_refused_in_a_sentence(run: Any, stub: Any, address: str) -> None:
    done = run("ps", "--server", address)

    assert done.exit_code == 2
    assert "is not a server address" in done.stderr
    assert stub.requests == []


@pytest.mark.parametrize("address", ["http://[::1]:8620", "https://例え.example", "https://berth.example.org:8443/team"])
def test_unusual_addresses_that_can_be_are_taken(run: Any, stub: Any, address: str) -> None:
    run("ps", "--server", address)

    assert stub.requests


@pytest.mark.parametrize("token", ["密码", "bth_a\nbth_b", "bth_a ", "bth\x7f"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(run: Any, stub: Any, token: str) -> None:
    done = run("ps", env={"BERTH_TOKEN": token})

    assert done.exit_code == 2
    assert "The token holds" in done.stderr
    assert not [part for part in token.split() if part in done.output]
    assert stub.requests == []


@pytest.mark.parametrize("words", [("submit", "echo", "a\udcff"), ("get", "caf\udce9"), ("ps", "--search", "\udcff")])
def test_bytes_that_are_no_text_are_refused_by_name(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    done = run(*words)

    assert done.exit_code == 2
    assert "is not UTF-8 text" in done.stderr
    assert "\\udc" in done.stderr
    assert stub.jobs == []


def test_an_address_that_is_refused_is_an_error_of_the_sdk() -> None:
    with pytest.raises(ConfigurationInvalid, match="not a server address"):
        berth.Client("http://host:99999", TOKEN)
