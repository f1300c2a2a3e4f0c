"""The drill: a platform is put back to a backup while its cluster ran on. Nothing is killed, and nothing runs twice."""

from __future__ import annotations

import os
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(420)]

# Writes its start and its end where only jobs write, with its pid, and prints a numbered line now and then.
SCRIPT = """
import os, sys, time
name = sys.argv[1]
witness = os.open("/witness/log", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o660)
os.write(witness, f"start {name} {os.getpid()}\\n".encode())
number = 0
while not os.path.exists(f"/witness/enough-{name}"):
    print(number, flush=True)
    number += 1
    time.sleep(0.02)
print("last", number, flush=True)
os.write(witness, f"stop {name} {os.getpid()}\\n".encode())
"""


class Quayside:
    """A platform with jobs that somebody lets end, and the witness of all their starts and ends."""

    def __init__(self, platform: LivePlatform) -> None:
        self.platform = platform
        self.volume: Json = platform.operator.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
        self.place = Path(platform.rows(f"SELECT location FROM storage_volume WHERE name = '{self.volume['name']}'")[0][0])

    def submit(self, name: str, **spec: object) -> Json:
        return self.platform.submit(
            {
                "name": name,
                "command": ["/usr/bin/python3", "-c", SCRIPT, name],
                "mounts": [{"volume": self.volume["name"], "path": "/witness"}],
                "resources": {"cpu": 1, "memory": "64Mi"},
                **spec,
            }
        )

    def run(self, name: str) -> Json:
        job = self.submit(name)
        wait_until(lambda: self.witnessed("start", name), f"the start of {name}")
        return self.platform.wait(job, ["running"])

    def end(self, name: str) -> None:
        path = self.place / f"enough-{name}"
        path.touch(mode=0o666)
        wait_until(lambda: self.witnessed("stop", name), f"the end of {name}")

    def witnessed(self, what: str, name: str) -> int:
        return Counter((word[0], word[1]) for word in self.lines())[what, name]

    def lines(self) -> list[list[str]]:
        path = self.place / "log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def assert_ran_once(self, name: str) -> None:
        assert [line[0] for line in self.lines() if line[1] == name] == ["start", "stop"]

    def lives(self, name: str) -> bool:
        """Whether the one process of this job that was ever started still runs."""
        return self.witnessed("start", name) == 1 and self.witnessed("stop", name) == 0 and _runs(name)


def _runs(name: str) -> bool:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:1] == [b"/usr/bin/python3"] and words[3:4] == [name.encode()] and b"/witness/" in words[2]:
                return True
    return False


@pytest.fixture
def quayside() -> Iterator[Quayside]:
    with running_platform() as platform:
        yield Quayside(platform)


@pytest.mark.capability("62", "A backup is restored beside clusters that ran on: nothing is killed, nothing runs twice")
@pytest.mark.capability("120", "A backup is restored beside clusters that ran on: nothing is killed, nothing runs twice")
def test_a_restored_platform_finds_what_ran_on_and_runs_nothing_twice(quayside: Quayside) -> None:
    platform = quayside.platform
    done = platform.submit({"name": "done", "command": "echo done"}, wait=True)
    before = quayside.run("before")
    held = quayside.submit("held", hold=True)
    platform.operator.wait_for_reason(held, "held")
    brief = quayside.run("brief")

    backup = platform.data_dir / "backups" / "drill.tar"
    said = manage(platform, "backup", backup)
    assert said.stdout.strip() == str(backup)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert "HOLDS THE SECRET KEYS" in said.stderr

    platform.api("PATCH", f"/jobs/{held['id']}", {"hold": False})
    wait_until(lambda: quayside.witnessed("start", "held"), "the start of the released job")
    platform.wait(held, ["running"])
    newer = quayside.run("newer")
    quayside.end("brief")
    platform.wait(brief)
    short = platform.submit({"name": "short", "command": "true"}, wait=True)
    wait_until(
        lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE forgotten") == [(3,)], "the ended attempts to be forgotten"
    )
    [(last_seq,)] = platform.rows("SELECT max(seq) FROM activity_event")

    refusal = manage(platform, "restore", backup, refused=True)
    assert "must be stopped" in refusal.stderr
    platform.kill()
    quayside.end("newer")  # It ends while nobody looks.
    restored = manage(platform, "restore", backup)
    assert re.search(r"Restored 4 jobs .* in \d+ seconds", restored.stderr)
    assert "Lost: what was changed in the" in restored.stderr
    platform.start()

    # Nothing was killed; what the database cannot know is listed; what waits for its own attempt does not start.
    assert quayside.lives("before")
    assert quayside.lives("held")
    platform.operator.wait_for_reason(held, "quarantined")
    table = [""]

    def is_seen_ended() -> bool:
        """Its last word came before its end."""
        table[0] = manage(platform, "quarantine").stdout
        return re.search(rf"{newer['id']} +1 +newer +ended +no job waits for it", table[0]) is not None

    wait_until(is_seen_ended, "the end of what ended while nobody looked")
    assert [line.split()[-3:] for line in table[0].splitlines() if "held" in line] == [["fits", "its", "job"]]
    assert platform.operator.request("GET", f"/jobs/{newer['id']}").status_code == 404
    assert platform.operator.request("GET", f"/jobs/{short['id']}").status_code == 404

    def told() -> tuple[bool, str]:
        check = platform.anonymous.request("GET", "//readyz").json()["checks"]["quarantine"]
        return check["ok"], check["detail"]

    wait_until(lambda: told() == (True, "2 attempts undecided"), "what readiness says of it")  # The cluster is asked first.

    # What ended after the backup has lost its result with the database: it runs once more, after the first time.
    wait_until(lambda: quayside.witnessed("stop", "brief") == 2, "the second run of what lost its result")
    assert platform.wait(brief)["state"] == "succeeded"
    assert [line[0] for line in quayside.lines() if line[1] == "brief"] == ["start", "stop"] * 2

    adopted = manage(platform, "quarantine", "--adopt-fitting").stdout
    assert f"is an attempt of job {held['id']} again" in adopted
    running = platform.wait(held, ["running"])
    assert running["attempt"] == 1
    quayside.end("before")
    quayside.end("held")
    for job in (before, held):
        ended = platform.wait(job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
        *numbers, last = platform.logs(job).splitlines()
        assert numbers == [str(number) for number in range(len(numbers))]
        assert last == f"last {len(numbers)}"
    quayside.assert_ran_once("before")
    quayside.assert_ran_once("held")
    quayside.assert_ran_once("newer")
    assert platform.operator.job(done)["state"] == "succeeded"

    [leftover] = platform.operator.items("/quarantine")
    assert (leftover["job"], leftover["running"], leftover["fits"]) == (newer["id"], False, False)
    assert "submitted after the backup" in leftover["problem"]
    assert platform.operator.request("POST", f"/quarantine/{leftover['attempt']}/adopt").status_code == 409
    asked = platform.api("POST", f"/quarantine/{leftover['attempt']}/stop")
    assert asked["decision"] == "stopping"
    wait_until(
        lambda: platform.rows("SELECT quarantine_since_at FROM clusters_cluster") == [(None,)], "the end of the quarantine"
    )

    # Numbers go on where nobody has been, the chain holds, and what is new works as ever.
    fresh = platform.submit({"name": "fresh", "command": "echo fresh"}, wait=True)
    assert platform.logs(fresh) == "fresh\n"
    [(first_new,)] = platform.rows(f"SELECT min(seq) FROM activity_event WHERE job_id = '{_stored(platform, fresh['id'])}'")
    assert first_new > last_seq
    assert "The chain holds" in manage(platform, "verify_audit").stdout
    verbs = platform.rows("SELECT verb FROM activity_auditevent WHERE verb LIKE 'quarantine.%' OR verb = 'installation.restore'")
    assert sorted(verb for (verb,) in verbs) == ["installation.restore", "quarantine.adopt", "quarantine.stop"]
    kept = [path for path in platform.data_dir.iterdir() if path.name.startswith("before-restore-")]
    url = platform.environment.get("BERTH_DATABASE_URL", "")
    name = urlsplit(url).path.lstrip("/")
    beside = platform.rows("SELECT datname FROM pg_database") if platform.is_on_servers else []
    kept_beside = [found for (found,) in beside if found.startswith(f"{name}_")]
    assert len(kept) + len(kept_beside) == 1, (kept, kept_beside)
    for found in kept_beside:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{found}"')  # type: ignore[call-overload]
    assert os.listdir(platform.data_dir / "backups") == ["drill.tar"]


def _stored(platform: LivePlatform, identifier: str) -> str:
    """An id as the database writes it."""
    return identifier if platform.is_on_servers else identifier.replace("-", "")
