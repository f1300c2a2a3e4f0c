"""What kubelets say of pods on their way, and how seldom they are asked."""

from __future__ import annotations

from typing import Any

from clusters.engines.interface import StartStep
from clusters.engines.kubernetes import states
from clusters.engines.kubernetes.api import Api, Forbidden
from clusters.engines.kubernetes.events import SLOW_SECONDS, StartEvents, read_waits
from tests.unit.engines_kubernetes import samples

NOT_MOUNTED = 'MountVolume.SetUp failed for volume "data": mount failed: exit status 32'


def event(reason: str, at: str, uid: str = "u", **more: Any) -> dict[str, Any]:
    return {"reason": reason, "involvedObject": {"kind": "Pod", "uid": uid}, "lastTimestamp": f"2026-01-01T10:00:{at}Z", **more}


def test_the_latest_word_of_a_kubelet_is_what_a_pod_waits_for() -> None:
    said = read_waits(
        [
            event("Pulling", "01", "pulls"), event("Scheduled", "00", "pulls"),
            event("Pulled", "01", "pulled"), event("Pulling", "01", "pulled"),
            event("FailedMount", "03", "mounts", message=NOT_MOUNTED), event("Scheduled", "01", "mounts"),
            event("Scheduled", "01", "silent"),
        ]
    )  # fmt: skip
    assert {uid: (wait.code, wait.text) for uid, wait in said.items()} == {
        "pulls": (StartStep.PULLING_IMAGE, ""),
        "mounts": (StartStep.MOUNTING, NOT_MOUNTED),
    }


class Listed(Api):
    """Gives these events, and counts how often it was asked."""

    def __init__(self, *events: dict[str, Any], refuses: bool = False) -> None:
        self.events, self.refuses, self.asked = events, refuses, 0

    def get(self, path: str, **query: object) -> Any:
        self.asked += 1
        if self.refuses:
            raise Forbidden(403, "Forbidden", "events is forbidden")
        return {"items": list(self.events)}


def pod() -> dict[str, Any]:
    return samples.pod(state={"waiting": {"reason": "ContainerCreating"}}, phase="Pending")


def test_events_are_read_of_pods_that_are_slow_and_now_and_then() -> None:
    now = [0.0]
    api = Listed(event("Pulling", "01"))
    events = StartEvents(api, lambda: now[0])
    seen = states.observe_task(samples.gate(samples.workload()), 0, pod())

    def waits() -> str | None:
        events.look([pod(), samples.pod()])
        found = events.explain(seen, pod()).waiting
        return found and found.code

    assert (waits(), api.asked) == ("creating", 0)
    now[0] = SLOW_SECONDS
    assert (waits(), api.asked) == ("pulling_image", 1)
    now[0] += 1
    assert (waits(), api.asked) == ("pulling_image", 1)
    now[0] += 60
    assert (waits(), api.asked) == ("pulling_image", 2)


def test_an_account_that_may_not_read_events_is_not_asked_again_at_once() -> None:
    now = [0.0]
    api = Listed(refuses=True)
    events = StartEvents(api, lambda: now[0])
    for now[0] in (0.0, 10.0, 20.0, 30.0):
        events.look([pod()])
    assert api.asked == 1
