"""Simulated people: they submit, stop, hold and change jobs through the REST API, and note what they were told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.test import Client

from clusters.engines.fake import Script
from clusters.engines.interface import ExitReason, TaskWorkload, Workload
from jobs.models import Job
from tests.simulation.fates import Crash

if TYPE_CHECKING:
    from tests.simulation.world import World

TERMINAL = ("succeeded", "failed", "stopped")
MIB = 1024**2


@dataclass
class Request:
    """One call that is sent again with the same key until it is answered, or given up."""

    method: str
    path: str
    body: dict[str, Any]
    key: str
    note: Callable[[int, Any], None]
    unknown: Callable[[], None]
    tries: int = 0


class Clients:
    """Everybody who uses the platform. `wishes` are the chances of each kind of request."""

    def __init__(self, world: World, tokens: dict[str, str]) -> None:
        self.world = world
        self.chance = world.chance
        self.http = Client(raise_request_exception=True)
        self.tokens = tokens
        self.scripts: dict[str, tuple[Script, ...]] = {}
        self.jobs: list[str] = []  # Known to their submitters and not yet looked away from.
        self.held: list[str] = []
        self.waiting: list[Request] = []
        self.numbers = 0

    # --- What happens ------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Send again what was not answered, then something new."""
        if self.waiting:
            self._send(self.waiting.pop(0))
        draw = self.chance.random()
        if self.world.favourite.startswith("jobs.stop.") and self.jobs and draw < 0.4:
            self.stop(self.chance.choice(self.jobs[-6:]))
        elif draw < 0.42:
            self.submit_one()
        elif draw < 0.60:
            self.submit_batch()
        elif draw < 0.68:
            self.submit_array()
        elif draw < 0.82 and self.jobs:
            self.stop(self.chance.choice(self.jobs[-40:]))
        elif draw < 0.92 and self.jobs:
            self.edit(self.chance.choice(self.jobs[-40:]))
        elif draw < 0.95 and self.jobs:
            self.rerun(self.chance.choice(self.jobs[-40:]))

    def settle(self) -> None:
        """What people do in the end: let go what they hold, stop what has no end, ask once more what was not answered."""
        for request in self.waiting:
            self._send(request, last=True)
        self.waiting.clear()
        for place, job in enumerate(self.held):
            if place % 3:  # Some stay held: a job may wait for a person as long as it likes.
                self.edit(job, hold=False)
        endless = [name for name, scripts in self.scripts.items() if any(each.duration_seconds is None for each in scripts)]
        # Also those of which their submitter never heard: somebody finds them in the list.
        found = Job.objects.filter(name__in=endless, array_size__isnull=True).exclude(state__in=TERMINAL).order_by("id")
        for job_id in found.values_list("id", flat=True):
            self.stop(str(job_id), grace_seconds=1)

    # --- Requests ----------------------------------------------------------------------------------------------------

    def submit_one(self) -> None:
        name, spec = self._spec()
        self.submit(name, spec)

    def submit_array(self) -> None:
        name, spec = self._spec(plain=True)
        spec["array"] = {"size": self.chance.randint(2, 5), **({"parallelism": 2} if self.chance.random() < 0.5 else {})}
        self.submit(name, spec)

    def submit(self, name: str, spec: dict[str, Any], *, with_key: bool | None = None) -> None:
        def note(status: int, answer: Any) -> None:
            if status in (200, 201):
                self._tell("submit_acked", jobs=[answer["id"]], name=name)
                self._remember(answer["id"], spec)
            else:
                self._tell("submit_refused", name=name, why=answer.get("code"))

        has_key = with_key if with_key is not None else self.chance.random() < 0.8
        key = self._key() if has_key else ""  # Not everybody sends one; who does not cannot ask again.
        unknown = partial(self._tell, "submit_unknown", name=name)
        self._send(Request("POST", "/api/v1/jobs", {"spec": spec}, key, note, unknown))

    def submit_batch(self) -> None:
        name, spec = self._spec(plain=True)
        items = [{"name": f"{name}-{number}"} for number in range(self.chance.randint(2, 6))]
        for item in items:
            self.scripts[item["name"]] = self.scripts[name]

        def note(status: int, answer: Any) -> None:
            if status == 201:
                self._tell("submit_acked", jobs=answer["ids"])
                for job_id in answer["ids"]:
                    self._remember(job_id, spec)

        body = {"spec": spec, "items": items}
        self._send(Request("POST", "/api/v1/jobs:batch", body, self._key(), note, lambda: self._tell("submit_unknown")))

    def rerun(self, job: str) -> None:
        name = self._name()
        self.scripts[name] = self._script()[1]

        def note(status: int, answer: Any) -> None:
            if status == 201:
                self._tell("submit_acked", jobs=[answer["id"]], name=name)
                self._remember(answer["id"], {})

        body = {"changes": {"name": name}}
        path = f"/api/v1/jobs/{job}/rerun"
        self._send(Request("POST", path, body, self._key(), note, lambda: self._tell("submit_unknown", name=name)))

    def stop(self, job: str, *, grace_seconds: float | None = None) -> None:
        if grace_seconds is None and self.chance.random() < 0.5:
            grace_seconds = self.chance.choice([0.0, 1.0, 10.0])
        default = self.world.grace_seconds

        def note(status: int, answer: Any) -> None:
            if status == 202:
                self._tell("stop_acked", job=job, grace_seconds=default if grace_seconds is None else grace_seconds)

        body = {} if grace_seconds is None else {"grace_seconds": grace_seconds}
        path = f"/api/v1/jobs/{job}/stop"
        self._send(Request("POST", path, body, self._key(), note, lambda: self._tell("stop_unknown", job=job)))

    def edit(self, job: str, **changes: Any) -> None:
        if not changes:
            changes = self.chance.choice(
                [
                    {"priority": self.chance.randint(0, 500)}, {"hold": True}, {"hold": False}, {"queue": "deep"},
                    {"max_runtime_seconds": self.chance.randint(1, 30)}, {"tags": ["seen"]},
                ]
            )  # fmt: skip

        def note(status: int, answer: Any) -> None:
            if status == 200:
                self._tell("edit_acked", job=job)
                if changes.get("hold") and job not in self.held:
                    self.held.append(job)

        def unknown() -> None:
            self._tell("edit_unknown", job=job)
            if changes.get("hold"):
                self.held.append(job)

        self._send(Request("PATCH", f"/api/v1/jobs/{job}", changes, "", note, unknown))

    # --- Sending -----------------------------------------------------------------------------------------------------

    def _send(self, request: Request, *, last: bool = False) -> None:
        """One try. The server may die under it, and its answer may get lost; whoever is not sure may ask again later."""
        request.tries += 1
        headers = {"HTTP_AUTHORIZATION": f"Bearer {self.tokens['bob']}"}
        if request.key:
            headers["HTTP_IDEMPOTENCY_KEY"] = request.key
        try:
            answer = self.http.generic(
                request.method, request.path, json.dumps(request.body), content_type="application/json", **headers
            )
        except Crash:
            self._not_answered(request, last)
            raise
        if self.world.happens(self.world.dangers.lost_answer):
            self._not_answered(request, last)
            return
        if answer.status_code >= 500:
            raise AssertionError(f"{request.method} {request.path}: {answer.status_code} {answer.content[:300]!r}")
        request.note(answer.status_code, answer.json() if answer.content else None)

    def _not_answered(self, request: Request, last: bool) -> None:
        request.unknown()
        if request.key and not last and request.tries < 4 and self.chance.random() < 0.85:
            self.waiting.append(request)

    def _remember(self, job_id: str, spec: dict[str, Any]) -> None:
        if job_id in self.jobs:
            return
        self.jobs.append(job_id)
        if spec.get("hold"):
            self.held.append(job_id)

    def _tell(self, event: str, **data: Any) -> None:
        self.world.tell(self.world.now, "client", event, **data)

    # --- What is asked for -------------------------------------------------------------------------------------------

    def _key(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128)))

    def _name(self) -> str:
        self.numbers += 1
        return f"job-{self.numbers}"

    def _spec(self, *, plain: bool = False) -> tuple[str, dict[str, Any]]:
        name, draw = self._name(), self.chance.random
        policy, self.scripts[name] = self._script()
        spec: dict[str, Any] = {
            "name": name,
            "command": "true",
            "resources": {"cpu": self.chance.choice([1, 1, 1, 2, 4]), "memory": "64Mi"},
        }
        if policy:
            spec["retry"] = policy
        if self.world.favourite.startswith("jobs.evict."):  # A full cluster, and work that others have a better right to.
            spec["resources"] = {"cpu": self.chance.choice([4, 8]), "memory": "64Mi"}
            spec["priority"] = self.chance.randint(0, 500)
            return name, spec
        if draw() < 0.3:
            spec["queue"] = self.chance.choice(["deep", "deeper"])
        if draw() < 0.3:
            spec["priority"] = self.chance.randint(0, 500)
        if draw() < 0.05:
            spec["max_runtime"] = self.chance.randint(1, 20)
        if plain:
            return name, spec
        if draw() < 0.12:
            spec["replicas"] = self.chance.randint(2, 3)
        if draw() < 0.06:
            spec["hold"] = True
        if draw() < (0.7 if self.world.favourite.startswith("storage.outputs.") else 0.04):
            spec["outputs"] = ["model"]
        if draw() < 0.15 and self.jobs:
            condition = self.chance.choice(["after", "after_ok", "after_any"])
            spec[condition] = [self.chance.choice(self.jobs[-20:])]
        return name, spec

    def _script(self) -> tuple[dict[str, Any] | None, tuple[Script, ...]]:
        """A retry policy and what each attempt does; the last goes for all further ones."""
        chance, draw = self.chance, self.chance.random()
        lines = chance.choice([0, 0, 3, 40])
        printed = "".join(f"line {number}\n" for number in range(lines)).encode()
        shared: dict[str, Any] = {
            "start_seconds": chance.choice([0.0, 0.0, 0.5, 5.0]),
            "stop_seconds": chance.choice([0.0, 0.3, 3.0, None]),
            "stdout": printed,
        }
        well = Script(duration_seconds=chance.choice([0.0, 0.5, 3.0, 15.0]), **shared)
        if draw < 0.62:
            return None, (well,)
        if draw < 0.74:
            return None, (Script(duration_seconds=None, **shared),)
        badly = Script(duration_seconds=chance.choice([0.0, 2.0]), code=chance.choice([1, 2, 139]), **shared)
        if draw < 0.84:
            return None, (badly,)
        if draw < 0.94:
            return {"limit": 2, "on": ["user"]}, (badly, well)
        evicted = Script(duration_seconds=1.0, code=None, signal=9, reason=ExitReason.EVICTED, **shared)
        return None, (evicted, well)

    def script_for(self, workload: Workload, task: TaskWorkload) -> Script:
        scripts = self.scripts.get(workload.name, (Script(),))  # Builds are nobody's wish.
        return scripts[min(workload.number, len(scripts)) - 1]
