"""Container images that jobs build: a real registry, real buildah and skopeo, the platform as it is installed.

Nothing comes from elsewhere: the base image holds Debian's static busybox.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator

import pytest

from tests.builders.command import berth
from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry, folder, registry, shell, tar

pytestmark = [pytest.mark.engines, pytest.mark.database]
BUILD_SECONDS = 120.0  # A build takes five; other tests run beside it.

# What a base image has for Python in these tests: it shows what it is started with.
PYTHON = b"""#!/bin/sh
echo "installs: $*"
cat /usr/share/berth/requirements.txt
cat /etc/pip.conf
echo made >/installed
"""


@pytest.fixture(scope="module")
def closed() -> Iterator[RealRegistry]:
    with registry(password=PASSWORD) as found:
        found.push("team/base:1", [shell()])
        python = Member("usr/bin/python3", PYTHON, 0o755)
        found.push("team/python:3", [[*shell(), folder("usr"), folder("usr/bin"), python]], env=["PATH=/usr/bin:/bin"])
        yield found


@pytest.fixture(scope="module")
def live_platform(closed: RealRegistry) -> Iterator[LivePlatform]:
    profile = os.environ.get("BERTH_TEST_PROFILE", "embedded")
    settings = {"BERTH_REGISTRY_PLAIN_HOSTS": closed.host, "PIP_INDEX_URL": "https://index.example.org/simple"}
    with running_platform(BERTH_SERVER_PROFILE=profile, **settings) as platform:
        give_account(platform, closed)
        yield platform


def give_account(platform: LivePlatform, closed: RealRegistry) -> None:
    body = {"username": USER, "password": PASSWORD}
    platform.api("PUT", f"/tenants/{tenant_of(platform)}/registries/{closed.host}", body)


def tenant_of(platform: LivePlatform) -> str:
    slug: str = platform.operator.items("/tenants")[0]["slug"]
    return slug


def asked_for(platform: LivePlatform, closed: RealRegistry, name: str, **build: object) -> Json:
    body = {"name": name, "kind": "registry", "reference": f"{closed.host}/team/{name}:1", **build, **platform.operator.in_tenant}
    made: Json = platform.api("POST", "/images", body)
    return made


def ended(platform: LivePlatform, image: Json) -> Json:
    address = f"/images/{image['id']}"
    wait_until(lambda: platform.api("GET", address)["state"] in ("ready", "failed"), "the build's end", timeout=BUILD_SECONDS)
    found: Json = platform.api("GET", address)
    return found


def built(platform: LivePlatform, closed: RealRegistry, name: str, **build: object) -> Json:
    image = ended(platform, asked_for(platform, closed, name, **build))
    job = image["build_job_id"]
    assert image["state"] == "ready", f"{image['error']}\n{platform.logs(job) if job else ''}"
    return image


def test_a_job_runs_in_the_container_image_that_a_job_has_built(live_platform: LivePlatform, closed: RealRegistry) -> None:
    context = live_platform.operator.upload({"code": True}, gzip.compress(tar([Member("hello", b"from the context\n")]), mtime=0))
    text = f"FROM {closed.host}/team/base:1\nCOPY hello /hello\nRUN id >/who && chown 5:6 /hello && cat /hello\n"
    image = built(live_platform, closed, "made", containerfile=text, context_sha256=context["sha256"])
    build = live_platform.operator.job(image["build_job_id"])
    assert (build["kind"], build["state"], build["user"]["name"]) == ("build", "succeeded", live_platform.operator.name)
    said = live_platform.logs(build)
    assert "from the context" in said
    assert PASSWORD not in said
    assert image["pinned"]
    assert image["digest"].startswith("sha256:")
    closed.push("team/made:1", [shell()])  # The tag means another content now.
    job = live_platform.submit({"name": "inside", "image": "made", "command": ["/bin/sh", "-c", "cat /hello /who"]}, wait=True)
    assert (job["state"], job["image"]) == ("succeeded", {"name": "made", "digest": image["digest"]})
    assert live_platform.logs(job) == "from the context\nuid=0 gid=0\n"


def test_a_crash_after_the_push_leaves_an_image_and_nothing_on_this_host(
    live_platform: LivePlatform, closed: RealRegistry
) -> None:
    live_platform.crash_at("images.build.after_push")
    image = asked_for(live_platform, closed, "crashed", containerfile="FROM scratch\nLABEL a=b\n")
    wait_until(lambda: not live_platform.is_armed, "a process that dies after the push", timeout=BUILD_SECONDS)
    if not live_platform.is_production:
        assert live_platform.process is not None
        live_platform.process.wait(30)
        live_platform.start()
    assert ended(live_platform, image)["state"] == "ready"
    assert len(live_platform.api("GET", f"/images/{image['id']}/builds")["items"]) == 1

    def left() -> list[str]:
        return [str(path) for path in (live_platform.data_dir / "images").glob("*/*")]

    wait_until(lambda: left() == [], "what the build left to be removed")


def test_requirements_are_installed_into_a_base_image(live_platform: LivePlatform, closed: RealRegistry) -> None:
    image = built(live_platform, closed, "env", base=f"{closed.host}/team/python:3", requirements="numpy\n")
    said = live_platform.logs(image["build_job_id"])
    assert "installs: -m pip install" in said
    assert "\nnumpy\n" in said
    assert "index-url = https://index.example.org/simple" in said
    script = "ls /installed /usr/share/berth; cat /etc/pip.conf || true"
    job = live_platform.submit({"name": "inside", "image": "env", "command": ["/bin/sh", "-c", script]}, wait=True)
    assert "/installed" in (inside := live_platform.logs(job))
    assert "index.example.org" not in inside, "settings of the build stay out of the image"


def test_a_build_that_fails_shows_its_last_lines(live_platform: LivePlatform, closed: RealRegistry) -> None:
    text = f"FROM {closed.host}/team/base:1\nRUN echo before && no-such-program\n"
    image = ended(live_platform, asked_for(live_platform, closed, "broken", containerfile=text))
    assert image["state"] == "failed"
    assert "no-such-program: not found" in image["error"]
    assert image["digest"] is None
    refused = live_platform.operator.request(
        "POST", "/jobs", json={"spec": {"name": "x", "image": "broken", "command": "true"}, **live_platform.operator.in_tenant}
    )
    assert refused.status_code == 422
    assert "no-such-program" in refused.text


def test_a_base_image_that_is_not_there_is_refused_when_it_is_asked_for(
    live_platform: LivePlatform, closed: RealRegistry
) -> None:
    body = {"name": "x", "kind": "registry", "reference": f"{closed.host}/team/x:1", **live_platform.operator.in_tenant}
    text = f"FROM {closed.host}/team/absent:1\n"
    refused = live_platform.operator.request("POST", "/images", json={**body, "containerfile": text})
    assert refused.status_code == 422
    assert [(field["path"], field["code"]) for field in refused.json()["fields"]] == [("/containerfile", "image_absent")]


ATTACK = (
    "cat /etc/shadow /proc/*/root/etc/shadow",
    "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'",
    "mount -t tmpfs none /mnt && echo MOUN''TED",
    "mount -o bind /proc/1/root /mnt && echo BOU''ND",
    "mknod /disk b 8 0 && echo NO''DE",
    "for each in /proc/[0-9]*/root; do touch $each/usr/planted $each/berth/files/planted && echo PLAN''TED; done",
    "for each in /proc/[0-9]*/root; do cat $each/tmp/auth.json; ls $each/root $each/berth/files; done",
    "(while true; do cat /proc/*/root/tmp/auth.json; sleep 0.1; done) & kill -9 -1",
    "true",
)
"""What a step of a Containerfile may try. Its words are shown by the build itself, so what would be bad is spelled apart."""


def test_a_step_that_attacks_has_its_tenants_rights_and_sees_no_account(
    live_platform: LivePlatform, closed: RealRegistry
) -> None:
    text = f"FROM {closed.host}/team/base:1\nRUN {'; '.join(ATTACK)}\n"
    image = ended(live_platform, asked_for(live_platform, closed, "attack", containerfile=text))
    said = live_platform.logs(image["build_job_id"])
    for word in (PASSWORD, "BERTH_BUILD_ACCOUNT", "root:x:", "root:*:", "MOUNTED", "BOUND", "NODE", "PLANTED", "auths"):
        assert word not in said, said
    assert not os.path.exists("/usr/planted")


def test_nothing_is_started_beside_a_task_that_holds_the_account(live_platform: LivePlatform, closed: RealRegistry) -> None:
    text = f"FROM {closed.host}/team/base:1\nRUN sleep 20\n"
    image = asked_for(live_platform, closed, "slow", containerfile=text)
    address = f"/images/{image['id']}"
    wait_until(lambda: live_platform.api("GET", address)["build_job_id"], "the build's job")
    job = live_platform.api("GET", address)["build_job_id"]
    live_platform.operator.wait(job, ("running",))
    live_platform.operator.wait_for_line(job, "RUN sleep 20")
    with pytest.raises(AssertionError, match="takes no programs beside its tasks") as refused:
        berth(live_platform.operator, "exec", "--role", "transfer", job, "--", "cat", "/tmp/auth.json")
    assert PASSWORD not in str(refused.value)
    live_platform.operator.stop(job)
    assert ended(live_platform, image)["state"] == "failed"


def test_a_push_that_the_registry_refuses_says_who_can_help(live_platform: LivePlatform, closed: RealRegistry) -> None:
    live_platform.api("DELETE", f"/tenants/{tenant_of(live_platform)}/registries/{closed.host}")
    try:
        began = time.monotonic()
        image = ended(live_platform, asked_for(live_platform, closed, "closed", containerfile="FROM scratch\nLABEL a=b\n"))
        assert image["state"] == "failed"
        assert image["error"].startswith("image_denied: ")
        assert f"berth registries add {closed.host}" in image["error"]
        assert time.monotonic() - began < BUILD_SECONDS
    finally:
        give_account(live_platform, closed)
