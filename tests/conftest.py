"""What every test starts from: settings of test length, a data directory of its own, and the cast.

The environment is prepared while this file is imported, before anything reads the settings: Django itself is set up by
pytest-django only afterwards, which is why `DJANGO_SETTINGS_MODULE` is set here and not in `pyproject.toml`. Each xdist worker
imports this file in a process of its own and so has its own data directory and database.

`BERTH_DATABASE_URL` and `BERTH_REDIS_URL` are left as they are: `tests/servers.py` gives them, without them the tests run on
SQLite and in memory.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.builders import prepared

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from kernel.config import Config
    from tests.builders.quay import Quay
    from tests.factories.tenants import Cast

pytest_plugins = [
    "tests.builders.live",  # The fixture `live_platform`: the real product.
    "tests.builders.kubernetes",  # The fixture `kubernetes_cluster`: a real control plane and a real node.
    "tests.builders.claims",  # What each test shows of the product, into the report of the run.
    "tests.builders.failures",  # What failed, for those who run it again.
    "tests.builders.tables",  # The fixture `show_table`: what people read at the end of a run.
]


# A loaded machine is no finding: no example has to be quick, and none has to be drawn quickly.
_ALIKE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("berth", derandomize=True, **_ALIKE)  # A commit passes today as it did yesterday.
hypothesis.settings.register_profile("search", **_ALIKE)  # What `make test-long` does: other cases each time.
hypothesis.settings.load_profile("berth")

PASSWORD_WORK = 2  # Of scrypt, the least there is; `tests/security/credentials/test_password_cost.py` looks at the product's.
DATA_DIR = prepared.short_folder("test")
SERVER_URL = os.environ.get("BERTH_DATABASE_URL", "")  # Tests that break servers put others in its place.
DATA_DIR.chmod(0o711)  # Tasks run as users of their own and pass through to their working directories.

os.environ.update(
    DJANGO_SETTINGS_MODULE="controlplane.settings",
    BERTH_DATA_DIR=str(DATA_DIR),
    BERTH_SECRET_KEY=secrets.token_urlsafe(48),
    BERTH_REGISTRY_SECONDS="0",  # Most references of tests lead nowhere; those that do have settings of their own.
    BERTH_LEASE_SECONDS="1",
    BERTH_SWEEP_SECONDS="1",
    BERTH_GRACE_SECONDS="1",
    BERTH_POLL_SECONDS="0.001",  # Every look is a whole one.
    BERTH_RETRY_BACKOFF_SECONDS="0.2",
    BERTH_DATABASE_LOCK_SECONDS="120",  # Many tests are one transaction, which may wait for a process of minutes' work.
)
if os.environ.get("BERTH_REDIS_URL"):
    _worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    os.environ["BERTH_REDIS_URL"] = re.sub(r"db=\d+", f"db={int(_worker) + 1}", os.environ["BERTH_REDIS_URL"])


def pytest_configure(config: pytest.Config) -> None:
    """Set Django up now that the environment is ready; with `-p no:django` plain Python is tested without it."""
    gc.disable()  # Until the tests are collected: what is loaded stays, and looking through it is a fifth of the time.
    if config.pluginmanager.hasplugin("django"):
        import django

        django.setup()
        # Every client of a test makes the middleware anew, and with it would look through all files of the console.
        from django.conf import settings

        settings.WHITENOISE_AUTOREFRESH = True
        # Hundreds of tests sign somebody in: with the product's own cost each hash takes as long as a whole test.
        from django.contrib.auth.hashers import ScryptPasswordHasher

        ScryptPasswordHasher.work_factor = PASSWORD_WORK
        if SERVER_URL:
            from tests.builders.emptying import empty_by_deleting

            empty_by_deleting()
        # A worker of xdist that inherited the name would load the settings before it has a data directory of its own.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)


# `tools/testrun.py` reads only files that say the marker of a stage.
SAID = ("database", "engines", "alone", "browser", "kubernetes", "frameworks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test marked `database` gets the database without saying so twice; the live platform has one of its own."""
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        names = getattr(item, "fixturenames", ())
        unsaid = [mark.name for mark in item.iter_markers() if mark.name in SAID and f"mark.{mark.name}" not in texts[item.path]]
        if unsaid:
            raise pytest.UsageError(f"{item.nodeid} is marked {unsaid[0]}: say pytest.mark.{unsaid[0]} in its own file.")
        if item.get_closest_marker("database") and not item.get_closest_marker("django_db") and "live_platform" not in names:
            item.add_marker(pytest.mark.django_db)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded by now is looked through no more; what tests leave is, as ever."""
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


def pytest_unconfigure() -> None:
    shutil.rmtree(DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """A worker's own database begins as a copy of tables that were migrated once a run."""
    from django.db import connection

    from tests.builders import stores

    name = connection.creation._get_test_db_name()
    if connection.vendor == "sqlite":
        shutil.copy(stores.tables_in_file(), name)
    else:
        connection.settings_dict["TEST"]["TEMPLATE"] = stores.tables_on_server(SERVER_URL)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """What was copied is there already; the file goes with the data directory."""
    return not SERVER_URL


@pytest.fixture(autouse=True)
def _fresh_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a process holds in memory ends with each test: engines, unflushed telemetry, spent request budgets."""
    if not request.config.pluginmanager.hasplugin("django"):
        yield
        return
    from clusters.services import engines
    from clusters.telemetry.recorder import forget_recorder
    from webapi import throttles

    factories = dict(engines._factories)
    yield
    engines._factories.clear()
    engines._factories.update(factories)
    engines.forget_engines()
    forget_recorder()
    throttles.forget()


@pytest.fixture
def data_dir() -> Path:
    """The data directory that the settings of this process name; shared by all its tests."""
    return DATA_DIR


@pytest.fixture
def configure() -> Iterator[Callable[..., Config]]:
    """Change settings for one test: `configure(local_simulated_gpus="2xA100")`. Restored afterwards."""
    from dataclasses import replace

    from kernel import config

    before = config.current()

    def change(**changes: Any) -> Config:
        changed = replace(config.current(), **changes)
        config.replace(changed)
        return changed

    yield change
    config.replace(before)


@pytest.fixture
def still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What callers may still ask for is not refilled while a test counts, however long it takes."""
    from webapi import throttles

    for counts in (throttles.buckets, throttles.refusals):
        monkeypatch.setattr(counts, "_clock", lambda: 1_000.0)


@pytest.fixture
def cast(db: None) -> Cast:
    """Alice manages a tenant, Bob belongs to it, Vera looks at it, Carol manages another one, Otto operates."""
    from tests.factories.tenants import make_cast

    return make_cast()


@pytest.fixture
def api() -> Callable[..., APIClient]:
    """A client of the REST API: `api()` is anonymous, `api(token)` or `api(cast.alice)` sends a token."""
    from rest_framework.test import APIClient

    def client(credential: Any = None) -> APIClient:
        made = APIClient(raise_request_exception=True)
        token = getattr(credential, "token", credential)
        if token:
            made.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return made

    return client


@pytest.fixture
def quay(cast: Cast) -> Iterator[Quay]:
    """A whole platform on a clock that the test turns, with one node of 8 cores and 32 GiB."""
    from kernel import clock
    from tests.builders.quay import Quay

    made = Quay(cast)
    with clock.virtual(lambda: made.now):
        yield made
