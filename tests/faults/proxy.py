"""A proxy in front of PostgreSQL that a test tells what to do: wait before each answer, drop the answer to a COMMIT, cut.

It listens on a socket of the name that clients look for, in a directory of its own, and forwards bytes. It reads as much of the
protocol as it must: messages of the client begin with a letter and a length, and COMMIT is a text in one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.builders.prepared import short_folder


class DatabaseProxy:
    """Runs in a thread of its own while the block of `proxied` lasts."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self.home = short_folder("proxy")
        self.home.chmod(0o711)
        self.delay_seconds = 0.0  # Before each message of the client is passed on.
        self.refuses = False  # New connections are closed at once.
        self.commits_cut = 0  # How many answers to a COMMIT were dropped.
        self._wants_cut: Callable[[bytes], bool] | None = None
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-proxy", daemon=True)

    # --- What a test says -----------------------------------------------------------------------------------------------

    def cut_commit_after(self, word: str) -> None:
        """Drop the answer to the next COMMIT of a transaction in which a statement held `word`, and end its connection."""
        wanted = word.encode()
        self._wants_cut = lambda seen: wanted in seen

    def url(self, url: str) -> str:
        """The same database through this proxy."""
        parts = urlsplit(url)
        server = parse_qs(parts.query)["host"][0]
        return url.replace(server, str(self.home))

    def cut_all(self) -> None:
        """End every connection."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in tuple(self._open)])

    # --- Forwarding -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        path = self.home / ".s.PGSQL.5432"
        listening = self._loop.run_until_complete(asyncio.start_unix_server(self._serve, path=str(path), limit=2**24))
        path.chmod(0o777)
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            listening.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            answers, server = await asyncio.open_unix_connection(str(self._server / ".s.PGSQL.5432"), limit=2**24)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, server}
        drops = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward_questions(reader, server, drops))
                group.create_task(self._forward_answers(answers, writer, drops))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open -= {writer, server}
            for each in (writer, server):
                each.transport.abort()

    async def _forward_questions(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, drops: asyncio.Event) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")  # The start-up message has no letter.
        server.write(length.to_bytes(4, "big") + await reader.readexactly(length - 4))
        transaction = b""
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
            if head[:1] in (b"Q", b"P"):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                statement = body.lstrip(b"\0").upper()
                if statement.startswith(b"BEGIN"):
                    transaction = b""
                transaction += body
                wants = self._wants_cut
                if statement.startswith(b"COMMIT") and wants is not None and wants(transaction):
                    self._wants_cut = None
                    drops.set()
            server.write(head + body)
            await server.drain()

    async def _forward_answers(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, drops: asyncio.Event) -> None:
        while data := await answers.read(2**16):
            if drops.is_set():  # The server has committed, and nobody hears of it.
                self.commits_cut += 1
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


@contextlib.contextmanager
def proxied(url: str) -> Iterator[DatabaseProxy]:
    """A proxy in front of the server that this address names."""
    proxy = DatabaseProxy(Path(parse_qs(urlsplit(url).query)["host"][0]))
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.end()
