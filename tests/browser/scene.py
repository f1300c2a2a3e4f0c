"""A platform with work on it: jobs that ended well and badly, one that runs and prints, one that waits and why."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.builders.live import Json, LivePlatform, LiveUser

SMALL = {"cpu": "100m", "memory": "64Mi"}


@dataclass(frozen=True)
class Names:
    """What everything is called."""

    member: str = "mia"
    tenant: str = "vision"
    queue: str = ""  # A tenant's first queue has its name.
    done: str = "first-steps"
    failed: str = "eval"
    running: str = "train"
    waiting: str = "next-in-line"
    tags: tuple[str, ...] = ("demo",)
    volume: str = "digits"
    text: str = "Scans of 1,797 digits"
    reason: str = "The demo is on Friday."
    comment: str = "a course"
    filter: str = "failed this week"
    template: str = ""  # None but those that the release brings.


PLAIN_NAMES = Names()
# As long as each may be, and from right to left with digits beside them wherever any script may stand.
HARD_NAMES = Names(
    member="wilhelmina.anastasia-montgomery_fitzgerald.the-third.of-vision1",
    tenant="רשת עצבית 3D לזיהוי תמונה 2026 – فريق الرؤية الحاسوبية رقم 12",
    queue="تور التدريب 42 – " + "w" * 46,
    done="resnet50-imagenet-augmented.seed-1234567890_lr-0.0003_batch-512_epochs-90_run-07",
    failed="a" * 80,
    running="pretrain-" + "0123456789." * 6 + "final",
    waiting="waits-" + "x" * 74,
    tags=("مشروع-2026", "ניסוי_7", "t" * 64, "baseline"),
    volume="imagenet-21k.resized-256.shuffled_and-sharded.2026-11-22-final1",
    text="مجموعة بيانات 1,797 صورة ImageNet 2012 – סריקות " + "d" * 90,
    reason="العرض يوم الجمعة 27 نوفمبر, 8 GPU",
    comment="קורס 101: למידה עמוקה, שבוע 3",
    filter="עבודות שנכשלו 7d – " + "f" * 44,
    template="fine-tuning-of-language-models.with-low-rank-adapters-2026-v1".replace(".", "-"),
)


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


def set_up(platform: LivePlatform, names: Names = PLAIN_NAMES) -> Scene:
    """Make it, as the people who use it would."""
    member = platform.person(names.member, tenant=names.tenant)
    if names.queue:
        queue = platform.operator.items("/queues", tenant=member.tenant)[0]["id"]
        platform.operator.api("PATCH", f"/queues/{queue}", {"name": names.queue})
    telling = "echo loaded 1797 digits; echo accuracy 0.97"
    done = member.submit({"name": names.done, "command": telling, "resources": SMALL, "tags": list(names.tags)}, wait=True)
    failed = member.submit(
        {"name": names.failed, "command": "python3 -c 'import not_there'", "resources": SMALL, "tags": ["eval"]}, wait=True
    )
    printing = "while true; do echo step; sleep 1; done"
    running = member.submit(
        {"name": names.running, "command": printing, "resources": {**SMALL, "gpu": 2}, "max_runtime": "2h", "tags": ["baseline"]},
        wait=("running",),
    )
    waiting = member.submit({"name": names.waiting, "command": "true", "resources": {**SMALL, "gpu": 1}, "max_runtime": "1h"})
    member.wait_for_reason(waiting, "no_room")
    node = platform.operator.items("/nodes")[0]["id"]
    template = next(row["id"] for row in member.items("/templates") if row["name"] == "hello")
    return Scene(member, done, failed, running, waiting, queue=done["queue"]["id"], node=node, template=template)


def furnish(platform: LivePlatform, scene: Scene, names: Names = PLAIN_NAMES) -> None:
    """What fills the pages about plans, money and words: nothing of it changes what the jobs of the scene do today."""
    operator, pool = platform.operator, platform.operator.items("/pools")[0]["id"]
    operator.api("POST", "/prices", {"pool": pool, "gpu_hour_micros": 1_800_000, "cpu_hour_micros": 40_000})
    operator.api("PUT", f"/queues/{scene.queue}/budget", {"amount": 250_000_000, "kind": "money"})
    operator.api(
        "POST",
        "/bookings",
        {"pool": pool, "tenant": scene.member.tenant, "gpu_millis": 1000, "comment": names.comment, **_in_days(2, 3)},
    )
    operator.api("POST", "/maintenance", {"nodes": [scene.node], "reason": "new drivers", **_in_days(20, 2)})
    operator.api("POST", "/announcements", {"text": "New drivers on the 12th: jobs move to other nodes.", "level": "info"})
    scene.member.api("POST", "/priority-requests", {"job": scene.waiting["id"], "priority": "high", "reason": names.reason})
    scene.member.api("POST", "/volumes", {"tenant": scene.member.tenant, "name": names.volume, "description": names.text})
    manager = platform.person("registrar", tenant=names.tenant, role="manager")
    for host in ("registry.example.org:5000", "images.example.org"):
        manager.api("PUT", f"/tenants/{manager.tenant}/registries/{host}", {"username": "robot", "password": secrets.token_hex()})
    scene.member.api("POST", "/saved-filters", {"page": "jobs", "name": names.filter, "query": "state=failed&since=7d"})
    if names.template:
        tags, spec = list(names.tags), {"command": "true", "name": names.done}
        described = {"title": names.filter, "title_zh": names.filter, "description": names.text, "tags": tags}
        scene.member.api("POST", "/templates", {"name": names.template, "tenant": scene.member.tenant, "spec": spec, **described})


def _in_days(days: int, hours: int) -> Json:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=days)
    return {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=hours)).isoformat()}
