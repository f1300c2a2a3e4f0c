"""Device codes by the service: the moments of their life, how often may be asked, and what they leave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from activity.models import AuditEvent
from kernel.errors import Conflict, NotFound, TooManyRequests
from tenants.identity.services import device_codes
from tenants.identity.services.device_codes import (
    INTERVAL_SECONDS,
    INTERVAL_SECONDS_MAX,
    KEPT,
    LETTERS,
    LIFETIME,
    AccessDenied,
    AuthorizationPending,
    ExpiredCode,
    NewDeviceCode,
    SlowDown,
    decide_device_code,
    find_device_code,
    forget_device_codes,
    make_device_code,
    redeem_device_code,
)
from tenants.models import DeviceCode, Token, User
from tests.factories.tenants import Cast
from webapi import throttles

pytestmark = pytest.mark.database
NOON = datetime(2026, 5, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttles, "_redis_rests_until", float("inf"))


def made(client: str = "laptop", at: datetime = NOON) -> NewDeviceCode:
    return make_device_code(client=client, address="192.0.2.7", now=at)


def redeemed(code: NewDeviceCode, at: datetime = NOON) -> str:
    _, issued = redeem_device_code(text=code.text, request_id="r", now=at)
    return issued.text


def test_a_code_is_eight_letters_that_make_no_word_and_is_found_however_it_is_typed(cast: Cast) -> None:
    code = made()

    assert len(code.row.user_code) == 8
    assert set(code.row.user_code) <= set(LETTERS)
    for typed in (code.shown, code.shown.lower(), f" {code.row.user_code[:2]} {code.row.user_code[2:]} "):
        assert find_device_code(actor=cast.bob.actor, text=typed, now=NOON).pk == code.row.pk
    for typed in ("", "---", code.row.user_code[:7]):
        with pytest.raises(NotFound):
            find_device_code(actor=cast.bob.actor, text=typed, now=NOON)


def test_a_code_ends_on_the_second_for_whoever_looks_approves_or_fetches(cast: Cast) -> None:
    late = NOON + LIFETIME
    code, approved = made(), made()
    decide_device_code(actor=cast.bob.actor, code=approved.row, approve=True, now=late - SECOND)

    with pytest.raises(NotFound):
        find_device_code(actor=cast.bob.actor, text=code.shown, now=late)
    with pytest.raises(Conflict):
        decide_device_code(actor=cast.bob.actor, code=code.row, approve=True, now=late)
    with pytest.raises(ExpiredCode):
        redeemed(approved, late)
    assert redeemed(approved, late - SECOND / 2)


def test_an_approved_code_gives_one_token_and_no_second(cast: Cast) -> None:
    code = made("x" * 100)
    decide_device_code(actor=cast.bob.actor, code=code.row, approve=True, now=NOON)
    before = Token.objects.filter(user=cast.bob.user).count()

    assert redeemed(code).startswith("berth_")
    with pytest.raises(ExpiredCode):
        redeemed(code)
    assert Token.objects.filter(user=cast.bob.user).count() == before + 1
    assert len(Token.objects.latest("created_at").name) <= 100


def test_what_was_decided_is_decided_and_a_denial_is_told_as_one(cast: Cast) -> None:
    code = made()
    decide_device_code(actor=cast.bob.actor, code=code.row, approve=False, now=NOON)

    with pytest.raises(Conflict):
        decide_device_code(actor=cast.vera.actor, code=code.row, approve=True, now=NOON)
    with pytest.raises(AccessDenied):
        redeemed(code)
    assert list(AuditEvent.objects.filter(verb__startswith="device_code.").values_list("verb", flat=True)) == ["device_code.deny"]


def test_the_code_of_somebody_who_was_disabled_meanwhile_gives_nothing(cast: Cast) -> None:
    code = made()
    decide_device_code(actor=cast.bob.actor, code=code.row, approve=True, now=NOON)
    User.objects.filter(id=cast.bob.user.pk).update(is_active=False)

    with pytest.raises(AccessDenied):
        redeemed(code)


def test_who_has_as_many_tokens_as_may_be_is_told_so_and_the_code_stays_good(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    code = made()
    decide_device_code(actor=cast.bob.actor, code=code.row, approve=True, now=NOON)
    Token.objects.filter(user=cast.bob.user).update(created_at=NOON, expires_at=NOON + timedelta(days=1))
    monkeypatch.setattr(device_codes, "TOKENS_PER_USER", 1)

    with pytest.raises(Conflict, match="bob has 1 tokens"):
        redeemed(code)
    Token.objects.filter(user=cast.bob.user).update(expires_at=NOON + SECOND)
    assert redeemed(code, NOON + SECOND), "a token that is over does not count"


def test_each_look_that_comes_too_soon_lengthens_the_wait_up_to_a_minute(cast: Cast) -> None:
    code, at = made(), NOON

    with pytest.raises(AuthorizationPending):
        redeemed(code, at)
    waits = []
    for _ in range(13):
        at += SECOND
        with pytest.raises(SlowDown) as refused:
            redeemed(code, at)
        waits.append(refused.value.retry_after_seconds)
    expected = [min(INTERVAL_SECONDS + 5 * number, INTERVAL_SECONDS_MAX) for number in range(1, 14)]
    assert waits == expected
    with pytest.raises(AuthorizationPending):
        redeemed(code, at + timedelta(seconds=INTERVAL_SECONDS_MAX))


def test_whoever_keeps_the_interval_is_never_told_to_slow_down(cast: Cast) -> None:
    code = made()

    for number in range(5):
        with pytest.raises(AuthorizationPending):
            redeemed(code, NOON + number * timedelta(seconds=INTERVAL_SECONDS))
    assert DeviceCode.objects.get().interval_seconds == INTERVAL_SECONDS


def test_so_many_codes_are_open_at_a_time_and_what_is_decided_or_over_makes_room(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_codes, "OPEN_MAX", 1)
    first = made()

    with pytest.raises(TooManyRequests):
        made()
    decide_device_code(actor=cast.bob.actor, code=first.row, approve=False, now=NOON)
    made()
    with pytest.raises(TooManyRequests):
        made()
    made(at=NOON + LIFETIME)


def test_a_short_code_that_was_drawn_before_is_drawn_again_and_not_for_ever(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("B" * 16 + "C" * 8)
    monkeypatch.setattr(device_codes.secrets, "choice", lambda _: next(letters, "B"))

    assert [made().row.user_code for _ in range(2)] == ["B" * 8, "C" * 8]
    with pytest.raises(TooManyRequests, match="No code could be drawn"):
        made()
    assert DeviceCode.objects.count() == 2


def test_codes_are_forgotten_a_day_after_their_end(cast: Cast) -> None:
    old, recent = made(), made(at=NOON + SECOND)

    assert forget_device_codes(NOON + LIFETIME + KEPT) == 0
    assert forget_device_codes(NOON + LIFETIME + KEPT + SECOND) == 1
    assert set(DeviceCode.objects.values_list("id", flat=True)) == {recent.row.pk}
    assert old.row.pk != recent.row.pk
