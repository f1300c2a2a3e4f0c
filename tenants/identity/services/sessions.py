"""Sessions of browsers: made by a password and a second factor, ended by hand, by time, or with whatever they rest on.

A session is a row of Token, so that whatever ends tokens ends sessions: revoking, disabling, another password. Each sign-in
makes a new one; nothing that a browser brought before it survives (security C21).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from activity.services import record_audit
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import BerthError
from kernel.words import Text
from tenants.identity.access import actor_for, demand
from tenants.identity.known_browsers import KnownBrowser
from tenants.identity.login_throttle import Tries, of_owner, of_stranger
from tenants.identity.models import BrowserSession, Token, TokenKind, User, UserKind
from tenants.identity.permissions import Scope
from tenants.identity.services import passwords
from tenants.identity.services.addresses import find_by_confirmed_address
from tenants.identity.services.directory_people import user_by_directory
from tenants.identity.services.second_factor import demand_second_factor
from tenants.identity.services.tokens import NAME_LENGTH, issue, tell_revoked
from tenants.identity.user_agents import device_of

SESSIONS_PER_USER = 50  # The longest unused end first: a script that signs in for ever fills nothing.
AGENT_LENGTH = 200
KEPT = timedelta(days=30)  # What happened stands in the audit for longer.
FORGET_MAX = 1_000
ADDRESS_LENGTH = 45

log = structlog.get_logger("tenants")


class BadCredentials(BerthError):
    """There is no user of this name who may sign in with this password. It says no more, and takes as long for any name."""

    code = "bad_credentials"
    status = 401
    title = Text("Name or password is wrong", "用户名或密码错误")


class Locked(BerthError):
    """There were too many attempts for this name or from this address."""

    code = "locked"
    status = 429
    title = Text("Too many attempts", "尝试次数过多")
    retryable = True


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session with its secret text, which goes into the cookie and nowhere else."""

    user: User
    session: Token
    text: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class Browser:
    """What a request tells of the browser that sent it."""

    agent: str
    address: str
    request_id: str = ""
    known: KnownBrowser | None = None


def sign_in(*, name: str, password: str, code: str | None, browser: Browser, now: datetime) -> SignedIn:
    """Make a session for a user who knows the password, and the second factor where there is one. BadCredentials, Locked,
    SecondFactorRequired or BadCode; DirectoryRefused or DirectoryUnavailable."""
    tries = tries_of(name, browser)
    refuse_many(tries)
    user, how = user_by_password(name, password), "password"
    if user is None:
        user, how = user_by_directory(name, password, namesake=_find_person(name.strip()), now=now), "directory"
    if user is None:
        log.info("sign_in_refused", reason="bad_credentials", address=browser.address)
        raise _bad_credentials()
    demand_second_factor(user, code, now=now)
    tries.give_back()
    with transaction.atomic():
        # A change of password or a disabling meanwhile ended all sessions, and could not end this one.
        locked = User.objects.select_for_update(no_key=True).get(id=user.pk)
        if locked.password != user.password or not locked.is_active:
            raise _bad_credentials()
        return open_session(user, browser=browser, how=how, now=now)


def tries_of(name: str, browser: Browser) -> Tries:
    """What a try at a name counts for. A query only for a browser in which a user signed in before."""
    owner = _find_person(name.strip()) if browser.known is not None else None
    if browser.known is not None and owner is not None and owner.pk == browser.known.user_id:
        return of_owner(owner.pk, browser.known.key)
    return of_stranger(name, browser.address)


def refuse_many(tries: Tries) -> None:
    """Count a try; Locked when there were too many."""
    wait = tries.count()
    if wait:
        raise Locked(
            Text("There were too many attempts for this name or from this address.", "此用户名或此地址的尝试次数过多。"),
            hint=Text(
                "Wait as long as Retry-After says. Tries of others do not count in a browser in which you signed in before.",
                "请等待 Retry-After 所示的时间。在您登录过的浏览器中，他人的尝试不计入。",
            ),
            retry_after_seconds=wait,
        )


def refuse_many_own(actor: Actor, user: User) -> None:
    """The same for a signed-in user who tries their own password or code, whatever strangers try meanwhile."""
    refuse_many(of_owner(user.pk, actor.token_id))


def user_by_password(name: str, password: str) -> User | None:
    """The active person with this name or confirmed e-mail address and this password. One hash is computed in every case."""
    user = _find_person(name.strip())
    return user if passwords.is_own(user, password) and user is not None and user.is_active else None


def open_session(user: User, *, browser: Browser, how: str, now: datetime) -> SignedIn:
    """Write a session's row and its audit row: for those who have made sure whose it is."""
    device = device_of(browser.agent)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(id=user.pk)
        _end_oldest(user, now)
        issued = issue(
            user,
            name=device.words[:NAME_LENGTH],
            scopes=[Scope.ALL],
            lifetime=timedelta(days=current().session_days),
            now=now,
            kind=TokenKind.SESSION,
            agent=browser.agent[:AGENT_LENGTH],
            address=browser.address[:ADDRESS_LENGTH],
        )
        actor = actor_for(user, issued.token, request_id=browser.request_id)
        record_audit(
            actor=actor,
            verb="session.create",
            tenant_id=None,
            target_kind="session",
            target_id=issued.token.pk,
            target_name=device.words,
            after={"user": user.name, "by": how, "address": browser.address, "expires_at": issued.token.expires_at},
            at=now,
        )
    return SignedIn(user, issued.token, issued.text, actor)


def live_sessions(rows: QuerySet[BrowserSession], *, now: datetime) -> QuerySet[BrowserSession]:
    """Those of the rows that still let their user in."""
    used_since = now - timedelta(hours=current().session_idle_hours)
    return rows.filter(revoked_at__isnull=True, expires_at__gt=now, last_used_at__gt=used_since)


def end_session(*, actor: Actor, session: Token, now: datetime) -> bool:
    """End one's own session at once, with its live connections; False if it was over before."""
    demand(actor, None, "session.delete")
    return bool(_end(actor, [session], now))


def end_other_sessions(*, actor: Actor, now: datetime) -> int:
    """End all one's sessions but the one that asks; returns how many."""
    demand(actor, None, "session.delete")
    if actor.user_id is None:
        return 0
    rows = live_sessions(BrowserSession.objects.filter(user_id=actor.user_id, kind=TokenKind.SESSION), now=now)
    return _end(actor, [row for row in rows if row.pk != actor.token_id], now)


def forget_sessions(now: datetime) -> int:
    """Delete sessions that were over a month ago, a bounded number at once; returns how many. A part of the sweep."""
    over = Q(expires_at__lt=now - KEPT) | Q(revoked_at__lt=now - KEPT)
    ids = list(Token.objects.filter(over, kind=TokenKind.SESSION).order_by("id").values_list("id", flat=True)[:FORGET_MAX])
    return Token.objects.filter(id__in=ids).delete()[0] if ids else 0


def _bad_credentials() -> BadCredentials:
    return BadCredentials(
        Text("There is no account of this name with this password.", "用户名或密码错误。"),
        hint=Text("Check both; capitals matter.", "请核对两者；区分大小写。"),
    )


def _end(actor: Actor, sessions: list[Token] | list[BrowserSession], now: datetime) -> int:
    with transaction.atomic():
        ids = [session.pk for session in sessions]
        own = Token.objects.select_for_update().filter(id__in=ids, revoked_at__isnull=True)
        live = [session for session in own if session.user_id == actor.user_id]
        if not live:
            return 0
        Token.objects.filter(id__in=[session.pk for session in live]).update(revoked_at=now)
        tell_revoked(live, now=now)
        record_audit(
            actor=actor,
            verb="session.delete",
            tenant_id=None,
            target_kind="session",
            target_id=live[0].pk,
            target_name=live[0].name,
            before={"user": actor.name, "sessions": len(live)},
            at=now,
        )
    return len(live)


def _end_oldest(user: User, now: datetime) -> None:
    rows = live_sessions(BrowserSession.objects.filter(user=user, kind=TokenKind.SESSION), now=now)
    surplus: list[Token] = list(rows.order_by("-last_used_at", "-id")[SESSIONS_PER_USER - 1 :])
    if surplus:
        Token.objects.filter(id__in=[session.pk for session in surplus]).update(revoked_at=now)
        tell_revoked(surplus, now=now)


def _find_person(name: str) -> User | None:
    people = User.objects.filter(kind=UserKind.PERSON)
    found = people.filter(name=name).first() or people.filter(name=name.lower()).first()
    # An address that people only say of themselves is no name: trying to sign in by it would tell whether others have it.
    return found or (find_by_confirmed_address(people, name) if "@" in name else None)
