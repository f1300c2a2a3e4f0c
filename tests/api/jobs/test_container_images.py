"""A job that names a container image: looked up in a real registry with its tenant's account, and pinned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from images import registry as registries
from jobs.models import Attempt, Job
from jobs.services.compile import CannotCompile, compile_attempts
from kernel import config
from kernel.ids import new_id
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry, registry

pytestmark = pytest.mark.database

HELLO = [Member("hello", b"hello\n")]


@pytest.fixture(scope="module")
def closed() -> Iterator[RealRegistry]:
    with registry(password=PASSWORD) as found:
        yield found


@pytest.fixture
def allowed(closed: RealRegistry) -> Iterator[RealRegistry]:
    before = config.current()
    config.replace(replace(before, registry_plain_hosts=f"{closed.host},127.0.0.1:9", registry_seconds=5.0))
    registries.forget()
    yield closed
    config.replace(before)
    registries.forget()


@pytest.fixture
def account(api, cast, allowed: RealRegistry) -> None:
    url = f"/api/v1/tenants/{cast.tenant.slug}/registries/{allowed.host}"
    assert api(cast.alice).put(url, {"username": USER, "password": PASSWORD}, format="json").status_code == 201


def submit(api, cast, image: str, key: str = "", **spec):
    body = {"tenant": cast.tenant.slug, "spec": {"name": "a", "image": image, "command": ["true"], **spec}}
    headers = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
    return api(cast.bob).post("/api/v1/jobs", body, format="json", **headers)


def submit_lines(api, cast, images: list[str], **headers):
    lines = "\n".join(json.dumps({"name": "b", "image": image, "command": ["true"]}) for image in images)
    url = f"/api/v1/jobs:batch?tenant={cast.tenant.slug}"
    return api(cast.bob).post(url, lines, content_type="application/x-ndjson", **headers)


def job_of(answer) -> Job:
    assert answer.status_code == 201, answer.content
    return Job.objects.get(id=answer.data["id"])


def refusal(answer) -> tuple[str, str]:
    assert answer.status_code == 422, answer.content
    (field,) = answer.json()["fields"]
    return field["path"], field["code"]


def compiled(job: Job):
    """What an engine would be given for an attempt of the job."""
    attempt = Attempt(id=new_id(), job=job, number=1, tenant_id=job.tenant_id)
    (found,) = compile_attempts([attempt])
    return found


@pytest.mark.usefixtures("account")
def test_a_tag_is_pinned_to_what_it_means_when_the_job_is_submitted(api, cast, allowed) -> None:
    first = allowed.push("team/app:latest", [HELLO])
    job = job_of(submit(api, cast, f"{allowed.host}/team/app"))
    assert job.image_digest == first
    allowed.push("team/app:latest", [[Member("hello", b"another\n")]])
    image = compiled(job).image
    assert (image.digest, image.location) == (first, f"{allowed.host}/team/app:latest@{first}")
    assert image.pull is not None
    assert (image.pull.host, image.pull.username, image.pull.password) == (allowed.host, USER, PASSWORD)
    assert PASSWORD not in repr(image)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("name", "code"), [("team/app:absent", "image_absent"), ("Team/App:1", "bad_reference"), ("team/arm:1", "image_unusable")]
)
def test_what_the_registry_does_not_have_is_refused_at_its_field(api, cast, allowed, name: str, code: str) -> None:
    allowed.push("team/arm:1", [HELLO], architecture="arm64")
    assert refusal(submit(api, cast, f"{allowed.host}/{name}")) == ("/image", code)
    assert not Job.objects.exists()


def test_without_an_account_a_private_image_is_refused(api, cast, allowed) -> None:
    allowed.push("team/app:1", [HELLO])
    answer = submit(api, cast, f"{allowed.host}/team/app:1")
    assert refusal(answer) == ("/image", "image_denied")
    assert "berth registries add" in answer.json()["fields"][0]["hint"]


@pytest.mark.usefixtures("account")
def test_an_account_of_one_tenant_opens_nothing_for_another(api, cast, allowed) -> None:
    digest = allowed.push("team/app:1", [HELLO])
    job_of(submit(api, cast, f"{allowed.host}/team/app:1"))
    for name in ("team/app:1", f"team/app@{digest}"):
        body = {"spec": {"name": "a", "image": f"{allowed.host}/{name}", "command": ["true"]}}
        assert refusal(api(cast.carol).post("/api/v1/jobs", body, format="json")) == ("/image", "image_denied")


def test_a_registry_that_is_not_allowed_is_refused(api, cast, allowed) -> None:
    assert refusal(submit(api, cast, "169.254.169.254/latest/meta-data:1")) == ("/image", "registry_refused")


@pytest.mark.usefixtures("account")
def test_while_the_registry_is_away_a_job_is_accepted_and_pinned_when_it_starts(api, cast, allowed) -> None:
    digest = allowed.push("team/app:1", [HELLO])
    allowed.stop()
    try:
        plan = api(cast.bob).post(
            "/api/v1/jobs?dry_run=true",
            {"tenant": cast.tenant.slug, "spec": {"name": "a", "image": f"{allowed.host}/team/app:1", "command": ["true"]}},
            format="json",
        )
        assert any("checked when the job starts" in warning for warning in plan.data["warnings"]), plan.data
        job = job_of(submit(api, cast, f"{allowed.host}/team/app:1"))
        pinned = job_of(submit(api, cast, f"{allowed.host}/team/app@{digest}"))
        assert (job.image_digest, pinned.image_digest) == ("", digest)
        unknown = compiled(job).image
        assert (unknown.location, unknown.unchecked) == (f"{allowed.host}/team/app:1", True), "the engine is left to try"
        assert compiled(pinned).image.unchecked
    finally:
        allowed.start()
    registries.forget()
    image = compiled(job).image
    assert (image.digest, image.unchecked) == (digest, False)
    job.refresh_from_db()
    assert job.image_digest == digest


@pytest.mark.usefixtures("account")
def test_a_start_is_refused_with_the_reason_where_the_image_is_gone(api, cast, allowed) -> None:
    allowed.push("team/app:1", [HELLO])
    allowed.stop()
    try:
        job = job_of(submit(api, cast, f"{allowed.host}/team/other:1"))
    finally:
        allowed.start()
    registries.forget()
    found = compiled(job)
    assert isinstance(found, CannotCompile)
    assert found.code == "image_absent"


@pytest.mark.usefixtures("account")
def test_registries_are_asked_before_the_transaction_of_a_key(api, cast, allowed, monkeypatch) -> None:
    """A transaction that waits for another server would keep all writers of SQLite waiting."""
    from django.db import connection

    allowed.push("team/app:1", [HELLO])
    depth, inside = len(connection.savepoint_ids), []
    ask = registries._ask

    def noting(*arguments):
        inside.append(len(connection.savepoint_ids) > depth)
        return ask(*arguments)

    monkeypatch.setattr(registries, "_ask", noting)
    job_of(submit(api, cast, f"{allowed.host}/team/app:1", key="one"))
    refused = submit_lines(api, cast, [f"{allowed.host}/team/app:{tag}" for tag in ("1", "2")], HTTP_IDEMPOTENCY_KEY="two")
    assert [(field["path"], field["code"]) for field in refused.json()["fields"]] == [("/items/1/image", "image_absent")]
    assert inside == [False, False]


def test_a_batch_waits_once_for_a_registry_that_is_away(api, cast, allowed, monkeypatch) -> None:
    asked = []
    ask = registries._ask
    monkeypatch.setattr(registries, "_ask", lambda *arguments: asked.append(arguments) or ask(*arguments))
    assert submit_lines(api, cast, [f"127.0.0.1:9/team/app:{tag}" for tag in range(20)]).status_code == 201
    assert len(asked) == 1


@pytest.mark.usefixtures("account")
def test_a_password_is_in_no_row_of_a_job(api, cast, allowed) -> None:
    allowed.push("team/app:1", [HELLO])
    job = job_of(submit(api, cast, f"{allowed.host}/team/app:1"))
    assert PASSWORD not in json.dumps(list(Job.objects.filter(id=job.id).values()), default=str)
