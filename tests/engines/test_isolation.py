"""Carol's tenant shares the machine with Alice's: nothing of the platform and nothing of Alice's is open to her jobs.

Everything is tried twice: by a job as the product runs it, and by a process with the job's user outside its sandbox - so that the
owners and modes of files hold alone what the sandbox would hide.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.files import content, paths_below
from tests.builders.live import Json, LivePlatform, LiveUser
from tests.engines.test_images import built
from tests.factories.images import a_wheel

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

CANARY = f"canary-{uuid.uuid4().hex}"

# Reads its targets as JSON from argv and prints what succeeded.
PROBE = """
import json, os, signal, socket, sys, urllib.error, urllib.request
targets = json.loads(sys.argv[1])
opened = []
def attempt(what, action):
    try:
        found = action()
    except Exception as error:
        return
    opened.append([what, repr(found)[:200]])
def read(path):
    with open(path, "rb") as file:
        return file.read(4096)
def append(path):
    with open(path, "ab") as file:
        return file.write(b"planted")
def connect(path):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        return "connected"
for path in targets["files"]:
    attempt("read " + path, lambda: read(path))
    attempt("append " + path, lambda: append(path))
    attempt("copy " + path, lambda: os.link(path, "./copy"))
for path in targets["folders"]:
    attempt("list " + path, lambda: os.listdir(path))
    attempt("plant " + path, lambda: append(path + "/planted"))
for path in targets["sockets"]:
    attempt("connect " + path, lambda: connect(path))
for pid in targets["processes"]:
    for name in ("environ", "mem", "maps"):
        attempt(f"/proc/{pid}/{name}", lambda: read(f"/proc/{pid}/{name}"))
    for name in ("cwd", "root", "exe"):
        attempt(f"/proc/{pid}/{name}", lambda: os.readlink(f"/proc/{pid}/{name}"))
    attempt(f"list /proc/{pid}/fd", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt(f"kill {pid}", lambda: os.kill(pid, signal.SIGTERM))
statuses = []
for url in targets["urls"]:
    try:
        statuses.append(urllib.request.urlopen(url, timeout=60).status)
    except urllib.error.HTTPError as error:
        statuses.append(error.code)
everything = []
for pid in filter(str.isdecimal, os.listdir("/proc")):
    try:
        everything.append(read(f"/proc/{pid}/environ") + read(f"/proc/{pid}/cmdline"))
    except OSError:
        pass
seen = targets["canary"].encode() in b"".join(everything)
print(json.dumps({"uid": os.getuid(), "opened": opened, "statuses": statuses, "canary": seen}))
"""


@dataclass
class Scene:
    platform: LivePlatform
    alice: LiveUser
    carol: LiveUser
    job: Json
    done: Json
    volume: Json
    targets: dict[str, list[object]]


@pytest.fixture(scope="module")
def scene(live_platform: LivePlatform, wheels: Path) -> Iterator[Scene]:
    """Alice has a secret, a volume, an image, a job that ended and one that runs; all of them hold the canary."""
    if os.geteuid() != 0:
        pytest.skip("without root the local cluster takes jobs of one tenant only")
    operator = live_platform.operator
    alice = live_platform.person("alice", tenant="Alice & Co", role="manager")
    carol = live_platform.person("carol", tenant="Carol & Co", role="manager")
    alice.api("PUT", f"/tenants/{alice.tenant}/secrets/TOKEN", {"value": CANARY})
    volume = alice.make_volume("treasure")
    alice.upload({"volume": volume["id"], "path": "gold"}, CANARY.encode())
    package = f"gamma{uuid.uuid4().hex[:6]}"
    a_wheel(wheels, package)
    image = built(alice, package, package)
    common = {"secrets": {"TOKEN": None}, "mounts": [{"volume": "treasure", "path": "/gold"}], "image": package}
    keep = 'echo "$TOKEN" | tee result.txt; chmod 666 result.txt; mkdir -p model; cp result.txt model/'
    done = alice.submit({"name": "done", "command": keep, "outputs": ["model"], **common}, wait=True)
    assert done["state"] == "succeeded"
    alice.artifacts(done)
    job = alice.submit({"name": "victim", "command": f"{keep}; echo kept; exec sleep 1000", **common}, wait=["running"])
    alice.wait_for_line(job, "kept\n")  # Its files are whole, and what lives of it now lives on.
    targets = _targets(live_platform, alice, job, volume, image)
    yield Scene(live_platform, alice, carol, job, done, volume, targets)
    operator.stop(job, grace_seconds=0)


def _targets(platform: LivePlatform, alice: LiveUser, job: Json, volume: Json, image: Json) -> dict[str, list[object]]:
    data = platform.data_dir
    [attempt] = [path for path in data.glob("engine/*/attempts/*") if path.name == _attempt_id(alice, job)]
    [(volume_place,)] = platform.rows(f"SELECT location FROM storage_volume WHERE name = '{volume['name']}'")
    [(image_place,)] = platform.rows(f"SELECT location FROM images_image WHERE name = '{image['name']}'")
    ours = [
        data / name for name in ("secret.key", "platform.lock", "first-credentials.json", "berth.sqlite3", "berth.sqlite3-wal")
    ]
    alices = [attempt / "work" / "result.txt", Path(volume_place) / "gold", Path(image_place) / "berth-image.json"]
    stored = [path for folder in ("logs", "artifacts", "code", "uploads", "tools") for path in paths_below(data / folder)]
    control = list((attempt / "control").iterdir())
    folders = [data, data / "engine", attempt.parent, attempt, attempt / "work", attempt / "home", attempt / "control"]
    folders += [path for path in attempt.iterdir() if path.is_dir()] + [Path(volume_place), Path(image_place)]
    folders += [data / name for name in ("run", "log", "logs", "artifacts", "code", "uploads", "images", "volumes", "tools")]
    files = [path for path in (*ours, *alices, *control, *stored) if path.is_file()]
    assert sum(CANARY.encode() in content(path) for path in files) >= 3  # What is tried is worth trying.
    processes = [pid for pid in _processes() if f"BERTH_TASK_KEY={attempt.name}".encode() in _environment(pid)]
    assert processes
    base = platform.url
    return {
        "files": [str(path) for path in files],
        "folders": [str(path) for path in dict.fromkeys(folders)],
        "sockets": [str(data / "run" / "launcher.sock"), *_server_sockets()],
        "processes": list(processes),
        "urls": [f"{base}/api/v1/jobs", f"{base}/api/v1/jobs/{job['id']}", f"{base}/metrics", f"{base}/api/v1/whoami"],
        "canary": [CANARY],
    }


def _attempt_id(user: LiveUser, job: Json) -> str:
    return str(user.items(f"/jobs/{job['id']}/attempts")[0]["id"])


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _server_sockets() -> list[str]:
    """Those of the servers of this run, where there are any: jobs share the host's file system outside the sandbox."""
    from urllib.parse import parse_qs, urlsplit

    found = []
    if os.environ.get("BERTH_DATABASE_URL"):
        host = parse_qs(urlsplit(os.environ["BERTH_DATABASE_URL"]).query).get("host", [""])[0]
        found += [str(path) for path in Path(host or "/nonexistent").glob(".s.PGSQL.*") if path.is_socket()]
    if os.environ.get("BERTH_REDIS_URL", "").startswith("unix:"):
        found.append(urlsplit(os.environ["BERTH_REDIS_URL"]).path)
    return found


def arguments(scene: Scene) -> str:
    return json.dumps({**scene.targets, "canary": CANARY})


def expect_nothing(scene: Scene, result: Json) -> None:
    assert result["opened"] == [], "\n".join(map(str, result["opened"]))
    assert result["statuses"] == [401, 401, 401, 401]
    assert not result["canary"]
    assert scene.alice.job(scene.job)["state"] == "running"
    assert [path for path in paths_below(scene.platform.data_dir) if path.name == "planted"] == []


def test_a_job_reaches_nothing_of_the_platform_and_of_other_tenants(scene: Scene) -> None:
    probe = {"name": "probe", "command": ["/usr/bin/python3", "-c", PROBE, arguments(scene)]}
    job = scene.carol.submit(probe, wait=True)
    text = scene.carol.logs(job)
    assert job["state"] == "succeeded", text
    result = json.loads(text)
    assert result["uid"] >= 200_000
    expect_nothing(scene, result)


def test_neither_does_its_user_outside_the_sandbox(scene: Scene, tmp_path: Path) -> None:
    job = scene.carol.submit({"name": "who", "command": "id -u"}, wait=True)
    uid = int(scene.carol.logs(job))
    done = subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs",
         "/usr/bin/python3", "-c", PROBE, arguments(scene)],
        cwd="/tmp", env={}, capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["uid"] == uid
    # Where an image or a folder of the engine lies is no secret, and whoever knows a name may pass through the folder.
    expect_nothing(scene, result)


def test_the_api_shows_nothing_of_another_tenant(scene: Scene) -> None:
    carol = scene.carol
    paths = [
        f"/jobs/{job['id']}{tail}" for job in (scene.job, scene.done) for tail in ("", "/spec", "/logs", "/artifacts", "/events")
    ]
    paths += [f"/jobs/{scene.done['id']}/artifacts/model/result.txt", f"/tenants/{scene.alice.tenant}/secrets"]
    paths += [f"/volumes/{scene.volume['id']}/files", f"/volumes/{scene.volume['id']}/content?path=gold"]
    for path in paths:
        assert carol.request("GET", path).status_code == 404, path
    assert carol.request("POST", f"/jobs/{scene.job['id']}/stop", json={}).status_code == 404
    seen = "".join(
        carol.request("GET", path).text for path in ("/jobs", "/images", "/volumes", "/events", "/audit", "/queues", "/users")
    )
    for word in (CANARY, scene.alice.tenant, "Alice & Co", "treasure", "victim"):
        assert word not in seen


def test_what_belongs_to_another_tenant_cannot_be_named_in_a_job(scene: Scene) -> None:
    secret = scene.carol.request("POST", "/jobs", json={"spec": {"command": "true", "secrets": {"TOKEN": None}}})
    mount = {"volume": scene.volume["id"], "path": "/gold"}
    volume = scene.carol.request("POST", "/jobs", json={"spec": {"command": "true", "mounts": [mount]}})
    after = scene.carol.request("POST", "/jobs", json={"spec": {"command": "true", "after": [scene.job["id"]]}})
    assert [answer.status_code for answer in (secret, volume, after)] == [422, 422, 422]
    assert [answer.json()["fields"][0]["path"] for answer in (secret, volume, after)] == [
        "/secrets",
        "/mounts/0/volume",
        "/after/0",
    ]
