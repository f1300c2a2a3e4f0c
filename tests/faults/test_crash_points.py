"""The platform dies at each crash point in turn while it works; afterwards nothing is lost, nothing done twice, nothing held.

A round is a short piece of everyday work: a job that prints, writes a result and leaves traces on a witness that only it writes
to; a job that is stopped; where it is about builds, an image. Whoever submits asks again with the same key when the platform
dies under the request. The platform that is started again knows nothing but its database and what the engine kept.
"""

from __future__ import annotations

import hashlib
import os
import signal
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from images.lifecycle import BUILD, IMAGE
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, TASK_LIFECYCLE
from kernel.crashpoints import POINTS
from kernel.lifecycle import Lifecycle
from tests.builders.live import Json, LivePlatform, wait_until
from tests.builders.receiver import Receiver
from tests.factories.images import a_wheel
from tests.faults.conftest import Steadfast
from tests.simulation.reach import IN_REACH

pytestmark = [pytest.mark.engines, pytest.mark.database]

LINES = 300
WORK = f"""
import os
witness = os.open("/witness/log", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o660)
os.write(witness, b"start\\n")
assert os.path.getsize("/witness/input") == 300_000
for number in range({LINES}):
    print(number, flush=True)
os.makedirs("model")
with open("model/weights", "wb") as file:
    file.write(b"w" * 100_000)
os.write(witness, b"stop\\n")
"""
SMALL = {"cpu": 1, "memory": "64Mi"}
INPUT = b"seven\n" * 50_000
LIFECYCLES: Mapping[str, Lifecycle] = {
    "job": JOB_LIFECYCLE, "attempt": ATTEMPT_LIFECYCLE, "task": TASK_LIFECYCLE, "image": IMAGE, "build": BUILD,
}  # fmt: skip
OF_THEIR_OWN = (
    "jobs.evict.",
    "clusters.maintenance.",
    "jobs.checkpoint.",
    "storage.checkpoint.",
    "images.build.after_push",
)  # Each has a test of its own below; the last one with the builds of container images.
ORDERING = ("jobs.priority.", "jobs.move.", "tenants.quota_request.")
# On SQLite rows are numbered as they are written, so nothing is numbered afterwards.
ONLY_ON_SERVERS = frozenset({"activity.sequence.before_commit"})
# A short run kills at every point on PostgreSQL. On SQLite it kills where no simulation dies, and once for each who writes: a
# request, the scheduler, a worker before and after the engine was asked, an observer. Every simulation runs on SQLite.
KILLED_ON_SQLITE = frozenset(POINTS) - frozenset(IN_REACH) | {
    "jobs.submit.before_commit",
    "jobs.admit.before_commit",
    "jobs.launch.after_ensure",
    "jobs.poll.before_commit",
    "jobs.finish.after_forget",
}


def at(points: Iterable[str]) -> list[object]:
    """These points, those that a short run leaves out marked slow."""
    is_on_servers = "BERTH_DATABASE_URL" in os.environ
    return [
        point if is_on_servers or point in KILLED_ON_SQLITE else pytest.param(point, marks=pytest.mark.slow) for point in points
    ]


@dataclass(frozen=True)
class Round:
    worked: Json
    stopped: Json
    witness: Json
    sleep: str
    build: Json | None

    @property
    def jobs(self) -> list[Json]:
        return [self.worked, self.stopped, *([self.build] if self.build else [])]


@pytest.fixture(scope="module")
def subscription(live_platform: LivePlatform, receiver: Receiver) -> Json:
    body = {"channel": "webhook", "target": receiver.url, "kinds": ["succeeded", "failed", "stopped"], "jobs": "all"}
    made: Json = live_platform.api("POST", "/subscriptions", body)
    return made


@pytest.mark.capability("35", "After a crash at any step, of the platform or of one process, everything is done once")
@pytest.mark.parametrize("point", at(point for point in POINTS if not point.startswith(OF_THEIR_OWN)))
@pytest.mark.usefixtures("subscription")
def test_after_a_crash_everything_is_done_once(point: str, steadfast: Steadfast, receiver: Receiver, wheels: Path) -> None:
    platform = steadfast.platform
    if point in ONLY_ON_SERVERS and not platform.is_on_servers:
        pytest.skip("not reached on SQLite, where rows are numbered as they are written")
    platform.crash_at(point)
    done = work(steadfast, wheels, with_build=".build." in point, with_order=point.startswith(ORDERING))
    wait_until(lambda: is_quiet(steadfast, done, receiver), "the platform's rest")
    assert steadfast.deaths == [-signal.SIGKILL], f"the platform did not die at {point}"
    assert_done_once(steadfast, done)
    assert_histories_follow_the_tables(steadfast, done)
    assert_told_once(done, receiver)
    assert_nothing_is_held(platform)


@pytest.mark.capability("20", "After a crash in an eviction the preemptor starts and the victim returns")
@pytest.mark.parametrize("point", at(point for point in POINTS if point.startswith("jobs.evict.")))
def test_after_a_crash_in_an_eviction_whoever_was_to_start_starts_and_the_other_goes_on_later(
    point: str, steadfast: Steadfast
) -> None:
    platform, all_gpus = steadfast.platform, {"cpu": 1, "memory": "64Mi", "gpu": 2}
    low = submit(steadfast, {"name": "low", "command": "sleep 1.5; sleep 1000", "resources": all_gpus, "priority": "low"})
    steadfast.wait(low, ["running"])
    platform.crash_at(point)
    high = submit(steadfast, {"name": "high", "command": "echo here", "resources": all_gpus, "priority": "high"})
    done = steadfast.wait(high)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)
    assert steadfast.deaths == [-signal.SIGKILL], f"the platform did not die at {point}"
    wait_until(lambda: (steadfast.job(low)["state"], steadfast.job(low)["attempt"]) == ("running", 2), "the other's return")
    steadfast.stop(low, grace_seconds=0)
    assert steadfast.wait(low)["state"] == "stopped"
    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the platform's rest")
    assert_nothing_is_held(platform)


@pytest.mark.parametrize("point", at(point for point in POINTS if point.startswith(("jobs.checkpoint.", "storage.checkpoint."))))
def test_after_a_crash_over_a_checkpoint_the_job_goes_on_from_it(point: str, steadfast: Steadfast) -> None:
    """A job that fails once goes on from what it had saved, another one begins with a copy of it, and its time ends both."""
    platform = steadfast.platform
    script = 'cd "$BERTH_CHECKPOINT_DIR"; echo "found $(ls)"; touch half.tmp; touch "step-$BERTH_ATTEMPT"; '
    spec = {"command": script + 'test "$BERTH_ATTEMPT" = 2', "resources": SMALL, "retry": {"limit": 1}}
    platform.crash_at(point)
    first = submit(steadfast, {"name": "first", **spec, "checkpoint": {"path": "ckpt"}})
    assert steadfast.wait(first)["state"] == "succeeded"
    assert steadfast.logs(first, attempt=2) == "found step-1\n"
    measured = "SELECT count(*) FROM storage_checkpoint WHERE kept_until IS NOT NULL AND removed_at IS NULL"
    wait_until(lambda: steadfast.job(first) and platform.rows(measured) == [(1,)], "the measurement after the first one's end")
    second = submit(steadfast, {"name": "second", **spec, "checkpoint": {"path": "ckpt", "from": first["id"]}, "command": script})
    assert steadfast.wait(second)["state"] == "succeeded"
    assert steadfast.logs(second) == "found step-1\nstep-2\n"
    wait_until(lambda: steadfast.job(second) and platform.rows(measured) == [(2,)], "the measurement after the second one's end")
    expire = "UPDATE storage_checkpoint SET kept_until = '2020-01-01 00:00:00+00:00' WHERE kept_until IS NOT NULL"
    gone = "SELECT count(*) FROM storage_checkpoint WHERE removed_at IS NULL"

    def is_removed() -> bool:
        platform.execute(expire)  # Once more: a look that was under way writes the time that it had read.
        return bool(steadfast.job(second)) and platform.rows(gone) == [(0,)]

    wait_until(is_removed, "the removal of both")
    assert steadfast.deaths == [-signal.SIGKILL], f"the platform did not die at {point}"
    wait_until(lambda: not list((platform.data_dir / "checkpoints").glob("*/*")), "the removal of both folders")
    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the platform's rest")
    assert_nothing_is_held(platform)


def test_after_a_crash_as_maintenance_begins_it_begins_once(steadfast: Steadfast) -> None:
    platform = steadfast.platform
    platform.crash_at("clusters.maintenance.before_commit")
    [pool] = {node["pool"]["name"] for node in platform.api("GET", "/nodes")["items"]}
    now = datetime.now(UTC)
    body = {"pool": pool, "starts_at": now.isoformat(), "ends_at": (now + timedelta(hours=1)).isoformat()}
    made = steadfast.api("POST", "/maintenance", body)
    taken = "SELECT count(*) FROM clusters_node WHERE cordoned"
    wait_until(lambda: steadfast.api("GET", "/maintenance") and platform.rows(taken) == [(1,)], "the machine out of service")
    assert steadfast.deaths == [-signal.SIGKILL], "the platform did not die as maintenance began"
    for table, column, what in (("auditevent", "verb", "maintenance.begin"), ("event", "kind", "node.cordoned")):
        assert platform.rows(f"SELECT count(*) FROM activity_{table} WHERE {column} = '{what}'") == [(1,)]
    steadfast.api("DELETE", f"/maintenance/{made['id']}")
    assert platform.rows(taken) == [(0,)]


def work(user: Steadfast, wheels: Path, *, with_build: bool, with_order: bool) -> Round:
    number, sleep = uuid.uuid4().hex[:8], f"1000.{uuid.uuid4().int % 10**12}"
    witness = user.api(
        "POST", "/volumes", {"name": f"witness-{number}", **user.in_tenant}, headers={"Idempotency-Key": f"volume-{number}"}
    )
    upload(user, {"volume": witness["id"], "path": "input"}, INPUT)
    image = ask_for_image(user, wheels, number) if with_build else None
    worked = submit(
        user,
        {
            "name": f"work-{number}",
            "command": ["/usr/bin/python3", "-c", WORK],
            "outputs": ["model"],
            "mounts": [{"volume": witness["name"], "path": "/witness"}],
            "resources": SMALL,
        },
    )
    stopped = submit(user, {"name": f"stop-{number}", "command": f"echo ready; exec sleep {sleep}", "resources": SMALL})
    user.wait(stopped, ["running"])
    user.wait_for_line(stopped, "ready")  # It runs before its program has said so.
    if with_order:
        order(user, number)
    user.stop(stopped, grace_seconds=1)
    build = user.job(wait_for_build(user, image)) if image else None
    return Round(user.wait(worked), user.wait(stopped), witness, sleep, build)


def order(user: Steadfast, number: str) -> None:
    """Move a waiting job before another, and ask for a priority, each with a key, as somebody does who asks again."""
    [node] = user.items("/nodes")
    whole = {"cpu": node["capacity"]["cpu_millis"] // 1000, "memory": "64Mi"}  # While anything runs, it waits.
    first, second = (submit(user, {"name": f"{name}-{number}", "command": "true", "resources": whole}) for name in "ab")
    key = {"Idempotency-Key": f"move-{number}"}
    moved = user.api("POST", f"/jobs/{second['id']}/move", {"before": first["id"]}, headers=key)
    assert (moved["job"]["place"], moved["moved"] > 0) == (1, True)
    for job in (first, second):
        user.stop(job)
        user.wait(job, ["stopped"])
    account = user.api(
        "POST", f"/tenants/{user.in_tenant['tenant']}/service-accounts", {"name": f"ci-{number}"},
        headers={"Idempotency-Key": f"account-{number}"},
    )  # fmt: skip
    end = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    body = {"priority": "urgent", "ends_at": end, "user": account["id"], "reason": number, **user.in_tenant}
    user.api("POST", "/priority-requests", body, headers={"Idempotency-Key": f"request-{number}"})
    assert sum(item["reason"] == number for item in user.items("/priority-requests")) == 1
    manager = user.platform.person(f"manager-{number}", tenant=user.in_tenant["tenant"], role="manager")
    [queue] = [candidate for candidate in user.items("/queues") if candidate["is_top"] and candidate["tenant"]]
    [pool] = user.items("/pools")
    change = {"queue": queue["id"], "pool": pool["id"], "resource": "gpu_millis", "weight": 2}
    body = {"changes": [change], "reason": number, **user.in_tenant}
    again = Steadfast(user.platform)
    again.http.headers["Authorization"] = f"Bearer {manager.token}"
    again.api("POST", "/quota/requests", body, headers={"Idempotency-Key": f"quota-{number}"})
    again.close()
    user.deaths += again.deaths
    assert sum(item["reason"] == number for item in user.items("/quota/requests")) == 1


def submit(user: Steadfast, spec: Json) -> Json:
    """Submit with a key, and once more as somebody does who is not sure: it is the same job."""
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first: Json = user.api("POST", "/jobs", {"spec": spec, **user.in_tenant}, headers=key)
    again = user.api("POST", "/jobs", {"spec": spec, **user.in_tenant}, headers=key)
    assert again["id"] == first["id"]
    return first


def upload(user: Steadfast, target: Json, content: bytes) -> None:
    """Send a file as the protocol has it: ask how far it is, go on from there, until it is complete."""
    body = {"target": target, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), **user.in_tenant}
    state: Json = user.api("POST", "/uploads", body, headers={"Idempotency-Key": uuid.uuid4().hex})
    half = len(content) // 2
    while not state["complete"]:
        state = user.api("GET", f"/uploads/{state['id']}")
        offset = state["offset_bytes"]
        headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        answer = user.once("PATCH", f"/uploads/{state['id']}", content=content[offset : offset + half], headers=headers)
        if answer is not None:
            assert answer.is_success, answer.text
            state = answer.json()


def ask_for_image(user: Steadfast, wheels: Path, number: str) -> Json:
    package = f"delta{number}"
    a_wheel(wheels, package)
    body = {"name": package, "kind": "python", "requirements": package, **user.in_tenant}
    made: Json = user.api("POST", "/images", body, headers={"Idempotency-Key": number})
    return made


def wait_for_build(user: Steadfast, image: Json) -> str:
    wait_until(lambda: user.api("GET", f"/images/{image['id']}")["state"] in ("ready", "failed"), "the build")
    found = user.api("GET", f"/images/{image['id']}")
    assert found["state"] == "ready", found["error"]
    builds = user.api("GET", f"/images/{image['id']}/builds")["items"]
    assert len(builds) == 1
    jobs = [job for job in user.items("/jobs", kind="build") if job["name"] == f"build-{image['name']}"]
    assert [job["id"] for job in jobs] == [builds[0]["job_id"]]
    return str(builds[0]["job_id"])


def is_quiet(user: Steadfast, done: Round, receiver: Receiver) -> bool:
    """Everything is finished that goes on after a job's end: outputs and log stored, engine tidied, everybody told."""
    user.request("GET", "//livez")  # Somebody who asks notices when the platform dies, and has it started again.
    platform = user.platform
    left = platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten")
    unsent = platform.rows("SELECT count(*) FROM activity_delivery WHERE state = 'pending'")
    return left == [(0,)] and unsent == [(0,)] and all(receiver.about(job) for job in done.jobs)


def assert_done_once(user: Steadfast, done: Round) -> None:
    assert (done.worked["state"], done.worked["attempt"]) == ("succeeded", 1)
    assert (done.stopped["state"], done.stopped["attempt"]) == ("stopped", 1)
    assert user.logs(done.worked).splitlines() == [str(number) for number in range(LINES)]
    assert user.logs(done.stopped, stream="stdout") == "ready\n"
    assert user.download(f"/volumes/{done.witness['id']}/content", path="input") == INPUT
    witness = user.download(f"/volumes/{done.witness['id']}/content", path="log")
    assert witness.split() == [b"start", b"stop"]
    [artifact] = user.artifacts(done.worked)
    assert (artifact["path"], artifact["sha256"]) == ("model/weights", hashlib.sha256(b"w" * 100_000).hexdigest())
    assert processes_with(done.sleep) == []
    for job in done.jobs:
        [entry] = [item for item in user.items("/usage", group_by="job") if item["id"] == job["id"]]
        assert entry["attempts"] == 1
        calls = [item for item in user.items("/audit") if item["verb"] in ("job.submit", "image.build")]
        assert sum(item["target"]["id"] == job["id"] for item in calls) == 1


def assert_histories_follow_the_tables(user: Steadfast, done: Round) -> None:
    """Every subject went from state to state along the edges of its lifecycle, each change written once."""
    for job in done.jobs:
        paths: dict[tuple[str, str], list[Json]] = defaultdict(list)
        for item in user.items(f"/jobs/{job['id']}/events", all=1):
            paths[item["subject"]["kind"], item["subject"]["id"]].append(item)
        for (kind, _), moves in paths.items():
            states = [move["to_state"] for move in moves]
            assert [move["from_state"] for move in moves[1:]] == states[:-1]
            for move in moves:
                assert move["from_state"] is None or LIFECYCLES[kind].allows(move["from_state"], move["to_state"]), moves
        assert {kind for kind, _ in paths} >= {"job", "attempt", "task"}


def assert_told_once(done: Round, receiver: Receiver) -> None:
    for job in done.jobs:
        told = [message.body["state"] for message in receiver.about(job)]
        assert told == [job["state"]]


def assert_nothing_is_held(platform: LivePlatform) -> None:
    """No reservation without an attempt, no drift between what is kept and what a recount finds, nothing in the engine."""
    assert platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
    used = "cpu_millis <> 0 OR memory_bytes <> 0 OR gpu_millis <> 0"
    assert platform.rows(f"SELECT count(*) FROM tenants_queueusage WHERE {used}") == [(0,)]
    assert platform.log_events("quota_drift") == []
    assert platform.rows("SELECT attempt_id FROM tenants_ledgerentry GROUP BY attempt_id HAVING count(*) > 1") == []
    numbered = platform.rows("SELECT count(*), min(seq), max(seq) FROM activity_event WHERE seq IS NOT NULL")
    [(count, first, last)] = numbered
    assert last - first + 1 == count
    assert [path.name for path in platform.data_dir.glob("engine/*/attempts/*")] == []
    assert processes_with(str(platform.data_dir / "engine")) == []


def processes_with(word: str) -> list[int]:
    """Processes whose command line has this word, but for ourselves."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
