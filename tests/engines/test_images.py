"""An image is asked for by its requirements, built by a job of its tenant, and run in."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, LiveUser, wait_until
from tests.factories.images import a_wheel

pytestmark = [pytest.mark.engines, pytest.mark.database]
BUILD_SECONDS = 240.0  # Unpacking some hundred megabytes beside other tests takes a minute and more.


def asked_for(user: LiveUser, name: str, requirements: str) -> Json:
    made: Json = user.api("POST", "/images", {"name": name, "kind": "python", "requirements": requirements, **user.in_tenant})
    return made


def built(user: LiveUser, name: str, requirements: str) -> Json:
    """Ask for an image and wait until it is ready."""
    image = asked_for(user, name, requirements)
    is_over = ("ready", "failed")
    wait_until(
        lambda: user.api("GET", f"/images/{image['id']}")["state"] in is_over, f"the build of {name}", timeout=BUILD_SECONDS
    )
    found: Json = user.api("GET", f"/images/{image['id']}")
    assert found["state"] == "ready", f"{found['error']}\n{user.logs(found['build_job_id'])}"
    return found


@pytest.mark.capability("28", "A job runs in the Python environment that a job of its tenant has built")
def test_a_job_runs_in_an_image_that_a_job_has_built(live_platform: LivePlatform, wheels: Path) -> None:
    package = f"alpha{uuid.uuid4().hex[:6]}"
    a_wheel(wheels, package, "1.5")
    image = built(live_platform.operator, package, f"{package}\n")
    build = live_platform.operator.job(image["build_job_id"])
    assert (build["kind"], build["state"], build["user"]["name"]) == ("build", "succeeded", live_platform.operator.name)
    assert "[5/5]" in live_platform.logs(build)
    script = f"import {package}, sys; print({package}.VERSION); open(sys.prefix + '/planted', 'w')"
    job = live_platform.submit({"name": "inside", "image": package, "command": ["python", "-c", script]}, wait=True)
    text = live_platform.logs(job)
    assert "1.5\n" in text  # Two streams: which arrives first is nobody's promise.
    assert "PermissionError" in text or "Read-only" in text
    assert job["image"] == {"name": package, "digest": image["digest"]}


def test_a_job_waits_for_its_image_and_starts_when_it_is_built(live_platform: LivePlatform, wheels: Path) -> None:
    package = f"beta{uuid.uuid4().hex[:6]}"
    a_wheel(wheels, package)
    asked_for(live_platform.operator, package, package)
    job = live_platform.submit({"name": "early", "image": package, "command": f"python -c 'import {package}'"})
    assert job["state"] == "queued"
    assert live_platform.wait(job)["state"] == "succeeded"


def test_a_build_that_fails_says_why_and_so_does_the_job_that_waits_for_it(live_platform: LivePlatform) -> None:
    name = f"gone{uuid.uuid4().hex[:6]}"
    image = asked_for(live_platform.operator, name, "no-such-package-anywhere")
    job = live_platform.submit({"name": "never", "image": name, "command": "true"})
    wait_until(lambda: live_platform.api("GET", f"/images/{image['id']}")["state"] == "failed", "the failure of the build")
    failed = live_platform.api("GET", f"/images/{image['id']}")
    assert "no-such-package-anywhere" in live_platform.logs(failed["build_job_id"])
    assert failed["error"]
    ended = live_platform.wait(job)
    assert (ended["state"], ended["attempt"]) == ("failed", 0)
    assert ended["reason"]["detail"] == {"image": name}
