"""The real product, running: `manage.py serve --bootstrap` as a process of its own, with people who talk to it over HTTP.

    platform = live_platform                        # the fixture; one for each file of tests
    job = platform.submit({"command": "echo hello"}, wait=True)
    assert platform.logs(job) == "hello\\n"
    platform.restart(kill=True)                     # kill -9, and up again on the same data

As root the platform drops to the user `berth` as it does for `make up`; so it runs from a copy of the server that this user can
read, made once a test run, whatever the checkout's modes are. With BERTH_DATABASE_URL and BERTH_REDIS_URL it has a database of
its own on that server, dropped at the end; else SQLite and memory. Nothing here looks at rows through Django: what the tests
know, users know too, but for `rows`, which asks the database file or server itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jobs.reconcile import event_log
from tests.builders.again import decided_alike
from tests.builders.prepared import short_folder
from tests.builders.release import PRODUCT_SETTINGS, QUICK_SETTINGS, server_copy, service_user
from tests.builders.stores import Servers, store_of
from tools import up
from tools.remains import is_alive

ENDED = ("succeeded", "failed", "stopped")
START_SECONDS = 240.0  # A loaded machine; an idle one needs three.
STOP_SECONDS = 60.0
WAIT_SECONDS = 150.0  # Longer than anything takes on a machine that is busy with other tests.
POLL_SECONDS = 0.05  # A look takes a hundredth of a second of a core, most of it the platform's.
POLL_SECONDS_MAX = 0.25
PORTS = range(10_000, 20_000)
LOG_TAIL_BYTES = 6_000

SETTINGS: Mapping[str, str] = {
    "BERTH_LEASE_SECONDS": "1",
    "BERTH_LEADERSHIP_SECONDS": "1",
    "BERTH_SWEEP_SECONDS": "1",
    "BERTH_POLL_SECONDS": "0.2",
    "BERTH_GRACE_SECONDS": "2",
    "BERTH_SCHEDULER_LEAST_RUNTIME_SECONDS": "1",
    "BERTH_RETRY_BACKOFF_SECONDS": "0.2",
    "BERTH_RETRY_BACKOFF_SECONDS_MAX": "1",
    "BERTH_TELEMETRY_SECONDS": "0.5",
    "BERTH_CHECKPOINT_SECONDS": "1",
    "BERTH_REQUESTS_PER_MINUTE": "0",
    "BERTH_LOCAL_CPU_MILLIS": "64000",  # More than there is: tests shall wait for the product, not for each other.
    "BERTH_LOCAL_MEMORY_BYTES": str(256 * 1024**3),
    "BERTH_LOCAL_SIMULATED_GPUS": "2xSIM",
    "BERTH_WEBHOOK_PRIVATE_TARGETS": "1",
}
REPEATED = ("web", "worker", "scheduler", "observer")
PROCESS_ROLES = (*REPEATED, "launcher")

Json = dict[str, Any]
Spec = Mapping[str, Any]


class LiveUser:
    """Somebody with a token."""

    def __init__(self, platform: LivePlatform, token: str, *, name: str = "", tenant: str = "", password: str = "") -> None:
        self.platform = platform
        self.token = token
        self.name = name
        self.password = password  # Empty for whoever has none.
        self.tenant = tenant
        self.http = httpx2.Client(
            base_url=platform.url, headers={"Authorization": f"Bearer {token}"} if token else {}, timeout=60, trust_env=False
        )

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One call, whatever it answers. Paths are below /api/v1 unless they begin with `//`, for those at the root."""
        return self.http.request(method, path[1:] if path.startswith("//") else f"/api/v1{path}", **options)

    def api(self, method: str, path: str, json: object = None, **options: Any) -> Any:
        """One call that must succeed; gives its JSON, None without a body."""
        answer = self.request(method, path, **options, **({} if json is None else {"json": json}))
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
        return answer.json() if answer.content else None

    def items(self, path: str, **params: object) -> list[Json]:
        """All rows of a list, page by page."""
        found: list[Json] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.api("GET", path, params={**params, **cursor})
            found += page["items"]
            if page.get("next") is None:
                return found
            cursor = {"cursor": page["next"]}

    @property
    def in_tenant(self) -> Json:
        """What a body says of the tenant."""
        return {"tenant": self.tenant} if self.tenant else {}

    # --- Jobs --------------------------------------------------------------------------------------------------------

    def submit(self, spec: Spec, *, wait: bool | Sequence[str] = False, timeout: float = WAIT_SECONDS) -> Json:
        """Submit a job; `wait` until it ended (True) or is in one of these states."""
        job: Json = self.api("POST", "/jobs", {"spec": dict(spec), **self.in_tenant})
        if wait:
            return self.wait(job, ENDED if wait is True else wait, timeout=timeout)
        return job

    def job(self, job: Json | str) -> Json:
        found: Json = self.api("GET", f"/jobs/{_id(job)}")
        return found

    def wait(self, job: Json | str, states: Sequence[str] = ENDED, *, timeout: float = WAIT_SECONDS) -> Json:
        """Wait until the job is in one of these states. Fails when the time is over, or when it ended otherwise."""
        began = time.monotonic()
        while True:
            found = self.job(job)
            if found["state"] in states:
                return found
            assert found["state"] not in ENDED, f"the job ended: {self._history(found)}"
            over = time.monotonic() > began + timeout
            assert not over, f"the job is not {' or '.join(states)} after {timeout} s: {self._history(found)}"
            pause(began)

    def wait_for_reason(self, job: Json | str, code: str, *, timeout: float = WAIT_SECONDS) -> Json:
        """Wait until a queued job says that it waits for this; a new job has not been looked at yet."""
        found: Json = {}

        def is_said() -> bool:
            found.update(self.job(job))
            return (found["reason"] or {}).get("code") == code

        wait_until(is_said, f"the reason {code}", timeout=timeout)
        assert found["state"] == "queued"  # Of the same answer: by now it may have started.
        return found

    def stop(self, job: Json | str, *, grace_seconds: float | None = None) -> None:
        self.api("POST", f"/jobs/{_id(job)}/stop", {} if grace_seconds is None else {"grace_seconds": grace_seconds})

    def logs(self, job: Json | str, **params: object) -> str:
        """What the job printed so far, its tasks and streams merged; of one that ended, all of it."""
        ended = self.job(job)["state"] in ENDED
        deadline = time.monotonic() + WAIT_SECONDS
        text, cursor = "", ""
        while True:
            page = self.api("GET", f"/jobs/{_id(job)}/logs", params={**params, **({"cursor": cursor} if cursor else {})})
            text += "".join(item["text"] for item in page["items"])
            if page["complete"] or (not ended and not page["items"]):
                return text
            assert time.monotonic() < deadline, f"the log is not complete: {text[-2000:]}"
            cursor = page["cursor"]
            if not page["items"]:
                time.sleep(POLL_SECONDS)

    def wait_for_line(self, job: Json | str, line: str, *, timeout: float = WAIT_SECONDS) -> str:
        """Wait until the job has printed this; gives its log."""
        wait_until(lambda: line in self.logs(job), f"the line {line!r} of {_id(job)}", timeout=timeout)
        return self.logs(job)

    def spec(self, job: Json | str) -> bytes:
        """The stored spec, byte for byte."""
        answer = self.request("GET", f"/jobs/{_id(job)}/spec")
        assert answer.is_success
        return answer.content

    def states(self, job: Json | str) -> list[str]:
        """The states of a job in order."""
        return [item["to_state"] for item in self.items(f"/jobs/{_id(job)}/events") if item["subject"]["kind"] == "job"]

    def _history(self, job: Json) -> str:
        events = [(item["subject"]["kind"], item["to_state"], item["reason"], item["detail"]) for item in self._events(job)]
        shown = {key: job[key] for key in ("id", "name", "state", "desired", "reason", "exit", "attempt", "condition")}
        with contextlib.suppress(AssertionError, httpx2.HTTPError):
            page = self.api("GET", f"/jobs/{job['id']}/logs")
            shown["log"] = "".join(item["text"] for item in page["items"])[-2000:]
        return json.dumps({**shown, "events": events}, indent=1, default=str)

    def _events(self, job: Json) -> list[Json]:
        with contextlib.suppress(AssertionError, httpx2.HTTPError):
            return self.items(f"/jobs/{job['id']}/events", all=1)
        return []

    # --- Files -------------------------------------------------------------------------------------------------------

    def make_volume(self, name: str, **facts: object) -> Json:
        made: Json = self.api("POST", "/volumes", {"name": name, **facts, **self.in_tenant})
        return made

    def upload(self, target: Mapping[str, object], content: bytes) -> Json:
        """Send a file in one piece."""
        body: Json = {"target": dict(target), "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        announced: Json = self.api("POST", "/uploads", {**body, **self.in_tenant})
        if announced.get("complete"):
            return announced
        headers = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        sent: Json = self.api("PATCH", f"/uploads/{announced['id']}", content=content, headers=headers)
        return sent

    def artifacts(self, job: Json | str) -> list[Json]:
        """What the job left, once all of it is brought home."""
        wait_until(lambda: self.api("GET", f"/jobs/{_id(job)}/artifacts")["complete"], "the job's outputs in the store")
        return self.items(f"/jobs/{_id(job)}/artifacts")

    def download(self, address: str, **params: object) -> bytes:
        answer = self.request("GET", address, params=params)
        assert answer.is_success, f"GET {address}: {answer.status_code} {answer.text[:500]}"
        return answer.content

    def close(self) -> None:
        self.http.close()


class LivePlatform:
    """One installation: its data, its process while it runs, its first operator."""

    def __init__(self, place: Path, **settings: str) -> None:
        self.place = place
        self.data_dir = place / "data"
        self.data_dir.mkdir(mode=0o711)
        self.data_dir.chmod(0o711)  # Jobs pass through to what is theirs.
        self.settings = {**SETTINGS, **settings}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = place / "platform.log"
        self._crash_file = place / "armed" / "crash-at"  # In a folder of the platform's user, who removes it.
        self._crash_file.parent.mkdir(mode=0o755)
        self.token = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.release: Path | None = None  # The server to start, when it is not the one of this checkout.
        self.through: Sequence[str] = ()  # The command line that becomes the server's: what its process is to see first.
        if os.geteuid() == 0:
            user = service_user()
            for folder in (self.data_dir, self._crash_file.parent):
                os.chown(folder, user.pw_uid, user.pw_gid)
        self._store = store_of(self.data_dir)
        if self.is_production:
            assert self.is_on_servers, "the production profile needs PostgreSQL and Redis: python tests/servers.py run -- pytest"
            self._write_key()
        self._people: dict[tuple[str, str], LiveUser] = {}
        self.operator = LiveUser(self, "")
        self.anonymous = LiveUser(self, "")

    # --- The process -------------------------------------------------------------------------------------------------

    def _write_key(self) -> None:
        """What `make up` generates."""
        path = self.data_dir / "secret.key"
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(64) + "\n")
        if os.geteuid() == 0:
            user = service_user()
            os.chown(path, user.pw_uid, user.pw_gid)

    def start(self, **settings: str) -> None:
        """Start the platform and wait until it is ready. `settings` hold for this process only."""
        self.start_unready(**settings)
        self.wait_ready()

    def start_unready(self, **settings: str) -> None:
        """Start the platform; it may die before it is ready, as it does at an armed crash point."""
        assert self.process is None or self.process.poll() is not None, "the platform runs already"
        if self.process is None and self.release is None:  # Only its own release knows the tables of another one.
            self._store.take_tables()
            if not self.is_production:
                self._write_key()
        release = self.release or server_copy()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.data_dir),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "DJANGO_SETTINGS_MODULE": PRODUCT_SETTINGS if self.release else QUICK_SETTINGS,  # Another release has no quick ones.
            **self.settings,
            **self._store.environment,
            "BERTH_DATA_DIR": str(self.data_dir),
            "BERTH_PORT": str(self.port),
            "BERTH_CRASH_AT": str(self._crash_file),
            **settings,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.through, sys.executable, str(release / "manage.py"), "serve", "--bootstrap"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
            )  # fmt: skip

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        assert self.process is not None
        while not self._is_ready():
            assert self.process.poll() is None, f"the platform ended with {self.process.returncode}:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"the platform is not ready after {START_SECONDS} s:\n{self.log_tail()}"
            time.sleep(POLL_SECONDS)
        if self.is_production:
            wait_until(self._are_all_ready, "every process of the platform", timeout=START_SECONDS)
        if not self.token:
            self._sign_in()

    # --- The processes of the production profile ------------------------------------------------------------------------

    @property
    def is_production(self) -> bool:
        """Whether it is many processes under a supervisor."""
        return self.settings.get("BERTH_SERVER_PROFILE") == "production"

    def processes(self) -> dict[str, list[int]]:
        """The pids that live now by role: web, worker, scheduler, observer, supervisor, and launcher as root."""
        document = self._process_file()
        found = {role: document.get(role, []) for role in PROCESS_ROLES}
        found["supervisor"] = [document["supervisor"]] if document else []
        return {role: [pid for pid in pids if is_alive(pid)] for role, pids in found.items() if pids}

    def kill_one(self, role: str, signal: int = 9, *, index: int = 0) -> int:
        """Send a signal to one process of a role; its pid. The supervisor starts another one in its place."""
        pid = self.processes()[role][index]
        os.kill(pid, signal)
        return pid

    def leader(self, lease: str = "scheduler") -> int:
        """The pid of the process that leads by this lease, or 0."""
        found = self.rows(f"SELECT holder FROM reconciling_lease WHERE name = '{lease}' AND expires_at IS NOT NULL")
        return int(str(found[0][0]).rpartition(":")[2]) if found and found[0][0] else 0

    def _process_file(self) -> Json:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found: Json = json.loads((self.data_dir / "run" / "processes.json").read_text())
            return found
        return {}

    def _are_all_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the platform ended with {self.process.returncode}:\n{self.log_tail()}"
        document = self._process_file()
        if document.get("supervisor") != self.process.pid:
            return False
        known = [pid for role in PROCESS_ROLES for pid in document.get(role, [])]
        whole = all(
            len(document.get(role, [])) == int(self.settings.get(f"BERTH_{role.upper()}_PROCESSES", "2")) for role in REPEATED
        )
        return whole and sorted(known) == document["ready"]

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return bool(self.anonymous.request("GET", "//readyz").status_code == 200)
        return False

    def _sign_in(self) -> None:
        credentials = json.loads((self.data_dir / "first-credentials.json").read_text())
        self.token = credentials["token"]
        # Whoever makes tenants belongs to them, so the first operator says in which of its tenants it works.
        self.operator = LiveUser(
            self, self.token, name=credentials["user"], tenant=credentials["tenant"], password=credentials.get("password", "")
        )

    def wait_dead(self, *, timeout: float = WAIT_SECONDS) -> int:
        """Wait until the process has ended by itself; gives its exit code, negative for a signal."""
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the platform still runs after {timeout} s:\n{self.log_tail()}") from None

    def crash_at(self, point: str | None) -> None:
        """Let the platform die, as by kill -9, when it reaches this crash point next; None takes it back."""
        self._crash_file.unlink(missing_ok=True)
        if point is not None:
            prepared = self._crash_file.with_suffix(".new")
            prepared.write_text(point)
            prepared.chmod(0o644)
            prepared.rename(self._crash_file)

    @property
    def is_armed(self) -> bool:
        """Whether a crash point is asked for that no process has reached yet."""
        return self._crash_file.exists()

    @property
    def is_on_servers(self) -> bool:
        """Whether its rows are in PostgreSQL and its messages in Redis."""
        return isinstance(self._store, Servers)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, as a power cut for everything but the jobs."""
        assert self.process is not None
        others = [pid for role, pids in self.processes().items() for pid in pids] if self.is_production else []
        self.process.kill()
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in others), "the end of all processes")

    def stop(self) -> int:
        """What `make down` does; gives the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait_dead(timeout=STOP_SECONDS)

    def restart(self, *, kill: bool = False, **settings: str) -> None:
        """Down and up again on the same data."""
        if self.is_running:
            self.kill() if kill else self.stop()
        self.start(**settings)

    def end(self) -> None:
        """End the platform, whatever its jobs left running, and remove its data."""
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except AssertionError:
                self.kill()
        for user in (self.operator, self.anonymous, *self._people.values()):
            user.close()
        end_tasks(self.data_dir)
        self._store.drop()
        decided_alike(self.data_dir / event_log.FOLDER)

    # --- UserHoldings ------------------------------------------------------------------------------------------------------

    def person(self, name: str, *, tenant: str = "default", role: str = "member") -> LiveUser:
        """Somebody of this name in a tenant, made through an invitation as people are; the same one when asked again."""
        known = self._people.get((name, tenant))
        if known is not None:
            return known
        operator = self.operator
        if not any(found["name"] == tenant for found in operator.items("/tenants")):
            operator.api("POST", "/tenants", {"name": tenant})
        body = {"email": f"{name}@example.org", "tenant": tenant, "role": role}
        invitation = operator.api("POST", "/invitations", body)
        password = secrets.token_urlsafe(24)
        accepted = self.anonymous.api(
            "POST", "/invitations:accept", {"token": invitation["token"], "name": name, "password": password}
        )
        made = LiveUser(self, accepted["token"]["token"], name=name, tenant=accepted["tenant"]["slug"], password=password)
        self._people[name, tenant] = made
        return made

    # --- The operator's words, for tests that need nobody else ---------------------------------------------------------

    def api(self, method: str, path: str, json: object = None, **options: Any) -> Any:
        return self.operator.api(method, path, json, **options)

    def submit(self, spec: Spec, *, wait: bool | Sequence[str] = False, timeout: float = WAIT_SECONDS) -> Json:
        return self.operator.submit(spec, wait=wait, timeout=timeout)

    def wait(self, job: Json | str, states: Sequence[str] = ENDED, *, timeout: float = WAIT_SECONDS) -> Json:
        return self.operator.wait(job, states, timeout=timeout)

    def logs(self, job: Json | str, **params: object) -> str:
        return self.operator.logs(job, **params)

    @property
    def environment(self) -> Mapping[str, str]:
        """The settings that say where its database and Redis are; none where it has no servers."""
        return self._store.environment

    # --- Below the surface -------------------------------------------------------------------------------------------

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What the database says, past all of our code."""
        return self._store.rows(sql)

    def execute(self, sql: str) -> None:
        """Change rows past all of our code: for what tests cannot wait for, such as the passing of minutes."""
        self._store.execute(sql)

    def folder_of(self, volume: Json) -> Path:
        """A volume's folder on this host: what jobs leave and are told there needs no platform."""
        [(location,)] = self.rows(f"SELECT location FROM storage_volume WHERE name = '{volume['name']}'")
        return Path(location)

    def tables_with(self, word: str) -> list[str]:
        """The tables that have this word in any of their rows."""
        return [name for name in self._store.tables() if self._store.holds(name, word)]

    def log_tail(self) -> str:
        """The end of the platform's log without what it says of every request that went well."""
        if not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()
        told = [line for line in lines if not ('"event": "request"' in line and '"status": 2' in line)]
        return "\n".join(told)[-LOG_TAIL_BYTES:]

    def log_events(self, event: str) -> list[Json]:
        """What the platform logged under this name."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and entry.get("event") == event:
                    found.append(entry)
        return found


# --- Starting and ending one ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def running_platform(*, release: Path | None = None, through: Sequence[str] = (), **settings: str) -> Iterator[LivePlatform]:
    """A platform on new data while the block runs. `release`: the server to begin with, when not the one of this checkout.
    `through`: a command line that becomes the one of the server."""
    place = short_folder("live")
    place.chmod(0o711)
    platform = LivePlatform(place, **settings)
    platform.release, platform.through = release, through
    try:
        platform.start()
        yield platform
    finally:
        platform.end()
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def package_index(folder: Path) -> Iterator[dict[str, str]]:
    """Serve a folder of wheels while the block runs; gives the settings by which builds install from it and nothing else."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"http://127.0.0.1:{server.server_port}/"}
        finally:
            server.shutdown()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the images of the live platform can be made from; tests put wheels in."""
    return tmp_path_factory.mktemp("wheels")


@pytest.fixture(scope="module")
def live_platform(wheels: Path) -> Iterator[LivePlatform]:
    """The platform that all tests of a file share. A test that stops it starts it again. It ends with them: one that nobody
    needs any more still looks around all the time, and tests of other files run beside it."""
    profile = os.environ.get("BERTH_TEST_PROFILE", "embedded")
    with package_index(wheels) as settings, running_platform(BERTH_SERVER_PROFILE=profile, **settings) as platform:
        yield platform


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """A failed test shows the end of its platform's log."""
    report = yield
    if report.failed:
        for platform in getattr(item, "funcargs", {}).values():
            if isinstance(platform, LivePlatform):
                report.sections.append(("platform log", platform.log_tail()))
    return report


def end_tasks(data_dir: Path) -> None:
    """Kill the tasks that this data directory's engines started, and nothing else."""
    from clusters.engines.local.launching import DirectLauncher, Policy
    from clusters.engines.local.launching.verbs import SignalAttempt

    service = pwd.getpwnam(up.SERVICE_USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    policy = Policy(
        roots=(str(data_dir),), uid_base=200_000, gid_base=300_000, service_uid=service.pw_uid, service_gid=service.pw_gid,
        drop_rights=os.geteuid() == 0,
    )  # fmt: skip
    launcher = DirectLauncher(policy)
    for attempts in (data_dir / "engine").glob("*/attempts"):
        root, names = str(attempts.parent), os.listdir(attempts)
        if names:
            launcher.signal([SignalAttempt(root, name, signal.SIGKILL) for name in names])


def free_port() -> int:
    """A port that nobody has. Below those that the kernel gives out by itself: it is bound later, and again after a restart."""
    while True:
        port = secrets.choice(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(holds: Callable[[], object], what: str, *, timeout: float = WAIT_SECONDS) -> None:
    """Ask until it holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + timeout, f"{what}: not within {timeout} s"
        pause(began)


def pause(began: float) -> None:
    """Sleep before the next look, a tenth of the wait so far: a wait of seconds gets a twentieth longer and costs fewer looks."""
    time.sleep(min(max(POLL_SECONDS, (time.monotonic() - began) / 10), POLL_SECONDS_MAX))


def _id(job: Json | str) -> str:
    return job if isinstance(job, str) else str(job["id"])
