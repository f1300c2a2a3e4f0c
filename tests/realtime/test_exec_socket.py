"""`/ws/v1/exec`: what it takes and refuses, when it ends by itself, and what is written down of it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from activity import sessions
from clusters.engines.fake import FakeEngine
from clusters.engines.interface import Asker, AttemptId, ExecRefused, NotRunning, TaskName, TerminalSize
from clusters.services.engines import _factories, forget_engines, register_engine
from jobs import bounds
from jobs.api import terminal
from kernel.ids import new_id
from tenants.portal.models import FeatureSetting
from tests.factories.sockets import SECONDS, Socket
from tests.security.matrix.principals import Who
from tests.security.matrix.world import World, make_world, now

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


class Played:
    """A program that is a socket: the test is at its other end."""

    def __init__(self, argv: Sequence[str], size: TerminalSize | None) -> None:
        self.argv, self.sizes, self.closed, self.code = tuple(argv), [size], False, 0
        ours, self.program = socket.socketpair()
        self._ended, self.end = socket.socketpair()
        self._life = [ours, self._ended]
        ours.setblocking(False)
        self._ours: int = ours.fileno()
        self.input = self.output = self._ours
        self.ended = self._ended.fileno()

    def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)

    def end_input(self) -> None:
        self._life[0].shutdown(socket.SHUT_WR)

    def exit_code(self) -> int | None:
        return self.code

    def close(self) -> None:
        self.closed = True
        for item in self._life:
            item.close()

    def forget(self) -> None:
        """Close all four ends, whatever the application has closed already."""
        for item in (*self._life, self.program, self.end):
            item.close()


class PlayedEngine(FakeEngine):
    """Starts what the test plays."""

    def __init__(self) -> None:
        super().__init__(clock=now)
        self.started: list[Played] = []
        self.failure: Exception | None = None
        self._is_over, self._lock = False, threading.Lock()

    def execute(
        self, attempt: AttemptId, task: TaskName, argv: Sequence[str], terminal: TerminalSize | None, asker: Asker
    ) -> Played:
        if self.failure is not None:
            raise self.failure
        with self._lock:
            if self._is_over:  # The test has ended while a thread of the application was on its way here.
                raise NotRunning("the test is over")
            self.started.append(Played(argv, terminal))
            return self.started[-1]

    def end(self) -> None:
        """Close what was started, and start nothing any more."""
        with self._lock:
            self._is_over = True
            for program in self.started:
                program.forget()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell is begun because a test said late what it wants."""
    monkeypatch.setattr(terminal, "START_SECONDS", 3600.0)


@pytest.fixture
def engine() -> Iterator[PlayedEngine]:
    before, played = _factories["local"], PlayedEngine()
    register_engine("local", lambda settings: played)
    forget_engines()
    yield played
    register_engine("local", before)
    forget_engines()
    played.end()


def running_world() -> World:
    """The matrix's world, whose jobs have a second attempt that runs."""
    from jobs.lifecycle.states import AttemptState, JobState, TaskState
    from jobs.models import Attempt, Job, Task

    world = make_world()
    for side in (world.own, world.foreign):
        job = Job.objects.get(pk=side.values["jobs"])
        attempt = Attempt.objects.create(
            job=job, tenant_id=side.tenant.pk, number=2, state=AttemptState.RUNNING, cluster_id=side.values["clusters"],
            pool_id=side.values["pools"], cluster_name="matrix-cluster", pool_name="matrix-pool", created_at=now(),
        )  # fmt: skip
        for index, state in enumerate((TaskState.RUNNING, TaskState.PENDING)):
            Task.objects.create(attempt=attempt, job_id=job.pk, tenant_id=side.tenant.pk, role="worker", index=index, state=state)
        Job.objects.filter(pk=job.pk).update(attempt=attempt, state=JobState.RUNNING)
    return world


def as_build_of_a_container(world: World) -> None:
    """The running job of the tenant becomes a build, with the task beside the builder that holds the tenant's account."""
    from jobs.lifecycle.states import TaskState
    from jobs.models import Job, Task

    job = Job.objects.get(pk=world.own.values["jobs"])
    Job.objects.filter(pk=job.pk).update(build_request_id=new_id())
    tenant_id, state = world.own.tenant.pk, TaskState.RUNNING
    Task.objects.create(attempt_id=job.attempt_id, job_id=job.pk, tenant_id=tenant_id, role="transfer", index=0, state=state)


def as_fetch_of_code(world: World) -> None:
    from jobs.models import Job

    Job.objects.filter(pk=world.own.values["jobs"]).update(kind="transfer")


@asynccontextmanager
async def connected(world: World, who: Who = Who.OWNER, query: str = "") -> AsyncGenerator[Socket]:
    from controlplane.asgi import application

    header = world.principals[who].header or ""
    address = f"/ws/v1/exec?job={world.own.values['jobs']}{query}"
    opened = Socket(application, address, headers=[(b"authorization", header.encode())])
    assert await opened.connect()
    try:
        yield opened
    finally:
        await opened.disconnect()


async def begun(opened: Socket, engine: PlayedEngine, **start: Any) -> Played:
    await opened.send({"start": start})
    assert (await opened.receive())["type"] == "started"
    return engine.started[-1]


def audited() -> list[dict[str, Any]]:
    from activity.models import AuditEvent

    return list(AuditEvent.objects.filter(verb="job.exec").order_by("id").values_list("after", flat=True))


async def test_bytes_go_both_ways_and_the_end_is_told_and_written_down(engine: PlayedEngine) -> None:
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        program = await begun(opened, engine, argv=["bash", "-l"], rows=50, columns=120)
        assert (program.argv, program.sizes) == (("bash", "-l"), [TerminalSize(50, 120)])
        await opened.send_bytes(b"\x00typed\xff")
        assert await asyncio.to_thread(program.program.recv, 100) == b"\x00typed\xff"
        await opened.send({"resize": {"rows": 9, "columns": 8}})
        program.program.send(b"\x1b[1mseen\xff")
        assert (await opened.receive_output(SECONDS))["bytes"] == b"\x1b[1mseen\xff"
        program.program.send(b"last words")
        program.code = 3
        program.end.send(b"x")
        assert (await opened.receive_output(SECONDS))["bytes"] == b"last words"
        assert await opened.receive() == {"type": "ended", "exit_code": 3, "why": "exit"}
        assert await opened.close_code() == 1000
    assert program.sizes[1:] == [TerminalSize(9, 8)]
    assert program.closed
    start, end = await sync_to_async(audited)()
    assert start == {"phase": "start", "task": "worker-0", "attempt": 2, "terminal": True, "from": "127.0.0.1"}
    assert end["exit_code"] == 3
    assert "bash" not in json.dumps([start, end])


def test_the_audit_is_told_the_address_behind_the_proxy(configure: Callable[..., Any]) -> None:
    scope = {"client": ("127.0.0.1", 40_000), "headers": [(b"x-forwarded-for", b"10.9.9.9, 192.0.2.1")]}
    assert terminal._address_of(scope) == "127.0.0.1"
    configure(trusted_proxies="127.0.0.0/8")
    assert terminal._address_of(scope) == "192.0.2.1"
    assert terminal._address_of({"client": None, "headers": []}) == ""


async def test_whoever_says_nothing_gets_a_shell(engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "START_SECONDS", 0.05)
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        assert (await opened.receive())["type"] == "started"
        assert engine.started[-1].argv == ()
        assert engine.started[-1].sizes == [TerminalSize()]


@pytest.mark.parametrize(
    ("query", "code", "closed"),
    [
        ("&role=worker&index=1", "exec_not_running", 4409),
        ("&role=worker&index=7", "not_found", 4404),
        ("&role=nobody", "not_found", 4404),
        ("&role=wor%00ker", "invalid_input", 4409),
        ("&role=" + "x" * 300, "invalid_input", 4409),
        ("&index=-1", "invalid_input", 4409),
        ("&index=1e3", "invalid_input", 4409),
        ("&job=again", "invalid_input", 4409),
    ],
)
async def test_a_task_that_is_not_there_or_does_not_run_is_refused(
    engine: PlayedEngine, query: str, code: str, closed: int
) -> None:
    world = await sync_to_async(running_world)()
    async with connected(world, query=query) as opened:
        await opened.send({"start": {}})
        assert (await opened.receive())["code"] == code
        assert await opened.close_code() == closed
    assert engine.started == []


@pytest.mark.parametrize("become", [as_build_of_a_container, as_fetch_of_code])
async def test_a_job_that_makes_what_others_run_with_takes_no_terminals_and_promises_none(
    engine: PlayedEngine, become: Callable[[World], None]
) -> None:
    world = await sync_to_async(running_world)()
    await sync_to_async(become)(world)
    async with connected(world) as opened:
        await opened.send({"start": {}})
        refusal = await opened.receive()
        assert refusal["code"] == "exec_unsupported"
        assert refusal["detail"].endswith("what other jobs run with, and takes no programs beside its tasks.")
        assert "Try again" not in refusal["hint"]
        assert await opened.close_code() == 4409
    assert engine.started == []


async def test_an_engine_without_terminals_says_so() -> None:
    before = _factories["local"]
    register_engine("local", lambda settings: FakeEngine(clock=now))
    forget_engines()
    try:
        world = await sync_to_async(running_world)()
        async with connected(world) as opened:
            await opened.send({"start": {}})
            refusal = await opened.receive()
            assert (refusal["code"], bool(refusal["hint"])) == ("exec_unsupported", True)
            assert await opened.close_code() == 4409
    finally:
        register_engine("local", before)
        forget_engines()


async def test_the_installation_may_switch_it_off(engine: PlayedEngine, configure: Callable[..., Any]) -> None:
    configure(exec_enabled=False)
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        await opened.send({"start": {}})
        assert (await opened.receive())["code"] == "exec_disabled"
        assert await opened.close_code() == 4403


@pytest.mark.capability("110", "A feature that is off is gone from portal and API, for the installation or a tenant")
async def test_it_may_be_switched_off_for_a_tenant(engine: PlayedEngine) -> None:
    world = await sync_to_async(running_world)()
    await FeatureSetting.objects.acreate(tenant_id=world.own.tenant.pk, name="terminal", enabled=False)
    async with connected(world) as opened:
        await opened.send({"start": {}})
        assert (await opened.receive())["code"] == "exec_disabled"


@pytest.mark.parametrize(
    ("failure", "code"), [(NotRunning("gone"), "exec_not_running"), (ExecRefused("64 shells are open"), "exec_refused")]
)
async def test_what_the_engine_refuses_is_told_and_written_down(engine: PlayedEngine, failure: Exception, code: str) -> None:
    engine.failure = failure
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        await opened.send({"start": {}})
        assert (await opened.receive())["code"] == code
    assert [row.get("error") for row in await sync_to_async(audited)()] == [None, code]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"start": {}, "resize": {}}',
        '{"unknown": 1}',
        '{"start": []}',
        '{"start": {"argv": "ls"}}',
        '{"start": {"argv": ["a\\u0000"]}}',
        '{"start": {"argv": ["\\ud800"]}}',
        '{"start": {"argv": [1]}}',
        '{"start": {"more": 1}}',
        '{"start": {"terminal": "yes"}}',
        '{"start": {"rows": 0}}',
        '{"resize": {"rows": 1}}',
        '{"resize": {"rows": true, "columns": 2}}',
        '{"resize": {"rows": 70000, "columns": 2}}',
        '{"resize": {"rows": 1.5, "columns": 2}}',
        "[" * 5_000,
    ],
)
async def test_a_text_that_means_nothing_is_answered_and_changes_nothing(engine: PlayedEngine, text: str) -> None:
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        await opened.send_text(text)
        assert (await opened.receive())["code"] == "invalid_input"
        assert engine.started == []
        program = await begun(opened, engine)
        await opened.send_text(text if "resize" in text else '{"start": {}}')
        assert (await opened.receive())["code"] == "invalid_input"
        assert len(program.sizes) == 1
        await opened.send_bytes(b"x" * (bounds.EXEC_FRAME_BYTES + 1))
        assert (await opened.receive())["code"] == "invalid_input"


async def test_nobody_opens_more_than_so_many(engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "EXEC_PER_USER", 2)
    world = await sync_to_async(running_world)()
    async with connected(world) as first, connected(world) as second:
        await begun(first, engine)
        await begun(second, engine)
        async with connected(world) as third:
            assert (await third.receive())["code"] == "too_many_requests"
            assert await third.close_code() == 1008
        async with connected(world, Who.MANAGER) as other:
            await begun(other, engine)
    async with connected(world) as again:
        await begun(again, engine)


async def test_an_idle_terminal_ends(
    engine: PlayedEngine, configure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "IDLE_LOOK_SECONDS", 0.02)
    configure(exec_idle_minutes=0.5 / 60)
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        program = await begun(opened, engine)
        assert await opened.receive() == {"type": "ended", "exit_code": None, "why": "idle"}
        assert await opened.close_code() == 4408
    assert program.closed


async def test_a_program_that_reads_nothing_holds_its_sender_up(engine: PlayedEngine) -> None:
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        program = await begun(opened, engine)
        sent = 40
        for _ in range(sent):
            await opened.send_bytes(b"x" * bounds.EXEC_FRAME_BYTES)
        await asyncio.sleep(0.2)
        program.program.settimeout(SECONDS)
        received = 0
        while received < sent * bounds.EXEC_FRAME_BYTES:
            received += len(await asyncio.to_thread(program.program.recv, 1 << 20))
        await opened.send({"eof": True})
        assert await asyncio.to_thread(program.program.recv, 1) == b""


async def test_a_client_that_leaves_ends_it_and_that_is_written_down(engine: PlayedEngine) -> None:
    world = await sync_to_async(running_world)()
    async with connected(world) as opened:
        program = await begun(opened, engine)
    assert program.closed
    assert (await sync_to_async(audited)())[-1]["why"] == "disconnected"


def test_rights_and_features_are_asked_for_twice_within_five_seconds() -> None:
    """The promise by its intervals: what a loaded machine takes to answer is no part of it."""
    assert 2 * max(terminal.RECHECK_SECONDS, sessions.RECHECK_SECONDS) < 5


async def test_a_terminal_ends_within_five_seconds_when_its_feature_is_switched_off(engine: PlayedEngine) -> None:
    world = await sync_to_async(running_world)()
    for tenant in (world.own.tenant, None):
        async with connected(world) as opened:
            program = await begun(opened, engine)
            row = await FeatureSetting.objects.acreate(name="terminal", tenant=tenant, enabled=False)
            assert (await opened.receive())["why"] == "switched_off"
            assert await opened.close_code() == 4403
        assert program.closed
        assert (await sync_to_async(audited)())[-1]["why"] == "switched_off"
        await row.adelete()


async def test_a_revoked_token_and_a_lost_role_end_it_within_five_seconds(engine: PlayedEngine) -> None:
    from kernel.actor import TenantRole
    from tenants.models import Membership, Token

    world = await sync_to_async(running_world)()
    user = world.principals[Who.MANAGER].user
    for change, why, closed in (
        (lambda: Membership.objects.filter(user=user).update(role=TenantRole.VIEWER), "forbidden", 4403),
        (lambda: Token.objects.filter(user=world.principals[Who.OWNER].user).update(revoked_at=now()), "signed_out", 4401),
    ):
        async with connected(world, Who.MANAGER if why == "forbidden" else Who.OWNER) as opened:
            program = await begun(opened, engine)
            await sync_to_async(change)()
            assert (await opened.receive())["why"] == why
            assert await opened.close_code() == closed
        assert program.closed


@pytest.mark.parametrize("turns", range(6))
def test_what_prints_while_it_is_ended_ends_all_the_same(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    """Output that comes so many turns of the event loop before the end."""

    async def is_ended() -> bool:
        printed = asyncio.Event()

        async def ready(_descriptor: int) -> None:
            await printed.wait()
            printed.clear()

        monkeypatch.setattr(terminal, "_ready", ready)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        consumer = terminal.ExecConsumer()
        consumer._is_over = False
        opened: Any = SimpleNamespace(execution=SimpleNamespace(output=ours.fileno()))
        with ours, theirs:
            pump = asyncio.create_task(consumer._pump_output(opened))
            await asyncio.sleep(0.01)
            printed.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            pump.cancel()
            await asyncio.wait([pump], timeout=SECONDS)
            found = pump.done()
            while not pump.done():
                pump.cancel()
                await asyncio.wait([pump], timeout=0.1)
        return found

    assert asyncio.run(is_ended())
