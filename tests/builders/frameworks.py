"""Real distributed frameworks for jobs of tests: each has an environment that was made once, outside the checkout.

    @pytest.mark.frameworks
    def test_a_cluster_of_ray(live_platform: LivePlatform) -> None:
        ray = framework_path("ray")                               # its bin folder, as jobs see it
        live_platform.submit({..., "env": {"PATH": f"{ray}:{SYSTEM_PATH}"}})

`tools/frameworks.py` makes the environments. They lie in a cache, which no job sees: a sandbox shows the folders of the system
and none beside. So the platform of these tests (`tests/frameworks/conftest.py`) starts in a mount namespace of its own, where the
environments appear, to be read only, in a folder of the system that Debian leaves empty. No other process sees them there, and
nothing is left of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from tests.builders.live import Json, LivePlatform
from tools.frameworks import Environments

SEEN = "/usr/local/src"  # Where the platform of these tests and its jobs see the environments.
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"  # Of every job that sets none.
SHOW = 'mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" && shift 2 && exec "$@"'
NEEDS_JAVA = ("spark",)


def framework_path(name: str) -> str:
    """The bin folder of a framework, as jobs of `live_platform` see it. Skips the test where it is not there; fails it where CI
    is set, which has all of them."""
    if not is_namespace_possible():
        _leave(f"Only root can show jobs the environments of frameworks, in {SEEN}, which has to be there and empty.")
    environments = Environments.cached()
    if environments.missing([name]):
        _leave(f"The environment of {name} is not there. `python -m tools.frameworks {name}` makes it, or says why it cannot.")
    if name in NEEDS_JAVA and not shutil.which("java"):
        _leave(f"{name} needs Java, and there is no `java` on the PATH. Install the package openjdk-17-jre-headless.")
    return f"{SEEN}/{environments.path(name).name}/bin"


def run_template(platform: LivePlatform, name: str, path: str, **parameters: object) -> Json:
    """Run the job that a shipped template makes of its defaults and these parameters, with `path` before all programs."""
    operator = platform.operator
    [template] = [shipped for shipped in operator.items("/templates") if shipped["name"] == name]
    body = {"parameters": parameters, **operator.in_tenant}
    spec = operator.api("POST", f"/templates/{template['id']}/render", body)["spec"]
    return platform.submit({**spec, "env": {**spec.get("env", {}), "PATH": f"{path}:{SYSTEM_PATH}"}}, wait=True)


def through_namespace() -> Sequence[str]:
    """The command line through which the platform starts; it becomes the platform, so that its process stays the one."""
    folder = Environments.cached().folder
    folder.mkdir(parents=True, exist_ok=True)
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", SHOW, "show", str(folder), SEEN]


def is_namespace_possible() -> bool:
    """Whether there is a folder to show the environments in, which would hide nothing."""
    return os.geteuid() == 0 and Path(SEEN).is_dir() and not any(Path(SEEN).iterdir())


def _leave(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
