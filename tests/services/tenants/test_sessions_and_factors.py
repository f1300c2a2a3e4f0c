"""Sessions and second factors in their services: seconds of an end, bounds, keys that are gone, audit rows and events."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyotp
import pytest

from activity.models import AuditEvent, Event
from kernel.actor import ANONYMOUS
from kernel.config import current
from kernel.errors import BerthError, Conflict, Forbidden, InvalidInput, NotAuthenticated, Unavailable
from tenants.identity.known_browsers import KnownBrowser
from tenants.identity.models import BrowserSession
from tenants.identity.services import second_factor as factors
from tenants.identity.services import sessions
from tenants.identity.services.second_factor import (
    BadCode,
    SecondFactorRequired,
    begin_second_factor,
    confirm_second_factor,
    demand_second_factor,
    factor_state,
    remove_second_factor,
    reset_second_factor,
)
from tenants.identity.services.sessions import (
    BadCredentials,
    Browser,
    Locked,
    end_other_sessions,
    end_session,
    forget_sessions,
    live_sessions,
    open_session,
    sign_in,
)
from tenants.models import RecoveryCode, SecondFactor, Token, TokenKind, User
from tests.factories.tenants import SYSTEM, Cast, actor_of, make_service_account, make_session, make_token, now
from webapi import throttles

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("still_counts")]
PASSWORD = "four words of alice"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HERE = Browser(agent=FIREFOX, address="192.0.2.7", request_id="request-1")
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by this process: in Redis they would add up from one test to the next."""
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)


@pytest.fixture
def alice(cast: Cast) -> User:
    user: User = cast.alice.user
    user.set_password(PASSWORD)
    user.save()
    return user


def enter(name: str = "alice", password: str = PASSWORD, code: str | None = None, browser: Browser = HERE) -> sessions.SignedIn:
    return sign_in(name=name, password=password, code=code, browser=browser, now=now())


def refusal(call: Callable[[], Any]) -> tuple[type[BerthError], list[tuple[str, str]]]:
    with pytest.raises(BerthError) as raised:
        call()
    return type(raised.value), [(field.path, field.code) for field in raised.value.fields]


# --- Signing in --------------------------------------------------------------------------------------------------------


def test_a_session_keeps_which_browser_it_is_and_one_audit_row_without_its_secret(alice: User) -> None:
    made = enter()
    row = Token.objects.get(id=made.session.pk)
    assert (row.kind, row.name, row.agent, row.address) == (TokenKind.SESSION, "Firefox on Linux", FIREFOX, "192.0.2.7")
    assert row.expires_at - row.created_at == timedelta(days=current().session_days)
    (audit,) = AuditEvent.objects.filter(verb="session.create")
    assert (audit.actor_id, audit.target_id, audit.request_id) == (alice.pk, str(row.pk), "request-1")
    assert audit.after["by"] == "password"
    assert made.text not in str(audit.after)
    assert made.actor.request_id == "request-1"


def test_what_a_browser_says_of_itself_is_cut_to_its_column(alice: User) -> None:
    made = enter(browser=Browser(agent="Firefox/" + "x" * 10_000, address="y" * 500))
    row = Token.objects.get(id=made.session.pk)
    assert (len(row.agent), len(row.address)) == (sessions.AGENT_LENGTH, sessions.ADDRESS_LENGTH)


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "wrong"), ("alice", ""), ("alice", "x" * 1_001), ("bob", PASSWORD), ("nobody", PASSWORD), ("", PASSWORD),
     ("alice@elsewhere.org", PASSWORD)],
)  # fmt: skip
def test_all_that_is_wrong_is_told_by_one_error(alice: User, name: str, password: str) -> None:
    assert refusal(lambda: enter(name, password)) == (BadCredentials, [])
    assert not Token.objects.filter(kind=TokenKind.SESSION).exists()


def test_a_program_has_no_password_and_signs_in_nowhere(cast: Cast) -> None:
    account = make_service_account(cast.tenant)
    account.set_password(PASSWORD)
    account.save()
    assert refusal(lambda: enter(account.name))[0] is BadCredentials


def test_too_many_tries_say_how_long_to_wait_and_do_not_count_against_a_known_browser(alice: User) -> None:
    kinds = [refusal(lambda: enter(password="wrong"))[0] for _ in range(6)]
    assert kinds == [BadCredentials] * 5 + [Locked]
    with pytest.raises(Locked) as locked:
        enter()
    assert 0 < (locked.value.retry_after_seconds or 0) <= 61
    known = Browser(agent=FIREFOX, address="192.0.2.7", known=KnownBrowser(alice.pk, "key"))
    assert enter(browser=known).user == alice
    of_bob = Browser(agent=FIREFOX, address="192.0.2.7", known=KnownBrowser(alice.pk, "key"))
    assert refusal(lambda: enter("bob", "wrong", browser=of_bob))[0] is BadCredentials


def test_the_longest_unused_session_ends_for_a_new_one_and_is_told(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_PER_USER", 2)
    old, fresh = make_session(alice), make_session(alice)
    token = make_token(alice)
    Token.objects.filter(id=old.token.pk).update(last_used_at=now() - timedelta(minutes=5))
    made = open_session(alice, browser=HERE, how="password", now=now())
    live = set(live_sessions(BrowserSession.objects.filter(user=alice), now=now()).values_list("id", flat=True))
    assert live & {old.token.pk, fresh.token.pk, made.session.pk} == {fresh.token.pk, made.session.pk}
    assert Event.objects.get(kind="token.revoked").subject_id == old.token.pk
    assert Token.objects.get(id=token.token.pk).revoked_at is None


@pytest.mark.parametrize(
    ("column", "ago", "is_live"),
    [
        ("expires_at", timedelta(), False),
        ("expires_at", -SECOND, True),
        ("last_used_at", timedelta(hours=1), False),
        ("last_used_at", timedelta(hours=1) - SECOND, True),
        ("revoked_at", timedelta(), False),
    ],
)
def test_a_session_is_live_until_the_second_of_its_end(
    alice: User, configure: Callable[..., Any], column: str, ago: timedelta, is_live: bool
) -> None:
    configure(session_idle_hours=1)
    at, made = now(), make_session(alice)
    Token.objects.filter(id=made.token.pk).update(**{column: at - ago}, created_at=at - timedelta(days=2))
    rows = live_sessions(BrowserSession.objects.filter(id=made.token.pk), now=at)
    assert rows.exists() is is_live


# --- Ending ------------------------------------------------------------------------------------------------------------


def test_a_session_ends_once_and_only_by_its_owner(cast: Cast, alice: User) -> None:
    mine, bobs = make_session(alice), make_session(cast.bob.user)
    actor = actor_of(alice, make_session(alice))
    assert not end_session(actor=actor, session=bobs.token, now=now())
    assert end_session(actor=actor, session=mine.token, now=now())
    assert not end_session(actor=actor, session=mine.token, now=now())
    assert AuditEvent.objects.filter(verb="session.delete").count() == 1
    assert Event.objects.filter(kind="token.revoked").count() == 1
    with pytest.raises(NotAuthenticated):
        end_session(actor=ANONYMOUS, session=mine.token, now=now())


def test_ending_all_others_leaves_the_one_that_asks_and_all_tokens(cast: Cast, alice: User) -> None:
    asking, others = make_session(alice), [make_session(alice) for _ in range(3)]
    make_session(cast.bob.user)
    assert end_other_sessions(actor=actor_of(alice, asking), now=now()) == 3
    assert end_other_sessions(actor=actor_of(alice, asking), now=now()) == 0
    left = Token.objects.filter(user=alice, revoked_at__isnull=True)
    assert {row.kind for row in left} == {TokenKind.PERSONAL, TokenKind.SESSION}
    assert not left.filter(id__in=[session.token.pk for session in others]).exists()
    assert end_other_sessions(actor=SYSTEM, now=now()) == 0


def test_ending_many_takes_as_many_statements_as_ending_two(alice: User, django_assert_max_num_queries: Any) -> None:
    asking = make_session(alice)
    for _ in range(20):
        make_session(alice)
    with django_assert_max_num_queries(14):
        assert end_other_sessions(actor=actor_of(alice, asking), now=now()) == 20


@pytest.mark.parametrize("column", ["expires_at", "revoked_at"])
def test_what_ended_is_kept_for_a_month_to_the_second(alice: User, column: str) -> None:
    at, made = now(), make_session(alice)
    token = make_token(alice)
    created = {"created_at": at - timedelta(days=90)}
    Token.objects.filter(id=token.token.pk).update(**{column: at - timedelta(days=60)}, **created)
    Token.objects.filter(id=made.token.pk).update(**{column: at - sessions.KEPT}, **created)
    assert forget_sessions(at) == 0
    assert forget_sessions(at + SECOND) == 1
    assert Token.objects.filter(id=token.token.pk).exists(), "tokens are no sessions"


def test_forgetting_is_bounded_and_goes_on_where_it_stopped(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FORGET_MAX", 2)
    for _ in range(3):
        make_session(alice)
    Token.objects.filter(kind=TokenKind.SESSION).update(revoked_at=now() - timedelta(days=31))
    assert [forget_sessions(now()) for _ in range(3)] == [2, 1, 0]


# --- Second factor -----------------------------------------------------------------------------------------------------


def digits(secret: str, at: datetime, *, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(at + steps * timedelta(seconds=30))


def enrolled(user: User, at: datetime) -> tuple[str, list[str]]:
    actor = actor_of(user, make_session(user))
    secret = begin_second_factor(actor=actor, user=user, password=PASSWORD, now=at).secret
    return secret, confirm_second_factor(actor=actor, user=user, code=digits(secret, at), now=at).recovery_codes


def test_a_factor_that_is_not_confirmed_asks_nothing_and_is_replaced(alice: User) -> None:
    at, actor = now(), actor_of(alice)
    first = begin_second_factor(actor=actor, user=alice, password=PASSWORD, now=at)
    demand_second_factor(alice, None, now=at)
    assert factor_state(alice.pk) == factors.FactorState(False, 0)
    second = begin_second_factor(actor=actor, user=alice, password=PASSWORD, now=at)
    assert first.secret != second.secret
    assert SecondFactor.objects.filter(user=alice).count() == 1
    assert first.secret not in SecondFactor.objects.get(user=alice).ciphertext
    assert refusal(lambda: confirm_second_factor(actor=actor, user=alice, code=digits(first.secret, at), now=at)) == (
        InvalidInput, [("/code", "bad_code")],
    )  # fmt: skip


def test_what_is_confirmed_counts_ends_other_sessions_and_leaves_tokens(alice: User) -> None:
    at, elsewhere, token = now(), make_session(alice), make_token(alice)
    _secret, codes = enrolled(alice, at)
    assert factor_state(alice.pk) == factors.FactorState(True, factors.RECOVERY_CODES)
    assert len(set(codes)) == factors.RECOVERY_CODES
    assert all(len(code) == 19 and set(code) <= set(factors.LETTERS + "-") for code in codes)
    assert Token.objects.get(id=elsewhere.token.pk).revoked_at is not None
    assert Token.objects.get(id=token.token.pk).revoked_at is None
    assert not RecoveryCode.objects.filter(digest__in=codes).exists(), "only digests are kept"
    assert list(AuditEvent.objects.filter(verb__startswith="second_factor").order_by("id").values_list("verb", flat=True)) == [
        "second_factor.begin", "second_factor.confirm",
    ]  # fmt: skip


@pytest.mark.parametrize(("steps", "is_taken"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_codes_of_the_half_minute_before_and_after_count(alice: User, steps: int, is_taken: bool) -> None:
    at = now()
    secret, _ = enrolled(alice, at)
    later = at + timedelta(minutes=10)
    try:
        demand_second_factor(alice, digits(secret, later, steps=steps), now=later)
    except BadCode:
        assert not is_taken
    else:
        assert is_taken


def test_no_code_is_taken_twice_nor_one_that_is_older(alice: User) -> None:
    at = now()
    secret, _ = enrolled(alice, at)
    later = at + timedelta(minutes=10)
    demand_second_factor(alice, digits(secret, later), now=later)
    for steps in (0, -1):
        assert refusal(lambda: demand_second_factor(alice, digits(secret, later, steps=steps), now=later))[0] is BadCode  # noqa: B023
    spaced = digits(secret, later, steps=1)
    demand_second_factor(alice, f"{spaced[:3]} {spaced[3:]}", now=later)


@pytest.mark.parametrize(
    "code",
    [
        "12345",
        "1234567",
        "abcdef",
        "\uff11\uff12\uff13\uff14\uff15\uff16",
        "\u0661\u0662\u0663\u0664\u0665\u0666",
        "-",
        "x" * 10_000,
    ],
)
def test_what_is_no_code_is_counted_as_a_wrong_one(alice: User, code: str) -> None:
    at = now()
    enrolled(alice, at)
    assert refusal(lambda: demand_second_factor(alice, code, now=at))[0] is BadCode
    assert SecondFactor.objects.get(user=alice).failures == 1


def test_a_missing_code_is_asked_for_and_not_counted(alice: User) -> None:
    at = now()
    enrolled(alice, at)
    for code in (None, ""):
        assert refusal(lambda: demand_second_factor(alice, code, now=at))[0] is SecondFactorRequired  # noqa: B023
    assert SecondFactor.objects.get(user=alice).failures == 0


def test_after_ten_wrong_codes_the_right_one_waits_a_quarter_of_an_hour_to_the_second(alice: User) -> None:
    at = now()
    secret, codes = enrolled(alice, at)
    for _ in range(factors.FAILURES_MAX):
        assert refusal(lambda: demand_second_factor(alice, "000000", now=at))[0] is BadCode
    early = at + factors.FAILURE_PAUSE - SECOND
    for code in (digits(secret, early), codes[0]):
        with pytest.raises(BadCode) as refused:
            demand_second_factor(alice, code, now=early)
        assert refused.value.retry_after_seconds == 2
    assert RecoveryCode.objects.filter(user=alice, used_at__isnull=True).count() == factors.RECOVERY_CODES
    over = at + factors.FAILURE_PAUSE
    demand_second_factor(alice, digits(secret, over), now=over)
    assert SecondFactor.objects.get(user=alice).failures == 0


def test_a_recovery_code_works_once_however_it_is_written_and_for_its_owner_alone(cast: Cast, alice: User) -> None:
    at = now()
    _secret, codes = enrolled(alice, at)
    demand_second_factor(alice, codes[0].upper().replace("-", " "), now=at)
    assert refusal(lambda: demand_second_factor(alice, codes[0], now=at))[0] is BadCode
    assert factor_state(alice.pk).recovery_codes_left == factors.RECOVERY_CODES - 1
    bob: User = cast.bob.user
    bob.set_password(PASSWORD)
    bob.save()
    enrolled(bob, at)
    assert refusal(lambda: demand_second_factor(bob, codes[1], now=at))[0] is BadCode


def test_a_factor_is_set_up_by_its_owner_with_the_password_of_the_account(cast: Cast, alice: User) -> None:
    at = now()
    assert refusal(lambda: begin_second_factor(actor=cast.otto.actor, user=alice, password=PASSWORD, now=at))[0] is Forbidden
    assert refusal(lambda: begin_second_factor(actor=actor_of(alice), user=alice, password="wrong", now=at)) == (
        InvalidInput, [("/password", "wrong_password")],
    )  # fmt: skip
    bob = cast.bob.user
    assert refusal(lambda: begin_second_factor(actor=actor_of(bob), user=bob, password="", now=at))[0] is Conflict
    assert refusal(lambda: confirm_second_factor(actor=actor_of(bob), user=bob, code="000000", now=at))[0] is Conflict
    assert not SecondFactor.objects.exists()


def test_a_factor_goes_by_password_and_code_or_by_an_operator_and_never_by_a_manager(cast: Cast, alice: User) -> None:
    at, actor = now(), actor_of(alice)
    assert refusal(lambda: remove_second_factor(actor=actor, user=alice, password=PASSWORD, code="0", now=at))[0] is Conflict
    _secret, codes = enrolled(alice, at)
    assert refusal(lambda: remove_second_factor(actor=actor, user=alice, password="x", code=codes[0], now=at))[0] is InvalidInput
    assert refusal(lambda: remove_second_factor(actor=actor, user=alice, password=PASSWORD, code="0", now=at))[0] is BadCode
    assert refusal(lambda: reset_second_factor(actor=cast.bob.actor, user=alice, now=at))[0] is Forbidden
    assert factor_state(alice.pk).enabled
    remove_second_factor(actor=actor, user=alice, password=PASSWORD, code=codes[0], now=at)
    assert (SecondFactor.objects.exists(), RecoveryCode.objects.exists()) == (False, False)
    enrolled(alice, at)
    reset_second_factor(actor=cast.otto.actor, user=alice, now=at)
    reset_second_factor(actor=cast.otto.actor, user=alice, now=at)
    assert not factor_state(alice.pk).enabled
    assert AuditEvent.objects.filter(verb="second_factor.reset").count() == 2


def test_under_a_key_that_is_gone_no_code_is_taken_and_none_is_called_wrong(alice: User, settings: Any) -> None:
    at = now()
    secret, codes = enrolled(alice, at)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", []
    later = at + timedelta(minutes=5)
    assert refusal(lambda: demand_second_factor(alice, digits(secret, later), now=later))[0] is Unavailable
    assert SecondFactor.objects.get(user=alice).failures == 0
    demand_second_factor(alice, codes[0], now=later)
