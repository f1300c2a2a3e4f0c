"""`-o name` is for pipes: one name a line, and nothing where there is none; never an object, a list or an empty line."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, TENANT, TOKEN, USER, a_job

from berth.cli.output import Format, print_data, print_names


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("a", "a\n"),
        (7, "7\n"),
        (0, "0\n"),
        ("", ""),
        (None, ""),
        ({"id": "i", "name": "n"}, "n\n"),
        ({"id": "i"}, ""),
        (["a/b", "c"], "a/b\nc\n"),
        ([], ""),
        ([{"name": "n"}, None], "n\n"),
        ("two\nlines\x1b[2J", "two lines\n"),
        ("中文", "中文\n"),
    ],
)
def test_a_name_is_one_line_whatever_it_was(capsys: pytest.CaptureFixture[str], value: Any, printed: str) -> None:
    print_names([{"key": value}], "key")
    assert capsys.readouterr().out == printed
    print_data({"key": value}, Format.NAME, key="key")
    assert capsys.readouterr().out == printed


def test_what_has_no_name_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_data({"a": 1}, Format.NAME)
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("words", "line", "document", "name"),
    [
        (("nodes", "node-1"), "", {}, "node-1"),
        (("nodes", "cordon", "node-1"), "", {}, "node-1"),
        (("pools", "a100"), "", {}, "a100"),
        (("pools", "edit", "a100", "--policy", "pack"), "", {}, "a100"),
        (("images", "get", "jax-cpu"), "", {}, "jax-cpu"),
        (("whoami",), "", {}, "alice"),
        (("login", "--token", TOKEN), "", {}, "alice"),
        (("members",), "", {}, "alice"),
        (("queues", "runtime", "vision", "2h"), "", {}, ""),
        (("notify", "channels"), "", {}, "mail\nslack"),
        (("features", "enable", "chat"), "PUT /features/chat", {}, "chat"),
        (
            ("nodes", "drain", "node-1", "--yes"),
            "POST /nodes/.+/drain",
            {"node": {"name": "node-1"}, "jobs": [], "plan": "p"},
            "node-1",
        ),
        (("move", "train"), "POST /jobs/.+/move", {"job": {"name": "train", "place": 1}, "moved": 1, "plan": None}, "train"),
        (("tenants", "disable", "t", "--yes"), "POST /tenants/t/disable", {"tenant": TENANT, "stopped": 0}, "vision"),
        (("priority", "set", "train", "high"), "PATCH /jobs/.+", {"id": "j-1", "name": "train", "priority": 700}, "j-1"),
        (("tenants", "enable", "t"), "POST /tenants/t/enable", TENANT, TENANT["slug"]),
        (("explain", "train"), "GET /jobs/train/explain", {"job": {"id": "j-1", "name": "train"}}, "train"),
        (("shares", "keys"), "GET /signing-keys", {"public_key": "k1", "former": ["k0"]}, "k1\nk0"),
        (("shares", "week", "2026-W47"), "GET /tenants/.+/shares/2026-W47", {"week": "2026-W47", "document": {}}, "2026-W47"),
        (("templates", "show", "digits"), "GET /templates", {"items": [{"id": "t-1", "name": "digits"}], "next": None}, "digits"),
    ],
)
def test_one_thing_or_a_change_prints_what_it_is_called(
    run: Any, stub: Any, words: tuple[str, ...], line: str, document: dict[str, Any], name: str
) -> None:
    stub.jobs = [a_job("train", "queued")]
    if line:
        stub.fail(line, *[httpx2.Response(200, json=copy.deepcopy(document)) for _time in range(2)])
    done = run(*words, "-o", "name")
    assert done.exit_code == 0, done.output
    assert done.stdout == (f"{name}\n" if name else "")


def test_a_statement_prints_its_month_and_is_checked_all_the_same(run: Any, stub: Any) -> None:
    found = {"month": "2026-11", "document": {"a": 1}, "sha256": "0" * 64, "closed_at": NOON, "tenant": TENANT}
    stub.fail("GET /tenants/.+/statements/2026-11", httpx2.Response(200, json=found))
    done = run("statement", "2026-11", "-o", "name")
    assert (done.exit_code, done.stdout) == (1, "2026-11\n")
    assert "✗" in done.stderr


def test_files_that_were_fetched_are_a_line_each(run: Any, stub: Any, own_home: Path) -> None:
    stub.jobs = [a_job("train", "succeeded")]
    stub.artifacts = {"model/a": b"1", "model/b": b"22"}
    done = run("cp", "train:model", "./kept/", "-o", "name")
    assert done.stdout.splitlines() == ["kept/model/a", "kept/model/b"]
    assert (own_home / "work/kept/model/b").read_bytes() == b"22"
    assert run("cp", "train:", "--list", "-o", "name").stdout.splitlines() == ["model/a", "model/b"]


def test_jobs_that_would_leave_a_node_are_their_names(run: Any, stub: Any) -> None:
    leaving = {"job": {"name": "train"}, "tenant": "vision", "user": "alice", "tasks": 2, "started_at": NOON, "checkpoint": True}
    plan = {"node": {"name": "node-1"}, "jobs": [leaving, {**leaving, "job": {"name": "eval"}}], "plan": "p"}
    stub.fail("POST /nodes/.+/drain", httpx2.Response(200, json=plan))
    assert run("nodes", "drain", "node-1", "--dry-run", "-o", "name").stdout == "train\neval\n"


def test_the_cap_of_all_users_has_no_name_and_no_empty_line(run: Any, stub: Any) -> None:
    caps = [{"user": None, "gpu_millis": 1}, {"user": USER, "gpu_millis": 2}]
    stub.fail("GET /tenants/.+/caps", httpx2.Response(200, json={"items": caps}))
    assert run("queues", "caps", "-o", "name").stdout == "alice\n"


def test_queues_of_a_quota_are_named_once_a_row(run: Any) -> None:
    """GPU, CPU and memory of the first pool, CPU and memory of the second, which has no GPUs."""
    assert run("quota", "-o", "name").stdout == "vision\n" * 5
