"""A volume as jobs see it, with the local engine and real processes: written by its tenant, read by whom it is granted to."""

from __future__ import annotations

import os

import pytest

from clusters.engines.interface import ImageKind, ImageRef
from clusters.engines.local import sandbox
from storage.services.files import list_files, open_file
from storage.services.mounts import MountRequest, resolve_mounts
from storage.services.uploads import append_bytes
from storage.services.volumes import grant_volume
from tests.factories.local_jobs import log_of, make_engine, run, stop_all, workload
from tests.factories.storage import an_upload, make_volume
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = [pytest.mark.database, pytest.mark.engines]

HOST = ImageRef(ImageKind.HOST, digest="host")


def sh(text: str):
    return (("/bin/sh",), ("-c",), (text,))


@pytest.fixture
def engine():
    if sandbox.bubblewrap() is None:
        pytest.skip("volumes appear in jobs through bubblewrap, which does not work here")
    made = make_engine()
    yield made
    stop_all(made)


def test_what_was_uploaded_is_read_by_a_job_and_what_it_wrote_is_fetched(engine):
    tenant, other = make_tenant(), make_tenant()
    volume = make_volume(tenant, "data")
    append_bytes(
        actor=SYSTEM, upload=an_upload(tenant, b"pixels\n", volume=volume, path="in/train"), offset=0, data=b"pixels\n", now=now()
    )
    mounts = resolve_mounts(tenant_id=tenant.pk, mounts=[MountRequest("data", "/data")])
    writing = workload(tenant, HOST, sh("cat /data/in/train && mkdir /data/out && echo 42 > /data/out/result"), mounts=mounts)
    assert run(engine, writing) == 0, log_of(engine, tenant, writing)
    assert "pixels" in log_of(engine, tenant, writing)
    found = list_files(volume, tenant.pk, "out", limit=10).files
    assert [file.path for file in found] == ["out/result"]
    opened = open_file(volume, tenant.pk, "out/result")
    assert os.read(opened.descriptor, 100) == b"42\n"
    os.close(opened.descriptor)

    grant_volume(actor=SYSTEM, volume=volume, tenant_id=other.pk, read_only=True, now=now())
    mounts = resolve_mounts(tenant_id=other.pk, mounts=[MountRequest(f"{tenant.slug}/data", "/data", read_only=True)])
    script = "cat /data/in/train; echo evil > /data/in/train || echo refused; touch /data/new || echo refused"
    reading = workload(other, HOST, sh(script), mounts=mounts)
    assert run(engine, reading) == 0
    text = log_of(engine, other, reading)
    assert "pixels" in text
    assert text.count("refused") == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="without root all tenants are one user")
def test_a_volume_that_is_not_granted_is_out_of_reach(engine):
    tenant, other = make_tenant(), make_tenant()
    volume = make_volume(tenant, "data")
    append_bytes(actor=SYSTEM, upload=an_upload(tenant, b"canary", volume=volume, path="f"), offset=0, data=b"canary", now=now())
    reading = workload(other, HOST, sh(f"cat {volume.location}/f || ls {volume.location}"))
    assert run(engine, reading) != 0
    assert "canary" not in log_of(engine, other, reading)
