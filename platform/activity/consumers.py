"""The live channel: `/ws/v1/live`. Events and logs as they come, with a cursor to go on from after a break.

A client sends JSON texts and receives JSON texts:

    {"subscribe": {"job": "<id>"}, "after": 118}      also {"tenant": ...} or {"user": "me"}; without `after`: from now on
    {"subscribe_logs": {"job": "<id>", ...}}          as the log source understands it
    {"unsubscribe": "<id of the subscription>"}

A subscription's `id` may be given beside the command; else it is made from what is listened to. Answers carry it:

    {"type": "subscribed", "id": ..., "seq": 118}     then
    {"type": "event", "id": ..., "event": {"seq": 119, ...}}
    {"type": "log", "id": ..., ...}                   as the log source gives it
    {"type": "gap", "id": ..., "oldest": 400}         older events than this are no longer kept
    {"type": "ended", "id": ..., "code": ...}         this subscription is over, the socket is not
    {"type": "error", "id": ..., "code": ..., "detail": ..., "hint": ...}
    {"type": "heartbeat", "seq": 130}                 every 15 seconds

Close codes: 4401 the credential no longer counts; 1013 the client reads too slowly, or the database does not answer: come back
with the last `seq`; 1008 too many sockets. A page of another origin, or a connection without a valid header, ticket or session,
is refused before it opens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from activity import registry
from activity.feed import FeedChannel, feed, oldest_seq, starting_point
from activity.sessions import Session, sessions
from activity.sockets import CLOSED_REFUSED, CLOSED_SIGNED_OUT, Socket, error_text, parse_text
from activity.threads import in_thread
from kernel.actor import Actor
from kernel.errors import BerthError, InvalidInput
from kernel.words import Text

HEARTBEAT_SECONDS = 15.0
MESSAGE_BYTES_MAX = 4_096  # A command is short.
SUBSCRIPTIONS_MAX = 32  # A page shows a handful of jobs.
SOCKETS_PER_USER_MAX = 100  # Per process: a script that never closes must not take all.
ID_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Subscribed:
    """One running subscription. `kind` and `name` are what its right is checked by."""

    task: asyncio.Task[None]
    kind: str
    name: str


class LiveConsumer(Socket):
    """One client's subscriptions."""

    called = "activity"

    async def connect(self) -> None:
        self._subscriptions: dict[str, Subscribed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._life = contextlib.AsyncExitStack()
        await super().connect()

    async def _begin(self, actor: Actor) -> None:
        if sessions().count_of(actor) >= SOCKETS_PER_USER_MAX:
            await self._close(CLOSED_REFUSED)
            return
        self._session: Session = await self._life.enter_async_context(sessions().opened(actor))
        self._spawn(self._heartbeat())
        self._spawn(self._watch_rights())

    async def disconnect(self, code: int) -> None:
        self._is_closing = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._life.aclose()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One command."""
        if not self._is_closing:
            await self._guarded(self._obey(text_data))

    async def _obey(self, text: str | None) -> None:
        name: str | None = None
        try:
            command = _parse(text)
            name = _name_of(command)
            if "unsubscribe" in command:
                await self._unsubscribe(command["unsubscribe"])
            elif "subscribe_logs" in command:
                await self._subscribe_logs(name, command["subscribe_logs"])
            else:
                await self._subscribe(name, command.get("subscribe"), command.get("after"))
        except BerthError as error:
            await self._send(error_text(error, self.language, id=name))

    async def _subscribe(self, name: str | None, topic: Any, after: Any) -> None:
        kind, text = _topic(topic)
        if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
            raise InvalidInput(
                Text(
                    "`after` is the `seq` of the last event that you saw, a whole number.",
                    "`after` 是您看到的最后一个事件的 `seq`，须为整数。",
                )
            )
        channel = await self._resolve(kind, text)
        name = name or f"{kind}:{channel.id}"
        self._check_free(name)
        task = self._spawn(self._pump_events(name, channel, after))
        self._subscriptions[name] = Subscribed(task, kind, text)

    async def _subscribe_logs(self, name: str | None, request: Any) -> None:
        source = registry.log_source()
        if not isinstance(request, dict) or not isinstance(request.get("job"), str):
            raise InvalidInput(
                Text(
                    '`subscribe_logs` names a job: {"subscribe_logs": {"job": "<id>"}}.',
                    '`subscribe_logs` 须指定作业：{"subscribe_logs": {"job": "<id>"}}。',
                )
            )
        if source is None:
            raise InvalidInput(Text("There is no log source in this process.", "此进程没有日志来源。"))
        await self._resolve("job", request["job"])
        name = name or f"logs:{request['job']}"
        self._check_free(name)
        task = self._spawn(self._pump_logs(name, source(self._session.actor, request)))
        self._subscriptions[name] = Subscribed(task, "job", request["job"])

    async def _unsubscribe(self, name: Any) -> None:
        subscribed = self._subscriptions.pop(name, None) if isinstance(name, str) else None
        if subscribed is None:
            raise InvalidInput(
                Text("There is no subscription of this id.", "没有此 ID 的订阅。"),
                hint=Text("Answers carry the id of their subscription.", "应答中带有所属订阅的 ID。"),
            )
        subscribed.task.cancel()
        await self._send({"type": "ended", "id": name, "code": "unsubscribed"})

    def _check_free(self, name: str) -> None:
        if name in self._subscriptions:
            raise InvalidInput(
                Text(f"There is a subscription {name!r} already.", f"已有订阅 {name!r}。"),
                hint=Text("Unsubscribe first, or choose another `id`.", "请先取消订阅，或换一个 `id`。"),
            )
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise InvalidInput(
                Text(
                    f"One connection carries {SUBSCRIPTIONS_MAX} subscriptions.", f"一个连接最多有 {SUBSCRIPTIONS_MAX} 个订阅。"
                ),
                hint=Text("Unsubscribe from one first.", "请先取消一个订阅。"),
            )

    async def _resolve(self, kind: str, text: str) -> FeedChannel:
        actor = self._session.actor
        if kind == "user":
            if text != "me" or actor.user_id is None:
                raise InvalidInput(
                    Text(
                        'The only user to listen to is yourself: {"subscribe": {"user": "me"}}.',
                        '只能订阅您自己：{"subscribe": {"user": "me"}}。',
                    )
                )
            return FeedChannel("user", actor.user_id)
        return FeedChannel(kind, await in_thread(registry.resolve_channel, actor, kind, text))

    async def _pump_events(self, name: str, channel: FeedChannel, after: int | None) -> None:
        start = await in_thread(starting_point, after)
        oldest = await in_thread(oldest_seq) if after is not None else None
        if oldest is not None and start + 1 < oldest:
            await self._send({"type": "gap", "id": name, "oldest": oldest})
        await self._send({"type": "subscribed", "id": name, "seq": start})
        events = feed().follow(channel, after=start, viewer=self._session.viewer)
        async with contextlib.aclosing(events):
            async for event in events:
                await self._send({"type": "event", "id": name, "event": event.body})

    async def _pump_logs(self, name: str, messages: AsyncGenerator[Mapping[str, Any]]) -> None:
        async with contextlib.aclosing(messages):
            await self._send({"type": "subscribed", "id": name})
            try:
                async for message in messages:
                    await self._send({**message, "type": "log", "id": name})
            except BerthError as error:
                await self._send(error_text(error, self.language, id=name))
        self._subscriptions.pop(name, None)
        await self._send({"type": "ended", "id": name, "code": "complete"})

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._send({"type": "heartbeat", "seq": feed().position})

    async def _watch_rights(self) -> None:
        """End the connection with its credential, and single subscriptions with the right to them."""
        while True:
            await self._session.changed.wait()
            self._session.changed.clear()
            if self._session.ended:
                await self._close(CLOSED_SIGNED_OUT)
                return
            for name, subscribed in tuple(self._subscriptions.items()):
                try:
                    await self._resolve(subscribed.kind, subscribed.name)
                except BerthError as error:
                    self._subscriptions.pop(name, None)
                    subscribed.task.cancel()
                    await self._send({"type": "ended", "id": name, "code": error.code})

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _parse(text: str | None) -> dict[str, Any]:
    if text is None or len(text) > MESSAGE_BYTES_MAX:
        raise InvalidInput(
            Text(
                f"A command is a JSON text of at most {MESSAGE_BYTES_MAX} characters.",
                f"命令是最多 {MESSAGE_BYTES_MAX} 个字符的 JSON 文本。",
            )
        )
    command = parse_text(text)
    if not isinstance(command, dict) or not {"subscribe", "subscribe_logs", "unsubscribe"} & set(command):
        raise InvalidInput(
            Text(
                'A command is {"subscribe": ...}, {"subscribe_logs": ...} or {"unsubscribe": ...}.',
                '命令为 {"subscribe": ...}、{"subscribe_logs": ...} 或 {"unsubscribe": ...}。',
            )
        )
    return command


def _name_of(command: Mapping[str, Any]) -> str | None:
    name = command.get("id")
    if name is not None and (not isinstance(name, str) or not 0 < len(name) <= ID_LENGTH_MAX):
        raise InvalidInput(
            Text(f"`id` is a text of at most {ID_LENGTH_MAX} characters.", f"`id` 是最多 {ID_LENGTH_MAX} 个字符的文本。")
        )
    return name


def _topic(topic: Any) -> tuple[str, str]:
    if isinstance(topic, dict) and len(topic) == 1:
        ((kind, text),) = topic.items()
        if kind in {"tenant", "job", "user"} and isinstance(text, str):
            return kind, text
    raise InvalidInput(
        Text(
            'Subscribe to one thing: {"job": "<id>"}, {"tenant": "<id>"} or {"user": "me"}.',
            '一次只能订阅一项：{"job": "<id>"}、{"tenant": "<id>"} 或 {"user": "me"}。',
        )
    )
