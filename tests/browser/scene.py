"""A platform with work on it: jobs that ended well and badly, one that runs and prints, one that waits and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.builders.live import Json, LivePlatform, LiveUser

SMALL = {"cpu": "100m", "memory": "64Mi"}


@dataclass(frozen=True)
class Scene:
    """What pages are about."""

    member: LiveUser
    job: Json
    failed: Json
    running: Json
    waiting: Json
    queue: str
    node: str
    template: str

    def address(self, path: str) -> str:
        return path.format(
            job=self.job["id"],
            failed=self.failed["id"],
            running=self.running["id"],
            waiting=self.waiting["id"],
            tenant=self.member.tenant,
            queue=self.queue,
            node=self.node,
            template=self.template,
        )


def set_up(platform: LivePlatform) -> Scene:
    """Make it, as the people who use it would."""
    member = platform.person("mia", tenant="vision")
    done = member.submit(
        {"name": "first-steps", "command": "echo loaded 1797 digits; echo accuracy 0.97", "resources": SMALL, "tags": ["demo"]},
        wait=True,
    )
    failed = member.submit(
        {"name": "eval", "command": "python3 -c 'import not_there'", "resources": SMALL, "tags": ["eval"]}, wait=True
    )
    printing = "while true; do echo step; sleep 1; done"
    running = member.submit(
        {"name": "train", "command": printing, "resources": {**SMALL, "gpu": 2}, "max_runtime": "2h", "tags": ["baseline"]},
        wait=("running",),
    )
    waiting = member.submit({"name": "next-in-line", "command": "true", "resources": {**SMALL, "gpu": 1}, "max_runtime": "1h"})
    member.wait_for_reason(waiting, "no_room")
    node = platform.operator.items("/nodes")[0]["id"]
    template = next(row["id"] for row in member.items("/templates") if row["name"] == "hello")
    return Scene(member, done, failed, running, waiting, queue=done["queue"]["id"], node=node, template=template)


def furnish(platform: LivePlatform, scene: Scene) -> None:
    """What fills the pages about plans, money and words: nothing of it changes what the jobs of the scene do today."""
    operator, pool = platform.operator, platform.operator.items("/pools")[0]["id"]
    operator.api("POST", "/prices", {"pool": pool, "gpu_hour_micros": 1_800_000, "cpu_hour_micros": 40_000})
    operator.api("PUT", f"/queues/{scene.queue}/budget", {"amount": 250_000_000, "kind": "money"})
    operator.api(
        "POST",
        "/bookings",
        {"pool": pool, "tenant": scene.member.tenant, "gpu_millis": 1000, "comment": "a course", **_in_days(2, 3)},
    )
    operator.api("POST", "/maintenance", {"nodes": [scene.node], "reason": "new drivers", **_in_days(20, 2)})
    operator.api("POST", "/announcements", {"text": "New drivers on the 12th: jobs move to other nodes.", "level": "info"})
    scene.member.api(
        "POST", "/priority-requests", {"job": scene.waiting["id"], "priority": "high", "reason": "The demo is on Friday."}
    )
    scene.member.api(
        "POST", "/volumes", {"tenant": scene.member.tenant, "name": "digits", "description": "Scans of 1,797 digits"}
    )
    scene.member.api("POST", "/saved-filters", {"page": "jobs", "name": "failed this week", "query": "state=failed&since=7d"})


def _in_days(days: int, hours: int) -> Json:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=days)
    return {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=hours)).isoformat()}
