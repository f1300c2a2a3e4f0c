"""A platform with work on it: jobs that ended well and badly, one that runs and prints, one that waits and why."""

from __future__ import annotations

from dataclasses import dataclass

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
