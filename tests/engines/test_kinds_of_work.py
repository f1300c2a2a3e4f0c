"""Plain commands as people write them: set-ups, many at once, one after the other, again after a failure, held back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.builders.live import LivePlatform

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

SMALL = {"cpu": "500m", "memory": "64Mi"}


def test_a_plain_command_sets_up_what_it_needs(live_platform: LivePlatform) -> None:
    """A virtual environment and a profile script, as on machines without containers."""
    command = """
        set -e
        mkdir -p modules && echo 'export TOOL_HOME=/opt/tool-3; PATH=$TOOL_HOME/bin:$PATH' > modules/tool.sh
        . modules/tool.sh
        /usr/bin/python3 -m venv --without-pip env
        . env/bin/activate
        python -c 'import os, sys; print(sys.prefix == os.path.join(os.getcwd(), "env"), os.environ["TOOL_HOME"])'
    """
    job = live_platform.submit({"name": "set-up", "command": command}, wait=True)
    assert (job["state"], live_platform.logs(job)) == ("succeeded", "True /opt/tool-3\n")


def test_what_a_job_finds_is_documented_and_nothing_else_of_the_platform(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "env", "command": "env -0 | tr '\\n\\0' ' \\n'", "env": {"SEED": "7"}}, wait=True)
    found = dict(line.split("=", 1) for line in live_platform.logs(job).splitlines())
    assert (found["SEED"], found["BERTH_ROLE"], found["BERTH_WORLD_SIZE"]) == ("7", "worker", "1")
    assert found["BERTH_JOB_ID"] == job["id"]
    leaked = [name for name in found if name in ("BERTH_DATA_DIR", "BERTH_DATABASE_URL", "BERTH_REDIS_URL", "BERTH_SECRET_KEY")]
    assert leaked == []


def test_a_list_is_executed_as_it_stands(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "argv", "command": ["printf", "%s|", "a b", "$HOME", "*", "'", ""]}, wait=True)
    assert live_platform.logs(job) == "a b|$HOME|*|'||"


def test_an_array_runs_each_index_once(live_platform: LivePlatform) -> None:
    spec = {"name": "sweep", "command": "echo $BERTH_ARRAY_INDEX of $BERTH_ARRAY_SIZE", "resources": SMALL, "array": {"size": 20}}
    parent = live_platform.submit(spec, wait=True)
    assert (parent["state"], parent["counts"]) == ("succeeded", {"succeeded": 20})
    children = live_platform.operator.items("/jobs", parent=parent["id"])
    printed = {child["array"]["index"]: live_platform.logs(child) for child in children}
    assert printed == {index: f"{index} of 20\n" for index in range(20)}


def test_one_job_runs_after_the_other(live_platform: LivePlatform) -> None:
    first = live_platform.submit({"name": "first", "command": "sleep 1", "hold": True, "resources": SMALL})
    beside = live_platform.submit({"name": "beside", "command": "true", "after": [first["id"]], "resources": SMALL})
    second = live_platform.submit({"name": "second", "command": "true", "after_ok": [first["id"]], "resources": SMALL})
    live_platform.operator.wait_for_reason(second, "dependency")
    live_platform.api("PATCH", f"/jobs/{first['id']}", {"hold": False})  # Not before it was seen who waits for it.
    ended = {job["name"]: live_platform.wait(job) for job in (first, beside, second)}
    assert {job["state"] for job in ended.values()} == {"succeeded"}
    assert ended["second"]["started_at"] >= ended["first"]["ended_at"]
    assert ended["beside"]["started_at"] >= ended["first"]["started_at"]


def test_what_waits_for_a_success_that_does_not_come_is_stopped(live_platform: LivePlatform) -> None:
    first = live_platform.submit({"name": "failing", "command": "exit 3", "resources": SMALL})
    second = live_platform.submit({"name": "second", "command": "true", "after_ok": [first["id"]]})
    third = live_platform.submit({"name": "third", "command": "true", "after_any": [second["id"]], "resources": SMALL})
    ended = [live_platform.wait(job) for job in (first, second, third)]
    assert [job["state"] for job in ended] == ["failed", "stopped", "succeeded"]
    assert ended[1]["reason"]["code"] == "dependency_never_met"


@pytest.mark.capability("35", "A failure is tried again up to its limit, then it stands")
def test_a_failure_is_tried_again_after_a_wait_until_it_succeeds(live_platform: LivePlatform) -> None:
    """The third attempt finds what the first two left on a volume."""
    volume = live_platform.operator.make_volume(f"tries-{datetime.now(UTC).timestamp():.0f}")
    spec = {
        "name": "stubborn",
        "command": "echo try $BERTH_ATTEMPT | tee -a /tries/log; test $(wc -l < /tries/log) -ge 3",
        "mounts": [{"volume": volume["name"], "path": "/tries"}],
        "retry": {"limit": 3, "on": ["user"]},
        "resources": SMALL,
    }
    job = live_platform.submit(spec, wait=True)
    assert (job["state"], job["attempt"]) == ("succeeded", 3)
    attempts = sorted(live_platform.operator.items(f"/jobs/{job['id']}/attempts"), key=lambda item: item["number"])
    assert [attempt["outcome"] for attempt in attempts] == ["failed", "failed", "succeeded"]
    for earlier, later in pairwise(attempts):
        waited = datetime.fromisoformat(later["created_at"]) - datetime.fromisoformat(earlier["ended_at"])
        assert waited >= timedelta(seconds=0.1)
    assert [live_platform.logs(job, attempt=number) for number in (1, 2, 3)] == ["try 1\n", "try 2\n", "try 3\n"]


def test_a_program_that_is_not_there_is_named(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "missing", "command": ["/no/such/program"]}, wait=True)
    assert (job["state"], job["attempt"]) == ("failed", 1)
    assert "/no/such/program" in job["exit"]["evidence"]


def test_a_held_job_waits_until_it_is_released(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "held", "command": "true", "hold": True, "resources": SMALL})
    live_platform.submit({"name": "beside", "command": "true", "resources": SMALL}, wait=True)
    live_platform.operator.wait_for_reason(job, "held")
    live_platform.api("PATCH", f"/jobs/{job['id']}", {"hold": False})
    assert live_platform.wait(job)["state"] == "succeeded"


def test_a_job_starts_not_before_its_time(live_platform: LivePlatform) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    job = live_platform.submit(
        {"name": "later", "command": "true", "start_after": moment.isoformat(), "resources": SMALL}, wait=True
    )
    assert datetime.fromisoformat(job["started_at"]) >= moment.replace(microsecond=0)


def test_a_rerun_with_a_change_runs_the_same_job_otherwise(live_platform: LivePlatform) -> None:
    first = live_platform.submit(
        {"name": "again", "command": "echo seed $SEED", "env": {"SEED": "7"}, "resources": SMALL}, wait=True
    )
    second = live_platform.api("POST", f"/jobs/{first['id']}/rerun", {"changes": {"env": {"SEED": "8"}}})
    assert live_platform.wait(second)["state"] == "succeeded"
    assert [live_platform.logs(job) for job in (first, second)] == ["seed 7\n", "seed 8\n"]
    assert second["origin"] == {"id": first["id"], "kind": "rerun"}
