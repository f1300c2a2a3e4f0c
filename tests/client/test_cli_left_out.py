"""What a copy or a collection leaves out is told: nothing that a person believes to have is missing in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, a_job, problem

JOB = a_job("mt", "succeeded")
LOST = "1 file(s) of 900 bytes were left behind: 1 because it is larger than what artifacts may hold"


def _entry(path: str, kind: str) -> dict[str, Any]:
    return {"path": path, "kind": kind, "size_bytes": 3 if kind == "file" else 0, "mode": "644", "modified_at": NOON}


@pytest.fixture
def kept(stub: Any) -> Any:
    """A checkpoint directory with `step-5/weights`, and `latest`, which is a link."""
    stub.jobs = [JOB]

    def files(request: httpx2.Request) -> httpx2.Response:
        folder = request.url.params.get("path", "")
        entries = {
            "": [_entry("latest", "link"), _entry("step-5", "directory"), _entry("pipe", "other")],
            "step-5": [_entry("step-5/weights", "file")],
        }
        if folder not in entries:
            return problem(404, "not_found", "There is no such folder.")
        return httpx2.Response(200, json={"items": entries[folder], "next": None, "truncated": False})

    for _ in range(5):
        stub.fail(f"GET /jobs/{JOB['id']}/checkpoint", httpx2.Response(200, json={"path": "ckpt", "state": "ready"}))
        stub.fail(f"GET /jobs/{JOB['id']}/checkpoint/files", files)
        stub.fail(f"GET /jobs/{JOB['id']}/checkpoint/content", httpx2.Response(200, content=b"abc"))
    return stub


def test_a_link_that_is_not_copied_home_is_named(run: Any, kept: Any) -> None:
    done = run("cp", "mt:checkpoint/", "kept")
    assert done.exit_code == 1
    assert Path("kept/step-5/weights").read_bytes() == b"abc"
    assert "Not copied: latest (a link)" in done.stderr
    assert "Not copied: pipe (a special file)" in done.stderr
    assert "2 were skipped" in done.stderr


def test_programs_get_what_was_not_copied_as_data(run: Any, kept: Any) -> None:
    done = run("cp", "mt:checkpoint/", "kept", "--json")
    assert (done.exit_code, json.loads(done.stdout)["not_copied"]) == (1, ["latest", "pipe"])


def test_a_link_that_is_asked_for_itself_is_named_too(run: Any, kept: Any) -> None:
    done = run("cp", "mt:checkpoint/latest", "kept")
    assert done.exit_code == 1
    assert "Not copied: latest (a link)" in done.stderr


def test_a_whole_folder_of_a_checkpoint_ends_well(run: Any, kept: Any) -> None:
    assert run("cp", "mt:checkpoint/step-5", "kept").exit_code == 0


def test_a_link_on_a_volume_is_named_too(run: Any, stub: Any) -> None:
    stub.volumes = {"digits": {"a.txt": b"abc"}}
    entries = [_entry("a.txt", "file"), _entry("latest", "link")]
    stub.fail("GET /volumes/[^/]+/files", httpx2.Response(200, json={"items": entries, "next": None}))

    done = run("cp", "digits:", "kept", "--from", "volume")
    assert done.exit_code == 1
    assert Path("kept/a.txt").read_bytes() == b"abc"
    assert "Not copied: latest (a link)" in done.stderr


def test_outputs_that_were_not_kept_are_told_with_the_job_and_when_they_are_fetched(run: Any, stub: Any) -> None:
    stub.jobs = [JOB]
    stub.artifacts = {"model": b"abc"}
    stub.left_behind = LOST

    assert f"Some outputs were not kept: {LOST}" in run("get", "mt").stdout
    assert LOST in run("cp", "mt:", "--list").stderr
    assert LOST in run("cp", "mt:", "home/").stderr
    assert LOST in run("cp", "mt:", "home/", env={"BERTH_LANG": "zh"}).stderr
