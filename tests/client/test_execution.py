"""Programs beside a running task, over a real WebSocket: what is sent, what comes back, and how it ends badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.sync.server import ServerConnection, serve

from berth import execution, limits
from berth.config import Settings
from berth.errors import AnswerInvalid, BerthError, Conflict, Forbidden, NotAuthenticated, ServerUnreachable, Unavailable

Serve = Callable[[Callable[[ServerConnection], None]], Settings]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Serves one handler on a port of its own; gives the settings of a client of it."""
    running: list[Any] = []

    def begin(handler: Callable[[ServerConnection], None], **options: Any) -> Settings:
        server = serve(handler, "127.0.0.1", 0, **options)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return Settings(server=f"http://127.0.0.1:{server.socket.getsockname()[1]}", token="secret", tenant="", profile="")

    yield begin
    for server in running:
        server.shutdown()


def ended(connection: ServerConnection, code: int | None = 0, why: str = "exit") -> None:
    connection.send(json.dumps({"type": "ended", "exit_code": code, "why": why}))


def test_a_command_gets_its_input_and_its_output_and_exit_code_come_back(served: Serve) -> None:
    heard: dict[str, Any] = {}

    def echo(connection: ServerConnection) -> None:
        assert connection.request is not None
        heard["query"] = parse_qs(urlsplit(connection.request.path).query)
        heard["token"] = connection.request.headers["Authorization"]
        heard["language"] = connection.request.headers["Accept-Language"]
        heard["start"] = json.loads(connection.recv())
        data = b""
        while isinstance(piece := connection.recv(), bytes):
            heard.setdefault("pieces", []).append(len(piece))
            data += piece
        heard["end"] = json.loads(piece)
        connection.send(data[:3])
        connection.send(b"\xff!")
        ended(connection, 7)

    given = b"abc" * limits.EXEC_FRAME_BYTES
    done = execution.run(served(echo), "job-1", ["tr", "a", "b"], role="worker", index=2, stdin=given, language="zh-CN")

    assert (done.exit_code, done.output) == (7, b"abc\xff!")
    assert done.text == "abc\N{REPLACEMENT CHARACTER}!"
    assert heard["query"] == {"job": ["job-1"], "role": ["worker"], "index": ["2"]}
    assert heard["token"] == "Bearer secret"
    assert heard["language"] == "zh-CN"
    assert heard["start"] == {"start": {"argv": ["tr", "a", "b"], "terminal": False}}
    assert sum(heard["pieces"]) == len(given)
    assert max(heard["pieces"]) <= limits.EXEC_FRAME_BYTES
    assert heard["end"] == {"eof": True}


def test_a_terminal_has_a_size_within_what_the_server_takes(served: Serve) -> None:
    heard: list[Any] = []

    def listen(connection: ServerConnection) -> None:
        heard.extend(json.loads(connection.recv()) for _message in range(2))
        ended(connection, None, "idle")

    shell = execution.start(served(listen), "job-1", terminal=(0, 80))
    shell.resize(24, 10**9)

    assert list(shell) == []
    assert (shell.exit_code, shell.why) == (None, "idle")
    assert heard[0] == {"start": {"argv": [], "terminal": True, "rows": 1, "columns": 80}}
    assert heard[1] == {"resize": {"rows": 24, "columns": limits.TERMINAL_CELLS}}
    shell.close()


@pytest.mark.parametrize(
    ("code", "kind"), [("exec_disabled", Forbidden), ("exec_refused", Unavailable), ("exec_not_running", Conflict)]
)
def test_a_refusal_is_the_error_that_it_stands_for(served: Serve, code: str, kind: type[BerthError]) -> None:
    def refuse(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"type": "error", "code": code, "detail": "Task worker-0 does not run.", "hint": "Wait."}))

    with pytest.raises(kind) as refused:
        execution.run(served(refuse), "job-1", ["true"], role=None, index=None, stdin=b"")

    assert (refused.value.code, refused.value.detail, refused.value.hint) == (code, "Task worker-0 does not run.", "Wait.")


@pytest.mark.parametrize(
    ("code", "kind"), [(4401, NotAuthenticated), (4403, Forbidden), (1013, Unavailable), (1000, execution.ExecEnded)]
)
def test_a_connection_that_is_closed_says_why(served: Serve, code: int, kind: type[BerthError]) -> None:
    def leave(connection: ServerConnection) -> None:
        connection.recv()
        connection.close(code)

    with pytest.raises(kind):
        execution.run(served(leave), "job-1", ["true"], role=None, index=None, stdin=b"")


@pytest.mark.parametrize("message", ["no JSON", "[]", '{"kind": 1}'])
def test_a_message_that_is_none_of_a_terminal_is_refused(served: Serve, message: str) -> None:
    def babble(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(message)

    with pytest.raises(AnswerInvalid):
        execution.run(served(babble), "job-1", ["true"], role=None, index=None, stdin=b"")


def test_an_output_without_end_is_read_to_a_bound(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXEC_OUTPUT_BYTES", 1000)

    def pour(connection: ServerConnection) -> None:
        connection.recv()
        for _piece in range(3):
            connection.send(b"x" * 600)

    with pytest.raises(AnswerInvalid, match="more than 1000 bytes"):
        execution.run(served(pour), "job-1", ["yes"], role=None, index=None, stdin=b"")


@pytest.mark.parametrize(("status", "kind"), [(401, NotAuthenticated), (403, NotAuthenticated), (503, Unavailable)])
def test_a_server_that_opens_no_connection_says_why(served: Serve, status: int, kind: type[BerthError]) -> None:
    settings = served(
        lambda connection: None,
        process_request=lambda connection, request: connection.respond(HTTPStatus(status), ""),  # type: ignore[call-arg]
    )

    with pytest.raises(kind):
        execution.start(settings, "job-1")


def test_a_server_that_is_not_there_is_named() -> None:
    settings = Settings(server="http://127.0.0.1:9", token="", tenant="", profile="")

    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:9 does not answer"):
        execution.start(settings, "job-1")


def test_the_command_line_passes_bytes_and_ends_as_the_command_did(
    run: Any, stub: Any, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from client_stub import TOKEN, a_job

    heard: list[Any] = []

    def answer(connection: ServerConnection) -> None:
        assert connection.request is not None
        heard.append((json.loads(connection.recv())["start"]["argv"], connection.request.headers["Accept-Language"]))
        connection.send(b"GPU 0\n")
        ended(connection, 3)

    stub.jobs = [a_job("train")]
    settings = served(answer)
    started = execution.start
    monkeypatch.setattr(execution, "start", lambda _settings, *args, **options: started(settings, *args, **options))
    done = run("exec", "train", "--", "nvidia-smi", "-L", env={"BERTH_TOKEN": TOKEN, "BERTH_LANG": "zh"}, input="")

    assert heard == [(["nvidia-smi", "-L"], "zh-CN")]
    assert done.stdout == "GPU 0\n"
    assert done.exit_code == 3
