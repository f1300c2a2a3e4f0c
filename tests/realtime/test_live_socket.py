"""`/ws/v1/live`: who gets in, what it hears, and that it misses nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from channels.routing import URLRouter
from structlog.testing import capture_logs

from activity import consumers, feed, registry, sessions
from activity.routing import websocket_urlpatterns
from activity.threads import in_thread
from activity.tickets import LIFETIME, issue_ticket
from kernel.actor import Actor
from kernel.errors import NotFound
from tenants.models import Membership, Token, User
from tenants.services import IssuedToken, end_session, set_password
from tests.factories.activity import make_events, now
from tests.factories.sockets import Socket
from tests.factories.tenants import Cast, actor_of, make_session

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


def connecting(token: str | None = None, *, query: str = "", origin: str | list[str] | None = None) -> Socket:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token is not None else []
    headers += [(b"origin", address.encode()) for address in ([origin] if isinstance(origin, str) else origin or [])]
    return Socket(URLRouter(websocket_urlpatterns), f"/ws/v1/live{query}", headers=headers)


@asynccontextmanager
async def connected(token: str | None = None, **how: Any) -> AsyncGenerator[Socket]:
    socket = connecting(token, **how)
    assert await socket.connect()
    try:
        yield socket
    finally:
        await socket.disconnect()


async def subscribe(socket: Socket, topic: Mapping[str, str], **more: Any) -> dict[str, Any]:
    await socket.send({"subscribe": topic, **more})
    return await socket.receive()


async def refused(socket: Socket) -> bool:
    return not await socket.connect()


async def test_a_client_that_is_gone_while_we_send_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    async def note(consumer: consumers.LiveConsumer, code: int) -> None:
        closed.append(code)

    async def send_to_nobody() -> None:
        raise ConnectionResetError

    monkeypatch.setattr(consumers.LiveConsumer, "_close", note)
    with capture_logs() as entries:
        await consumers.LiveConsumer()._guarded(send_to_nobody())
    assert (closed, entries) == ([1001], [])


class TestWhoGetsIn:
    async def test_a_valid_header_opens(self, cast: Cast) -> None:
        async with connected(cast.vera.token):
            pass

    async def test_anything_else_is_refused_before_it_opens(self, cast: Cast) -> None:
        for token in [None, "", "garbage", "berth_aaaaaaaa_bbbbbbbbbbbbbbbb", "x" * 10_000]:
            assert await refused(connecting(token)), token

    async def test_a_revoked_token_is_refused(self, cast: Cast) -> None:
        await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
        assert await refused(connecting(cast.bob.token))

    async def test_a_ticket_opens_once(self, cast: Cast) -> None:
        ticket = await in_thread(issue_ticket, actor=cast.bob.actor, now=now())
        async with connected(query=f"?ticket={ticket.text}"):
            pass
        assert await refused(connecting(query=f"?ticket={ticket.text}"))

    async def test_of_two_with_one_ticket_one_gets_in(self, cast: Cast) -> None:
        ticket = await in_thread(issue_ticket, actor=cast.bob.actor, now=now())
        sockets = [connecting(query=f"?ticket={ticket.text}") for _ in range(4)]
        answers = await asyncio.gather(*(socket.connect() for socket in sockets))
        assert answers.count(True) == 1
        for socket, accepted in zip(sockets, answers, strict=True):
            if accepted:
                await socket.disconnect()

    async def test_an_expired_ticket_is_refused(self, cast: Cast) -> None:
        ticket = await in_thread(issue_ticket, actor=cast.bob.actor, now=now() - LIFETIME)
        assert await refused(connecting(query=f"?ticket={ticket.text}"))

    async def test_a_ticket_is_worth_no_more_than_its_token(self, cast: Cast) -> None:
        ticket = await in_thread(issue_ticket, actor=cast.bob.actor, now=now())
        await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
        assert await refused(connecting(query=f"?ticket={ticket.text}"))

    async def test_a_token_in_the_url_opens_nothing(self, cast: Cast) -> None:
        for query in ["?token={}", "?access_token={}", "?ticket={}", "?authorization=Bearer%20{}"]:
            assert await refused(connecting(query=query.format(cast.bob.token))), query

    async def test_a_page_of_another_origin_is_refused(self, cast: Cast) -> None:
        for origin in ["https://evil.org", "http://127.0.0.1:8620.evil.org", "null", "http://127.0.0.1"]:
            assert await refused(connecting(cast.bob.token, origin=origin)), origin

    async def test_our_own_page_gets_in_with_a_ticket_and_not_without(self, cast: Cast) -> None:
        ticket = await in_thread(issue_ticket, actor=cast.bob.actor, now=now())
        assert await refused(connecting(origin="http://127.0.0.1:8620"))
        async with connected(query=f"?ticket={ticket.text}", origin="http://127.0.0.1:8620"):
            pass


class TestWhatItHears:
    async def test_events_of_a_job_come_in_order_and_others_do_not(self, cast: Cast) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.vera.token) as socket:
            assert (await subscribe(socket, {"job": str(job_id)}))["type"] == "subscribed"
            await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk)
            await in_thread(make_events, "job.running", "job.succeeded", tenant_id=cast.tenant.pk, job_id=job_id)
            received = [await socket.receive() for _ in range(2)]
            assert [message["event"]["kind"] for message in received] == ["job.running", "job.succeeded"]
            assert received[0]["event"]["job_id"] == str(job_id)
            assert await socket.receive_nothing()

    async def test_a_socket_that_comes_back_hears_what_it_missed(self, cast: Cast) -> None:
        (first,) = await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk)
        missed = await in_thread(make_events, *["job.changed"] * 3, tenant_id=cast.tenant.pk)
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"tenant": str(cast.tenant.pk)}, after=first.seq)
            assert [(await socket.receive())["event"]["seq"] for _ in range(3)] == [event.seq for event in missed]
            (later,) = await in_thread(make_events, "job.running", tenant_id=cast.tenant.pk)
            assert (await socket.receive())["event"]["seq"] == later.seq

    async def test_nothing_is_lost_or_doubled_between_replay_and_live(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        """Events go on being written while sockets replay in small pages and join."""
        monkeypatch.setattr(feed, "PAGE_ROWS", 7)
        start = (await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk))[0].seq
        total, sockets = 120, 5

        async def write() -> None:
            for number in range(total // 4):
                await in_thread(make_events, *["job.changed"] * 4, tenant_id=cast.tenant.pk, data={"number": number})

        async def listen(number: int) -> list[int]:
            await asyncio.sleep(number * 0.03)  # They join at different moments of the writing.
            async with connected(cast.bob.token) as socket:
                await subscribe(socket, {"tenant": str(cast.tenant.pk)}, after=start)
                return [(await socket.receive())["event"]["seq"] for _ in range(total)]

        *heard, _ = await asyncio.gather(*(listen(number) for number in range(sockets)), write())
        for seqs in heard:
            assert seqs == list(range(start + 1, start + 1 + total))

    async def test_one_socket_carries_several_subscriptions_by_id(self, cast: Cast) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.bob.token) as socket:
            assert (await subscribe(socket, {"job": str(job_id)}, id="a"))["id"] == "a"
            assert (await subscribe(socket, {"user": "me"}, id="b"))["id"] == "b"
            await in_thread(make_events, "job.running", tenant_id=cast.tenant.pk, job_id=job_id)
            assert {(await socket.receive())["id"] for _ in range(2)} == {"a", "b"}
            await socket.send({"unsubscribe": "a"})
            assert (await socket.receive()) == {"type": "ended", "id": "a", "code": "unsubscribed"}
            await in_thread(make_events, "job.succeeded", tenant_id=cast.tenant.pk, job_id=job_id)
            assert (await socket.receive())["id"] == "b"
            assert await socket.receive_nothing()

    async def test_a_tenant_is_found_by_its_slug(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            answer = await subscribe(socket, {"tenant": cast.tenant.slug})
            assert answer["id"] == f"tenant:{cast.tenant.pk}"

    async def test_what_belongs_to_another_tenant_does_not_exist(self, cast: Cast) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.carol.token) as socket:
            for topic, foreign_id in {"tenant": cast.tenant.pk, "job": job_id}.items():
                foreign = await subscribe(socket, {topic: str(foreign_id)})
                absent = await subscribe(socket, {topic: str(uuid.uuid4())})
                assert (foreign["type"], foreign["code"]) == (absent["type"], absent["code"]) == ("error", "not_found")

    async def test_my_channel_holds_only_my_tenants(self, cast: Cast) -> None:
        (first,) = await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk)
        async with connected(cast.carol.token) as socket:
            await subscribe(socket, {"user": "me"}, after=(first.seq or 1) - 1)
            await in_thread(make_events, "job.running", tenant_id=cast.tenant.pk)
            await in_thread(make_events, "job.mine", tenant_id=cast.elsewhere.pk)
            assert (await socket.receive())["event"]["kind"] == "job.mine"

    async def test_an_operator_hears_all_tenants(self, cast: Cast) -> None:
        async with connected(cast.otto.token) as socket:
            await subscribe(socket, {"user": "me"})
            await in_thread(make_events, "job.one", tenant_id=cast.tenant.pk)
            await in_thread(make_events, "job.two", tenant_id=cast.elsewhere.pk)
            assert [(await socket.receive())["event"]["kind"] for _ in range(2)] == ["job.one", "job.two"]

    async def test_a_number_from_the_future_starts_at_the_present(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"tenant": str(cast.tenant.pk)}, after=10**9)
            (event,) = await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk)
            assert (await socket.receive())["event"]["seq"] == event.seq

    async def test_events_that_are_no_longer_kept_show_as_a_gap(self, cast: Cast) -> None:
        events = await in_thread(make_events, *["job.changed"] * 4, tenant_id=cast.tenant.pk)
        await in_thread(lambda: feed.Event.objects.filter(seq__lt=events[2].seq).delete())
        async with connected(cast.bob.token) as socket:
            gap = await subscribe(socket, {"tenant": str(cast.tenant.pk)}, after=0)
            assert (gap["type"], gap["oldest"]) == ("gap", events[2].seq)
            assert (await socket.receive())["type"] == "subscribed"
            assert (await socket.receive())["event"]["seq"] == events[2].seq

    async def test_a_quiet_socket_hears_a_heartbeat(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.05)
        async with connected(cast.bob.token) as socket:
            assert (await socket.receive())["type"] == "heartbeat"


MALFORMED = [
    "",
    "{",
    "[]",
    "1",
    '"subscribe"',
    "{}",
    '{"subscribe": 1}',
    '{"subscribe": {}}',
    '{"subscribe": {"job": 1}}',
    '{"subscribe": {"job": "a", "tenant": "b"}}',
    '{"subscribe": {"planet": "earth"}}',
    '{"subscribe": {"user": "bob"}}',
    '{"subscribe": {"user": "me"}, "after": "x"}',
    '{"subscribe": {"user": "me"}, "after": -1}',
    '{"subscribe": {"user": "me"}, "after": true}',
    '{"subscribe": {"user": "me"}, "id": 7}',
    '{"subscribe": {"user": "me"}, "id": ""}',
    '{"subscribe_logs": "x"}',
    '{"unsubscribe": ["x"]}',
    "[" * 3_000,
    '{"subscribe": {"job": "' + "x" * 5_000 + '"}}',
]


class TestHowItIsBounded:
    async def test_a_malformed_command_is_answered_and_the_socket_stays(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            for text in MALFORMED:
                await socket.send_text(text)
                answer = await socket.receive()
                assert (answer["type"], answer["code"]) == ("error", "invalid_input"), text[:80]
            assert (await subscribe(socket, {"user": "me"}))["type"] == "subscribed"

    async def test_binary_is_answered_as_malformed(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            await socket.send_bytes(b"\x00\xff")
            assert (await socket.receive())["code"] == "invalid_input"

    async def test_subscriptions_of_a_socket_are_bounded(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumers, "SUBSCRIPTIONS_MAX", 2)
        async with connected(cast.bob.token) as socket:
            answers = [await subscribe(socket, {"user": "me"}, id=str(number)) for number in range(3)]
            assert [answer["type"] for answer in answers] == ["subscribed", "subscribed", "error"]

    async def test_sockets_of_a_user_are_bounded(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumers, "SOCKETS_PER_USER_MAX", 1)
        async with connected(cast.bob.token):
            second = connecting(cast.bob.token)
            await second.connect()
            assert await second.close_code() == 1008
            async with connected(cast.vera.token):
                pass

    async def test_a_reader_that_falls_behind_is_told_to_come_back(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing leaves the socket, so the backlog fills; no other socket waits for it."""
        monkeypatch.setattr(feed, "BACKLOG_MAX", 5)
        blocked = asyncio.Event()
        send = consumers.LiveConsumer._send

        async def stall(self: consumers.LiveConsumer, message: Mapping[str, Any]) -> None:
            if message["type"] == "event" and message["id"] == "slow":
                await blocked.wait()
            await send(self, message)

        async with connected(cast.bob.token) as slow, connected(cast.vera.token) as quick:
            await subscribe(slow, {"user": "me"}, id="slow")
            await subscribe(quick, {"user": "me"}, id="quick")
            # Both have caught up with the table once they have heard of an event: only then does a backlog fill.
            await in_thread(make_events, "job.changed", tenant_id=cast.tenant.pk)
            assert (await slow.receive())["id"] == "slow"
            assert (await quick.receive())["id"] == "quick"
            monkeypatch.setattr(consumers.LiveConsumer, "_send", stall)
            for _ in range(10):
                await in_thread(make_events, "job.changed", tenant_id=cast.tenant.pk)
                assert (await quick.receive())["id"] == "quick"
            blocked.set()
            assert await slow.close_code() == 1013

    async def test_a_reader_that_takes_nothing_is_closed(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumers.LiveConsumer, "send_seconds_max", 0.05)
        never = asyncio.Event()
        send = consumers.LiveConsumer.send

        async def stuck(self: consumers.LiveConsumer, text_data: str = "", **more: Any) -> None:
            if '"event"' in text_data:
                await never.wait()
            await send(self, text_data=text_data, **more)

        monkeypatch.setattr(consumers.LiveConsumer, "send", stuck)
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"user": "me"})
            await in_thread(make_events, "job.changed", tenant_id=cast.tenant.pk)
            assert await socket.close_code() == 1013


def end(how: str, user: User, session: IssuedToken, other: IssuedToken) -> None:
    if how == "unused":
        Token.objects.filter(id=session.token.pk).update(last_used_at=now() - timedelta(hours=13))
    elif how == "signed out":
        end_session(actor=actor_of(user, session), session=session.token, now=now())
    else:
        user.set_password("a long old password")
        user.save()
        actor = actor_of(user, other)
        set_password(actor=actor, user=user, old="a long old password", new="quite another long one", now=now())


class TestHowRightsEnd:
    def test_who_is_let_in_is_asked_for_twice_within_five_seconds(self) -> None:
        """The promise by its interval: what a loaded machine takes to answer is no part of it."""
        assert 2 * sessions.RECHECK_SECONDS < 5

    async def test_a_revoked_token_ends_its_socket_within_five_seconds(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"user": "me"})
            await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
            assert await socket.close_code() == 4401

    @pytest.mark.parametrize("how", ["signed out", "another password", "unused"])
    async def test_a_sessions_socket_ends_with_it(self, how: str, cast: Cast) -> None:
        user = cast.bob.user
        session, other = await in_thread(make_session, user), await in_thread(make_session, user)
        headers = [(b"cookie", f"berth-session={session.text}".encode()), (b"origin", b"http://127.0.0.1:8620")]
        socket = Socket(URLRouter(websocket_urlpatterns), "/ws/v1/live", headers=headers)
        assert await socket.connect()
        await subscribe(socket, {"user": "me"})
        await in_thread(end, how, user, session, other)
        assert await socket.close_code() == 4401
        await socket.disconnect()

    async def test_a_hint_ends_it_at_once(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "RECHECK_SECONDS", 600)
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"user": "me"})
            await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
            await in_thread(sessions.recheck)
            assert await socket.close_code() == 4401  # Long before it would look by itself.

    async def test_a_disabled_user_is_closed_out(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            cast.bob.user.is_active = False
            await in_thread(cast.bob.user.save)
            await in_thread(sessions.recheck)
            assert await socket.close_code() == 4401

    async def test_who_leaves_a_tenant_stops_hearing_it_and_keeps_the_socket(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            await subscribe(socket, {"tenant": str(cast.tenant.pk)}, id="t")
            await subscribe(socket, {"user": "me"}, id="u")
            await in_thread(lambda: Membership.objects.filter(user=cast.bob.user).delete())
            await in_thread(sessions.recheck)
            assert (await socket.receive()) == {"type": "ended", "id": "t", "code": "not_found"}
            await in_thread(make_events, "job.secret", tenant_id=cast.tenant.pk)
            assert await socket.receive_nothing(timeout=0.3)

    async def test_rights_of_other_users_stay(self, cast: Cast) -> None:
        async with connected(cast.vera.token) as socket:
            await subscribe(socket, {"user": "me"})
            await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
            await in_thread(sessions.recheck)
            await in_thread(make_events, "job.changed", tenant_id=cast.tenant.pk)
            assert (await socket.receive())["event"]["kind"] == "job.changed"


class TestLogs:
    @pytest.fixture
    def source(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def lines(actor: Actor, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
            if request.get("attempt") == 9:
                raise NotFound("There is no attempt 9.")
            for offset in range(int(request.get("cursor", 0)), 3):
                yield {"cursor": offset + 1, "text": f"line {offset}"}

        monkeypatch.setattr(registry, "_log_source", lines)

    async def test_a_log_is_followed_from_a_cursor_to_its_end(self, cast: Cast, source: None) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.bob.token) as socket:
            await socket.send({"subscribe_logs": {"job": str(job_id), "cursor": 1}, "id": "log"})
            received = [await socket.receive() for _ in range(4)]
            assert [message["type"] for message in received] == ["subscribed", "log", "log", "ended"]
            assert [message["text"] for message in received[1:3]] == ["line 1", "line 2"]
            assert {message["id"] for message in received} == {"log"}

    async def test_a_log_of_another_tenant_does_not_exist(self, cast: Cast, source: None) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.carol.token) as socket:
            await socket.send({"subscribe_logs": {"job": str(job_id)}})
            assert (await socket.receive())["code"] == "not_found"

    async def test_an_error_of_the_source_ends_the_subscription_only(self, cast: Cast, source: None) -> None:
        job_id = uuid.uuid4()
        await in_thread(make_events, "job.queued", tenant_id=cast.tenant.pk, job_id=job_id)
        async with connected(cast.bob.token) as socket:
            await socket.send({"subscribe_logs": {"job": str(job_id), "attempt": 9}})
            assert [(await socket.receive())["type"] for _ in range(3)] == ["subscribed", "error", "ended"]
            assert (await subscribe(socket, {"user": "me"}))["type"] == "subscribed"


HALF = "\ud83d"
HOSTILE: list[object] = [
    {"subscribe": {"job": HALF}},
    {"subscribe": {"tenant": HALF}, "id": "a"},
    {"subscribe": {"user": HALF}},
    {"subscribe": {HALF: "x"}},
    {"subscribe": {"job": "a\0b"}},
    {"subscribe": {"job": "x"}, "id": HALF},
    {"subscribe": {"user": "me"}, "id": ["a"]},
    {"subscribe": {"user": "me"}, "after": 10**30},
    {"subscribe": {"user": "me"}, "after": 1.5},
    {"subscribe": {"user": "me"}, "after": True},
    {"subscribe": []},
    {"subscribe": {"job": {"job": "x"}}},
    {"subscribe_logs": HALF},
    {"subscribe_logs": {"job": HALF}},
    {"subscribe_logs": {"job": "x" * 3000}},
    {"unsubscribe": HALF},
    {"unsubscribe": {"a": 1}},
    {"unsubscribe": None},
    [],
    "subscribe",
    None,
    1e308,
]
RAW = ["", "{", "\0", '{"subscribe": {"user": "me"}, "after": NaN}', '{"subscribe": {"user": "me"}, "after": 1e999}', "[" * 4_000,
       '{"subscribe": {"user": "me"}, "subscribe": {"job": "x"}}', '{"subscribe": {"user": "me"}, "after": ' + "9" * 4_000 + "}",
       '{"subscribe": {"job": "\\ud800"}}', "x" * 5_000]  # fmt: skip


class TestWhateverAClientSends:
    @pytest.mark.parametrize("message", HOSTILE, ids=lambda message: repr(message)[:40].encode("ascii", "replace").decode())
    async def test_a_message_that_is_none_is_refused_in_words_and_the_socket_lives(self, cast: Cast, message: object) -> None:
        async with connected(cast.bob.token) as socket:
            with capture_logs() as entries:
                await socket.send(message)
                answer = await socket.receive()
            if answer["type"] != "subscribed":
                assert (answer["type"], bool(answer["detail"])) == ("error", True)
            assert [entry for entry in entries if entry["log_level"] == "error"] == []
            assert (await subscribe(socket, {"user": "me"}, id="after"))["type"] == "subscribed"

    @pytest.mark.parametrize("text", RAW, ids=lambda text: repr(text[:30]))
    async def test_a_text_that_is_no_command_is_refused_in_words_and_the_socket_lives(self, cast: Cast, text: str) -> None:
        async with connected(cast.bob.token) as socket:
            await socket.send_text(text)
            assert (await socket.receive())["type"] == "error"
            assert (await subscribe(socket, {"user": "me"}, id="after"))["type"] == "subscribed"

    async def test_bytes_are_no_command(self, cast: Cast) -> None:
        async with connected(cast.bob.token) as socket:
            await socket.send_bytes(b"\xff\xfe")
            assert (await socket.receive())["type"] == "error"

    async def test_a_fault_of_ours_closes_with_a_code(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(*arguments: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(consumers.LiveConsumer, "_subscribe", fail)
        async with connected(cast.bob.token) as socket:
            await socket.send({"subscribe": {"user": "me"}})
            assert await socket.close_code() == 1011
