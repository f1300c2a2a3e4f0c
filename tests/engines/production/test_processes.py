"""Two or more of each process under a supervisor, on PostgreSQL and Redis: the same product as in one process."""

from __future__ import annotations

from tests.builders.live import LivePlatform


def test_a_job_runs_from_submission_to_its_log(production: LivePlatform) -> None:
    job = production.submit({"command": "echo hello"}, wait=True)

    assert job["state"] == "succeeded"
    assert production.logs(job) == "hello\n"
