"""Files go in through the API, jobs read and write them where they may, and files come out again."""

from __future__ import annotations

import hashlib
import os
import uuid

import pytest

from tests.builders.live import LivePlatform

pytestmark = [pytest.mark.engines, pytest.mark.database]


@pytest.mark.capability("44", "A job reads what was uploaded, writes what is downloaded, and changes nothing that is read-only")
def test_a_job_reads_what_was_uploaded_and_writes_what_is_downloaded(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    number = uuid.uuid4().hex[:8]
    inputs, results = operator.make_volume(f"inputs-{number}"), operator.make_volume(f"results-{number}")
    content = os.urandom(2_000_000)
    operator.upload({"volume": inputs["id"], "path": "sets/digits.bin"}, content)
    command = """
        sha256sum < /data/sets/digits.bin | tee /results/digest
        echo planted > /data/planted || echo refused
        echo more >> /data/sets/digits.bin || echo refused
        mkdir /data/folder || echo refused
    """
    mounts = [
        {"volume": inputs["name"], "path": "/data", "read_only": True},
        {"volume": results["name"], "path": "/results"},
    ]
    job = operator.submit({"name": "reader", "command": command, "mounts": mounts}, wait=True)
    digest = hashlib.sha256(content).hexdigest()
    assert operator.logs(job, stream="stdout").split() == [digest, "-", "refused", "refused", "refused"]
    assert operator.download(f"/volumes/{results['id']}/content", path="digest").decode().split()[0] == digest
    assert operator.download(f"/volumes/{inputs['id']}/content", path="sets/digits.bin") == content
    listed = operator.api("GET", f"/volumes/{inputs['id']}/files")
    assert [item["path"] for item in listed["items"]] == ["sets"]


@pytest.mark.capability("44", "A volume of another tenant is read after a grant, and refused without one")
def test_a_granted_volume_is_read_by_the_other_tenant_and_written_by_its_own_only(live_platform: LivePlatform) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root the local cluster takes jobs of one tenant only")
    number = uuid.uuid4().hex[:8]
    owner = live_platform.person("olga", tenant="Owners", role="manager")
    guest = live_platform.person("gus", tenant="Guests", role="manager")
    volume = owner.make_volume(f"shared-{number}")
    owner.upload({"volume": volume["id"], "path": "greeting"}, b"hello\n")
    name = f"{owner.tenant}/{volume['name']}"
    reading = {"name": "guest", "command": "cat /data/greeting", "mounts": [{"volume": name, "path": "/data", "read_only": True}]}
    before = guest.request("POST", "/jobs", json={"spec": reading})
    assert before.json()["fields"][0]["path"] == "/mounts/0/volume"
    owner.api("POST", f"/volumes/{volume['id']}/grants", {"tenant": guest.tenant, "read_only": True})
    job = guest.submit(reading, wait=True)
    assert (job["state"], guest.logs(job)) == ("succeeded", "hello\n")
    writing = {**reading, "mounts": [{"volume": name, "path": "/data"}]}
    assert guest.request("POST", "/jobs", json={"spec": writing}).json()["fields"][0]["code"] == "volume_read_only"
    writer = owner.submit(
        {"name": "owner", "command": "echo more >> /data/greeting", "mounts": [{"volume": volume["name"], "path": "/data"}]},
        wait=True,
    )
    assert writer["state"] == "succeeded"
    assert owner.download(f"/volumes/{volume['id']}/content", path="greeting") == b"hello\nmore\n"


def test_tenants_that_write_one_volume_read_each_others_files(live_platform: LivePlatform) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root the local cluster takes jobs of one tenant only")
    owner = live_platform.person("olga", tenant="Owners", role="manager")
    guest = live_platform.person("gus", tenant="Guests", role="manager")
    volume = owner.make_volume(f"both-{uuid.uuid4().hex[:8]}")
    owner.api("POST", f"/volumes/{volume['id']}/grants", {"tenant": guest.tenant, "read_only": False})
    for user, name in ((owner, volume["name"]), (guest, f"{owner.tenant}/{volume['name']}"), (owner, volume["name"])):
        command = (
            "umask 077; echo line >> /data/log; mkdir -p /data/deep/er; echo x > /data/deep/er/$BERTH_USER; cat /data/deep/er/*"
        )
        job = user.submit({"name": "both", "command": command, "mounts": [{"volume": name, "path": "/data"}]}, wait=True)
        assert job["state"] == "succeeded", user.logs(job)
    assert owner.download(f"/volumes/{volume['id']}/content", path="log") == b"line\n" * 3
