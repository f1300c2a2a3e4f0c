"""Disks that are full, out of inodes or read-only: refused with words, nothing half done, healed as soon as there is room.

Small disks stand in the place of the platform's own folders and of the database's, each alone, so that one can be full while
the others are not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from tests import servers as plain
from tests.builders.breakable import Breakable, BreakableServers, breakable_servers
from tests.builders.files import paths_below
from tests.builders.live import Json, LivePlatform, LiveUser, wait_until
from tests.builders.prepared import short_folder
from tests.faults.disks import FILLER, SmallDisk, small_disk

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": 1, "memory": "64Mi"}
FOLDERS = ("logs", "uploads", "artifacts")
CONTENT = b"seven words make a line of text\n" * 10_000


@pytest.fixture(scope="module")
def disks() -> dict[str, SmallDisk]:
    return {}


@pytest.fixture(scope="module")
def platform(disks: dict[str, SmallDisk]) -> Iterator[LivePlatform]:
    """A platform whose stores are small disks of their own."""
    place = short_folder("disks")
    place.chmod(0o711)
    made = LivePlatform(place)
    owner = made.data_dir.stat()
    try:
        with contextlib.ExitStack() as mounted:
            for name in FOLDERS:
                folder = made.data_dir / name
                folder.mkdir(mode=0o700)
                os.chown(folder, owner.st_uid, owner.st_gid)
                disks[name] = mounted.enter_context(small_disk(folder))
            made.start()
            try:
                yield made
            finally:
                made.end()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def user(platform: LivePlatform, disks: dict[str, SmallDisk]) -> Iterator[LiveUser]:
    yield platform.operator
    for disk in disks.values():
        disk.open()
        disk.free()


def spoil(disk: SmallDisk, how: str) -> None:
    {"full": disk.fill, "inodes": disk.use_up_inodes, "read-only": disk.close}[how]()


CAUSES = {"full": "the disk is full", "inodes": "no room for more files", "read-only": "read-only"}


def mend(disk: SmallDisk) -> None:
    disk.open()
    disk.free()


def announced(user: LiveUser, volume: Json, path: str) -> Json:
    body = {
        "target": {"volume": volume["id"], "path": path},
        "size_bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        **user.in_tenant,
    }
    made: Json = user.api("POST", "/uploads", body)
    return made


def send(user: LiveUser, upload: Json, offset: int):  # type: ignore[no-untyped-def]
    headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return user.request("PATCH", f"/uploads/{upload['id']}", content=CONTENT[offset:], headers=headers)


def disk_words(platform: LivePlatform) -> str:
    answer = platform.anonymous.request("GET", "//readyz")
    assert answer.status_code == 200, "it can read, stop and observe: it stays ready"
    return str(answer.json()["checks"]["disk"]["detail"])


@pytest.mark.parametrize("how", CAUSES)
def test_an_upload_is_refused_with_words_and_goes_on_when_there_is_room(
    how: str, platform: LivePlatform, disks: dict[str, SmallDisk], user: LiveUser
) -> None:
    volume = user.make_volume(f"volume-{uuid.uuid4().hex[:8]}")
    upload = announced(user, volume, "data") if how != "inodes" else None
    spoil(disks["uploads"], how)
    if upload is None:  # A file that there is can grow; a new one cannot begin.
        upload = announced(user, volume, "data")
    refused = send(user, upload, 0)
    assert refused.status_code == 507, refused.text
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert refused.json()["code"] == "storage_full"
    assert "disk" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    wait_until(lambda: CAUSES[how] in disk_words(platform), "words for operators")
    assert "uploads" in disk_words(platform)
    beside = user.submit({"command": "echo beside", "resources": SMALL}, wait=True)
    assert (beside["state"], user.logs(beside)) == ("succeeded", "beside\n")
    mend(disks["uploads"])
    state = user.api("GET", f"/uploads/{upload['id']}")
    answer = send(user, upload, state["offset_bytes"])
    assert answer.is_success, answer.text
    assert answer.json()["complete"] is True
    assert user.download(f"/volumes/{volume['id']}/content", path="data") == CONTENT
    wait_until(lambda: disk_words(platform) == "writable", "nothing to say any more")


@pytest.mark.parametrize("how", CAUSES)
def test_jobs_run_and_end_while_no_log_can_be_stored_and_no_line_is_lost(
    how: str, platform: LivePlatform, disks: dict[str, SmallDisk], user: LiveUser
) -> None:
    told = len(platform.log_events("log_store_has_no_room_over"))
    failures = len(platform.log_events("loop_failed")) + len(platform.log_events("task_failed"))
    spoil(disks["logs"], how)
    lines = "".join(f"line {number}\n" for number in range(2_000))
    program = "import sys\nfor n in range(2000): print('line', n)\nsys.exit(int(sys.argv[1]))"
    good = user.submit({"command": ["/usr/bin/python3", "-c", program, "0"], "resources": SMALL})
    bad = user.submit({"command": ["/usr/bin/python3", "-c", program, "3"], "resources": SMALL})
    assert user.wait(good)["state"] == "succeeded"
    assert user.wait(bad)["state"] == "failed"
    assert user.job(bad)["exit"]["code"] == 3
    wait_until(lambda: f"logs: {CAUSES[how]}" in disk_words(platform) or CAUSES[how] in disk_words(platform), "words")
    wait_until(lambda: platform.log_events("disk_trouble"), "an alert in the log")
    mend(disks["logs"])
    assert user.logs(good) == lines
    assert user.logs(bad) == lines
    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the platform's rest")
    wait_until(lambda: len(platform.log_events("log_store_has_no_room_over")) > told, "the end of the condition")
    assert len(platform.log_events("log_store_has_no_room")) == told + 1, "told once"
    assert len(platform.log_events("loop_failed")) + len(platform.log_events("task_failed")) == failures, "no tracebacks"


def test_outputs_wait_for_room_and_are_whole_then(platform: LivePlatform, disks: dict[str, SmallDisk], user: LiveUser) -> None:
    disks["artifacts"].fill(leave_bytes=100_000)  # A part fits: what is kept must not be that part.
    command = "head -c 3000000 /dev/zero | tr '\\0' w > out"
    job = user.submit({"command": command, "outputs": ["out"], "resources": SMALL}, wait=True)
    assert job["state"] == "succeeded"
    tried = "SELECT count(*) FROM jobs_attempt WHERE NOT forgotten AND tries >= 3"
    wait_until(lambda: platform.rows(tried) == [(1,)], "outputs that waited for several rounds")
    assert len(platform.log_events("outputs_wait_for_room")) == 1, "told once"
    assert user.api("GET", f"/jobs/{job['id']}/artifacts")["complete"] is False
    wait_until(lambda: not kept_in(platform.data_dir / "artifacts"), "the end of a try, which keeps nothing")
    mend(disks["artifacts"])
    [artifact] = user.artifacts(job)
    wait_until(lambda: platform.log_events("outputs_wait_for_room_over"), "the end of the condition")
    assert (artifact["size_bytes"], artifact["sha256"]) == (3_000_000, hashlib.sha256(b"w" * 3_000_000).hexdigest())


def kept_in(folder: Path) -> list[Path]:
    """A try under way has a part of a file there."""
    return [path for path in paths_below(folder) if path.is_file() and path.name != FILLER]


# --- The database's own disk ---------------------------------------------------------------------------------------------


def test_a_database_without_room_refuses_new_jobs_shows_the_old_ones_and_heals(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("about a server; SQLite refuses by the reserve that uploads leave free")
    with breakable_servers() as servers, database_disk(servers) as disk, servers.platform() as platform:
        move_to(disk, servers, platform)
        user = platform.operator
        told = user.make_volume("told")
        mounts = [{"volume": "told", "path": "/told"}]
        goes_on = "while ! test -e /told/enough; do sleep 0.05; done; echo done"
        running = user.submit({"command": goes_on, "mounts": mounts, "resources": SMALL}, wait=["running"])
        enough = platform.folder_of(told) / "enough"
        disk.fill()
        refused = None
        for number in range(3_000):  # What PostgreSQL has free in pages that are there goes first.
            body = {"spec": {"name": f"filling-{number}", "command": "true " + "x" * 20_000, "hold": True}, **user.in_tenant}
            refused = user.request("POST", "/jobs", json=body)
            if not refused.is_success:
                break
        assert refused is not None
        assert refused.status_code == 507, refused.text
        assert "database's disk is full; nothing was changed" in refused.json()["detail"]
        stored = int(platform.rows("SELECT count(*) FROM jobs_job WHERE name LIKE 'filling-%'")[0][0])
        assert stored == number, "each acknowledged job is stored, and the refused one is not"
        assert user.api("GET", "/jobs")["items"]
        assert platform.anonymous.request("GET", "//livez").status_code == 200
        enough.touch(mode=0o666)
        disk.free()
        assert user.wait(running)["state"] == "succeeded"
        assert user.logs(running) == "done\n"
        again = user.submit({"command": "true", "resources": SMALL}, wait=True)
        assert (again["state"], again["attempt"]) == ("succeeded", 1)


@contextlib.contextmanager
def database_disk(servers: BreakableServers) -> Iterator[SmallDisk]:
    """A table space of the server on a disk of its own."""
    place = servers.postgresql.server.home / "small"
    place.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(place, "postgres", "postgres")
    with small_disk(place, mebibytes=64) as disk:
        with psycopg.connect(servers.postgresql.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")  # type: ignore[arg-type]
        yield disk


def move_to(disk: SmallDisk, servers: BreakableServers, platform: LivePlatform) -> None:
    """Put the platform's database on the small disk."""
    assert platform.stop() == 0
    name = platform.environment["BERTH_DATABASE_URL"].rpartition("?")[0].rpartition("/")[2]
    with psycopg.connect(servers.postgresql.url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET TABLESPACE small')  # type: ignore[arg-type]
    platform.start()


# --- The broker's disk ---------------------------------------------------------------------------------------------------


def test_a_broker_that_cannot_write_its_journal_costs_time_and_no_job() -> None:
    if not os.environ.get("BERTH_REDIS_URL"):
        pytest.skip("without Redis messages stay in memory")
    root = short_folder("journal")
    root.chmod(0o711)
    try:
        with small_disk(root, mebibytes=16) as disk, breakable_servers() as servers:
            broker = Breakable(plain.lay_out_redis(root / "redis"))
            broker.start()
            both = BreakableServers(servers.postgresql, broker)
            try:
                with both.platform() as platform:
                    user = platform.operator
                    disk.fill()
                    fill_journal(broker)
                    jobs = [user.submit({"command": f"echo {number}", "resources": SMALL}) for number in range(5)]
                    wait_until(lambda: "takes nothing" in broker_words(platform), "words for operators")
                    disk.free()
                    for job in jobs:
                        ended = user.wait(job)
                        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
                    wait_until(lambda: platform.anonymous.request("GET", "//readyz").status_code == 200, "its recovery")
            finally:
                broker.end()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def fill_journal(broker: Breakable) -> None:
    """Write until Redis notices that its journal has no room: it takes no command that changes anything then."""
    with redis.Redis.from_url(broker.url) as client, contextlib.suppress(redis.ResponseError):
        for number in range(5_000):
            client.set("filling", f"{number}" + "x" * 1_000)


def broker_words(platform: LivePlatform) -> str:
    return str(platform.anonymous.request("GET", "//readyz").json()["checks"]["broker"])
