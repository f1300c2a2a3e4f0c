"""Texts of identity: tokens, sealed cookies, signatures, names of browsers, names of people, and passwords."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import time_machine
from cryptography.fernet import InvalidToken

from kernel.actor import TenantRole
from kernel.errors import InvalidInput
from tenants.billing.signing import Signed, is_signed, public_keys, sign
from tenants.identity.identity_claims import Claims, SignInFailed
from tenants.identity.known_browsers import KNOWN_SECONDS, KnownBrowser, seal, unseal
from tenants.identity.models import TokenKind
from tenants.identity.services import names
from tenants.identity.services.addresses import is_same_address
from tenants.identity.services.names import Problems
from tenants.identity.standing import BEGINNINGS, JOININGS, Disabled, TenantDisabled, refusal
from tenants.identity.token_text import PREFIX_LENGTH, SCHEMES, digest_of, prefix_of
from tenants.identity.user_agents import device_of
from webapi.encryption import box_for

ALICE, BOB = uuid.UUID(int=1), uuid.UUID(int=2)


class Keys:
    """The installation's keys: `rotate` puts the present one behind a new one, `forget` drops all but the present one."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "first", []

    def rotate(self, key: str) -> None:
        self._settings.SECRET_KEY_FALLBACKS = [self._settings.SECRET_KEY, *self._settings.SECRET_KEY_FALLBACKS]
        self._settings.SECRET_KEY = key

    def forget(self) -> None:
        self._settings.SECRET_KEY_FALLBACKS = []


@pytest.fixture
def keys(settings: Any) -> Keys:
    return Keys(settings)


# --- Texts of tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("berth_abcdefabcdef_secret", TokenKind.PERSONAL, "abcdefabcdef"),
        ("berthsession_abcdefabcdef_secret", TokenKind.SESSION, "abcdefabcdef"),
        ("berth_abcdefabcdef_se_cr_et", TokenKind.PERSONAL, "abcdefabcdef"),
        ("berth_abcdefabcdef_secret", TokenKind.SESSION, None),
        ("berthsession_abcdefabcdef_secret", TokenKind.PERSONAL, None),
        ("berth_abcdefabcdef_", TokenKind.PERSONAL, None),
        ("berth_abcdefabcdef", TokenKind.PERSONAL, None),
        ("berth_abcdefabcde_secret", TokenKind.PERSONAL, None),
        ("berth_abcdefabcdefa_secret", TokenKind.PERSONAL, None),
        ("BERTH_abcdefabcdef_secret", TokenKind.PERSONAL, None),
        (" berth_abcdefabcdef_secret", TokenKind.PERSONAL, None),
        ("berth_abcdefabcdef_secr\u00e9t", TokenKind.PERSONAL, None),
        ("", TokenKind.PERSONAL, None),
        ("_", TokenKind.PERSONAL, None),
        ("__", TokenKind.PERSONAL, None),
    ],
)
def test_a_prefix_is_read_from_what_can_be_a_token_of_the_kind(text: str, kind: TokenKind, expected: str | None) -> None:
    assert prefix_of(text, kind) == expected


@pytest.mark.parametrize(("length", "is_token"), [(200, True), (201, False)])
def test_a_token_has_at_most_two_hundred_characters(length: int, is_token: bool) -> None:
    text = f"berth_{'a' * PREFIX_LENGTH}_".ljust(length, "x")
    assert (prefix_of(text) is not None) is is_token


def test_every_kind_of_credential_has_a_scheme_of_its_own_and_a_digest_of_64_signs() -> None:
    assert set(SCHEMES) == set(TokenKind)
    assert len(set(SCHEMES.values())) == len(SCHEMES)
    assert digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_of("a") != digest_of("A")
    assert len(digest_of("\U0001f600" * 100)) == 64


# --- Keys --------------------------------------------------------------------------------------------------------------


def test_a_box_opens_what_it_closed_and_no_box_of_another_purpose_does(keys: Keys) -> None:
    closed = box_for(b"one").encrypt(b"value")
    assert box_for(b"one").decrypt(closed) == b"value"
    assert b"value" not in closed
    for purpose in (b"two", b"", b"one "):
        with pytest.raises(InvalidToken):
            box_for(purpose).decrypt(closed)


def test_after_a_rotation_the_former_key_opens_and_the_new_one_closes(keys: Keys) -> None:
    old = box_for(b"one").encrypt(b"value")
    keys.rotate("second")
    assert box_for(b"one").decrypt(old) == b"value"
    moved = box_for(b"one").rotate(old)
    keys.forget()
    assert box_for(b"one").decrypt(moved) == b"value"
    with pytest.raises(InvalidToken):
        box_for(b"one").decrypt(old)


def test_a_key_may_be_bytes_or_text(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "same", []
    closed, signed = box_for(b"one").encrypt(b"value"), sign(b"data")
    settings.SECRET_KEY = b"same"
    assert box_for(b"one").decrypt(closed) == b"value"
    assert sign(b"data") == signed


def test_a_signature_is_of_the_bytes_to_the_last_bit_and_of_the_key_that_it_names(keys: Keys) -> None:
    signed = sign(b"statement")
    assert signed == sign(b"statement"), "the same letters every time"
    assert is_signed(b"statement", signed)
    assert not is_signed(b"statement ", signed)
    assert not is_signed(b"", signed)
    keys.rotate("second")
    other = sign(b"statement")
    assert not is_signed(b"statement", Signed(signed.signature, other.public_key))
    assert is_signed(b"statement", signed), "a signature stays right when the key was changed"


@pytest.mark.parametrize("broken", ["", "!", "AAAA", "\u00e9", "A" * 10_000])
def test_what_is_no_signature_or_no_key_signs_nothing(broken: str, keys: Keys) -> None:
    signed = sign(b"x")
    assert not is_signed(b"x", Signed(broken, signed.public_key))
    assert not is_signed(b"x", Signed(signed.signature, broken))


def test_keys_of_the_installation_are_the_present_one_first_then_the_former_ones(keys: Keys) -> None:
    first = sign(b"x").public_key
    keys.rotate("second")
    second = sign(b"x").public_key
    assert public_keys() == [second, first]
    keys.forget()
    assert public_keys() == [second]
    assert first != second


# --- Browsers ----------------------------------------------------------------------------------------------------------


def test_a_browser_stays_the_same_one_for_its_owner_and_becomes_another_for_others(keys: Keys) -> None:
    first = unseal(seal(ALICE, None))
    assert first is not None
    assert first.user_id == ALICE
    assert unseal(seal(ALICE, first)) == first
    other = unseal(seal(BOB, first))
    assert other is not None
    assert (other.user_id, other.key == first.key) == (BOB, False)
    again = unseal(seal(ALICE, None))
    assert again is not None
    assert again.key != first.key, "each new browser has a key of its own"


@pytest.mark.parametrize("seconds", [0, KNOWN_SECONDS - 1, KNOWN_SECONDS])
def test_a_cookie_is_believed_for_half_a_year(seconds: int, keys: Keys) -> None:
    with time_machine.travel(1_000_000_000, tick=False) as clock:
        text = seal(ALICE, None)
        clock.shift(seconds)
        assert unseal(text) is not None
        clock.shift(KNOWN_SECONDS + 1 - seconds)
        assert unseal(text) is None


@pytest.mark.parametrize("text", [None, "", "x", "\u00e9", "gAAAAA" + "A" * 100])
def test_what_is_no_cookie_of_ours_says_nothing(text: str | None, keys: Keys) -> None:
    assert unseal(text) is None


@pytest.mark.parametrize(
    "inside", [b"", b"[]", b"{}", b"null", b'["x", "y"]', b'["00000000-0000-0000-0000-000000000001"]', b"\xff"]
)
def test_a_cookie_of_another_make_says_nothing(inside: bytes, keys: Keys) -> None:
    assert unseal(box_for(b"berth known browser v1").encrypt(inside).decode()) is None


def test_a_cookie_of_another_purpose_or_of_a_forgotten_key_says_nothing(keys: Keys) -> None:
    text = seal(ALICE, KnownBrowser(ALICE, "key"))
    assert unseal(box_for(b"another").encrypt(b'["00000000-0000-0000-0000-000000000001", "key"]').decode()) is None
    keys.rotate("second")
    assert unseal(text) == KnownBrowser(ALICE, "key")
    keys.forget()
    assert unseal(text) is None


CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("agent", "browser", "system", "words"),
    [
        (CHROME, "Chrome", "Windows", "Chrome on Windows"),
        (f"{CHROME} Edg/141.0", "Edge", "Windows", "Edge on Windows"),
        (f"{CHROME} OPR/120.0", "Opera", "Windows", "Opera on Windows"),
        (f"{CHROME} Vivaldi/7.0", "Vivaldi", "Windows", "Vivaldi on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox", "Linux", "Firefox on Linux"),
        ("Mozilla/5.0 (Linux; Android 15; SM) SamsungBrowser/28.0 Chrome/130 Mobile Safari/537", "Samsung Internet", "Android",
         "Samsung Internet on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) CriOS/141.0 Mobile Safari/604", "Chrome", "iPhone",
         "Chrome on iPhone"),
        ("Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) Version/18.0 Safari/604", "Safari", "iPad", "Safari on iPad"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14_0) Version/18.0 Safari/605", "Safari", "macOS", "Safari on macOS"),
        ("Mozilla/5.0 (X11; CrOS x86_64 15) Chrome/141 Safari/537", "Chrome", "ChromeOS", "Chrome on ChromeOS"),
        ("curl/8.5.0", "curl", None, "curl"),
        ("python-requests (Linux)", None, "Linux", "Browser on Linux"),
        ("", None, None, "Unknown browser"),
        ("<script>alert(1)</script>", None, None, "Unknown browser"),
    ],
)  # fmt: skip
def test_a_browser_is_named_as_its_owner_knows_it(agent: str, browser: str | None, system: str | None, words: str) -> None:
    device = device_of(agent)
    assert (device.browser, device.system, device.words) == (browser, system, words)


# --- What others say, and what a tenant is ---------------------------------------------------------------------------


def test_a_failed_sign_in_tells_its_code_and_keeps_the_reason() -> None:
    failed = SignInFailed("expired", "the state was of yesterday")
    assert (failed.code, str(failed)) == ("expired", "the state was of yesterday")


def test_no_groups_and_groups_of_which_nothing_was_said_are_not_the_same() -> None:
    said = Claims("issuer", "subject", "a@example.org", True, "Alice", ())
    assert said != Claims("issuer", "subject", "a@example.org", True, "Alice", None)


@pytest.mark.parametrize(
    ("why", "detail"),
    [
        (Disabled(), {}),
        (Disabled(reason="unpaid"), {"note": "unpaid"}),
        (Disabled(is_above=True), {"above": True}),
        (Disabled(is_above=True, reason="not theirs to read"), {"above": True}),
    ],
)
def test_the_reason_of_a_tenant_above_is_not_told(why: Disabled, detail: dict[str, object]) -> None:
    assert why.as_detail() == detail


def test_a_refusal_names_the_reason_that_was_given_and_says_when_there_is_no_way_back() -> None:
    told, silent, gone = (refusal(why, "vision") for why in (Disabled(reason="unpaid"), Disabled(), Disabled(is_deleted=True)))
    assert all(isinstance(error, TenantDisabled) and error.code == "tenant_disabled" for error in (told, silent, gone))
    assert "unpaid" in str(told)
    assert "enable" not in gone.hint
    assert not BEGINNINGS & JOININGS


# --- Names -------------------------------------------------------------------------------------------------------------


def codes(problems: Problems) -> list[tuple[str, str]]:
    return [(field.path, field.code) for field in problems.fields]


ID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a", None), ("x" * 63, None), ("\u56fe\u50cf\u7ec4", None), ("Vision & Language (2)", None), ("a-b", None),
        ("", "bad_length"), ("x" * 64, "bad_length"),
        (" a", "bad_characters"), ("a ", "bad_characters"), ("a/b", "bad_characters"), ("a\\b", "bad_characters"),
        ("a:b", "bad_characters"), ("a\nb", "bad_characters"), ("a\x00b", "bad_characters"), ("a\u202eb", "bad_characters"),
        ("-rf", "leading_hyphen"), (ID, "looks_like_id"), (ID.upper(), "looks_like_id"), (ID.replace("-", ""), "looks_like_id"),
        (ID + "0", None),
    ],
)  # fmt: skip
def test_a_display_name_is_printable_and_cannot_be_taken_for_a_path_an_option_or_an_id(text: str, code: str | None) -> None:
    problems = Problems()
    names.display_name(text, problems)
    assert codes(problems) == ([] if code is None else [("/name", code)])


def test_a_display_name_is_kept_in_one_form() -> None:
    assert names.display_name("e\u0301", Problems()) == "\u00e9"
    problems = Problems()
    names.display_name("e\u0301" * 63, problems)
    assert codes(problems) == [], "counted in the form that is kept"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a", None), ("0", None), ("a.b-c_d", None), ("x" * 63, None),
        ("x" * 64, "bad_user_name"), ("", "bad_user_name"), ("A", "bad_user_name"), (".a", "bad_user_name"),
        ("-a", "bad_user_name"), ("a b", "bad_user_name"), ("a\n", "bad_user_name"), ("\u00e9", "bad_user_name"),
        ("system:x", "bad_user_name"), ("a@b", "bad_user_name"), (ID, "looks_like_id"),
    ],
)  # fmt: skip
def test_a_user_name_has_a_grammar(text: str, code: str | None) -> None:
    problems = Problems()
    assert names.user_name(text, problems) == text
    assert codes(problems) == ([] if code is None else [("/name", code)])


@pytest.mark.parametrize(
    ("text", "is_name"),
    [
        ("HF_TOKEN", True), ("_", True), ("a.b-c", True), ("x" * 128, True),
        ("x" * 129, False), ("", False), ("1a", False), ("a b", False), ("a=b", False), ("a\n", False), ("-a", False),
    ],
)  # fmt: skip
def test_a_secret_is_named_like_a_variable(text: str, is_name: bool) -> None:
    problems = Problems()
    names.secret_name(text, problems, path="/secrets/0")
    assert codes(problems) == ([] if is_name else [("/secrets/0", "bad_secret_name")])


@pytest.mark.parametrize(
    ("text", "required", "kept", "is_address"),
    [
        ("", False, "", True), ("  ", False, "", True), ("", True, "", False), (" a@example.org ", True, "a@example.org", True),
        ("a", False, "a", False), ("a@", False, "a@", False), ("a@example.org, b@example.org", False, None, False),
        ("a@example.org\nBcc: b@example.org", False, None, False),
        ("a" * 60 + "@" + ".".join(["b" * 60] * 3) + ".org", False, None, True),
        ("a" * 255, False, None, False),
    ],
)  # fmt: skip
def test_an_address_is_one_address_or_nothing(text: str, required: bool, kept: str | None, is_address: bool) -> None:
    problems = Problems()
    found = names.email_address(text, problems, required=required)
    assert codes(problems) == ([] if is_address else [("/email", "bad_email")])
    assert kept is None or found == kept


def test_a_role_has_one_of_three_names() -> None:
    problems = Problems()
    assert [names.role_name(str(role), problems) for role in TenantRole] == list(TenantRole)
    assert names.role_name("Manager", problems) is None
    assert names.role_name("x" * 1_000, problems, path="/people/3/role") is None
    assert codes(problems) == [("/role", "unknown_role"), ("/people/3/role", "unknown_role")]
    assert len(str(problems.fields[1].message)) < 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("correct horse battery", []),
        ("abcde" + "a" * 7, []),
        ("x" * 11, ["bad_password", "weak_password"]),
        ("abcdefghijk", ["bad_password"]),
        ("abcd" * 3, ["weak_password"]),
        ("abcdefgh" * 125, []),
        ("abcdefgh" * 125 + "i", ["bad_password"]),
        ("alice-abcdef", ["weak_password"]),
        ("ALICE-abcdef", ["weak_password"]),
        ("alice-abcdefghijk", []),
        ("", ["bad_password", "weak_password"]),
    ],
)
def test_a_password_is_long_mixed_and_not_made_of_the_name(text: str, found: list[str]) -> None:
    problems = Problems()
    names.password(text, problems, user_name="alice", email="mail@example.org", path="/new")
    assert codes(problems) == [("/new", code) for code in found]


def test_a_password_that_all_try_first_is_refused_in_whatever_capitals() -> None:
    common = next(text for text in sorted(names._common_passwords()) if len(text) >= 12 and len(set(text)) >= 5)
    for text in (common, common.upper()):
        problems = Problems()
        names.password(text, problems)
        assert ("/password", "common_password") in codes(problems)


def test_all_that_is_wrong_is_raised_at_once_and_nothing_where_nothing_is() -> None:
    problems = Problems()
    problems.raise_if_any()
    names.user_name("A", problems)
    names.email_address("x", problems)
    names.role_name("owner", problems)
    with pytest.raises(InvalidInput) as raised:
        problems.raise_if_any()
    assert [field.path for field in raised.value.fields] == ["/name", "/email", "/role"]


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ("A@Example.org", "a@example.ORG", True), ("a@example.org", "b@example.org", False),
        ("\u0131@example.org", "i@example.org", False), ("\u0130@example.org", "i@example.org", False),
        ("\u00c9@example.org", "\u00e9@example.org", False), ("stra\u00dfe@example.org", "strasse@example.org", False),
        ("", "", True), ("a@example.org", "a@example.org ", False),
    ],
)  # fmt: skip
def test_addresses_differ_in_the_capitals_of_ascii_at_most(first: str, other: str, same: bool) -> None:
    assert is_same_address(first, other) is is_same_address(other, first) is same
