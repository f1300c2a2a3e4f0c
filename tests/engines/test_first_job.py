"""One job's whole life through the product: submitted, run, logged, brought home, charged."""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime

import pytest

from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

MIB = 1024**2


@pytest.fixture(scope="module")
def job(live_platform: LivePlatform) -> Json:
    """It goes on until it was seen to run, whoever is late."""
    script = "seq 1 20000; while ! test -e /told/seen; do sleep 0.05; done; sleep 1.2; "
    script += "mkdir -p model; head -c 3000000 /dev/urandom > model/weights; sha256sum model/weights"
    told = live_platform.operator.make_volume(f"told-{uuid.uuid4().hex[:8]}")
    spec = {
        "name": "first",
        "command": script,
        "outputs": ["model"],
        "resources": {"cpu": 2, "memory": "64Mi"},
        "mounts": [{"volume": told["name"], "path": "/told"}],
    }
    running = live_platform.submit(spec, wait=["running"])
    live_platform.operator.upload({"volume": told["id"], "path": "seen"}, b"seen")
    return live_platform.wait(running)


@pytest.mark.capability("9", "A job passes through every state to its end")
@pytest.mark.capability("72", "The host's own programs run")
def test_it_passes_through_every_state(live_platform: LivePlatform, job: Json) -> None:
    assert live_platform.operator.states(job) == ["queued", "admitted", "starting", "running", "succeeded"]
    assert (job["attempt"], job["exit"]["class"], job["reason"]["code"]) == (1, "success", "success")


@pytest.mark.capability("122", "A platform on an empty data directory runs its first job to the end")
def test_its_log_is_whole(live_platform: LivePlatform, job: Json) -> None:
    expected = "".join(f"{number}\n" for number in range(1, 20_001))
    assert live_platform.logs(job).startswith(expected)
    raw = live_platform.operator.download(f"/jobs/{job['id']}/attempts/1/tasks/worker/0/logs/stdout")
    assert raw.decode().startswith(expected)
    answer = live_platform.operator.request(
        "GET", f"/jobs/{job['id']}/attempts/1/tasks/worker/0/logs/stdout", headers={"Range": "bytes=5000-5099"}
    )
    assert (answer.status_code, answer.content) == (206, raw[5000:5100])


@pytest.mark.capability("42", "Outputs have size and SHA-256, and are downloaded")
def test_its_result_comes_home_with_size_and_digest(live_platform: LivePlatform, job: Json) -> None:
    printed = live_platform.logs(job).splitlines()[-1].split()[0]
    [artifact] = live_platform.operator.artifacts(job)
    assert (artifact["path"], artifact["size_bytes"], artifact["sha256"]) == ("model/weights", 3_000_000, printed)
    content = live_platform.operator.download(f"/jobs/{job['id']}/artifacts/model/weights")
    assert hashlib.sha256(content).hexdigest() == printed


@pytest.mark.capability("34", "The phases of a job have a cause and a length, and add up to its life")
def test_its_phases_follow_each_other_and_add_up_to_its_life(live_platform: LivePlatform, job: Json) -> None:
    timeline = live_platform.api("GET", f"/jobs/{job['id']}/timeline")
    phases = timeline["phases"]
    assert [phase["phase"] for phase in phases] == ["queued", "admitted", "starting", "running"]
    assert all(phase["cause"] for phase in phases)
    assert [phase["began_at"] for phase in phases[1:]] == [phase["ended_at"] for phase in phases[:-1]]
    lived = datetime.fromisoformat(job["ended_at"]) - datetime.fromisoformat(job["submitted_at"])
    assert timeline["seconds"] == pytest.approx(lived.total_seconds(), abs=1e-6)
    assert sum(phase["seconds"] for phase in phases) == pytest.approx(timeline["seconds"], abs=1e-6)


def test_it_is_charged_for_what_it_held_and_holds_nothing_any_more(live_platform: LivePlatform, job: Json) -> None:
    [entry] = [item for item in live_platform.operator.items("/usage", group_by="job") if item["id"] == job["id"]]
    assert entry["attempts"] == 1
    seconds = entry["cpu_milli_seconds"] // 2000
    assert seconds >= 1
    assert (entry["cpu_milli_seconds"], entry["memory_byte_seconds"]) == (2000 * seconds, 64 * MIB * seconds)
    assert live_platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
    queue = live_platform.api("GET", f"/queues/{job['queue']['id']}")
    assert {amount for pool in queue["pools"] for amount in pool["used"].values()} == {0}


@pytest.mark.capability("41", "The log survives what ran the job")
def test_the_engine_forgets_it_once_everything_is_in_the_store(live_platform: LivePlatform, job: Json) -> None:
    query = f"SELECT forgotten FROM jobs_attempt WHERE job_id = '{_stored(live_platform, job)}'"
    wait_until(lambda: all(row[0] for row in live_platform.rows(query)), "the engine to forget the attempt")
    left = [path.name for path in (live_platform.data_dir / "engine").glob("*/attempts/*")]
    [attempt] = live_platform.operator.items(f"/jobs/{job['id']}/attempts")
    assert attempt["id"] not in left
    assert live_platform.logs(job).startswith("1\n2\n")


def _stored(platform: LivePlatform, job: Json) -> str:
    """An id as the database writes it: SQLite has no type for it."""
    return str(job["id"]) if platform.is_on_servers else str(job["id"]).replace("-", "")
