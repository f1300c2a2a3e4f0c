"""A filled database of the release before, made by that release: the present one takes it up, and everything is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(420)]

LASTING = (
    "id", "name", "kind", "state", "desired", "exit", "tenant", "queue", "user", "labels", "hold", "attempt", "submitted_at",
    "started_at", "ended_at",
)  # fmt: skip
UNTIL_TOLD = "echo begun; while [ ! -e /shared/enough ]; do sleep 0.1; done; echo ended"


@pytest.fixture
def platform(release_before: Path) -> Iterator[LivePlatform]:
    with running_platform(release=release_before) as made:
        yield made


@pytest.mark.capability(
    "120", "A filled database of the release before moves forward under its running jobs, and back without a restore"
)
def test_a_filled_database_moves_forward_under_its_running_jobs_and_back_again(
    platform: LivePlatform, release_before: Path
) -> None:
    operator = platform.operator
    assert operator.api("GET", "/info")["version"] == "0.1.0"
    volume = operator.make_volume("shared")
    place = Path(platform.rows("SELECT location FROM storage_volume WHERE name = 'shared'")[0][0])
    operator.upload({"volume": volume["id"], "path": "data.txt"}, b"kept")
    operator.api("PUT", "/tenants/" + operator.tenant + "/secrets/TOKEN", {"value": "a secret kept for later"})
    mounts = [{"volume": "shared", "path": "/shared"}]
    good = platform.submit({"name": "good", "command": "echo good", "labels": {"kind": "old"}}, wait=True)
    bad = platform.submit({"name": "bad", "command": "exit 3"}, wait=True)
    array = platform.submit({"name": "array", "command": "true", "array": {"size": 3}}, wait=True)
    held = platform.submit(
        {"name": "held", "command": ["/bin/sh", "-c", 'test -n "$T"'], "hold": True, "secrets": {"T": "TOKEN"}}
    )
    running = platform.submit({"name": "running", "command": UNTIL_TOLD, "mounts": mounts}, wait=["running"])
    behind = platform.submit({"name": "behind", "command": "true", "after_ok": [running["id"]]})
    assert (good["state"], bad["state"], array["state"]) == ("succeeded", "failed", "succeeded")
    wait_until(lambda: platform.logs(running) == "begun\n", "the first line")
    audit = operator.items("/audit")
    platform.stop()

    platform.release = None
    platform.start()
    assert operator.api("GET", "/info")["version"] != "0.1.0"
    for job in (good, bad, array, held, behind):
        assert _lasting(operator.job(job)) == _lasting(job)
    assert platform.logs(good) == "good\n"
    assert operator.job(running)["state"] == "running"
    assert operator.download(f"/volumes/{volume['id']}/content", path="data.txt") == b"kept"
    assert [row["id"] for row in operator.items("/audit")][-len(audit) :] == [row["id"] for row in audit]
    assert "The chain holds" in manage(platform, "verify_audit").stdout
    agreed = manage(platform, "ledger", "--fold").stdout  # What the release before wrote is counted, and none of it twice.
    assert "5 ended attempts." in agreed
    assert "Everything agrees." in agreed
    fates = {row["id"]: row["attempts"] for row in operator.items("/usage", group_by="fate")}
    assert fates == {"useful": 4, "failed": 1}
    operator.api("PATCH", f"/jobs/{held['id']}", {"hold": False})
    assert platform.wait(held)["state"] == "succeeded"  # Its secret was sealed by the release before.
    assert platform.submit({"name": "new", "command": "echo new"}, wait=True)["state"] == "succeeded"
    second = platform.submit({"name": "second", "command": UNTIL_TOLD, "mounts": mounts}, wait=["running"])
    platform.stop()

    platform.release = release_before  # Back, on the tables of the present one, without a restore.
    platform.start()
    assert operator.api("GET", "/info")["version"] == "0.1.0"
    assert operator.job(second)["state"] == "running"
    third = platform.submit({"name": "third", "command": "echo third"}, wait=True)
    assert platform.logs(third) == "third\n"
    (place / "enough").touch()
    assert [platform.wait(job)["state"] for job in (running, behind, second)] == ["succeeded"] * 3
    assert platform.logs(second) == platform.logs(running) == "begun\nended\n"
    platform.stop()

    platform.release = None
    platform.start()
    assert [operator.job(job)["attempt"] for job in (running, behind, second, third)] == [1] * 4
    assert platform.submit({"name": "last", "command": "true"}, wait=True)["state"] == "succeeded"
    assert "The chain holds" in manage(platform, "verify_audit").stdout
    agreed = manage(platform, "ledger", "--fold").stdout  # Also with what it wrote on the tables of the present one.
    assert "Everything agrees." in agreed


def _lasting(job: Json) -> Json:
    """What the release before told of a job and what stays so while it waits."""
    return {name: job[name] for name in LASTING}
