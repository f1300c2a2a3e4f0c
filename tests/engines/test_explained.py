"""On the running platform: two tenants share pretended GPUs, each reads why it waits, and what is suggested comes true."""

from __future__ import annotations

import pytest

from tests.builders.command import berth
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

SLEEP = {"command": "exec sleep 1000", "resources": {"gpu": 1, "cpu": 1, "memory": "64Mi"}}


def test_who_waits_reads_who_holds_the_gpus_and_a_what_if_comes_true(live_platform: LivePlatform) -> None:
    ours, theirs = live_platform.operator, live_platform.person("frida", tenant="explained")
    held = [ours.submit({"name": f"held-{number}", **SLEEP}, wait=["running"]) for number in range(2)]
    waiting = theirs.submit({"name": "train", **SLEEP})
    theirs.wait_for_reason(waiting, "no_room")

    found: Json = theirs.api("GET", f"/jobs/{waiting['id']}/explain")
    [condition] = found["conditions"]
    assert condition["code"] == "no_room"
    assert [(row["queue"], row["gpu_millis"], row["jobs"]) for row in condition["held_by"]] == [(None, 2000, 2)]
    assert "held-" not in str(found)

    text = berth(theirs, "explain", "train")
    print(text)
    assert "other tenants" in text
    assert "What would start it" in text
    assert "缺少什么" in berth(theirs, "explain", "train", BERTH_LANG="zh_CN.UTF-8")

    seen: Json = ours.api("GET", f"/jobs/{waiting['id']}/explain")
    [end] = [suggestion for suggestion in seen["suggestions"] if suggestion["kind"] == "end"]
    answer: Json = ours.api("POST", "/what-if", {"changes": end["changes"]})
    assert [start["job"]["name"] for start in answer["starts"]["jobs"]] == ["train"]
    print(berth(ours, "what-if", "-f", "-", given=str({"changes": end["changes"]})))

    ours.stop(end["changes"][0]["end"]["job"], grace_seconds=0)
    theirs.wait(waiting, ["running"])
    text = berth(theirs, "explain", "train")
    print(text)
    assert "started after waiting" in text
    assert "1 in the pool" in text
    assert "excluded" not in text, "the machine that was chosen is full now, and was not left out"
    kinds = [record["kind"] for record in theirs.items(f"/jobs/{waiting['id']}/decisions")]
    assert kinds == ["wait_turned_start", "refuse"]
    for job in (*held, waiting):
        ours.stop(job, grace_seconds=0)
        ours.wait(job)
