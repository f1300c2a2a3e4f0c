"""Real tasks say how far they are, and the slow one among them is told, and is left to run."""

from __future__ import annotations

import json

import pytest

import berth
from tests.builders.live import Json, LivePlatform, LiveUser, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": "50m", "memory": "32Mi"}
# Seven are at 40 of 50 soon, three of them to their end; the one that is slow says on its other stream that it is at 2.
WORK = """
step=0
last=40
[ "$BERTH_INDEX" -lt 3 ] && last=50
[ "$BERTH_INDEX" -eq 5 ] && last=2
while [ "$step" -lt "$last" ]; do
    step=$((step + 1))
    echo "step $step, berth: progress is made"
    if [ "$BERTH_INDEX" -eq 5 ]; then echo "berth: progress $step/50" >&2; else echo "berth: progress $step/50"; fi
done
[ "$step" -eq 50 ] || exec sleep 1000
"""


def tasks_of(user: LiveUser, job: Json) -> list[Json]:
    return user.items(f"/jobs/{job['id']}/tasks")


def done(tasks: list[Json]) -> list[int | None]:
    return [task["progress"] and task["progress"]["done"] for task in tasks]


@pytest.mark.capability("92", "Of eight tasks that say their progress the slow one is shown with its distance, and runs on")
def test_of_eight_tasks_the_slow_one_is_shown_with_its_distance(live_platform: LivePlatform, sdk: berth.Client) -> None:
    user = live_platform.operator
    role = {"replicas": 8, "command": WORK, "resources": SMALL}
    job = live_platform.submit({"name": "uneven", "roles": {"worker": role}}, wait=["running"])
    expected = [50] * 3 + [40, 40, 2, 40, 40]
    wait_until(lambda: done(tasks_of(user, job)) == expected, f"progress {expected}")
    wait_until(lambda: [task["state"] for task in tasks_of(user, job)[:3]] == ["succeeded"] * 3, "the end of three tasks")
    tasks = sdk.jobs.tasks(job["id"])
    behind = {task["index"]: task["straggler"] for task in tasks if task["straggler"]}
    assert behind == {5: {"behind_percent": 76, "median_percent": 80}}
    assert tasks[5]["state"] == "running", "it is told, and not stopped"
    assert {key: user.job(job)["progress"][key] for key in ("done", "total")} == {"done": 312, "total": 400}
    user.stop(job, grace_seconds=0)
    live_platform.wait(job)
    wait_until(lambda: not any(task["straggler"] for task in tasks_of(user, job)), "nothing that runs")
    assert done(tasks_of(user, job)) == expected, "it stays with the attempt"


@pytest.mark.capability("92", "What a task prints beside its progress, and what looks like progress and is none, changes nothing")
def test_what_only_looks_like_progress_changes_nothing(live_platform: LivePlatform) -> None:
    lines = ["berth: progress 3/10", "berth: progress 11/10", " berth: progress 4/10", "berth: progress 5/10 or so"]
    program = f"import json; print(*json.loads({json.dumps(json.dumps(lines))}), sep='\\n')"
    job = live_platform.submit({"name": "odd", "command": ["/usr/bin/python3", "-c", program], "resources": SMALL}, wait=True)
    assert job["state"] == "succeeded"
    wait_until(lambda: done(tasks_of(live_platform.operator, job)) == [3], "the line that counts")
