"""Every failure has one shape, whoever raised it."""

import json

import pytest

from kernel.errors import Conflict, FieldError
from kernel.words import Language, Text
from webapi.problems import headers_of, problem_body
from webapi.wording import language_of

KEYS = {"type", "title", "status", "code", "detail", "retryable", "request_id"}


def problem(response):
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert set(body) >= KEYS
    assert body["status"] == response.status_code
    assert body["type"] == f"/docs/errors#{body['code']}"
    assert body["request_id"] == response["X-Request-ID"]
    return body


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/api/v1/fails/conflict", "get", 409, "conflict"),
        ("/api/v1/fails/missing", "get", 404, "not_found"),
        ("/api/v1/fails/busy", "get", 503, "unavailable"),
        ("/api/v1/fails/fault", "get", 500, "internal_error"),
        ("/api/v1/plain", "get", 500, "internal_error"),
        ("/api/v1/nothing", "get", 404, "route_not_found"),
        ("/elsewhere", "get", 404, "route_not_found"),
        ("/api/v1/echo", "put", 405, "method_not_allowed"),
        ("/api/v1/echo?a=%00", "get", 400, "bad_request"),
    ],
)
def test_a_failure_is_a_problem_document(alice, path, method, status, code):
    body = problem(getattr(alice, method)(path))

    assert (body["status"], body["code"]) == (status, code)


def test_a_fault_of_ours_shows_neither_its_message_nor_a_traceback(alice):
    for path in ("/api/v1/fails/fault", "/api/v1/plain"):
        text = alice.get(path).content.decode()

        assert "secret" not in text
        assert "ZeroDivision" not in text
        assert "Traceback" not in text


def test_a_fault_of_ours_is_logged_with_its_traceback_and_request_id(alice):
    from structlog.contextvars import merge_contextvars
    from structlog.testing import capture_logs

    with capture_logs(processors=[merge_contextvars]) as entries:
        response = alice.get("/api/v1/fails/fault")

    entry = next(entry for entry in entries if entry["event"] == "request_failed")
    assert isinstance(entry["exc_info"], ZeroDivisionError)
    assert entry["request_id"] == response["X-Request-ID"]


def test_a_busy_database_says_when_to_come_back(alice):
    response = alice.get("/api/v1/fails/busy")

    assert response["Retry-After"] == "1"
    assert problem(response)["retryable"] is True


def test_a_wrong_method_is_answered_with_those_that_exist(alice):
    assert alice.delete("/api/v1/versioned")["Allow"] == "GET, PATCH, HEAD, OPTIONS"


def test_a_missing_token_says_how_to_sign_in(nobody):
    response = nobody.get("/api/v1/echo")

    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="berth"'
    assert "berth login" in problem(response)["hint"]


def test_an_unsupported_content_type_is_refused(alice):
    response = alice.post("/api/v1/strict", data=b"<a/>", content_type="text/xml")

    assert problem(response)["code"] == "unsupported_media_type"


def test_titles_are_in_the_readers_language(alice):
    body = problem(alice.get("/api/v1/fails/conflict", HTTP_ACCEPT_LANGUAGE="zh-CN,zh;q=0.9,en;q=0.5"))

    assert body["title"] == "对象处于另一状态"
    assert body["detail"] == "Job a is already over."


def test_what_is_written_in_both_languages_is_told_in_the_readers():
    fields = [FieldError("/name", "taken", Text("It is taken.", "已被占用。"), Text("Choose another.", "换一个。"))]
    failure = Conflict(Text("There is a job a.", "已有作业 a。"), hint=Text("See it.", "请查看。"), fields=fields)

    told = problem_body(failure, request_id="", language=Language.CHINESE)

    assert (told["detail"], told["hint"]) == ("已有作业 a。", "请查看。")
    assert told["fields"] == [{"path": "/name", "code": "taken", "message": "已被占用。", "hint": "换一个。"}]
    assert headers_of(failure, language=Language.CHINESE)["Content-Language"] == "zh"
    assert problem_body(failure, request_id="")["detail"] == "There is a job a."
    assert headers_of(failure)["Content-Language"] == "en"
    assert (str(failure), failure.detail, failure.hint) == ("There is a job a.", "There is a job a.", "See it.")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", Language.ENGLISH),
        ("zh", Language.CHINESE),
        ("en, zh;q=0.9", Language.ENGLISH),
        ("fr, zh-TW;q=0.2", Language.CHINESE),
        ("zh;q=broken", Language.ENGLISH),
        ("*", Language.ENGLISH),
        ("zh;q=0", Language.ENGLISH),
        (",;,=," * 1000, Language.ENGLISH),
    ],
)
def test_the_language_is_the_best_one_that_we_speak(header, language):
    assert language_of(header) is language
