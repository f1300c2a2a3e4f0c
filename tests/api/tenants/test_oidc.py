"""Signing in at an identity provider: at a real one, and at one that lies."""

from __future__ import annotations

import base64
import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey
from rest_framework.test import APIClient

from activity.models import AuditEvent
from tenants.identity import oidc
from tenants.identity.oidc import safe_next
from tenants.models import ExternalIdentity, Membership, Token, User
from tests.api.tenants.test_sessions import browser
from tests.factories.tenants import Cast, make_member, make_session, make_user

pytestmark = pytest.mark.database

ISSUER = "https://id.example.org"
PUBLIC = "93.184.216.34"
CLIENT = "berth-portal"


@dataclass
class Liar:
    """A provider that signs whatever a test wants: `change` is given the claims that would be right."""

    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "one"})
    description: dict[str, Any] = field(default_factory=dict)
    change: Callable[[dict[str, Any]], Any] = lambda claims: claims
    sign: Any = None
    is_down: bool = False
    asked: list[str] = field(default_factory=list)
    nonce: str = ""
    challenge: str = ""

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.path)
        if self.is_down:
            raise httpx2.ConnectError("no route")
        if request.url.path == "/.well-known/openid-configuration":
            return httpx2.Response(200, json=self._description())
        if request.url.path == "/keys":
            return httpx2.Response(200, json=KeySet([self.key]).as_dict(private=False))
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if form["code"] != "good" or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge:
            return httpx2.Response(400, json={"error": "invalid_grant"})
        return httpx2.Response(200, json={"access_token": "x", "token_type": "Bearer", "id_token": self._token()})

    def _description(self) -> dict[str, Any]:
        addresses = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {
            "issuer": ISSUER,
            **{name: ISSUER + path for name, path in addresses.items()},
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            **self.description,
        }

    def _token(self) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": CLIENT, "sub": "subject-1", "exp": now + 300, "iat": now, "nonce": self.nonce}
        claims = self.change({**claims, "email": "alice@example.org", "email_verified": True, **self.claims})
        if self.sign is not None:
            return str(self.sign(claims))
        return jwt.encode(self.header, claims, self.key, algorithms=["RS256"])


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch, configure: Callable[..., Any]) -> Iterator[Liar]:
    oidc.forget()
    made = Liar()
    transport = httpx2.MockTransport(made.answer)
    monkeypatch.setattr(oidc, "client", lambda: httpx2.Client(transport=transport, follow_redirects=False))
    monkeypatch.setattr(oidc, "resolver", lambda host, port: [PUBLIC])
    configure(oidc_issuer=ISSUER, oidc_client_id=CLIENT, oidc_client_secret="secret")
    yield made
    oidc.forget()


@pytest.fixture
def alice(cast: Cast) -> User:
    User.objects.filter(pk=cast.alice.user.pk).update(email="alice@example.org")
    Token.objects.filter(user=cast.alice.user).delete()  # Nobody has had the account in hands.
    user: User = User.objects.get(pk=cast.alice.user.pk)
    return user


def set_out(client: APIClient, liar: Liar | None = None, next_path: str = "/jobs?state=running") -> dict[str, str]:
    """What the provider is asked."""
    answer = client.get("/sign-in/oidc", {"next": next_path})
    assert answer.status_code == 302, answer.content
    query = {name: values[0] for name, values in parse_qs(urlsplit(answer["Location"]).query).items()}
    if liar is not None:
        liar.nonce, liar.challenge = query["nonce"], query["code_challenge"]
    return query


def come_back(client: APIClient, state: str, code: str = "good") -> Any:
    return client.get("/sign-in/oidc/return", {"state": state, "code": code})


def auth_request(liar: Liar, client: APIClient | None = None) -> Any:
    client = client or APIClient()
    return come_back(client, set_out(client, liar)["state"])


def error_of(response: Any) -> str:
    parts = urlsplit(response["Location"])
    assert (response.status_code, parts.path) == (302, "/sign-in")
    assert "berth-session" not in response.cookies
    return parse_qs(parts.query)["error"][0]


# --- As it should be --------------------------------------------------------------------------------------------------


def test_a_verified_address_brings_people_to_their_account(liar: Liar, alice: User) -> None:
    client = APIClient()
    asked = set_out(client, liar)
    assert (asked["client_id"], asked["response_type"], asked["code_challenge_method"]) == (CLIENT, "code", "S256")
    assert asked["redirect_uri"] == "http://127.0.0.1:8620/sign-in/oidc/return"
    cookie = client.cookies["berth-oidc"]
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Lax", 600)
    assert not {asked["state"], asked["nonce"]} & set(cookie.value.split("."))
    answer = come_back(client, asked["state"])

    assert (answer.status_code, answer["Location"]) == (302, "/jobs?state=running")
    assert client.get("/api/v1/session").json()["user"]["name"] == "alice"
    assert answer.cookies["berth-oidc"].value == ""
    assert AuditEvent.objects.get(verb="session.create").after["by"] == "oidc"
    assert AuditEvent.objects.filter(verb="identity.link").count() == 1
    assert client.get("/api/v1/sign-in-methods").json()["oidc"] == {"name": "Single sign-on", "url": "/sign-in/oidc"}


def test_later_the_subject_counts_whatever_the_address(liar: Liar, alice: User) -> None:
    auth_request(liar)
    liar.claims = {"email": "married@example.org", "email_verified": False}
    client = APIClient()
    auth_request(liar, client)

    assert client.get("/api/v1/session").json()["user"]["name"] == "alice"
    assert ExternalIdentity.objects.count() == 1


def test_an_account_is_made_where_operators_allow_it(liar: Liar, alice: User, configure: Callable[..., Any]) -> None:
    liar.claims = {"sub": "new", "email": "Neo.Person@example.org", "preferred_username": "Neo Person"}
    assert error_of(auth_request(liar)) == "no_account"
    configure(oidc_creates_users=True)
    client = APIClient()
    auth_request(liar, client)
    made = client.get("/api/v1/session").json()

    assert (made["user"]["name"], made["user"]["is_operator"], made["tenants"]) == ("neo-person", False, [])
    assert not User.objects.get(name="neo-person").has_usable_password()
    liar.claims["sub"], liar.claims["email"] = "second", "other@example.org"
    auth_request(liar, client)
    assert client.get("/api/v1/session").json()["user"]["name"].startswith("neo-person-")


def test_groups_decide_about_the_tenants_that_are_mapped(
    liar: Liar, alice: User, cast: Cast, configure: Callable[..., Any]
) -> None:
    configure(oidc_groups="staff=vision:viewer,leads=vision:manager,staff=elsewhere:member")
    other = make_user("second-manager")
    make_member(cast.tenant, other, "manager")
    liar.claims = {"groups": ["staff", "unknown"]}
    auth_request(liar)
    roles = dict(Membership.objects.filter(user=alice).values_list("tenant__name", "role"))
    assert roles == {"vision": "viewer", "elsewhere": "member"}
    liar.claims = {"groups": ["leads", "staff"]}
    auth_request(liar)
    assert Membership.objects.get(user=alice, tenant=cast.tenant).role == "manager"
    liar.claims = {"groups": []}
    auth_request(liar)
    assert not Membership.objects.filter(user=alice).exists()


def test_an_account_that_somebody_uses_is_connected_by_its_owner(
    liar: Liar, alice: User, configure: Callable[..., Any], cast: Cast
) -> None:
    """Whoever wrote somebody else's address into an account of their own does not share it with them."""
    mine = make_session(alice)
    assert error_of(auth_request(liar)) == "link_needed"
    client = browser(mine)
    asked = client.post("/api/v1/identities:connect")
    query = {name: values[0] for name, values in parse_qs(urlsplit(asked.json()["url"]).query).items()}
    liar.nonce, liar.challenge = query["nonce"], query["code_challenge"]
    assert come_back(client, query["state"])["Location"] == "/account"
    assert ExternalIdentity.objects.get().user == alice
    assert AuditEvent.objects.get(verb="identity.link").actor_name == "alice"
    assert auth_request(liar)["Location"] == "/jobs?state=running"
    configure(oidc_links_by_email=True)
    ExternalIdentity.objects.all().delete()
    assert auth_request(liar)["Location"] == "/jobs?state=running"


def test_whoever_was_given_somebodys_former_address_gets_no_account_by_it(
    liar: Liar, alice: User, configure: Callable[..., Any]
) -> None:
    """Sessions that are over for long are deleted; who the account belongs to is still known."""
    auth_request(liar)
    Token.objects.filter(user=alice).delete()
    liar.claims = {"sub": "subject-2"}
    assert error_of(auth_request(liar)) == "link_needed"
    configure(oidc_links_by_email=True)
    assert error_of(auth_request(liar)) == "link_needed"
    assert ExternalIdentity.objects.get().subject == "subject-1"


def test_nobody_connects_for_another(liar: Liar, alice: User, cast: Cast) -> None:
    client = browser(make_session(alice))
    assert browser(make_session(alice), csrf=False).post("/api/v1/identities:connect").status_code == 403

    def set_out_to_connect() -> str:
        asked = client.post("/api/v1/identities:connect")
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.json()["url"]).query).items()}
        liar.nonce, liar.challenge = query["nonce"], query["code_challenge"]
        return query["state"]

    state = set_out_to_connect()
    client.cookies["berth-session"] = make_session(cast.bob.user).text
    assert error_of(come_back(client, state)) == "oidc_state"
    client = browser(make_session(alice))
    assert come_back(client, set_out_to_connect()).status_code == 302
    client = browser(make_session(cast.bob.user))
    assert error_of(come_back(client, set_out_to_connect())) == "oidc_taken"


def test_the_provider_is_asked_for_its_description_once(liar: Liar, alice: User) -> None:
    auth_request(liar)
    auth_request(liar)

    assert sorted(set(liar.asked)) == ["/.well-known/openid-configuration", "/keys", "/token"]
    assert [liar.asked.count(path) for path in ("/.well-known/openid-configuration", "/keys")] == [1, 1]


def test_a_provider_may_change_its_keys(liar: Liar, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    auth_request(liar)
    monkeypatch.setattr(oidc, "KEYS_AGAIN_SECONDS", 0.0)
    liar.key, liar.header = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"}), {"alg": "RS256", "kid": "two"}
    client = APIClient()
    auth_request(liar, client)

    assert client.get("/api/v1/session").status_code == 200


# --- As it must not be ------------------------------------------------------------------------------------------------


def unsigned(claims: dict[str, Any]) -> str:
    import json

    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def by_shared_secret(secret: bytes) -> Callable[[dict[str, Any]], str]:
    return lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(secret), algorithms=["HS256"])


def by_another_key(claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, RSAKey.generate_key(2048), algorithms=["RS256"])


NOW = time.time
LIES: dict[str, dict[str, Any]] = {
    "nonce of another": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "another audience": {"aud": "another-client"},
    "another audience among several": {"aud": ["a", "b"]},
    "several audiences without a party": {"aud": [CLIENT, "another"]},
    "another party": {"azp": "another"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://evil.example.org"},
    "issuer with a slash": {"iss": ISSUER + "/"},
    "expired": {"exp": NOW() - 120},
    "no expiry": {"exp": None},
    "an expiry that is no number": {"exp": "2099"},
    "from the future": {"iat": NOW() + 3_600},
    "not yet": {"nbf": NOW() + 3_600},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a giant subject": {"sub": "x" * 300},
    "a subject that no database keeps": {"sub": "subject\x00"},
}


@pytest.mark.capability("sign-in", "A provider of OpenID Connect signs people in; a wrong claim or signature does not")
@pytest.mark.parametrize("lie", LIES)
def test_a_claim_that_is_wrong_lets_nobody_in(lie: str, liar: Liar, alice: User) -> None:
    changed = LIES[lie]
    liar.change = lambda claims: {name: value for name, value in {**claims, **changed}.items() if value is not None}

    assert error_of(auth_request(liar)) == "oidc_token"
    assert not Token.objects.filter(kind="session").exists()


@pytest.mark.capability("sign-in", "A provider of OpenID Connect signs people in; a wrong claim or signature does not")
@pytest.mark.parametrize(
    "sign", [unsigned, by_shared_secret(b"secret" * 6), by_another_key, lambda claims: "no token", lambda claims: ""]
)
def test_a_signature_that_is_wrong_lets_nobody_in(sign: Any, liar: Liar, alice: User) -> None:
    liar.sign = sign

    assert error_of(auth_request(liar)) == "oidc_token"


def test_the_public_key_is_no_shared_secret(liar: Liar, alice: User) -> None:
    """The classic confusion: HS256 with the RSA key's text as its secret."""
    liar.sign = lambda claims: _hs256(claims, liar.key.as_pem(private=False))

    assert error_of(auth_request(liar)) == "oidc_token"


def _hs256(claims: dict[str, Any], secret: bytes) -> str:
    import hmac
    import json

    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "HS256"}, claims)]
    digest = hmac.new(secret, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()])


def test_a_state_comes_back_once(liar: Liar, alice: User) -> None:
    client = APIClient()
    state = set_out(client, liar)["state"]
    kept = client.cookies["berth-oidc"].value
    assert come_back(client, state)["Location"] == "/jobs?state=running"
    other = APIClient()
    other.cookies["berth-oidc"] = kept

    assert error_of(come_back(other, state)) == "oidc_state"


def test_a_state_is_worth_nothing_in_another_browser(liar: Liar, alice: User) -> None:
    mine, theirs = APIClient(), APIClient()
    state = set_out(mine, liar)["state"]
    assert error_of(come_back(theirs, state)) == "oidc_state"  # One that never set out.
    set_out(theirs)
    assert error_of(come_back(theirs, state)) == "oidc_state"  # One that set out for itself.
    assert error_of(come_back(mine, "")) == "oidc_state"


def test_a_cookie_that_is_too_old_or_forged_is_none(liar: Liar, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = APIClient()
    state = set_out(client, liar)["state"]
    monkeypatch.setattr(oidc, "STATE_SECONDS", -1)
    assert error_of(come_back(client, state)) == "oidc_state"
    monkeypatch.undo()
    forged = APIClient()
    forged.cookies["berth-oidc"] = base64.urlsafe_b64encode(b'["s","n","v","/"]').decode()
    assert error_of(come_back(forged, "s")) == "oidc_state"


def test_a_code_of_another_is_refused_by_the_provider(liar: Liar, alice: User) -> None:
    client = APIClient()
    state = set_out(client, liar)["state"]
    assert error_of(come_back(client, state, code="stolen")) == "oidc_refused"
    state = set_out(client, liar)["state"]
    liar.challenge = "of another browser"
    assert error_of(come_back(client, state)) == "oidc_refused"


def test_the_persons_refusal_is_told(liar: Liar, alice: User) -> None:
    client = APIClient()
    state = set_out(client, liar)["state"]

    assert error_of(client.get("/sign-in/oidc/return", {"state": state, "error": "access_denied"})) == "oidc_refused"


def test_where_the_provider_is_away_nobody_new_comes_in(liar: Liar, alice: User) -> None:
    inside, outside = APIClient(), APIClient()
    auth_request(liar, inside)
    state = set_out(outside, liar)["state"]
    liar.is_down = True
    assert error_of(come_back(outside, state)) == "oidc_unavailable"
    oidc.forget()
    assert error_of(outside.get("/sign-in/oidc")) == "oidc_unavailable"
    assert inside.get("/api/v1/session").status_code == 200


def test_an_answer_that_comes_drop_by_drop_is_not_waited_for(liar: Liar, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "WHOLE_ANSWER_SECONDS", -1.0)

    assert error_of(APIClient().get("/sign-in/oidc")) == "oidc_unavailable"


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example.org"},
        {"token_endpoint": "http://id.example.org/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://["},
        {"jwks_uri": "https://\u2024x/keys"},
        {"token_endpoint": "https://id.example.org:port/token"},
    ],
)
def test_a_description_that_is_wrong_is_not_followed(said: dict[str, Any], liar: Liar, alice: User) -> None:
    liar.description = said

    assert error_of(APIClient().get("/sign-in/oidc")) == "oidc_unavailable"


def test_without_a_provider_there_is_nothing_to_go_to(configure: Callable[..., Any], db: None) -> None:
    client = APIClient()

    assert error_of(client.get("/sign-in/oidc")) == "oidc_off"
    assert error_of(come_back(client, "x")) == "oidc_state"
    assert client.get("/api/v1/sign-in-methods").json()["oidc"] is None
    assert client.post("/sign-in/oidc").status_code == 405


def test_an_address_that_nobody_verified_is_nobodys(liar: Liar, alice: User, configure: Callable[..., Any]) -> None:
    for unverified in ({"email_verified": False}, {"email_verified": None}, {"email_verified": "true"}):
        liar.claims = unverified
        assert error_of(auth_request(liar)) == "no_account", unverified
    configure(oidc_creates_users=True)
    auth_request(liar)
    assert User.objects.get(name="alice-" + User.objects.latest("created_at").name.rpartition("-")[2]).email == ""


def test_an_address_that_no_database_keeps_is_none(liar: Liar, alice: User) -> None:
    liar.claims = {"email": "alice\x00@example.org"}

    assert error_of(auth_request(liar)) == "no_account"


def test_only_people_of_the_named_domains_come_in(liar: Liar, alice: User, configure: Callable[..., Any]) -> None:
    configure(oidc_domains="example.org, example.com", oidc_creates_users=True)
    for email in ("x@example.org.evil.example", "x@notexample.org", "x@evil.example", "x"):
        liar.claims = {"sub": email, "email": email}
        assert error_of(auth_request(liar)) == "oidc_domain", email
    liar.claims = {"sub": "y", "email": "y@EXAMPLE.com"}
    assert auth_request(liar)["Location"] == "/jobs?state=running"


@pytest.mark.parametrize("groups", [None, "leads", {"leads": True}, ["leads", 7]])
def test_who_is_in_no_known_group_is_not_taken_for_a_member(
    groups: Any, liar: Liar, alice: User, configure: Callable[..., Any]
) -> None:
    configure(oidc_groups="leads=vision:manager")
    liar.claims = {"groups": groups}

    assert error_of(auth_request(liar)) == "oidc_groups"


def test_a_disabled_account_stays_out(liar: Liar, alice: User) -> None:
    auth_request(liar)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert error_of(auth_request(liar)) == "account_disabled"
    liar.claims = {"sub": "another"}
    assert error_of(auth_request(liar)) == "account_disabled"


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "evil", "",
        "/\t/evil.example", "/\n/evil.example", "///evil.example", "/x\\..\\y", "/" + "x" * 3_000,
    ],
)  # fmt: skip
def test_the_way_after_signing_in_stays_here(text: str) -> None:
    assert safe_next(text) == "/"


def test_a_path_of_ours_is_gone_on_to() -> None:
    assert safe_next("/jobs/1?tab=logs#end") == "/jobs/1?tab=logs#end"


# --- A real provider --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of Authlib about its own parts.
        import oidc_provider_mock

        person = oidc_provider_mock.User(
            sub="alice-at-id", claims={"email": "alice@example.org", "email_verified": True, "groups": ["staff"]}
        )
        with oidc_provider_mock.run_server_in_thread(user_claims=[person], require_nonce=True) as server:
            yield f"http://localhost:{server.server_port}"


@pytest.mark.capability("sign-in", "A provider of OpenID Connect signs people in; a wrong claim or signature does not")
@pytest.mark.filterwarnings("ignore")
def test_alice_signs_in_at_a_provider_of_others(provider: str, alice: User, configure: Callable[..., Any]) -> None:
    oidc.forget()
    configure(
        oidc_issuer=provider,
        oidc_private_hosts="localhost, 127.0.0.1",
        oidc_client_id=CLIENT,
        oidc_client_secret="secret",
        oidc_groups="staff=elsewhere:viewer",
    )
    client = APIClient()
    leave = client.get("/sign-in/oidc", {"next": "/nodes"})
    shown = httpx2.post(leave["Location"], data={"sub": "alice-at-id"}, follow_redirects=False)
    back = urlsplit(shown.headers["Location"])
    assert back.path == "/sign-in/oidc/return"
    answer = client.get(f"{back.path}?{back.query}")

    assert (answer.status_code, answer["Location"]) == (302, "/nodes")
    assert client.get("/api/v1/session").json()["user"]["name"] == "alice"
    assert Membership.objects.get(user=alice, tenant__name="elsewhere").role == "viewer"
    oidc.forget()
