"""The whole line with the local engine and real processes: built as its tenant, sealed, run in, logged, brought home."""

from __future__ import annotations

import dataclasses
import os
import tarfile
import uuid
from collections.abc import Iterator

import pytest

from clusters.engines.interface import (
    CodeRef,
    HostDir,
    MountRef,
)
from clusters.engines.local import sandbox
from clusters.engines.local.engine import LocalEngine
from images import builder, hostaccess
from images.services import build_finished, build_plan, build_started, resolve_image
from kernel.ids import new_id
from storage.selectors import list_artifacts
from storage.services.artifacts import OutputSource, collect_outputs
from tests.factories.images import a_wheel, fill_environment, make_image, request_of
from tests.factories.local_jobs import log_of, make_engine, run, stop_all, workload
from tests.factories.tenants import make_tenant, now

pytestmark = [pytest.mark.database, pytest.mark.engines]


@pytest.fixture(params=["sandbox", "plain"])
def engine(request, monkeypatch) -> Iterator[LocalEngine]:
    """The local engine with bubblewrap where it works, and as it is where it does not."""
    if request.param == "plain":
        monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    elif sandbox.bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")
    made = make_engine()
    yield made
    stop_all(made)


@pytest.fixture
def offline(data_dir, monkeypatch):
    """A package index without network: a folder beside the pip that builds get, visible in every sandbox."""
    folder = data_dir / f"tools-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    wheel = a_wheel(folder, "alpha", "1.5")
    offer = builder.host_offer(folder, {})
    assert offer.pip is not None
    bundle = folder / "bundle.tar.gz"
    with tarfile.open(offer.pip.location) as packed, tarfile.open(bundle, "w:gz") as both:
        for member in packed:
            both.addfile(member, packed.extractfile(member))
        both.add(wheel, f"wheels/{wheel.name}")
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "wheels"}
    made = dataclasses.replace(offer, pip=CodeRef(offer.pip.digest, str(bundle)), settings=settings)
    monkeypatch.setattr(builder, "host_offer", lambda tools, environment=None: made)


@pytest.mark.capability("72", "Python environments are built and run")
def test_an_image_is_built_as_its_tenant_and_jobs_run_in_it(engine, offline):
    tenant = make_tenant()
    image = make_image(tenant, "env", requirements="alpha\n")
    hostaccess.remove_environment(image.location)  # Left by another test, whose tenant had the same number.
    request_id = request_of(image)
    build_started(request_id, job_id=new_id(), now=now())
    plan = build_plan(request_id)
    host = resolve_image(tenant_id=tenant.pk, text="host")
    building = workload(
        tenant,
        host.ref,
        plan.main.argv,
        env=plan.main.env,
        files=plan.files,
        code=plan.code,
        mounts=(MountRef(plan.request_id, HostDir(plan.location), plan.location, read_only=False),),
    )
    code = run(engine, building)
    text = log_of(engine, tenant, building)
    assert code == 0, text
    assert "[2/5] Installing" in text
    build_finished(request_id, succeeded=True, reason="", now=now())
    found = resolve_image(tenant_id=tenant.pk, text="env")
    assert found.is_ready

    script = (
        "import alpha, os, sys\n"
        "print(alpha.VERSION, sys.prefix)\n"
        "os.makedirs('model'); open('model/w', 'w').write('weights')\n"
        "open(sys.prefix + '/evil', 'w')\n"
    )
    using = workload(tenant, found.ref, (("python",), ("-c",), (script,)))
    assert run(engine, using) == 1
    text = log_of(engine, tenant, using)
    assert f"1.5 {image.location}" in text
    assert "PermissionError" in text or "Read-only" in text
    done = collect_outputs(engine, OutputSource(tenant.pk, using.job_id, using.attempt_id), ["model"], now=now())
    assert (done.file_count, done.marker) == (1, "")
    assert [row.path for row in list_artifacts(using.attempt_id)] == ["model/w"]


def test_another_tenant_cannot_read_the_environment(engine, offline):
    if os.geteuid() != 0:
        pytest.skip("without root all tenants are one user, and the local cluster takes jobs of one tenant only")
    tenant, other = make_tenant(), make_tenant()
    image = make_image(tenant, "env", requirements="alpha\n")
    fill_environment(image)
    build_finished(request_of(image), succeeded=True, reason="", now=now())
    host = resolve_image(tenant_id=other.pk, text="host")
    reading = workload(other, host.ref, (("cat",), (f"{image.location}/berth-image.json",)))
    assert run(engine, reading) != 0
    assert "numpy" not in log_of(engine, other, reading)
