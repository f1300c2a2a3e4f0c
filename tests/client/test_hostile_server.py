"""Every text that a server sends may have been written by somebody else: whatever is shown, no terminal is commanded."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest
from client_stub import a_job, a_log, problem

from berth.cli.command import Session

# Every way to reach a terminal: titles, clipboards, links, screens, questions, C1 controls, directions of writing, bare returns.
ATTACK = (
    "\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x1b]8;;http://evil.test\x1b\\x\x1b]8;;\x1b\\\x1b[2J\x1b[H\x1b[6n\x1b[?1049h\x9b31;1H\x9d0;t\x9c"
    "\x1bP+q544e\x1b\\\x1b_a\x1b\\\x1bc\x1b(0\x1b[8m\x1b\x08\x08\x7f\x85\u202egnp\u2066\u2069\u200e\ufeff\u2028\rover"
)
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
MACHINE_KEYS = re.compile(r"(^|_)(id|at|state|kind|next|cursor|sha256|digest|url|slug|stream|version|etag|unit|type)$")
READS = (
    *("ps", "nodes", "gpus", "pools", "clusters", "queues", "quota", "usage", "tokens", "tenants", "members", "secrets", "users"),
    *("audit", "notify", "images", "volumes", "whoami", "version", "prices", "budgets"),
)
ABOUT_A_JOB = (
    ("get", "hello"),
    ("logs", "hello"),
    ("tasks", "hello"),
    ("events", "hello"),
    ("attempts", "hello"),
    ("why", "hello"),
)


@pytest.fixture
def poisoned(run: Any, stub: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server in whose answers every text ends with an attack, but for what programs go by."""
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log(f"line {ATTACK}\n", 0)]
    inner = stub.transport()

    def answer(request: httpx2.Request) -> httpx2.Response:
        found = inner.handle_request(request)
        found.read()
        if "json" not in found.headers.get("Content-Type", ""):
            return found
        headers = {name: value for name, value in found.headers.items() if name.lower() != "content-length"}
        return httpx2.Response(found.status_code, content=json.dumps(poison(found.json())).encode(), headers=headers)

    monkeypatch.setattr(Session, "http", httpx2.MockTransport(answer))
    return stub


def poison(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: poison(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poison(item, key) for item in value]
    return f"{value}{ATTACK}" if isinstance(value, str) and not MACHINE_KEYS.search(key) else value


def harmless(result: Any) -> bool:
    return not DANGEROUS.search(result.stdout) and not DANGEROUS.search(result.stderr)


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize("name", READS)
def test_no_list_commands_the_terminal(name: str, form: str, run: Any, poisoned: Any) -> None:
    result = run(name, "-o", form)

    assert harmless(result), result.stdout + result.stderr


@pytest.mark.parametrize("words", ABOUT_A_JOB, ids=lambda words: words[0])
def test_nothing_about_a_job_commands_the_terminal(words: tuple[str, ...], run: Any, poisoned: Any) -> None:
    for more in ((), ("--json",)):
        result = run(*words, *more)
        assert harmless(result), result.stdout + result.stderr


@pytest.mark.parametrize("words", [(name,) for name in READS] + [("submit", "--", "true"), ("stop", "hello"), ("get", "hello")])
def test_no_refusal_commands_the_terminal(words: tuple[str, ...], run: Any, stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    field = {"path": f"/x{ATTACK}", "code": "bad", "message": f"no {ATTACK}", "hint": f"try {ATTACK}"}
    refusal = problem(422, "invalid_input", f"not {ATTACK}", hint=f"do {ATTACK}", fields=[field], title=f"t {ATTACK}")
    monkeypatch.setattr(Session, "http", httpx2.MockTransport(lambda request: copy_of(refusal)))
    for more in ((), ("--json",)):
        result = run(*words, *more)
        assert result.exit_code != 0 or words == ("version",)
        assert harmless(result), result.stdout + result.stderr


def copy_of(response: httpx2.Response) -> httpx2.Response:
    return httpx2.Response(response.status_code, content=response.content, headers={"Content-Type": "application/problem+json"})


def test_the_attack_does_arrive_and_would_be_noticed(run: Any, poisoned: Any) -> None:
    assert "over" in run("ps", "-a").stdout
    assert DANGEROUS.search(ATTACK)
