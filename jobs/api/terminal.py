"""A program beside a running task: `/ws/v1/exec?job=<id or name>&role=<role>&index=<n>`. Without role and index, the first task.

The first message says what to start, within ten seconds; a client that says nothing gets a shell at a terminal of 24 by 80:

    {"start": {"argv": ["nvidia-smi"], "terminal": true, "rows": 40, "columns": 120}}      each part may be left out

Binary messages carry the program's bytes both ways; before `start` they begin a shell too. Without a terminal, output and errors
come as one. Further texts of the client:

    {"resize": {"rows": 50, "columns": 132}}
    {"eof": true}                            without a terminal: the input ends

Texts of the server:

    {"type": "started", "job": "<id>", "attempt": 1, "role": "worker", "index": 0}
    {"type": "heartbeat"}                    every 15 seconds
    {"type": "error", "code": ..., "detail": ..., "hint": ...}        then it closes, except for a text that is none of the above
    {"type": "ended", "exit_code": 0, "why": "exit"}                  null where it is unknown; then it closes

Close codes: 1000 the program ended; 4401 the credential no longer counts; 4403 the right to it is gone, or was never there, or
terminals are switched off; 4404 there is no such job or task; 4409 it cannot be started, see the error; 4408 idle; 1013 the
client reads too slowly, or the database does not answer; 1008 too many of one person. A page of another origin, or a connection
without a valid header or ticket, is refused before it opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import DatabaseError, InterfaceError

from activity import connecting
from activity.sessions import RECHECK_SECONDS, Session, sessions
from activity.sockets import CLOSED_REFUSED, CLOSED_SIGNED_OUT, CLOSED_SLOW, Socket, error_text, parse_text
from activity.threads import in_thread
from clusters.engines.interface import TerminalSize
from jobs.bounds import EXEC_FRAME_BYTES, EXEC_PENDING_BYTES, EXEC_PER_USER, REPLICAS
from jobs.selectors.find import fetch_job
from jobs.services.executing import ExecDisabled, Opened, demand_switched_on, end_exec, open_exec
from kernel.actor import Actor
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import BerthError, InvalidInput, TooManyRequests
from kernel.limits import COMMAND_ARGUMENTS, NAME_LENGTH, TERMINAL_CELLS
from kernel.words import Text
from webapi.addresses import client_address
from webapi.asgi_auth import header_of

VERB = "job.exec"
START_SECONDS = 10.0  # For the first message, over any line; a page sends it as soon as it is connected.
HEARTBEAT_SECONDS = 15.0  # Also how soon we notice a client that vanished while the program reads nothing.
READ_BYTES = 32 * 1024  # Read only after the last was sent: a slow reader slows the program, and costs no memory.
QUIET_SECONDS = 0.25  # After the end: when nothing has come for so long, other holders of the output are silent.
IDLE_LOOK_SECONDS = 1.0

CLOSED_FORBIDDEN, CLOSED_NOT_FOUND, CLOSED_IDLE, CLOSED_CONFLICT = 4403, 4404, 4408, 4409
_CLOSE_CODES = {401: CLOSED_SIGNED_OUT, 403: CLOSED_FORBIDDEN, 404: CLOSED_NOT_FOUND, 429: CLOSED_REFUSED, 503: CLOSED_SLOW}

log = structlog.get_logger("jobs")
_SIZE = TerminalSize()
_open: Counter[object] = Counter()  # By user, in this process; its one event loop counts.


@dataclass(frozen=True, slots=True)
class ExecStart:
    """What the client wants to run. An empty `argv` is a shell; no terminal means pipes."""

    argv: tuple[str, ...] = ()
    terminal: TerminalSize | None = _SIZE


@dataclass(frozen=True, slots=True)
class ExecEnd:
    """Why it is over, and what the socket closes with."""

    why: str
    code: int
    exit_code: int | None = None


class ExecConsumer(Socket):
    """One client at one program."""

    called = "jobs"
    send_seconds_max = 30.0  # Programs print more than a page of events: a reader may fall behind for longer.

    async def connect(self) -> None:
        self._main: asyncio.Task[None] | None = None
        self._start: asyncio.Future[ExecStart] = asyncio.get_running_loop().create_future()
        self._opened: Opened | None = None
        self._pending = bytearray()
        self._typed, self._drained = asyncio.Event(), asyncio.Event()
        self._ends_input = self._is_over = False
        self._active_at = time.monotonic()
        await super().connect()

    async def _begin(self, actor: Actor) -> None:
        self._main = asyncio.create_task(self._guarded(self._run(actor)))

    async def disconnect(self, code: int) -> None:
        self._is_closing = True
        self._drained.set()
        if self._main is not None:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Typed bytes, or a command. Waits while the program has not read what was typed before."""
        if self._is_closing:
            return
        try:
            if bytes_data is not None:
                await self._type(bytes_data)
            else:
                self._obey(_parse(text_data))
        except BerthError as error:
            await self._send(error_text(error, self.language))

    async def _type(self, data: bytes) -> None:
        if len(data) > EXEC_FRAME_BYTES:
            raise InvalidInput(
                Text(f"A message holds at most {EXEC_FRAME_BYTES} bytes.", f"一条消息最多 {EXEC_FRAME_BYTES} 字节。")
            )
        self._choose(ExecStart())
        self._active_at = time.monotonic()
        while len(self._pending) > EXEC_PENDING_BYTES and not self._is_closing and not self._is_over:
            self._drained.clear()
            await self._drained.wait()
        self._pending += data
        self._typed.set()

    def _obey(self, command: Mapping[str, Any]) -> None:
        if "start" in command:
            if self._start.done():
                raise InvalidInput(
                    Text("It was started already; a connection runs one program.", "程序已经启动；一个连接只运行一个程序。")
                )
            self._choose(_start(command["start"]))
        elif "resize" in command:
            size = _size(command["resize"])
            self._choose(ExecStart(terminal=size))
            self._active_at = time.monotonic()
            if self._opened is not None:
                self._opened.execution.resize(size)
        else:
            self._ends_input = True
            self._typed.set()

    def _choose(self, start: ExecStart) -> None:
        if not self._start.done():
            self._start.set_result(start)

    # --- One program -------------------------------------------------------------------------------------------------

    async def _run(self, actor: Actor) -> None:
        if _open[actor.user_id] >= EXEC_PER_USER:
            await self._refuse(_too_many(), CLOSED_REFUSED)
            return
        _open[actor.user_id] += 1
        try:
            async with sessions().opened(actor) as session:
                await self._run_for(session)
        except BerthError as error:
            await self._refuse(error, _CLOSE_CODES.get(error.status, CLOSED_CONFLICT))
        finally:
            _open[actor.user_id] -= 1
            if not _open[actor.user_id]:
                del _open[actor.user_id]

    async def _run_for(self, session: Session) -> None:
        actor = session.actor
        wanted = _wanted(connecting.query_of(self.scope))
        await in_thread(fetch_job, actor, wanted.job, VERB)  # Refused at once, not after the first message.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(self._start)
        self._choose(ExecStart())
        end = ExecEnd("disconnected", 1001)
        opened = await self._open(actor, wanted, self._start.result())
        try:
            self._opened = opened
            task = {"attempt": opened.attempt, "role": opened.task.role, "index": opened.task.index}
            await self._send({"type": "started", "job": str(opened.job_id), **task})
            end = await self._follow(session, opened)
        finally:
            self._is_over, self._opened = True, None
            self._drained.set()
            opened.execution.close()
            await asyncio.shield(in_thread(_end, opened, actor, end))
        await self._send({"type": "ended", "exit_code": end.exit_code, "why": end.why})
        await self._close(end.code)

    async def _open(self, actor: Actor, wanted: Wanted, start: ExecStart) -> Opened:
        """Start the program, in a thread that goes on when we are cancelled: then what it started is ended here."""
        work = asyncio.ensure_future(in_thread(_begin, actor, wanted, start, _address_of(self.scope)))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with contextlib.suppress(BerthError):
                opened = await work
                opened.execution.close()
                await in_thread(_end, opened, actor, ExecEnd("disconnected", 1001))
            raise

    async def _follow(self, session: Session, opened: Opened) -> ExecEnd:
        """Until the first of all that can end it."""
        output = asyncio.create_task(self._pump_output(opened))
        watchers: list[Coroutine[Any, Any, ExecEnd]] = [
            self._watch_end(opened, output), self._pump_input(opened), self._watch_idle(), self._watch_rights(session, opened),
            self._watch_feature(session, opened), self._heartbeat(), _failing(output),
        ]  # fmt: skip
        tasks = [asyncio.create_task(watcher) for watcher in watchers]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        except TimeoutError:
            return ExecEnd("slow", CLOSED_SLOW)
        finally:
            for task in (output, *tasks):
                task.cancel()
            await asyncio.gather(output, *tasks, return_exceptions=True)

    async def _watch_end(self, opened: Opened, output: asyncio.Task[None]) -> ExecEnd:
        await _ready(opened.execution.ended)
        self._is_over = True
        await asyncio.shield(output)
        return ExecEnd("exit", 1000, await in_thread(opened.execution.exit_code))

    async def _pump_output(self, opened: Opened) -> None:
        """Send what the program prints, until nothing can come any more."""
        descriptor = opened.execution.output
        while True:
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                was_over = self._is_over
                try:
                    async with asyncio.timeout(
                        QUIET_SECONDS
                    ):  # `wait_for` loses a cancellation that comes with what it waits for.
                        await _ready(descriptor)
                except TimeoutError:
                    if was_over:
                        return
                continue
            except OSError:  # EIO: no process has the terminal open any more.
                return
            if not data:
                return
            self._active_at = time.monotonic()
            async with asyncio.timeout(self.send_seconds_max):
                await self.send(bytes_data=data)

    async def _pump_input(self, opened: Opened) -> ExecEnd:
        """Write what was typed. A program that does not read keeps us waiting, and the client behind us."""
        while True:
            await self._typed.wait()
            self._typed.clear()
            while self._pending and opened.execution.input != -1:
                try:
                    written = os.write(opened.execution.input, self._pending[:READ_BYTES])
                except BlockingIOError:
                    await _ready(opened.execution.input, to_write=True)
                    continue
                except OSError:  # No process reads any more; the watcher of the end tells it.
                    written = len(self._pending)
                del self._pending[:written]
                self._drained.set()
            self._pending.clear()
            self._drained.set()
            if self._ends_input:
                opened.execution.end_input()

    async def _watch_idle(self) -> ExecEnd:
        limit = current().exec_idle_minutes * 60
        while not limit or time.monotonic() - self._active_at < limit:
            await asyncio.sleep(IDLE_LOOK_SECONDS)
        return ExecEnd("idle", CLOSED_IDLE)

    async def _watch_rights(self, session: Session, opened: Opened) -> ExecEnd:
        while True:
            await session.changed.wait()
            session.changed.clear()
            if session.ended:
                return ExecEnd("signed_out", CLOSED_SIGNED_OUT)
            try:
                await in_thread(fetch_job, session.actor, str(opened.job_id), VERB)
            except (DatabaseError, InterfaceError):  # A check that fails refuses nothing; the next change asks again.
                continue
            except BerthError:
                return ExecEnd("forbidden", CLOSED_FORBIDDEN)

    async def _watch_feature(self, session: Session, opened: Opened) -> ExecEnd:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await in_thread(demand_switched_on, session.actor, opened.tenant_id)
            except (DatabaseError, InterfaceError):  # As above.
                continue
            except ExecDisabled:
                return ExecEnd("switched_off", CLOSED_FORBIDDEN)

    async def _heartbeat(self) -> ExecEnd:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._send({"type": "heartbeat"})

    # --- The socket --------------------------------------------------------------------------------------------------

    async def _refuse(self, error: BerthError, code: int) -> None:
        await self._send(error_text(error, self.language))
        await self._close(code)

    async def _close(self, code: int) -> None:
        self._drained.set()  # A writer that waits to type gives up.
        await super()._close(code)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which task the address names."""

    job: str
    role: str | None
    index: int | None


def _wanted(query: Mapping[str, Sequence[str]]) -> Wanted:
    values = {name: query[name][0] for name in ("job", "role", "index") if len(query.get(name, ())) == 1}
    job, role, index = values.get("job", ""), values.get("role"), values.get("index")
    if not 0 < len(job) <= NAME_LENGTH or "\0" in job:
        raise InvalidInput(
            Text("The address names no job.", "地址中没有指定作业。"),
            hint=Text("/ws/v1/exec?job=<id or name>&role=<role>&index=<n>", "/ws/v1/exec?job=<ID 或名称>&role=<角色>&index=<n>"),
        )
    if role is not None and (len(role) > NAME_LENGTH or "\0" in role):  # PostgreSQL refuses NUL, SQLite compares it.
        raise InvalidInput(Text(f"`role` has at most {NAME_LENGTH} characters.", f"`role` 最多 {NAME_LENGTH} 个字符。"))
    if index is not None and not (index.isascii() and index.isdecimal() and len(index) <= 9 and int(index) < REPLICAS):
        raise InvalidInput(Text(f"`index` is a whole number below {REPLICAS}.", f"`index` 须为小于 {REPLICAS} 的整数。"))
    return Wanted(job, role, None if index is None else int(index))


def _address_of(scope: Mapping[str, Any]) -> str:
    """Where the client is: behind a proxy of ours, as the proxy tells it."""
    client = scope.get("client")
    told = header_of(scope, b"x-forwarded-for")
    return client_address({"REMOTE_ADDR": client[0] if client else "", "HTTP_X_FORWARDED_FOR": told or ""})


def _begin(actor: Actor, wanted: Wanted, start: ExecStart, address: str) -> Opened:
    job = fetch_job(actor, wanted.job, VERB)
    return open_exec(
        actor=actor, job=job, role=wanted.role, index=wanted.index, argv=start.argv, terminal=start.terminal, address=address,
        now=database_now(),
    )  # fmt: skip


def _end(opened: Opened, actor: Actor, end: ExecEnd) -> None:
    try:
        end_exec(opened, actor=actor, exit_code=end.exit_code, why=end.why, now=database_now())
    except (DatabaseError, InterfaceError) as error:  # The program has ended all the same; the log keeps what the audit misses.
        log.error("exec_end_not_recorded", job_id=str(opened.job_id), actor=actor.name, why=end.why, error=type(error).__name__)


def _parse(text: str | None) -> dict[str, Any]:
    command = parse_text(text or "")
    known = {"start", "resize", "eof"}
    if not isinstance(command, dict) or len(command) != 1 or not known & set(command):
        raise InvalidInput(
            Text(
                'A text is {"start": {...}}, {"resize": {"rows": ..., "columns": ...}} or {"eof": true}.',
                '文本消息为 {"start": {...}}、{"resize": {"rows": ..., "columns": ...}} 或 {"eof": true}。',
            )
        )
    return command


def _start(text: Any) -> ExecStart:
    if not isinstance(text, dict) or set(text) - {"argv", "terminal", "rows", "columns"}:
        raise InvalidInput(
            Text(
                "`start` has `argv`, `terminal`, `rows` and `columns`.", "`start` 包含 `argv`、`terminal`、`rows` 和 `columns`。"
            )
        )
    argv = text.get("argv", [])
    if not isinstance(argv, list) or len(argv) > COMMAND_ARGUMENTS or not all(_is_argument(item) for item in argv):
        raise InvalidInput(
            Text(
                f"`argv` is a list of at most {COMMAND_ARGUMENTS} texts without NUL characters.",
                f"`argv` 是最多 {COMMAND_ARGUMENTS} 个文本的列表，不能含有 NUL 字符。",
            )
        )
    if not isinstance(text.get("terminal", True), bool):
        raise InvalidInput(Text("`terminal` is true or false.", "`terminal` 须为 true 或 false。"))
    size = _size({"rows": text.get("rows", _SIZE.rows), "columns": text.get("columns", _SIZE.columns)})
    return ExecStart(tuple(argv), size if text.get("terminal", True) else None)


def _is_argument(item: object) -> bool:
    """Half of a surrogate pair is JSON, and no text."""
    return isinstance(item, str) and "\0" not in item and not any("\ud800" <= character <= "\udfff" for character in item)


def _size(text: Any) -> TerminalSize:
    if isinstance(text, dict) and set(text) == {"rows", "columns"}:
        rows, columns = text["rows"], text["columns"]
        if all(isinstance(n, int) and not isinstance(n, bool) and 0 < n <= TERMINAL_CELLS for n in (rows, columns)):
            return TerminalSize(rows, columns)
    raise InvalidInput(
        Text(
            f"A size is {{rows, columns}}, whole numbers from 1 to {TERMINAL_CELLS}.",
            f"大小为 {{rows, columns}}，须为 1 到 {TERMINAL_CELLS} 之间的整数。",
        )
    )


def _too_many() -> BerthError:
    return TooManyRequests(
        Text(f"You have {EXEC_PER_USER} terminals open.", f"您已打开 {EXEC_PER_USER} 个终端。"),
        hint=Text("Close one of them.", "请关闭其中一个。"),
    )


async def _failing(task: asyncio.Task[None]) -> ExecEnd:
    """Fails as the task fails; when that just ends, waits for ever: another task says why."""
    await asyncio.shield(task)
    await asyncio.Event().wait()
    raise AssertionError


async def _ready(descriptor: int, *, to_write: bool = False) -> None:
    """Wait until the descriptor can be read or written without waiting."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if to_write else (loop.add_reader, loop.remove_reader)
    add(descriptor, _settle, ready)
    try:
        await ready
    finally:
        remove(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
