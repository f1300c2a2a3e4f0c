"""Events, notices and little servers for tests of what happened and who is told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.db import transaction

from activity import registry
from activity.models import Event
from activity.registry import JobNotice
from activity.sequencer import sequence
from activity.services import NewEvent, record_events


def now() -> datetime:
    return datetime.now(UTC)


def make_events(
    *kinds: str,
    tenant_id: uuid.UUID | None = None,
    job_id: uuid.UUID | None = None,
    at: datetime | None = None,
    data: Mapping[str, Any] | None = None,
    numbered: bool = True,
) -> list[Event]:
    """Events of one job, written in one transaction and numbered."""
    job_id = job_id or uuid.uuid4()
    last = Event.objects.order_by("-row").values_list("row", flat=True).first() or 0
    with transaction.atomic():
        record_events([NewEvent(kind, tenant_id, "job", job_id, at or now(), job_id, data or {}) for kind in kinds])
    if numbered:
        sequence(now())
    return list(Event.objects.filter(row__gt=last, job_id=job_id).order_by("row"))


@dataclass
class Jobs:
    """A job directory for tests: jobs that other apps would know."""

    known: dict[uuid.UUID, JobNotice] = field(default_factory=dict)

    def add(self, user_id: uuid.UUID, name: str = "train", **columns: Any) -> JobNotice:
        notice = JobNotice(
            job_id=uuid.uuid4(),
            name=name,
            user_id=user_id,
            tenant_name="vision",
            state="failed",
            reason="Exit code 1.",
            hint="Read the log.",
            command="berth logs train",
            url="http://berth.test/jobs/train",
        )
        notice = replace(notice, **columns)
        self.known[notice.job_id] = notice
        return notice

    def __call__(self, job_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, JobNotice]:
        return {job_id: self.known[job_id] for job_id in job_ids if job_id in self.known}


@contextlib.contextmanager
def job_directory() -> Iterator[Jobs]:
    """Stand in for the jobs app while the block runs."""
    jobs, before = Jobs(), registry._jobs
    registry.register_job_directory(jobs)
    try:
        yield jobs
    finally:
        registry.register_job_directory(before)


@contextlib.contextmanager
def plain_channels() -> Iterator[None]:
    """Let sockets listen to jobs that only events know: what holds before the jobs app says who may."""
    before = registry._policies["job"]
    registry.register_channel_policy("job", registry._job_of_own_tenant)
    try:
        yield
    finally:
        registry.register_channel_policy("job", before)


@dataclass(frozen=True)
class Request:
    """What a webhook receiver got."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Receiver:
    """A real web server that notes what it is sent. `answer` decides status and headers of the next answers."""

    url: str
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[], tuple[int, dict[str, str]]] = lambda: (200, {})


@contextlib.contextmanager
def webhook_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append(Request(self.path, dict(self.headers), body))
            status, headers = receiver.answer()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mailbox:
    """A real mail server that keeps what it is sent. `refuse` maps a command to the answer that it gets instead."""

    url: str = ""
    mails: list[tuple[str, list[str], bytes]] = field(default_factory=list)
    refuse: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def mail_server() -> Iterator[Mailbox]:
    """SMTP (RFC 5321) as far as a client that sends mail needs it, in a thread of its own."""
    mailbox = Mailbox()
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, recipients = "", []

        async def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")
            await writer.drain()

        await say("220 mail.test")
        while line := (await reader.readline()).decode().strip():
            verb = line.split(" ")[0].split(":")[0].upper()
            if verb in mailbox.refuse:
                await say(mailbox.refuse[verb])
            elif verb == "MAIL":
                sender = line
                await say("250 ok")
            elif verb == "RCPT":
                recipients.append(line.partition("<")[2].partition(">")[0])
                await say("250 ok")
            elif verb == "DATA":
                await say("354 go on")
                mailbox.mails.append((sender, recipients, await reader.readuntil(b"\r\n.\r\n")))
                await say("250 kept")
            elif verb == "QUIT":
                await say("221 bye")
                break
            else:
                await say("250 mail.test")
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(converse, "127.0.0.1", 0)
        mailbox.url = f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        try:
            await stopping.wait()
        finally:
            server.close()

    stopping = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield mailbox
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()


@contextlib.asynccontextmanager
async def sequencing() -> AsyncIterator[None]:
    """The sequencer as it runs beside a server: numbers what is committed, again and again."""
    from activity.threads import in_thread

    async def run() -> None:
        while True:
            await in_thread(sequence, now())
            await asyncio.sleep(0.01)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
