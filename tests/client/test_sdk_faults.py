"""How the SDK takes refusals and faults apart: their class, their places, how long is waited, and what a packed folder holds."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TOKEN, problem

import berth
from berth import errors, limits
from berth.snapshots import list_code, pack_code
from berth.transport import backoff_seconds, retry_after

# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind", "ends"),
    [
        (400, "", errors.InvalidInput, 2),
        (401, "", errors.NotAuthenticated, 3),
        (403, "", errors.Forbidden, 3),
        (404, "", errors.NotFound, 4),
        (409, "", errors.Conflict, 1),
        (412, "", errors.PreconditionFailed, 1),
        (412, "plan_changed", errors.PlanChanged, 1),
        (413, "", errors.TooLarge, 1),
        (422, "", errors.InvalidInput, 2),
        (422, "quota_exceeded", errors.QuotaExceeded, 5),
        (429, "", errors.TooManyRequests, 1),
        (500, "", errors.ApiError, 1),
        (502, "", errors.Unavailable, 1),
        (504, "", errors.Unavailable, 1),
        (507, "", errors.StorageFull, 5),
        (418, "teapot", errors.ApiError, 1),
        (403, "of_a_newer_server", errors.Forbidden, 3),
        (404, "quota_exceeded", errors.QuotaExceeded, 5),
    ],
)
def test_a_code_says_more_than_a_status_and_a_status_more_than_nothing(
    status: int, code: str, kind: type[errors.ApiError], ends: int
) -> None:
    error = errors.from_problem(status, {"code": code} if code else None)
    assert (type(error), error.status, error.exit_code) == (kind, status, ends)
    assert error.code == (code or kind.code)
    assert str(status) in error.detail, "without words the status is told"


@pytest.mark.parametrize(
    "body", [None, "", "text", 7, [], [{"detail": "x"}], {}, {"detail": None}, {"fields": "all"}, {"fields": {"a": 1}}]
)
def test_a_refusal_of_another_shape_is_a_refusal_all_the_same(body: Any) -> None:
    error = errors.from_problem(403, body, request_id="r-9")
    assert (error.fields, error.hint, error.request_id) == ((), "", "r-9")
    assert error.detail


def test_a_refusal_keeps_all_that_it_says() -> None:
    fields = [
        {"path": "/a", "code": "c", "message": "m", "hint": "h", "line": 7},
        {"message": None, "line": "7"},
        "no object",
        {},
    ]
    document = {"title": "T", "detail": "D", "hint": "H", "code": "conflict", "request_id": "r-1", "fields": fields}
    error = errors.from_problem(409, document, request_id="r-2", retry_after_seconds=3.0)
    assert (error.title, error.detail, error.hint, error.request_id, error.retry_after_seconds) == ("T", "D", "H", "r-1", 3.0)
    assert [(field.path, field.code, field.message, field.hint, field.line) for field in error.fields] == [
        ("/a", "c", "m", "h", 7),
        ("", "invalid", "", "", 0),
        ("", "invalid", "", "", 0),
    ]
    assert errors.from_problem(409, {"title": "T"}).detail == "T"


@pytest.mark.parametrize(
    ("file", "line", "path", "place"),
    [("job.yaml", 7, "/a", "job.yaml:7"), ("job.yaml", 0, "/a", "/a"), ("", 7, "/a", "/a"), ("", 0, "", "/")],
)
def test_a_place_is_a_line_where_there_is_one(file: str, line: int, path: str, place: str) -> None:
    assert errors.FieldProblem(path, "m", file=file, line=line).place == place


# --- Waiting between tries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("", None), ("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("soon", None), ("Fri, 20 Nov 2026 12:00:00 GMT", None)],
)
def test_a_wish_to_wait_is_a_number_of_seconds_or_none(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_pauses_double_up_to_a_bound_and_are_never_the_same_for_all() -> None:
    for tried in range(1, 60):
        base = min(limits.BACKOFF_SECONDS * 2 ** (tried - 1), limits.BACKOFF_SECONDS_MAX)
        pauses = {backoff_seconds(tried) for _time in range(20)}
        assert all(0.75 * base <= pause <= 1.25 * base for pause in pauses)
        assert len(pauses) > 1


@pytest.mark.parametrize(
    ("method", "failure", "sent"),
    [
        ("GET", httpx2.ReadTimeout("slow"), 2),
        ("PUT", httpx2.ReadError("broke"), 2),
        ("DELETE", httpx2.RemoteProtocolError("odd"), 2),
        ("POST", httpx2.ReadError("broke"), 1),
        ("PATCH", httpx2.WriteError("broke"), 1),
        ("POST", httpx2.ConnectError("refused"), 2),
        ("PATCH", httpx2.PoolTimeout("busy"), 2),
        ("GET", problem(502, "bad_gateway", "No."), 2),
        ("POST", problem(502, "bad_gateway", "No."), 1),
        ("POST", problem(503, "unavailable", "No."), 2),
        ("POST", problem(429, "too_many_requests", "No."), 2),
        ("GET", problem(500, "internal", "No."), 1),
        ("GET", problem(409, "conflict", "No."), 1),
    ],
)
def test_a_request_is_sent_again_only_where_that_changes_nothing(
    stub: Any, client: Any, method: str, failure: Any, sent: int
) -> None:
    stub.fail(f"{method} /odd", failure, httpx2.Response(200, json={"ok": True}))
    if sent == 1:
        with pytest.raises(berth.BerthError):
            client.request(method, "/odd")
    else:
        assert client.request(method, "/odd") == {"ok": True}
    assert len(stub.requests) == sent


@pytest.mark.parametrize("tries", [0, 1, 4])
def test_a_client_tries_as_often_as_it_was_told_and_once_at_least(stub: Any, naps: list[float], tries: int) -> None:
    stub.fail("GET /whoami", *[httpx2.ConnectError("refused")] * 9)
    connected = berth.Client(SERVER, TOKEN, http=stub.transport(), sleep=naps.append, tries=tries)
    with connected as client, pytest.raises(berth.ServerUnreachable):
        client.whoami()
    assert len(stub.requests) == max(1, tries)
    assert len(naps) == max(1, tries) - 1


def test_an_address_without_words_and_a_fault_without_words_are_named(stub: Any, naps: list[float]) -> None:
    stub.fail("GET /whoami", httpx2.ReadTimeout(""))
    connected = berth.Client(SERVER, TOKEN, http=stub.transport(), sleep=naps.append, tries=1)
    with connected as client, pytest.raises(berth.ServerUnreachable, match=r"berth\.test does not answer: ReadTimeout"):
        client.whoami()


# --- Folders of code --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "code"
    for path, text in (
        ("a.py", "1"),
        ("包/b.py", "2"),
        ("__pycache__/a.pyc", "x"),
        (".git/HEAD", "x"),
        ("venv/x", "x"),
        ("data.bin", "3"),
    ):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return place


@pytest.mark.parametrize(
    ("rules", "paths"),
    [
        (None, ["a.py", "data.bin", "包/b.py"]),
        ("", [".berthignore", "__pycache__/a.pyc", "a.py", "data.bin", "venv/x", "包/b.py"]),
        ("*.bin\n# a remark\n\nvenv/\n", [".berthignore", "__pycache__/a.pyc", "a.py", "包/b.py"]),
        ("*\n!a.py\n", ["a.py"]),
        ("/包\n__pycache__\nvenv\n", [".berthignore", "a.py", "data.bin"]),
    ],
)
def test_an_ignore_file_says_what_stays_at_home_and_history_always_does(
    folder: Path, rules: str | None, paths: list[str]
) -> None:
    if rules is not None:
        (folder / ".berthignore").write_text(rules)
    assert [entry.path for entry in list_code(folder)] == paths


def test_equal_folders_are_equal_bytes_at_any_time(folder: Path, tmp_path: Path) -> None:
    first = pack_code(folder)
    os.utime(folder / "a.py", (1, 1))
    (folder / "data.bin").chmod(0o600)
    second = pack_code(folder)
    assert (first.sha256, first.file_count, first.content_bytes) == (second.sha256, 3, 3)
    (folder / "a.py").chmod(0o755)
    executable = pack_code(folder)
    assert executable.sha256 != first.sha256, "that it may be executed counts"

    with tarfile.open(fileobj=second.file, mode="r:gz") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["a.py", "data.bin", "包/b.py"]
    assert {(member.mtime, member.uid, member.uname, member.mode) for member in members} == {(0, 0, "", 0o644)}
    for snapshot in (first, second, executable):
        snapshot.close()


@pytest.mark.parametrize(
    ("target", "is_inside"),
    [
        ("a.py", True),
        ("./包/b.py", True),
        ("包/../a.py", True),
        ("absent", True),
        ("../x", False),
        ("/etc/passwd", False),
        ("包/../../x", False),
    ],
)
def test_a_link_stays_inside_its_folder(folder: Path, target: str, is_inside: bool) -> None:
    (folder / "link").symlink_to(target)
    if is_inside:
        assert [entry.link for entry in list_code(folder) if entry.link] == [target]
    else:
        with pytest.raises(errors.FileRefused, match="out of the folder"):
            list_code(folder)


def test_a_folder_that_packs_to_too_much_is_refused_while_it_is_packed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "data.bin").write_bytes(os.urandom(200_000))
    monkeypatch.setattr(limits, "CODE_SNAPSHOT_BYTES", 50_000)
    with pytest.raises(errors.FileRefused) as caught:
        pack_code(folder)
    assert ".berthignore" in caught.value.hint
